#include "pipeline/internal/basic_blocks.h"

#include <algorithm>
#include <optional>

#include "decode/instruction.h"

namespace ptarmigan::internal {
namespace {

using Edge = ObjectBranches::Edge;

struct Function {
  uint64_t start = 0;
  uint64_t end = 0;
};

// Functions by address, not overlapping; a symbol inside another's code is a part of that.
std::vector<Function> FunctionsOf(std::span<const LinkedSymbol> symbols) {
  std::vector<Function> functions;
  for (const LinkedSymbol& symbol : symbols) {
    const Function function{.start = symbol.start.value,
                            .end = symbol.start.value + symbol.size_bytes};
    const bool is_good =
        function.end > function.start && function.end - function.start <= kDecodedFunctionBytesMax;
    if (!is_good || (!functions.empty() && function.start < functions.back().end)) continue;
    functions.push_back(function);
  }
  return functions;
}

// The place where a basic block begins and the instruction before it.
struct Leader {
  uint64_t address = 0;
  uint64_t before = 0;
  bool after_call = false;
  bool falls_in = true;  // the instruction before goes on to it
  uint64_t count = 0;    // how often control came from there without a branch
};

class FunctionBlocks {
 public:
  FunctionBlocks(const ElfFile& file, const InstructionDecoder& decoder, const Function& function,
                 std::span<const Edge> edges)
      : function_(function) {
    ReadCode(file, decoder);
    FindLeaders(edges);
  }

  // A run from `start` to `branch` passed every basic block's start behind its own.
  void AddRun(uint64_t start, uint64_t branch, uint64_t count) {
    const auto first = std::ranges::upper_bound(leaders_, start, {}, &Leader::address);
    for (auto leader = first; leader != leaders_.end() && leader->address <= branch; ++leader) {
      leader->count += count;
    }
  }
  // Control came back behind a call that ends a basic block.
  void AddReturn(uint64_t to, uint64_t count) {
    const auto leader = std::ranges::lower_bound(leaders_, to, {}, &Leader::address);
    if (leader != leaders_.end() && leader->address == to && leader->after_call) {
      leader->count += count;
    }
  }
  void Emit(std::vector<Edge>* edges) const {
    for (const Leader& leader : leaders_) {
      if (leader.count == 0 || !leader.falls_in) continue;
      edges->push_back({.from = {leader.before}, .to = {leader.address}, .count = leader.count});
    }
  }

 private:
  struct Place {
    uint64_t address = 0;
    Instruction instruction;
  };

  void ReadCode(const ElfFile& file, const InstructionDecoder& decoder) {
    const Bytes code = file.ReadAt({function_.start}, function_.end - function_.start);
    for (uint64_t at = 0; at < code.size();) {
      const Instruction instruction = decoder.Decode(code.subspan(static_cast<size_t>(at)));
      if (instruction.size_bytes == 0) return;  // data, or damage: nothing behind it is known
      code_.push_back({function_.start + at, instruction});
      at += instruction.size_bytes;
    }
  }

  void FindLeaders(std::span<const Edge> edges) {
    std::vector<uint64_t> starts;
    for (size_t i = 0; i < code_.size(); ++i) {
      const auto& [address, instruction] = code_[i];
      const bool ends_block = (instruction.leaves() && !instruction.is_call()) ||
                              instruction.kind == Instruction::Kind::kConditionalJump;
      if (ends_block && i + 1 < code_.size()) starts.push_back(code_[i + 1].address);
      if (instruction.displacement && !instruction.is_call()) {
        starts.push_back(address + static_cast<uint64_t>(*instruction.displacement));
      }
    }
    // Targets of indirect jumps are known as far as they were taken.
    for (const Edge& edge : edges) {
      const Place* from = At(edge.from.value);
      if (from != nullptr && from->instruction.kind == Instruction::Kind::kIndirectJump) {
        starts.push_back(edge.to.value);
      }
    }
    std::ranges::sort(starts);
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    for (const uint64_t start : starts) {
      const Place* place = At(start);
      if (place == nullptr || place == code_.data()) continue;
      const Place& before = *(place - 1);
      leaders_.push_back(
          {.address = start,
           .before = before.address,
           .after_call = before.instruction.is_call(),
           .falls_in = !before.instruction.leaves() || before.instruction.is_call()});
    }
  }

  const Place* At(uint64_t address) const {
    const auto place = std::ranges::lower_bound(code_, address, {}, &Place::address);
    return place != code_.end() && place->address == address ? &*place : nullptr;
  }

  const Function function_;
  std::vector<Place> code_;  // by address
  std::vector<Leader> leaders_;
};

// The part of a list sorted by `address_of` that lies in a function; `next` is where to look on from.
template <typename T, typename AddressOf>
std::span<const T> PartIn(std::span<const T> list, const Function& function, AddressOf address_of) {
  const auto first = std::ranges::lower_bound(list, function.start, {}, address_of);
  const auto last = std::ranges::lower_bound(first, list.end(), function.end, {}, address_of);
  return {first, last};
}

}  // namespace

std::vector<Edge> FindFallThroughs(const ElfFile& file, std::span<const LinkedSymbol> symbols,
                                   const ObjectBranches& branches) {
  std::vector<Edge> found;
  const InstructionDecoder decoder(file.arch());
  // Traces by where they enter, as blocks are.
  std::vector<ObjectBranches::Trace> traces = branches.traces;
  std::ranges::sort(traces, {}, [](const auto& trace) { return std::tuple(trace.to, trace.from); });
  for (const Function& function : FunctionsOf(symbols)) {
    const auto blocks = PartIn(std::span(branches.blocks), function,
                               [](const auto& block) { return block.start.value; });
    if (blocks.empty()) continue;
    const auto edges = PartIn(std::span(branches.edges), function,
                              [](const auto& edge) { return edge.from.value; });
    FunctionBlocks code(file, decoder, function, edges);
    for (const ObjectBranches::Block& block : blocks) {
      code.AddRun(block.start.value, block.branch.value, block.count);
    }
    for (const ObjectBranches::Trace& trace :
         PartIn(std::span<const ObjectBranches::Trace>(traces), function,
                [](const auto& entered) { return entered.to.value; })) {
      const bool is_inside = trace.from.value >= function.start && trace.from.value < function.end;
      if (!is_inside && trace.branch != ObjectBranches::kOutside) {
        code.AddReturn(trace.to.value, trace.count);
      }
    }
    code.Emit(&found);
  }
  return found;
}

}  // namespace ptarmigan::internal
