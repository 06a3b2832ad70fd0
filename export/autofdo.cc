#include "export/autofdo.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/str_format.h"

namespace ptarmigan {
namespace {

// llvm/lib/IR/DebugInfoMetadata.cpp: a component of a discriminator is 0 (one bit set), 5 bits (bit 5 clear) or 12.
uint32_t FirstComponent(uint32_t discriminator) {
  if ((discriminator & 1) != 0) return 0;
  const uint32_t bits = discriminator >> 1;
  return (bits & 0x20) != 0 ? ((bits >> 1) & 0xfe0) | (bits & 0x1f) : bits & 0x1f;
}

uint32_t WithoutFirstComponent(uint32_t discriminator) {
  if ((discriminator & 1) != 0) return discriminator >> 1;
  return discriminator >> ((discriminator & 0x40) != 0 ? 14 : 7);
}

// How a name looks without what link-time and partial-inlining passes append: "f.llvm.123" is "f". A suffix counts only
// at the end and with nothing but one word behind its last dot.
std::string_view CanonicalName(std::string_view name) {
  static constexpr std::array<std::string_view, 2> kSuffixes = {".llvm.", ".part."};
  for (const std::string_view suffix : kSuffixes) {
    const size_t at = name.rfind(suffix);
    if (at == std::string_view::npos) continue;
    if (name.rfind('.') == at + suffix.size() - 1) name = name.substr(0, at);
  }
  return name;
}

// Made by the compiler under one name in every file, so that a profile by name would mix them.
bool IsAmbiguous(std::string_view name) {
  return name.starts_with("__cxx_global_var_init") || name.starts_with("__tls_init");
}

struct LineKey {
  uint32_t offset = 0;
  uint32_t discriminator = 0;
  auto operator<=>(const LineKey&) const = default;
};

// Counts saturate: sums over bytes of a long recording may not fit.
void AddTo(uint64_t* sum, uint64_t count) {
  if (__builtin_add_overflow(*sum, count, sum)) *sum = UINT64_MAX;
}

uint64_t Times(uint64_t count, uint64_t factor) {
  uint64_t product = 0;
  return __builtin_mul_overflow(count, factor, &product) ? UINT64_MAX : product;
}

// Names are borrowed from CodeLines.
struct FunctionProfile {
  struct Line {
    uint64_t count = 0;
    std::map<std::string_view, uint64_t> calls;
  };
  uint64_t total = 0;
  uint64_t head = 0;
  std::map<LineKey, Line> lines;
  std::map<LineKey, std::map<std::string_view, std::unique_ptr<FunctionProfile>>> inlined;
};

// How often each stretch of code ran: [start, end).
struct Stretch {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t count = 0;
};

class Builder {
 public:
  Builder(const ObjectBranches& branches, CodeLines* lines)
      : branches_(branches),
        lines_(*lines),
        flow_sensitive_(lines->HasFlowSensitiveDiscriminators()) {}

  AutofdoSummary Run();
  const std::map<std::string_view, FunctionProfile>& profiles() const { return profiles_; }

 private:
  std::string_view NameOf(uint32_t function) {
    return CanonicalName(lines_.Function(function).name);
  }
  LineKey KeyOf(const CodeFrame& frame);
  std::vector<Stretch> Executions();
  void CountStretch(const Stretch& stretch);
  void CountCalls();
  void CountBySymbols();
  const CodeLines::FunctionPiece* EntryAt(FileVaddr address);
  FunctionProfile* Leaf(uint64_t total, LineKey* key, uint32_t* discriminator);

  const ObjectBranches& branches_;
  CodeLines& lines_;
  const bool flow_sensitive_;
  std::map<std::string_view, FunctionProfile> profiles_;
  std::vector<CodeFrame> frames_;  // of the last look-up, innermost first
  std::unordered_map<std::string_view, uint32_t> pieces_of_;  // by name
  uint64_t unnamed_blocks_ = 0;
};

LineKey Builder::KeyOf(const CodeFrame& frame) {
  const uint32_t start_line = lines_.Function(frame.function).start_line;
  return {
      .offset = (frame.line - start_line) & 0xffff,
      .discriminator = flow_sensitive_ ? frame.discriminator : FirstComponent(frame.discriminator)};
}

// The profile of the innermost function of frames_, inside those that it is inlined into; `total` is added to each of
// them. Null if the outermost function has no name.
FunctionProfile* Builder::Leaf(uint64_t total, LineKey* key, uint32_t* discriminator) {
  FunctionProfile* profile = nullptr;
  for (size_t i = frames_.size(); i-- > 0;) {
    const CodeFrame& frame = frames_[i];
    if (frame.function == CodeFrame::kNoFunction) break;
    if (profile == nullptr) {
      profile = &profiles_[NameOf(frame.function)];
    } else {
      auto& inlined = profile->inlined[*key][NameOf(frame.function)];
      if (inlined == nullptr) inlined = std::make_unique<FunctionProfile>();
      profile = inlined.get();
    }
    AddTo(&profile->total, total);
    *key = KeyOf(frame);
    *discriminator = frame.discriminator;
  }
  return profile;
}

// Blocks overlap: their counts add up where they do. Pieces of functions that have a block are covered too, with 0.
std::vector<Stretch> Builder::Executions() {
  struct Change {
    uint64_t address = 0;
    uint64_t begins = 0;  // counts
    uint64_t ends = 0;
    int covers = 0;
  };
  std::vector<Change> changes;
  std::unordered_set<std::string_view> hot;
  const auto pieces = lines_.Functions();
  for (const ObjectBranches::Block& block : branches_.blocks) {
    if (block.end <= block.start) continue;
    changes.push_back({.address = block.start.value, .begins = block.count, .covers = 1});
    changes.push_back({.address = block.end.value, .ends = block.count, .covers = -1});
    lines_.FramesAt(block.start, &frames_, nullptr);
    if (frames_.empty() || frames_.back().function == CodeFrame::kNoFunction) {
      AddTo(&unnamed_blocks_, block.count);
    } else {
      hot.insert(lines_.Function(frames_.back().function).name);
    }
  }
  for (const CodeLines::FunctionPiece& piece : pieces) {
    if (!hot.contains(lines_.Function(piece.function).name)) continue;
    changes.push_back({.address = piece.start.value, .covers = 1});
    changes.push_back({.address = piece.end.value, .covers = -1});
  }
  std::ranges::sort(changes, {}, &Change::address);
  std::vector<Stretch> stretches;
  uint64_t count = 0;
  int covers = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    count += changes[i].begins - changes[i].ends;
    covers += changes[i].covers;
    const bool is_last = i + 1 == changes.size();
    if (is_last || changes[i + 1].address == changes[i].address || covers == 0) continue;
    stretches.push_back(
        {.start = changes[i].address, .end = changes[i + 1].address, .count = count});
  }
  return stretches;
}

void Builder::CountStretch(const Stretch& stretch) {
  for (uint64_t address = stretch.start; address < stretch.end;) {
    FileVaddr frames_end;
    lines_.FramesAt({address}, &frames_, &frames_end);
    const uint64_t end = std::min(std::max(frames_end.value, address + 1), stretch.end);
    LineKey key;
    uint32_t discriminator = 0;
    if (FunctionProfile* leaf = Leaf(Times(stretch.count, end - address), &key, &discriminator)) {
      const uint32_t factor =
          flow_sensitive_ ? 1 : std::max(FirstComponent(WithoutFirstComponent(discriminator)), 1U);
      uint64_t& count = leaf->lines[key].count;
      count = std::max(count, Times(stretch.count, factor));
    }
    address = end;
  }
}

// The piece of a function that is entered at its start: not a part that was split off, unless a symbol there has the
// function's own name.
const CodeLines::FunctionPiece* Builder::EntryAt(FileVaddr address) {
  const auto pieces = lines_.Functions();
  const auto piece =
      std::ranges::lower_bound(pieces, address, {}, &CodeLines::FunctionPiece::start);
  if (piece == pieces.end() || piece->start != address) return nullptr;
  const std::string_view name = lines_.Function(piece->function).name;
  if (pieces_of_[name] == 1) return &*piece;
  const auto symbols = lines_.Symbols();
  for (auto symbol = std::ranges::lower_bound(symbols, address, {}, &LinkedSymbol::start);
       symbol != symbols.end() && symbol->start < piece->end; ++symbol) {
    if (CanonicalName(symbol->name) == name) return &*piece;
  }
  return nullptr;
}

void Builder::CountCalls() {
  for (const CodeLines::FunctionPiece& piece : lines_.Functions()) {
    ++pieces_of_[lines_.Function(piece.function).name];
  }
  for (const ObjectBranches::Edge& edge : branches_.edges) {
    if (edge.to == ObjectBranches::kOutside) continue;
    const CodeLines::FunctionPiece* callee = EntryAt(edge.to);
    if (callee == nullptr) continue;
    const std::string_view name = NameOf(callee->function);
    if (edge.from != ObjectBranches::kOutside) {
      lines_.FramesAt(edge.from, &frames_, nullptr);
      LineKey key;
      uint32_t discriminator = 0;
      if (FunctionProfile* caller = Leaf(0, &key, &discriminator)) {
        AddTo(&caller->lines[key].calls[name], edge.count);
      }
    }
    AddTo(&profiles_[name].head, edge.count);
  }
}

// Without DWARF: a function is a symbol.
void Builder::CountBySymbols() {
  std::map<uint64_t, const LinkedSymbol*> functions;  // by start; of those at one address the first
  for (const LinkedSymbol& symbol : lines_.Symbols()) {
    if (symbol.size_bytes != 0) functions.emplace(symbol.start.value, &symbol);
  }
  unnamed_blocks_ = 0;
  for (const ObjectBranches::Block& block : branches_.blocks) {
    const auto after = functions.upper_bound(block.start.value);
    const LinkedSymbol* symbol = after == functions.begin() ? nullptr : std::prev(after)->second;
    const uint64_t end = symbol == nullptr ? 0 : symbol->start.value + symbol->size_bytes;
    if (block.start.value >= end) {
      AddTo(&unnamed_blocks_, block.count);
      continue;
    }
    const uint64_t size_bytes = std::min(block.end.value, end) - block.start.value;
    AddTo(&profiles_[CanonicalName(symbol->name)].total, Times(block.count, size_bytes));
  }
  for (const ObjectBranches::Edge& edge : branches_.edges) {
    const auto callee = functions.find(edge.to.value);
    if (callee == functions.end()) continue;
    AddTo(&profiles_[CanonicalName(callee->second->name)].head, edge.count);
  }
}

AutofdoSummary Builder::Run() {
  for (const Stretch& stretch : Executions()) CountStretch(stretch);
  CountCalls();
  const bool by_symbols = profiles_.empty();
  if (by_symbols) CountBySymbols();
  for (auto& [name, profile] : profiles_) {
    for (auto& [key, line] : profile.lines) {
      uint64_t calls = 0;
      for (const auto& [callee, count] : line.calls) AddTo(&calls, count);
      line.count = std::max(line.count, calls);
    }
  }
  std::erase_if(profiles_, [](const auto& entry) { return IsAmbiguous(entry.first); });
  return {.functions = profiles_.size(),
          .blocks_without_function = unnamed_blocks_,
          .by_symbols = by_symbols};
}

std::string TextOf(const LineKey& key) {
  return key.discriminator == 0 ? StrFormat("{}", key.offset)
                                : StrFormat("{}.{}", key.offset, key.discriminator);
}

// What stands below a function's own line.
void AppendBody(const FunctionProfile& profile, size_t indent, std::string* text) {
  for (const auto& [key, line] : profile.lines) {
    text->append(indent, ' ');
    *text += StrFormat("{}: {}", TextOf(key), line.count);
    std::vector<std::pair<std::string_view, uint64_t>> calls(line.calls.begin(), line.calls.end());
    std::ranges::stable_sort(calls, std::greater(), &std::pair<std::string_view, uint64_t>::second);
    for (const auto& [callee, count] : calls) *text += StrFormat(" {}:{}", callee, count);
    *text += '\n';
  }
  for (const auto& [key, callees] : profile.inlined) {
    for (const auto& [name, callee] : callees) {
      if (IsAmbiguous(name)) continue;
      text->append(indent, ' ');
      *text += StrFormat("{}: {}:{}\n", TextOf(key), name, callee->total);
      AppendBody(*callee, indent + 1, text);
    }
  }
}

}  // namespace

Result<AutofdoSummary> WriteAutofdo(const ObjectBranches& branches, CodeLines* lines,
                                    ByteSink* sink) {
  Builder builder(branches, lines);
  const AutofdoSummary summary = builder.Run();
  if (summary.functions == 0) {
    return Error{ErrorCode::kNotFound,
                 StrFormat("{}: neither debug information nor symbols name any of the code that "
                           "ran; tell where its debug file is",
                           branches.path)};
  }
  using Entry = std::pair<std::string_view, const FunctionProfile*>;
  std::vector<Entry> order;
  for (const auto& [name, profile] : builder.profiles()) order.emplace_back(name, &profile);
  std::ranges::stable_sort(order, std::greater(),
                           [](const Entry& entry) { return entry.second->total; });
  std::string text;
  for (const auto& [name, profile] : order) {
    text = StrFormat("{}:{}:{}\n", name, profile->total, profile->head);
    AppendBody(*profile, 1, &text);
    TRY(sink->Write(text));
  }
  return summary;
}

}  // namespace ptarmigan
