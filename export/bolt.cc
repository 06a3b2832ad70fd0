#include "export/bolt.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/str_format.h"

namespace ptarmigan {
namespace {

constexpr FileVaddr kOutside = ObjectBranches::kOutside;
// Text is handed on in pieces of about this size.
constexpr size_t kWriteBytes = size_t{64} << 10;

// bolt/include/bolt/Profile/DataReader.h: fields are separated by blanks.
std::string Escaped(std::string_view name) {
  std::string escaped;
  for (const char c : name) {
    if (c == ' ' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// The functions of an object as BOLT sees and names them: a symbol inside another one's code is an entry of that.
class BoltFunctions {
 public:
  struct Function {
    uint64_t start = 0;
    uint64_t end = 0;
    std::string name;  // escaped
  };

  explicit BoltFunctions(std::span<const LinkedSymbol> symbols);
  // Null if no function holds the address.
  const Function* Find(FileVaddr address) const;

 private:
  std::vector<Function> functions_;  // by address, not overlapping
};

BoltFunctions::BoltFunctions(std::span<const LinkedSymbol> symbols) {
  std::unordered_map<std::string_view, uint32_t> locals;
  for (size_t i = 0; i < symbols.size(); ++i) {
    const LinkedSymbol& symbol = symbols[i];
    std::string name = Escaped(symbol.name);
    // Also those that are skipped below: BOLT counts every one.
    if (symbol.is_local) name += StrFormat("/{}", ++locals[symbol.name]);
    const uint64_t start = symbol.start.value;
    uint64_t end = start + symbol.size_bytes;
    if (symbol.size_bytes == 0) {
      size_t next = i + 1;
      while (next < symbols.size() && symbols[next].start == symbol.start) ++next;
      end = next < symbols.size() ? symbols[next].start.value : UINT64_MAX;
    }
    if (end <= start) continue;
    if (!functions_.empty()) {
      Function& last = functions_.back();
      // Of those that start together the first names them, with the size of one that has a size.
      if (last.start == start && symbol.size_bytes != 0) last.end = std::max(last.end, end);
      if (start < last.end) continue;
    }
    functions_.push_back({.start = start, .end = end, .name = std::move(name)});
  }
}

const BoltFunctions::Function* BoltFunctions::Find(FileVaddr address) const {
  const auto after = std::ranges::upper_bound(functions_, address.value, {}, &Function::start);
  if (after == functions_.begin()) return nullptr;
  const Function& function = *std::prev(after);
  return address.value < function.end ? &function : nullptr;
}

// Lines on their way out.
class LineWriter {
 public:
  explicit LineWriter(ByteSink* sink) : sink_(*sink) {}

  Status Write(std::string_view line) {
    text_ += line;
    ++lines_;
    return text_.size() >= kWriteBytes ? Flush() : OkStatus();
  }
  Status Flush() {
    const Status written = sink_.Write(text_);
    text_.clear();
    return written;
  }
  uint64_t lines() const { return lines_; }

 private:
  ByteSink& sink_;
  std::string text_;
  uint64_t lines_ = 0;
};

struct Counts {
  uint64_t count = 0;
  uint64_t mispredicted = 0;
};

std::string PlaceText(const BoltFunctions::Function* function, FileVaddr address) {
  if (function == nullptr) return "0 [unknown] 0";
  return StrFormat("1 {} {:x}", function->name, address.value - function->start);
}

}  // namespace

Result<BoltSummary> WriteBoltFdata(const ObjectBranches& branches, CodeLines* lines,
                                   ByteSink* sink) {
  const BoltFunctions functions(lines->Symbols());
  std::map<std::pair<FileVaddr, FileVaddr>, Counts> counts;
  for (const auto* edges : {&branches.edges, &branches.fall_throughs}) {
    for (const ObjectBranches::Edge& edge : *edges) {
      if (edge.is_return) continue;
      Counts& known = counts[{edge.from, edge.to}];
      known.count += edge.count;
      known.mispredicted += edge.mispredicted;
    }
  }
  BoltSummary summary;
  LineWriter writer(sink);
  // What comes from outside is one place, whatever its address.
  std::map<std::string, Counts> entries;
  for (const auto& [place, count] : counts) {
    const auto* from = place.first == kOutside ? nullptr : functions.Find(place.first);
    const auto* to = place.second == kOutside ? nullptr : functions.Find(place.second);
    if (from == nullptr && to == nullptr) {
      summary.branches_without_function += count.count;
      continue;
    }
    const std::string to_text = PlaceText(to, place.second);
    if (from == nullptr) {
      entries[to_text].count += count.count;
      entries[to_text].mispredicted += count.mispredicted;
      continue;
    }
    TRY(writer.Write(StrFormat("{} {} {} {}\n", PlaceText(from, place.first), to_text,
                               count.mispredicted, count.count)));
  }
  for (const auto& [to_text, count] : entries) {
    TRY(writer.Write(StrFormat("{} {} {} {}\n", PlaceText(nullptr, {}), to_text, count.mispredicted,
                               count.count)));
  }
  summary.lines = writer.lines();
  if (summary.lines == 0) {
    return Error{ErrorCode::kNotFound,
                 StrFormat("{}: none of the branches lies in a function of its symbol table; BOLT "
                           "needs a binary that is not stripped",
                           branches.path)};
  }
  TRY(writer.Flush());
  return summary;
}

namespace {

std::string AddressText(FileVaddr address) {
  return address == kOutside ? "X:0" : StrFormat("{:x}", address.value);
}

// The code between two branches, by how it was entered.
std::map<std::tuple<FileVaddr, FileVaddr, bool>, uint64_t> FallThroughs(
    const ObjectBranches& branches, const BoltFunctions* functions) {
  std::map<std::tuple<FileVaddr, FileVaddr, bool>, uint64_t> runs;
  if (branches.traces.empty()) {
    for (const ObjectBranches::Block& block : branches.blocks) {
      runs[{block.start, block.branch, false}] += block.count;
    }
    return runs;
  }
  for (const ObjectBranches::Trace& trace : branches.traces) {
    if (trace.branch == kOutside) continue;
    const bool from_elsewhere =
        trace.from == kOutside ||
        (functions != nullptr && functions->Find(trace.from) != functions->Find(trace.to));
    runs[{trace.to, trace.branch, from_elsewhere}] += trace.count;
  }
  return runs;
}

}  // namespace

Result<BoltSummary> WriteBoltPreaggregated(const ObjectBranches& branches,
                                           PreaggregatedDialect dialect, CodeLines* lines,
                                           ByteSink* sink) {
  LineWriter writer(sink);
  if (dialect == PreaggregatedDialect::kTraces) {
    for (const ObjectBranches::Trace& trace : branches.traces) {
      // A branch alone is written as B, which has the mispredictions too.
      TRY(writer.Write(trace.branch == kOutside
                           ? StrFormat("B {} {} {} {}\n", AddressText(trace.from),
                                       AddressText(trace.to), trace.count, trace.mispredicted)
                           : StrFormat("{} {} {} {} {}\n", trace.is_return ? 'R' : 'T',
                                       AddressText(trace.from), AddressText(trace.to),
                                       AddressText(trace.branch), trace.count)));
    }
    for (const ObjectBranches::Edge& edge : branches.edges) {
      if (edge.to != kOutside) continue;
      TRY(writer.Write(StrFormat("B {} {} {} {}\n", AddressText(edge.from), AddressText(edge.to),
                                 edge.count, edge.mispredicted)));
    }
  } else {
    for (const ObjectBranches::Edge& edge : branches.edges) {
      TRY(writer.Write(StrFormat("B {} {} {} {}\n", AddressText(edge.from), AddressText(edge.to),
                                 edge.count, edge.mispredicted)));
    }
    const BoltFunctions functions(lines != nullptr ? lines->Symbols()
                                                   : std::span<const LinkedSymbol>());
    for (const auto& [run, count] :
         FallThroughs(branches, lines != nullptr ? &functions : nullptr)) {
      const auto& [start, branch, from_elsewhere] = run;
      TRY(writer.Write(StrFormat("{} {} {} {}\n", from_elsewhere ? 'f' : 'F', AddressText(start),
                                 AddressText(branch), count)));
    }
  }
  TRY(writer.Flush());
  if (writer.lines() == 0) {
    return Error{ErrorCode::kNotFound,
                 StrFormat("{}: no branches were recorded in it", branches.path)};
  }
  return BoltSummary{.lines = writer.lines()};
}

}  // namespace ptarmigan
