#include "export/internal/memory_map.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/text_lines.h"

namespace ptarmigan::internal {
namespace {

constexpr std::array<std::string_view, 2> kHeadlines = {"--- Memory map: ---", "MAPPED_LIBRARIES:"};

// The leading hex digits of `rest` (with or without 0x), taken off.
std::optional<uint64_t> TakeHex(std::string_view* rest) {
  if (rest->starts_with("0x")) rest->remove_prefix(2);
  const size_t size = std::min(rest->find_first_not_of("0123456789abcdefABCDEF"), rest->size());
  const auto number = ParseNumber<uint64_t>(rest->substr(0, size), 16);
  if (number) rest->remove_prefix(size);
  return number;
}

void SkipBlanks(std::string_view* rest) {
  rest->remove_prefix(std::min(rest->find_first_not_of(kBlanks), rest->size()));
}

bool IsPermissions(std::string_view word) {
  return !word.empty() && word.find_first_not_of("-rwxps") == std::string_view::npos;
}

// "... file.cc:12] " of a logged line.
std::string_view WithoutLogPrefix(std::string_view line) {
  const size_t bracket = line.find_first_of("[]");
  if (bracket == std::string_view::npos || line[bracket] != ']') return line;
  const size_t colon = line.substr(0, bracket).rfind(':');
  if (colon == std::string_view::npos || colon == 0) return line;
  if (!IsDigits(line.substr(colon + 1, bracket - colon - 1))) return line;
  std::string_view rest = line.substr(bracket + 1);
  return !rest.empty() && kBlanks.find(rest[0]) != std::string_view::npos ? rest.substr(1) : line;
}

// What stands behind the address range. False: the mapping is not executable.
bool ReadAttributes(std::string_view rest, MappedRange* range) {
  std::string_view after = rest;
  std::string_view word = TakeWord(&after);
  if (IsPermissions(word)) {
    if (word.find('x') == std::string_view::npos) return false;
    rest = after;
    // "offset major:minor inode path" of /proc, where the path may contain blanks.
    const auto offset = ParseNumber<uint64_t>(TakeWord(&after), 16);
    std::string_view device = TakeWord(&after);
    const bool has_device = TakeHex(&device) && device.starts_with(':');
    if (offset && has_device && IsDigits(TakeWord(&after))) {
      range->offset = *offset;
      range->file = Trim(after);
      return true;
    }
  }
  after = rest;
  word = TakeWord(&after);
  if (!word.starts_with("(@")) {
    range->file = word;
    rest = after;
    word = TakeWord(&after);
  }
  if (word.starts_with("(@") && word.ends_with(')')) {
    if (const auto offset = ParseNumber<uint64_t>(word.substr(2, word.size() - 3), 16))
      range->offset = *offset;
    word = TakeWord(&after);
  }
  if (!word.empty() && word.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos) {
    range->build_id = word;
  }
  return true;
}

enum class LineKind { kMapping, kNotExecutable, kOther };

LineKind ReadLine(std::string_view line, MappedRange* range) {
  SkipBlanks(&line);
  const auto start = TakeHex(&line);
  if (!start || line.empty()) return LineKind::kOther;
  if (line[0] == '-') line.remove_prefix(1);
  SkipBlanks(&line);
  const auto limit = TakeHex(&line);
  if (!limit) return LineKind::kOther;
  if (line.starts_with(':')) line.remove_prefix(1);
  if (!line.empty() && kBlanks.find(line[0]) == std::string_view::npos) return LineKind::kOther;
  range->start = *start;
  range->limit = std::max(*start, *limit);
  return ReadAttributes(line, range) ? LineKind::kMapping : LineKind::kNotExecutable;
}

// Lines "name=value" give later lines a "$name".
class Variables {
 public:
  void Add(std::string_view line) {
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos || values_.size() >= kVariablesMax) return;
    values_.emplace_back("$" + std::string(Trim(line.substr(0, equals))),
                         Trim(line.substr(equals + 1)));
  }
  std::string Replace(std::string_view line) const {
    std::string replaced(line);
    for (const auto& [name, value] : values_) {
      const size_t at = replaced.find(name);
      if (at != std::string::npos) replaced.replace(at, name.size(), value);
    }
    return replaced;
  }

 private:
  static constexpr size_t kVariablesMax = 16;
  std::vector<std::pair<std::string, std::string>> values_;
};

bool AreHalves(const MappedRange& first, const MappedRange& second) {
  if (!first.file.empty() && !second.file.empty() && first.file != second.file) return false;
  if (!first.build_id.empty() && !second.build_id.empty() && first.build_id != second.build_id)
    return false;
  if (first.limit != second.start) return false;
  return first.offset == 0 || second.offset == 0 ||
         first.offset + (first.limit - first.start) == second.offset;
}

void JoinHalves(std::vector<MappedRange>* ranges) {
  std::vector<MappedRange> joined;
  for (MappedRange& range : *ranges) {
    if (joined.empty() || !AreHalves(joined.back(), range)) {
      joined.push_back(std::move(range));
      continue;
    }
    joined.back().limit = range.limit;
    if (!range.file.empty()) joined.back().file = std::move(range.file);
    if (!range.build_id.empty()) joined.back().build_id = std::move(range.build_id);
  }
  *ranges = std::move(joined);
}

bool LooksLikeProgram(std::string_view file) {
  constexpr std::string_view kDeleted = "(deleted)";
  if (const size_t at = file.find(kDeleted); at != std::string_view::npos)
    file = file.substr(0, at);
  file = Trim(file);
  if (file.empty() || file[0] == '[' || file.ends_with(".so")) return false;
  for (size_t at = 0; (at = file.find(".so", at)) != std::string_view::npos; ++at) {
    const std::string_view behind = file.substr(at + 3);
    if (behind.size() > 1 && (behind[0] == '.' || behind[0] == '_') && behind[1] >= '0' &&
        behind[1] <= '9')
      return false;
  }
  return true;
}

// Which of several ranges, the earliest in the list where they overlap, holds an address.
class RangeIndex {
 public:
  struct Range {
    uint64_t start = 0;
    uint64_t limit = 0;
  };
  explicit RangeIndex(const std::vector<Range>& ranges) {
    std::multimap<uint64_t, std::pair<bool, uint32_t>> edges;
    for (uint32_t i = 0; i < ranges.size(); ++i) {
      if (ranges[i].start >= ranges[i].limit) continue;
      edges.emplace(ranges[i].start, std::pair(true, i));
      edges.emplace(ranges[i].limit, std::pair(false, i));
    }
    std::set<uint32_t> open;
    for (auto edge = edges.begin(); edge != edges.end();) {
      const uint64_t address = edge->first;
      for (; edge != edges.end() && edge->first == address; ++edge) {
        const auto [opens, index] = edge->second;
        if (opens) {
          open.insert(index);
        } else {
          open.erase(index);
        }
      }
      winners_[address] = open.empty() ? kNoId : *open.begin();
    }
  }
  uint32_t Find(uint64_t address) const {
    const auto after = winners_.upper_bound(address);
    return after == winners_.begin() ? kNoId : std::prev(after)->second;
  }

 private:
  std::map<uint64_t, uint32_t> winners_;  // from this address on
};

// Fixes what old profile writers got wrong about the main program.
void RepairMain(std::vector<MappedRange>* ranges) {
  if (ranges->size() > 1 && (*ranges)[0].file.starts_with("/anon_hugepage") &&
      (*ranges)[0].limit == (*ranges)[1].start) {
    ranges->erase(ranges->begin());
  }
  constexpr uint64_t kUsualStart = 0x400000;
  if (!ranges->empty() && ranges->front().start - ranges->front().offset == kUsualStart) {
    ranges->front().start = kUsualStart;
    ranges->front().offset = 0;
  }
}

}  // namespace

std::vector<MappedRange> ParseMemoryMap(std::string_view text) {
  std::vector<MappedRange> ranges;
  Variables variables;
  LineReader lines(text);
  std::string_view line;
  while (ranges.size() < kMappingsMax && lines.Next(&line)) {
    const std::string replaced = variables.Replace(WithoutLogPrefix(line));
    MappedRange range;
    const LineKind kind = ReadLine(replaced, &range);
    if (kind == LineKind::kMapping) ranges.push_back(std::move(range));
    if (kind == LineKind::kOther) variables.Add(replaced);
  }
  JoinHalves(&ranges);
  const auto program = std::ranges::find_if(ranges, LooksLikeProgram, &MappedRange::file);
  if (program != ranges.end()) std::swap(*program, ranges.front());
  return ranges;
}

size_t FindMemoryMap(std::string_view text) {
  size_t first = std::string_view::npos;
  for (const std::string_view headline : kHeadlines) first = std::min(first, text.find(headline));
  if (first == std::string_view::npos) return first;
  return std::min(text.find('\n', first), text.size());
}

void AssignMappings(std::vector<MappedRange> ranges, Profile* profile) {
  RepairMain(&ranges);
  std::vector<RangeIndex::Range> proper;
  std::vector<RangeIndex::Range> before;  // a mapping whose first part is missing from the map
  for (const MappedRange& range : ranges) {
    proper.push_back({range.start, range.limit});
    before.push_back({range.start - std::min(range.start, range.offset),
                      range.offset <= range.start ? range.start : 0});
  }
  const RangeIndex proper_index(proper);
  const RangeIndex before_index(before);
  uint32_t everything = kNoId;
  for (Profile::Location& location : profile->locations) {
    if (location.address == 0 || location.mapping != kNoId) continue;
    location.mapping = proper_index.Find(location.address);
    if (location.mapping != kNoId) continue;
    location.mapping = before_index.Find(location.address);
    if (location.mapping != kNoId) {
      MappedRange& range = ranges[location.mapping];
      range.start -= range.offset;
      range.offset = 0;
      continue;
    }
    if (everything == kNoId) {
      everything = static_cast<uint32_t>(ranges.size());
      ranges.push_back({.limit = std::numeric_limits<uint64_t>::max(), .file = {}, .build_id = {}});
    }
    location.mapping = everything;
  }
  for (const MappedRange& range : ranges) {
    Profile::Mapping mapping;
    mapping.start = {range.start};
    mapping.limit = {range.limit};
    mapping.offset = {range.offset};
    mapping.file = profile->strings.Intern(range.file);
    mapping.build_id = profile->strings.Intern(range.build_id);
    profile->mappings.push_back(mapping);
  }
}

}  // namespace ptarmigan::internal
