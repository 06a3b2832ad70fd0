#include "tests/encoders/pt_truth.h"

#include <unordered_map>

namespace ptarmigan {
namespace {

bool IsBranch(const PtStep& step, X86Flow flow) {
  switch (flow) {
    case X86Flow::kConditional:
      return step.Is(PtStep::kTaken);
    case X86Flow::kJump:
    case X86Flow::kIndirectJump:
    case X86Flow::kCall:
    case X86Flow::kIndirectCall:
    case X86Flow::kReturn:
      return true;
    default:
      return false;
  }
}

class FunctionIndex {
 public:
  explicit FunctionIndex(const PtWalk& walk) : walk_(walk) {
    const PtProgram& program = walk.program();
    functions_.resize(program.instructions().size());
    for (const PtBlock& block : program.blocks()) {
      for (uint32_t i = 0; i < block.instructions; ++i) {
        functions_[block.first_instruction + i] = block.function;
      }
    }
  }
  uint32_t Of(const PtStep& step) const { return functions_[step.instruction]; }
  // The function that begins at an address when a step is executed.
  uint32_t BeginningAt(uint64_t address, const PtStep& before) const {
    const auto next = static_cast<size_t>(&before - walk_.steps().data()) + 1;
    for (size_t i = next; i < walk_.steps().size(); ++i) {
      const PtStep& step = walk_.steps()[i];
      if (step.thread != before.thread ||
          (step.Is(PtStep::kKernel) && !before.Is(PtStep::kKernel))) {
        continue;
      }
      if (walk_.AddressOf(step) == address) return Of(step);
      break;
    }
    for (uint32_t i = 0; i < walk_.program().functions().size(); ++i) {
      if (walk_.program().functions()[i].start == address) return i;
    }
    return PtBlock::kNone;
  }

 private:
  const PtWalk& walk_;
  std::vector<uint32_t> functions_;
};

}  // namespace

PtTruth TruthOf(const PtWalk& walk, std::span<const uint32_t> steps) {
  PtTruth truth;
  const FunctionIndex index(walk);
  PtDigest digest;
  std::unordered_map<uint32_t, uint64_t> by_path;
  for (const uint32_t number : steps) {
    const PtStep& step = walk.steps()[number];
    const X86Instruction& instruction = walk.InstructionOf(step);
    const uint32_t function = index.Of(step);
    digest.Add(instruction.address);
    ++by_path[step.path];
    ++truth.functions[function].instructions;
    if (!IsBranch(step, instruction.flow)) continue;
    ++truth.edges[{instruction.address, step.next, instruction.flow}];
    const bool is_call =
        instruction.flow == X86Flow::kCall || instruction.flow == X86Flow::kIndirectCall;
    if (instruction.flow == X86Flow::kReturn) ++truth.returns;
    if (is_call && !instruction.is_call_to_next()) {
      ++truth.calls;
      PtTruth::Function& callee = truth.functions[index.BeginningAt(step.next, step)];
      ++(instruction.flow == X86Flow::kCall ? callee.calls : callee.indirect_calls);
    }
    if ((instruction.flow == X86Flow::kJump || instruction.flow == X86Flow::kIndirectJump) &&
        !step.Is(PtStep::kUnwinds)) {
      const uint32_t target = index.BeginningAt(step.next, step);
      if (target != function && target != PtBlock::kNone) ++truth.functions[target].jumps;
    }
  }
  std::vector<bool> seen(walk.steps().size());
  for (const uint32_t number : steps) seen[number] = true;
  for (const PtCall& call : walk.calls()) {
    if (call.kind == PtCall::Kind::kSignal && call.entry_step != 0 && seen[call.entry_step]) {
      ++truth.functions[call.function].signals;
    }
  }
  for (const auto& [path, count] : by_path) truth.folded[walk.Folded(path)] += count;
  truth.instructions = steps.size();
  truth.digest = digest.value();
  return truth;
}

std::vector<uint64_t> PtAddresses(const PtWalk& walk, std::span<const uint32_t> steps) {
  std::vector<uint64_t> addresses;
  addresses.reserve(steps.size());
  for (const uint32_t step : steps) addresses.push_back(walk.AddressOf(walk.steps()[step]));
  return addresses;
}

}  // namespace ptarmigan
