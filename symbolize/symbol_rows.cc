#include "symbolize/symbol_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/hash.h"

namespace ptarmigan {
namespace {

// A hash set of 32-bit ids whose values live elsewhere: linear probing, at most half full.
class IdSet {
 public:
  // The id whose value has this hash and for which `same` holds, or `make()` stored as new.
  template <typename Same, typename Make>
  uint32_t FindOrMake(uint64_t hash, const Same& same, const Make& make) {
    if ((count_ + 1) * 2 > slots_.size()) Grow();
    const auto tag = static_cast<uint32_t>(hash >> 32);
    for (size_t i = hash & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[i];
      if (slot.id == SymbolRows::kNone) {
        const uint32_t id = make();
        if (id == SymbolRows::kNone) return id;
        slot = {.hash = hash, .id = id, .tag = tag};
        ++count_;
        return id;
      }
      if (slot.tag == tag && slot.hash == hash && same(slot.id)) return slot.id;
    }
  }

 private:
  struct Slot {
    uint64_t hash = 0;
    uint32_t id = SymbolRows::kNone;
    uint32_t tag = 0;
  };

  void Grow() {
    std::vector<Slot> old(std::max<size_t>(slots_.size() * 2, 1024));
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.id == SymbolRows::kNone) continue;
      size_t i = slot.hash & (slots_.size() - 1);
      while (slots_[i].id != SymbolRows::kNone) i = (i + 1) & (slots_.size() - 1);
      slots_[i] = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace

class SymbolRows::Interner {
 public:
  Interner() { strings_.emplace_back(); }

  StringId Intern(std::string_view text, uint64_t* dropped) {
    if (text.empty()) return 0;
    if (text.size() > kStringBytesMax) text = text.substr(0, kStringBytesMax);
    const StringId id = texts_.FindOrMake(
        HashBytes64(AsBytes(text)), [&](uint32_t known) { return strings_[known] == text; },
        [&] { return Store(text); });
    if (id != kNone) return id;
    ++*dropped;
    return 0;
  }
  std::string_view Text(StringId id) const { return id < strings_.size() ? strings_[id] : ""; }
  size_t size() const { return strings_.size(); }

  IdSet& functions() { return functions_; }

 private:
  static constexpr size_t kChunkBytes = size_t{1} << 20;
  static_assert(kChunkBytes >= kStringBytesMax);

  uint32_t Store(std::string_view text) {
    if (bytes_ + text.size() > kStringsBytesMax) return kNone;
    bytes_ += text.size();
    if (chunks_.empty() || kChunkBytes - used_ < text.size()) {
      chunks_.push_back(std::make_unique_for_overwrite<char[]>(kChunkBytes));
      used_ = 0;
    }
    char* place = chunks_.back().get() + used_;
    std::memcpy(place, text.data(), text.size());
    used_ += text.size();
    strings_.emplace_back(place, text.size());
    return static_cast<uint32_t>(strings_.size() - 1);
  }

  std::vector<std::unique_ptr<char[]>> chunks_;
  size_t used_ = 0;
  size_t bytes_ = 0;
  std::vector<std::string_view> strings_;
  IdSet texts_;
  IdSet functions_;
};

SymbolRows::SymbolRows() : interner_(std::make_unique<Interner>()) {}
SymbolRows::~SymbolRows() = default;
SymbolRows::SymbolRows(SymbolRows&&) noexcept = default;
SymbolRows& SymbolRows::operator=(SymbolRows&&) noexcept = default;

std::string_view SymbolRows::Text(StringId id) const { return interner_->Text(id); }
size_t SymbolRows::string_count() const { return interner_->size(); }

void SymbolRows::SetCodeRanges(std::vector<CodeRange> ranges) {
  std::erase_if(ranges, [](const CodeRange& range) { return range.end <= range.start; });
  std::sort(ranges.begin(), ranges.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.start < b.start; });
  code_ranges_.clear();
  for (const CodeRange& range : ranges) {
    if (!code_ranges_.empty() && range.start <= code_ranges_.back().end) {
      code_ranges_.back().end = std::max(code_ranges_.back().end, range.end);
    } else {
      code_ranges_.push_back(range);
    }
  }
}

void SymbolRows::Reserve(const Expected& expected) {
  scopes_.reserve(scopes_.size() + std::min(expected.scopes, kScopesMax));
  ranges_.reserve(ranges_.size() + std::min(expected.ranges, kRangesMax));
  lines_.reserve(lines_.size() + std::min(expected.lines, kLinesMax));
}

bool SymbolRows::IsCode(FileVaddr address) const {
  if (code_ranges_.empty()) return true;
  const auto after =
      std::upper_bound(code_ranges_.begin(), code_ranges_.end(), address,
                       [](FileVaddr value, const CodeRange& range) { return value < range.start; });
  return after != code_ranges_.begin() && address < std::prev(after)->end;
}

SymbolRows::StringId SymbolRows::Intern(std::string_view text) {
  return interner_->Intern(text, &dropped_by_limit_);
}

SymbolRows::FunctionIds SymbolRows::IdsOf(const FunctionNames& names, SymbolSource source) {
  const StringId system_name = Intern(names.system_name);
  return {.system_name = system_name,
          .name = Intern(names.name),
          .file = Intern(names.file),
          .start_line = names.start_line,
          .debug_name = source == SymbolSource::kDwarf ? system_name : 0};
}

SymbolRows::FunctionId SymbolRows::DefineFunction(const FunctionIds& ids) {
  const FunctionId id = interner_->functions().FindOrMake(
      HashBytes64(std::as_bytes(std::span(&ids, 1))),
      [&](uint32_t known) { return functions_[known] == ids; },
      [&]() -> uint32_t {
        if (functions_.size() >= kFunctionsMax) return kNone;
        functions_.push_back(ids);
        return static_cast<uint32_t>(functions_.size() - 1);
      });
  if (id == kNone) ++dropped_by_limit_;
  return id;
}

SymbolRows::ScopeId SymbolRows::AddRootScope(SymbolSource source, FunctionId function) {
  if (function >= functions_.size()) return kNone;  // was dropped and counted
  if (scopes_.size() >= kScopesMax) {
    ++dropped_by_limit_;
    return kNone;
  }
  scopes_.push_back({.function = function, .parent = kNone, .call = {}, .source = source});
  return static_cast<ScopeId>(scopes_.size() - 1);
}

SymbolRows::ScopeId SymbolRows::AddInlineScope(ScopeId parent, FunctionId function,
                                               const CallSiteIds& call) {
  if (parent >= scopes_.size() || function >= functions_.size()) return kNone;
  if (scopes_.size() >= kScopesMax || scopes_[parent].depth >= kInlineDepthMax) {
    ++dropped_by_limit_;
    return kNone;
  }
  scopes_.push_back({.function = function,
                     .parent = parent,
                     .call = call,
                     .source = scopes_[parent].source,
                     .depth = static_cast<uint8_t>(scopes_[parent].depth + 1)});
  return static_cast<ScopeId>(scopes_.size() - 1);
}

void SymbolRows::AddRange(ScopeId scope, CodeRange range) {
  if (scope >= scopes_.size() || range.end < range.start) return;
  if (!IsCode(range.start)) {
    ++dropped_outside_code_;
    return;
  }
  if (ranges_.size() >= kRangesMax) {
    ++dropped_by_limit_;
    return;
  }
  ranges_.push_back({.range = range, .scope = scope});
}

SymbolRows::ScopeId SymbolRows::AddFunction(const FunctionRow& row) {
  if (!IsCode(row.start)) {
    ++dropped_outside_code_;
    return kNone;
  }
  uint64_t end = 0;
  if (!CheckedAdd(row.start.value, row.size_bytes, &end)) end = UINT64_MAX;
  const ScopeId scope = AddRootScope(row.source, DefineFunction(IdsOf(row.names, row.source)));
  AddRange(scope, {.start = row.start, .end = {end}});
  return scope;
}

SymbolRows::ScopeId SymbolRows::AddInline(ScopeId parent, const FunctionNames& names,
                                          const CallSite& call, std::span<const CodeRange> ranges) {
  if (parent >= scopes_.size()) return kNone;
  const FunctionId function = DefineFunction(IdsOf(names, scopes_[parent].source));
  const ScopeId scope = AddInlineScope(parent, function,
                                       {.file = Intern(call.file),
                                        .line = call.line,
                                        .column = call.column,
                                        .discriminator = call.discriminator});
  for (const CodeRange& range : ranges) {
    if (range.start < range.end) AddRange(scope, range);
  }
  return scope;
}

void SymbolRows::AddLines(SymbolSource source, std::span<const LineRow> rows, FileVaddr end) {
  if (rows.empty()) return;
  if (rows.size() > kLinesMax - lines_.size()) {
    dropped_by_limit_ += rows.size();
    return;
  }
  const size_t first = lines_.size();
  lines_.insert(lines_.end(), rows.begin(), rows.end());
  const auto begin = lines_.begin() + static_cast<std::ptrdiff_t>(first);
  const auto earlier = [](const LineRow& a, const LineRow& b) { return a.start < b.start; };
  if (!std::is_sorted(begin, lines_.end(), earlier)) {
    std::stable_sort(begin, lines_.end(), earlier);
  }
  if (!IsCode(lines_[first].start) || lines_[first].start >= end) {
    lines_.resize(first);
    dropped_outside_code_ += rows.size();
    return;
  }
  sequences_.push_back({.first = first, .count = rows.size(), .end = end, .source = source});
}

void SymbolRows::AddNote(std::string_view note) {
  if (notes_.size() < kNotesMax) notes_.emplace_back(note);
}

}  // namespace ptarmigan
