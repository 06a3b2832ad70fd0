#include "hw/internal/pmu_events.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "base/file.h"
#include "base/str_format.h"
#include "hw/internal/attr_bits.h"
#include "hw/internal/near_names.h"

namespace ptarmigan::internal {
namespace {

constexpr uint64_t kSysfsBytesMax = 1 << 16;
constexpr int kAliasDepthMax = 2;  // an event's terms are format terms, not further events

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

template <typename Handler>
Status ForEachTerm(std::string_view text, char separator, Handler handler) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    const std::string_view term = Trim(text.substr(0, end));
    if (!term.empty()) TRY(handler(term));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return OkStatus();
}

std::string DeviceDirectory(const EventRoots& roots, std::string_view pmu) {
  return JoinPath(JoinPath(roots.sysfs, "bus/event_source/devices"), pmu);
}

class PmuParser {
 public:
  PmuParser(std::string_view pmu, const EventRoots& roots)
      : pmu_(pmu), directory_(DeviceDirectory(roots, pmu)) {}

  Result<EventSpec> Parse(std::string_view terms, const EventRoots& roots);

 private:
  Status ApplyTerms(std::string_view terms, int depth);
  Status ApplyTerm(std::string_view term, int depth);
  // The terms that every PMU has; false if `name` is none of them.
  Result<bool> ApplyCommonTerm(std::string_view name, std::string_view value);
  Status ApplyNumber(std::string_view name, std::string_view value, const TermFormat& format);
  Error UnknownTerm(std::string_view name) const;
  uint64_t* Word(int word);

  std::string_view pmu_;
  std::string directory_;
  EventSpec spec_;
};

uint64_t* PmuParser::Word(int word) {
  switch (word) {
    case 0:
      return &spec_.attr.config;
    case 1:
      return &spec_.attr.config1;
    case 2:
      return &spec_.attr.config2;
    default:
      return &spec_.attr.config3;
  }
}

Error PmuParser::UnknownTerm(std::string_view name) const {
  std::vector<std::string> known;
  for (const std::string_view folder : {"format", "events"}) {
    auto names = ListDirectory(JoinPath(directory_, folder));
    if (names) known.insert(known.end(), names->begin(), names->end());
  }
  return Error{ErrorCode::kNotFound,
               StrFormat("PMU {} has no term or event \"{}\" (see {}/format and events){}", pmu_,
                         name, directory_, DidYouMean(name, known))};
}

Result<bool> PmuParser::ApplyCommonTerm(std::string_view name, std::string_view value) {
  if (name == "name") {
    spec_.name = value;
    return true;
  }
  const bool is_period = name == "period";
  const bool is_freq = name == "freq";
  const bool is_word =
      name == "config" || name == "config1" || name == "config2" || name == "config3";
  if (!is_period && !is_freq && !is_word) return false;
  const auto number = ParseNumber(value);
  if (!number) {
    return Error{ErrorCode::kInvalidInput, StrFormat("{}/{}={}/: not a number", pmu_, name, value)};
  }
  if (is_word) {
    *Word(name.size() == 6 ? 0 : name.back() - '0') = *number;
    return true;
  }
  if (*number == 0) {
    return Error{ErrorCode::kInvalidInput, StrFormat("{}/{}=0/: must be at least 1", pmu_, name)};
  }
  spec_.period_given = true;
  SetBit(&spec_.attr, kBitFreq, is_freq);
  (is_freq ? spec_.attr.sample_freq_hz : spec_.attr.sample_period) = *number;
  return true;
}

Status PmuParser::ApplyNumber(std::string_view name, std::string_view value,
                              const TermFormat& format) {
  const auto number = value.empty() ? std::optional<uint64_t>(1) : ParseNumber(value);
  if (!number) {
    return Error{ErrorCode::kInvalidInput, StrFormat("{}/{}={}/: not a number", pmu_, name, value)};
  }
  const auto placed = format.Place(*number);
  if (!placed) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("{}/{}={}/: does not fit in the {} bits of this term", pmu_, name, value,
                           format.Width())};
  }
  const auto mask =
      format.Place(format.Width() >= 64 ? UINT64_MAX : (uint64_t{1} << format.Width()) - 1);
  uint64_t* word = Word(format.word);
  *word = (*word & ~mask.value_or(0)) | *placed;
  return OkStatus();
}

Status PmuParser::ApplyTerm(std::string_view term, int depth) {
  const size_t equals = term.find('=');
  const std::string_view name = term.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : term.substr(equals + 1);
  if (name.empty() || name.find('/') != std::string_view::npos || name.starts_with('.')) {
    return Error{ErrorCode::kInvalidInput, StrFormat("{}/{}/: not a term", pmu_, term)};
  }
  if (auto format_text =
          ReadFile(JoinPath(directory_, StrFormat("format/{}", name)), kSysfsBytesMax)) {
    const auto format = ParseTermFormat(Trim(*format_text));
    if (!format) {
      return Error{ErrorCode::kUnsupported,
                   StrFormat("{}/format/{} is \"{}\", which is not understood", directory_, name,
                             Trim(*format_text))};
    }
    return ApplyNumber(name, value, *format);
  }
  if (equals != std::string_view::npos) {
    TRY_ASSIGN(const bool applied, ApplyCommonTerm(name, value));
    if (applied) return OkStatus();
    return UnknownTerm(name);
  }
  if (depth < kAliasDepthMax) {
    const std::string path = JoinPath(directory_, StrFormat("events/{}", name));
    if (auto alias = ReadFile(path, kSysfsBytesMax)) {
      if (alias->find('?') != std::string::npos) {
        return Error{
            ErrorCode::kInvalidInput,
            StrFormat("{}/{}/ wants a value for one of its terms: {}", pmu_, name, Trim(*alias))};
      }
      TRY(ApplyTerms(Trim(*alias), depth + 1));
      if (auto unit = ReadFile(path + ".unit", kSysfsBytesMax)) spec_.unit = Trim(*unit);
      if (auto scale = ReadFile(path + ".scale", kSysfsBytesMax)) {
        const double factor = std::strtod(scale->c_str(), nullptr);
        if (factor > 0) spec_.scale = factor;
      }
      return OkStatus();
    }
  }
  return UnknownTerm(name);
}

Status PmuParser::ApplyTerms(std::string_view terms, int depth) {
  return ForEachTerm(terms, ',',
                     [this, depth](std::string_view term) { return ApplyTerm(term, depth); });
}

Result<EventSpec> PmuParser::Parse(std::string_view terms, const EventRoots& roots) {
  auto type_text = ReadFile(JoinPath(directory_, "type"), kSysfsBytesMax);
  if (!type_text) {
    if (type_text.error().code == ErrorCode::kPermission) return std::move(type_text).error();
    return Error{ErrorCode::kNotFound,
                 StrFormat("this machine has no PMU \"{}\" ({} is not there){}", pmu_, directory_,
                           DidYouMean(pmu_, PmuNames(roots)))};
  }
  const auto type = ParseNumber(Trim(*type_text));
  if (!type || *type > UINT32_MAX) {
    return Error{ErrorCode::kInvalidInput, StrFormat("{}/type: not a number", directory_)};
  }
  spec_.attr.type = static_cast<uint32_t>(*type);
  if (auto cpus = ReadFile(JoinPath(directory_, "cpus"), kSysfsBytesMax))
    spec_.cpus = ParseCpuList(Trim(*cpus));
  TRY(ApplyTerms(terms, 0));
  if (spec_.name.empty()) spec_.name = StrFormat("{}/{}/", pmu_, terms);
  return std::move(spec_);
}

}  // namespace

std::optional<uint64_t> ParseNumber(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text.front() == '0') {
    base = 8;
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

unsigned TermFormat::Width() const {
  unsigned width = 0;
  for (const auto& [first, last] : ranges) width += last - first + 1;
  return width;
}

std::optional<uint64_t> TermFormat::Place(uint64_t value) const {
  uint64_t placed = 0;
  unsigned used = 0;
  for (const auto& [first, last] : ranges) {
    const unsigned width = last - first + 1;
    const uint64_t mask = width >= 64 ? UINT64_MAX : (uint64_t{1} << width) - 1;
    if (used < 64) placed |= (value >> used & mask) << first;
    used += width;
  }
  if (used < 64 && value >> used != 0) return std::nullopt;
  return placed;
}

std::optional<TermFormat> ParseTermFormat(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view word = text.substr(0, colon);
  TermFormat format;
  if (word == "config")
    format.word = 0;
  else if (word == "config1")
    format.word = 1;
  else if (word == "config2")
    format.word = 2;
  else if (word == "config3")
    format.word = 3;
  else
    return std::nullopt;
  const Status status =
      ForEachTerm(text.substr(colon + 1), ',', [&format](std::string_view range) -> Status {
        const size_t dash = range.find('-');
        const auto first = ParseNumber(range.substr(0, dash));
        const auto last =
            dash == std::string_view::npos ? first : ParseNumber(range.substr(dash + 1));
        if (!first || !last || *first > *last || *last > 63)
          return Error{ErrorCode::kInvalidInput, "range"};
        format.ranges.emplace_back(static_cast<unsigned>(*first), static_cast<unsigned>(*last));
        return OkStatus();
      });
  if (!status || format.ranges.empty()) return std::nullopt;
  return format;
}

std::optional<TermFormat> ReadTermFormat(std::string_view pmu, std::string_view term,
                                         const EventRoots& roots) {
  return ParseTermFormat(ReadPmuFile(pmu, StrFormat("format/{}", term), roots));
}

std::string ReadPmuFile(std::string_view pmu, std::string_view relative, const EventRoots& roots) {
  const auto text = ReadFile(JoinPath(DeviceDirectory(roots, pmu), relative), kSysfsBytesMax);
  return text ? std::string(Trim(*text)) : std::string();
}

Result<EventSpec> ParsePmuEvent(std::string_view pmu, std::string_view terms,
                                const EventRoots& roots) {
  return PmuParser(pmu, roots).Parse(terms, roots);
}

std::vector<std::string> PmuNames(const EventRoots& roots) {
  auto names = ListDirectory(DeviceDirectory(roots, ""));
  return names ? *std::move(names) : std::vector<std::string>();
}

std::vector<std::string> PmuEventNames(std::string_view pmu, const EventRoots& roots) {
  auto names = ListDirectory(JoinPath(DeviceDirectory(roots, pmu), "events"));
  if (!names) return {};
  std::erase_if(*names, [](const std::string& name) {
    return name.ends_with(".scale") || name.ends_with(".unit") || name.ends_with(".snapshot") ||
           name.ends_with(".per-pkg");
  });
  return *std::move(names);
}

std::optional<std::string> CpuPmuWithEvent(std::string_view event, const EventRoots& roots) {
  for (const std::string& pmu : PmuNames(roots)) {
    const bool is_cpu = pmu == "cpu" || pmu.starts_with("cpu_") || pmu.starts_with("armv8_");
    if (!is_cpu) continue;
    const std::vector<std::string> names = PmuEventNames(pmu, roots);
    if (std::find(names.begin(), names.end(), event) != names.end()) return pmu;
  }
  return std::nullopt;
}

std::vector<int32_t> ParseCpuList(std::string_view text) {
  std::vector<int32_t> cpus;
  const Status status = ForEachTerm(text, ',', [&cpus](std::string_view range) -> Status {
    const size_t dash = range.find('-');
    const auto first = ParseNumber(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : ParseNumber(range.substr(dash + 1));
    if (!first || !last || *last >= kCpusMax) return Error{ErrorCode::kInvalidInput, "cpu list"};
    for (uint64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<int32_t>(cpu));
    return OkStatus();
  });
  if (!status) cpus.clear();
  return cpus;
}

}  // namespace ptarmigan::internal
