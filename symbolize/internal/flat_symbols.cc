#include "symbolize/internal/flat_symbols.h"

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace ptarmigan::internal {
namespace {

constexpr uint32_t kNone = SymbolRows::kNone;

// Sources of plain symbols: where two overlap, the one that starts later is meant (of those that start together the
// larger, then the later one), while scopes of DWARF and Go nest.
bool IsPlain(SymbolSource source) { return source <= SymbolSource::kSymtab; }

// A range with its place in the order of precedence; greater wins.
struct RankedRange {
  uint64_t start = 0;
  uint64_t end = 0;
  uint32_t value = 0;  // scope or sequence
  SymbolSource source = SymbolSource::kDwarf;
  uint64_t order = 0;  // within the source

  bool operator<(const RankedRange& other) const {
    return std::tie(source, order, value) < std::tie(other.source, other.order, other.value);
  }
};

// Calls emit(start, end, value) for the winning pieces, from low to high addresses, without overlap.
template <typename Emit>
void Sweep(std::vector<RankedRange> ranges, const Emit& emit) {
  // Which of those that start together comes first does not matter: the queue ranks them.
  std::sort(ranges.begin(), ranges.end(),
            [](const RankedRange& a, const RankedRange& b) { return a.start < b.start; });
  std::priority_queue<RankedRange> active;
  uint64_t position = 0;
  for (size_t next = 0; next < ranges.size() || !active.empty();) {
    if (active.empty()) position = std::max(position, ranges[next].start);
    for (; next < ranges.size() && ranges[next].start <= position; ++next) {
      if (ranges[next].end > position) active.push(ranges[next]);
    }
    while (!active.empty() && active.top().end <= position) active.pop();
    if (active.empty()) continue;
    const uint64_t end =
        next < ranges.size() ? std::min(active.top().end, ranges[next].start) : active.top().end;
    emit(position, end, active.top().value);
    position = end;
  }
}

class Flattener {
 public:
  explicit Flattener(const SymbolRows& rows) : rows_(rows) {}

  FlatSymbols Run() {
    flat_.functions = rows_.functions();
    SortPlainSymbols();
    CollectNamingSymbols();
    FlattenScopes();
    FlattenLines();
    return std::move(flat_);
  }

 private:
  // A symbol with its end found.
  struct Symbol {
    uint64_t start = 0;
    uint64_t end = 0;
    uint32_t scope = 0;
    uint64_t size_bytes = 0;  // 0: unknown
  };

  void SortPlainSymbols();
  void CollectNamingSymbols();
  void FlattenScopes();
  void EmitSegment(uint64_t start, uint64_t end, uint32_t scope);
  void AppendOwnSegments(uint64_t start, uint64_t end, uint32_t scope, uint32_t root);
  void AppendSegment(uint64_t start, uint32_t scope, uint32_t piece);
  void FlattenLines();
  void EmitLines(uint64_t start, uint64_t end, const SymbolRows::LineSequence& sequence);
  uint64_t CodeEnd(uint64_t address) const;
  uint32_t RootOf(uint32_t scope) const;
  uint32_t SymbolPiece(const Symbol& symbol, uint32_t root);
  uint32_t RangePiece(uint64_t address, uint64_t end, uint32_t root);
  SymbolRows::FunctionId Rename(SymbolRows::FunctionId function, SymbolRows::FunctionId named_by);

  const SymbolRows& rows_;
  FlatSymbols flat_;
  std::vector<Symbol> plain_;   // of all plain sources, by (source, start, size, order)
  std::vector<Symbol> naming_;  // those that name outermost functions, one per start
  std::unordered_map<uint32_t, std::vector<CodeRange>> root_ranges_;
  // By start, end and root: a symbol and a range of the root may start together and end apart.
  std::map<std::tuple<uint64_t, uint64_t, uint32_t>, uint32_t> pieces_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> renamed_;
  uint64_t segments_end_ = 0;
  uint64_t lines_end_ = 0;
};

uint64_t Flattener::CodeEnd(uint64_t address) const {
  const auto& ranges = rows_.code_ranges();
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), address,
      [](uint64_t value, const CodeRange& range) { return value < range.start.value; });
  if (after == ranges.begin()) return address + 1;
  return std::max(std::prev(after)->end.value, address + 1);
}

void Flattener::SortPlainSymbols() {
  for (const SymbolRows::ScopeRange& range : rows_.ranges()) {
    const SymbolRows::Scope& scope = rows_.scopes()[range.scope];
    if (!IsPlain(scope.source)) continue;
    plain_.push_back({.start = range.range.start.value,
                      .end = range.range.end.value,
                      .scope = range.scope,
                      .size_bytes = range.range.end - range.range.start});
  }
  std::stable_sort(plain_.begin(), plain_.end(), [&](const Symbol& a, const Symbol& b) {
    const auto key = [&](const Symbol& symbol) {
      return std::tuple(rows_.scopes()[symbol.scope].source, symbol.start, symbol.size_bytes);
    };
    return key(a) < key(b);
  });
  // Where a symbol without a size ends: at the next start of its source, or with its section.
  uint64_t next_start = UINT64_MAX;
  for (size_t i = plain_.size(); i-- > 0;) {
    Symbol& symbol = plain_[i];
    const bool is_last = i + 1 == plain_.size() || rows_.scopes()[plain_[i + 1].scope].source !=
                                                       rows_.scopes()[symbol.scope].source;
    if (is_last)
      next_start = UINT64_MAX;
    else if (plain_[i + 1].start != symbol.start)
      next_start = plain_[i + 1].start;
    if (symbol.size_bytes == 0) symbol.end = std::min(next_start, CodeEnd(symbol.start));
  }
}

void Flattener::CollectNamingSymbols() {
  for (const SymbolSource source : {SymbolSource::kSymtab, SymbolSource::kDynsym}) {
    for (const Symbol& symbol : plain_) {
      if (rows_.scopes()[symbol.scope].source != source) continue;
      if (!naming_.empty() && naming_.back().start == symbol.start) naming_.pop_back();
      naming_.push_back(symbol);
    }
    if (!naming_.empty()) return;
  }
}

uint32_t Flattener::RootOf(uint32_t scope) const {
  while (rows_.scopes()[scope].parent != kNone) scope = rows_.scopes()[scope].parent;
  return scope;
}

void Flattener::FlattenScopes() {
  std::vector<RankedRange> ranges;
  ranges.reserve(rows_.ranges().size());
  for (const SymbolRows::ScopeRange& range : rows_.ranges()) {
    const SymbolRows::Scope& scope = rows_.scopes()[range.scope];
    if (IsPlain(scope.source)) continue;
    ranges.push_back({.start = range.range.start.value,
                      .end = range.range.end.value,
                      .value = range.scope,
                      .source = scope.source,
                      .order = range.scope});
    if (scope.parent == kNone) root_ranges_[range.scope].push_back(range.range);
  }
  for (size_t i = 0; i < plain_.size(); ++i) {
    ranges.push_back({.start = plain_[i].start,
                      .end = plain_[i].end,
                      .value = plain_[i].scope,
                      .source = rows_.scopes()[plain_[i].scope].source,
                      .order = i});
    root_ranges_[plain_[i].scope].push_back({.start = {plain_[i].start}, .end = {plain_[i].end}});
  }
  flat_.segments.reserve(ranges.size() * 2);
  Sweep(std::move(ranges),
        [this](uint64_t start, uint64_t end, uint32_t scope) { EmitSegment(start, end, scope); });
  if (!flat_.segments.empty()) AppendSegment(segments_end_, kNone, kNone);
}

// Cuts the segment where the symbol that names its outermost function changes.
void Flattener::EmitSegment(uint64_t start, uint64_t end, uint32_t scope) {
  if (start > segments_end_ && !flat_.segments.empty()) AppendSegment(segments_end_, kNone, kNone);
  segments_end_ = end;
  const uint32_t root = RootOf(scope);
  if (IsPlain(rows_.scopes()[root].source)) {
    AppendOwnSegments(start, end, scope, root);
    return;
  }
  auto next =
      std::upper_bound(naming_.begin(), naming_.end(), start,
                       [](uint64_t value, const Symbol& symbol) { return value < symbol.start; });
  while (start < end) {
    const Symbol* symbol = next == naming_.begin() ? nullptr : &*std::prev(next);
    uint64_t part_end = next == naming_.end() ? end : std::min(end, next->start);
    if (symbol != nullptr && start < symbol->end) {
      part_end = std::min(part_end, symbol->end);
      AppendSegment(start, scope, SymbolPiece(*symbol, root));
    } else {
      AppendOwnSegments(start, part_end, scope, root);
    }
    start = part_end;
    while (next != naming_.end() && next->start <= start) ++next;
  }
}

// Segments of a function that keeps its name, cut at the ends of its ranges: an inlined call may claim to go on beyond.
void Flattener::AppendOwnSegments(uint64_t start, uint64_t end, uint32_t scope, uint32_t root) {
  while (start < end) {
    const uint32_t piece = RangePiece(start, end, root);
    AppendSegment(start, scope, piece);
    start = std::min(end, flat_.pieces[piece].range.end.value);
  }
}

void Flattener::AppendSegment(uint64_t start, uint32_t scope, uint32_t piece) {
  if (!flat_.segments.empty()) {
    const FlatSymbols::Segment& last = flat_.segments.back();
    if (last.scope == scope && last.piece == piece) return;
  }
  flat_.segments.push_back({.start = start, .scope = scope, .piece = piece});
}

uint32_t Flattener::SymbolPiece(const Symbol& symbol, uint32_t root) {
  const auto [entry, is_new] = pieces_.try_emplace({symbol.start, symbol.end, root},
                                                   static_cast<uint32_t>(flat_.pieces.size()));
  if (is_new) {
    flat_.pieces.push_back(
        {.range = {.start = {symbol.start}, .end = {symbol.end}},
         .function = Rename(rows_.scopes()[root].function, rows_.scopes()[symbol.scope].function)});
  }
  return entry->second;
}

// The piece of a function that keeps its name: the range of its own that holds the address.
uint32_t Flattener::RangePiece(uint64_t address, uint64_t end, uint32_t root) {
  CodeRange range = {.start = {address}, .end = {end}};
  const auto own = root_ranges_.find(root);
  if (own != root_ranges_.end()) {
    for (const CodeRange& candidate : own->second) {
      if (candidate.start.value <= address && address < candidate.end.value) range = candidate;
    }
  }
  const auto [entry, is_new] = pieces_.try_emplace({range.start.value, range.end.value, root},
                                                   static_cast<uint32_t>(flat_.pieces.size()));
  if (is_new) {
    flat_.pieces.push_back({.range = range, .function = rows_.scopes()[root].function});
  }
  return entry->second;
}

// `function` under the name that the symbol table gives.
SymbolRows::FunctionId Flattener::Rename(SymbolRows::FunctionId function,
                                         SymbolRows::FunctionId named_by) {
  SymbolRows::FunctionIds ids = flat_.functions[function];
  const SymbolRows::FunctionIds& symbol = flat_.functions[named_by];
  if (ids.system_name == symbol.system_name || symbol.system_name == 0) return function;
  const auto [entry, is_new] =
      renamed_.try_emplace({function, named_by}, static_cast<uint32_t>(flat_.functions.size()));
  if (is_new) {
    ids.system_name = symbol.system_name;
    ids.name = symbol.name;
    flat_.functions.push_back(ids);
  }
  return entry->second;
}

void Flattener::FlattenLines() {
  std::vector<RankedRange> ranges;
  ranges.reserve(rows_.sequences().size());
  for (size_t i = 0; i < rows_.sequences().size(); ++i) {
    const SymbolRows::LineSequence& sequence = rows_.sequences()[i];
    ranges.push_back({.start = rows_.lines()[sequence.first].start.value,
                      .end = sequence.end.value,
                      .value = static_cast<uint32_t>(i),
                      .source = sequence.source,
                      .order = i});
  }
  flat_.lines.reserve(rows_.lines().size() + ranges.size());
  Sweep(std::move(ranges), [this](uint64_t start, uint64_t end, uint32_t index) {
    EmitLines(start, end, rows_.sequences()[index]);
  });
  if (!flat_.lines.empty()) flat_.lines.push_back({.start = lines_end_, .row = kNone});
}

void Flattener::EmitLines(uint64_t start, uint64_t end, const SymbolRows::LineSequence& sequence) {
  if (start > lines_end_ && !flat_.lines.empty()) {
    flat_.lines.push_back({.start = lines_end_, .row = kNone});
  }
  lines_end_ = end;
  const std::span rows(rows_.lines().data() + sequence.first, sequence.count);
  // The first row that counts is the last one at or before the start.
  auto row = std::upper_bound(rows.begin(), rows.end(), start,
                              [](uint64_t value, const SymbolRows::LineRow& candidate) {
                                return value < candidate.start.value;
                              });
  if (row != rows.begin()) --row;
  for (; row != rows.end() && row->start.value < end; ++row) {
    const uint64_t row_start = std::max(start, row->start.value);
    const auto index =
        static_cast<uint32_t>(row - rows.begin() + static_cast<std::ptrdiff_t>(sequence.first));
    if (!flat_.lines.empty()) {
      FlatSymbols::Line& last = flat_.lines.back();
      if (last.start == row_start) {
        last.row = index;  // of rows at one address the last holds
        continue;
      }
      if (last.row != kNone) {
        const SymbolRows::LineRow& before = rows_.lines()[last.row];
        if (before.file == row->file && before.line == row->line && before.column == row->column &&
            before.discriminator == row->discriminator) {
          continue;
        }
      }
    }
    flat_.lines.push_back({.start = row_start, .row = index});
  }
}

}  // namespace

FlatSymbols Flatten(const SymbolRows& rows) { return Flattener(rows).Run(); }

}  // namespace ptarmigan::internal
