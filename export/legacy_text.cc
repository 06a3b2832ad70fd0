// Text profiles of gperftools, tcmalloc and Go: heap, growth, fragmentation, contention, counts, threads.
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/str_format.h"
#include "base/text_lines.h"
#include "export/internal/legacy_parts.h"
#include "export/internal/memory_map.h"
#include "export/legacy_profiles.h"

namespace ptarmigan::internal {
namespace {

// Samples point behind the call; one byte earlier is inside it.
void MoveIntoCalls(size_t first, std::vector<uint64_t>* addresses) {
  for (size_t i = first; i < addresses->size(); ++i) --(*addresses)[i];
}

std::string_view MapText(std::string_view text) {
  const size_t at = FindMemoryMap(text);
  return at == std::string_view::npos ? std::string_view() : text.substr(at);
}
bool IsMapHeadline(std::string_view line) { return FindMemoryMap(line) != std::string_view::npos; }

bool IsSkipped(std::string_view trimmed) { return trimmed.empty() || trimmed[0] == '#'; }

// "12: 345" off the front.
bool TakePair(std::string_view* rest, int64_t* first, int64_t* second) {
  const size_t colon = rest->find(':');
  if (colon == std::string_view::npos) return false;
  const auto one = ParseNumber<int64_t>(Trim(rest->substr(0, colon)));
  rest->remove_prefix(colon + 1);
  const size_t begin = std::min(rest->find_first_not_of(' '), rest->size());
  const size_t end = std::min(rest->find_first_not_of("-0123456789", begin), rest->size());
  const auto two = ParseNumber<int64_t>(rest->substr(begin, end - begin));
  if (!one || !two) return false;
  rest->remove_prefix(end);
  *first = *one;
  *second = *two;
  return true;
}

struct HeapLine {
  HeapValue in_use;
  HeapValue allocated;
  std::string_view rest;  // behind the '@'
};

// "1: 9216 [ 1: 9216] @ ..."
std::optional<HeapLine> ReadHeapLine(std::string_view line) {
  HeapLine read;
  if (!TakePair(&line, &read.in_use.count, &read.in_use.bytes)) return std::nullopt;
  line = Trim(line);
  if (!line.starts_with('[')) return std::nullopt;
  line.remove_prefix(1);
  if (!TakePair(&line, &read.allocated.count, &read.allocated.bytes)) return std::nullopt;
  line = Trim(line);
  if (!line.starts_with(']')) return std::nullopt;
  line = Trim(line.substr(1));
  if (!line.starts_with('@')) return std::nullopt;
  read.rest = line.substr(1);
  return read;
}

struct HeapKind {
  bool is_sampled = false;
  bool has_allocated = false;
  int64_t rate_bytes = 1;
};

constexpr std::string_view kHeapPrefix = "heap profile:";

std::optional<HeapKind> ReadHeapHeader(std::string_view line) {
  const size_t prefix = line.find(kHeapPrefix);
  if (prefix == std::string_view::npos) return std::nullopt;
  const auto header = ReadHeapLine(line.substr(prefix + kHeapPrefix.size()));
  if (!header) return std::nullopt;
  std::string_view rest = header->rest;
  std::string_view name = TakeWord(&rest);
  HeapKind kind;
  if (name.starts_with("growth") || name.starts_with("fragmentation")) return kind;
  const size_t slash = name.find('/');
  int64_t rate = 0;
  if (slash != std::string_view::npos && slash + 1 < name.size()) {
    const auto number = ParseNumber<int64_t>(name.substr(slash + 1));
    if (!number) return std::nullopt;
    rate = *number;
  }
  name = name.substr(0, slash);
  kind.has_allocated =
      (header->allocated.count != header->in_use.count && header->allocated.count != 0) ||
      (header->allocated.bytes != header->in_use.bytes && header->allocated.bytes != 0);
  if (name == "heapprofile") return kind;
  kind.is_sampled = true;
  kind.rate_bytes = rate;
  if (name == "heapz_v2" || name == "heap_v2") return kind;
  if (name != "heap") return std::nullopt;
  kind.rate_bytes = rate / 2;  // this version wrote twice the mean distance
  return kind;
}

// Adds count and bytes to `values`; the block size is that of the last pair with a count. False: "0 blocks of n
// bytes".
bool AddHeapValue(HeapValue seen, const HeapKind& kind, std::vector<int64_t>* values,
                  int64_t* block_bytes) {
  if (seen.count == 0 && seen.bytes != 0) return false;
  if (seen.count != 0) {
    *block_bytes = seen.count == -1 ? -ScaleCount(seen.bytes, 1) : seen.bytes / seen.count;
    if (kind.is_sampled) seen = ScaleHeapValue(seen, kind.rate_bytes);
  }
  values->insert(values->end(), {seen.count, seen.bytes});
  return true;
}

}  // namespace

Result<Profile> ReadHeapProfile(std::string_view text, const DecodeLimits& limits) {
  LineReader lines(text);
  std::string_view line;
  lines.Next(&line);
  const auto kind = ReadHeapHeader(line);
  if (!kind)
    return Error{ErrorCode::kInvalidInput, "the first line of the heap profile cannot be read"};
  LegacyProfile legacy(limits);
  if (kind->has_allocated) {
    legacy.AddType("alloc_objects", "count");
    legacy.AddType("alloc_space", "bytes");
    legacy.AddType("inuse_objects", "count");
    legacy.AddType("inuse_space", "bytes");
  } else {
    legacy.AddType("objects", "count");
    legacy.AddType("space", "bytes");
  }
  legacy.SetPeriod("space", "bytes", kind->rate_bytes);
  std::vector<int64_t> values;
  std::vector<uint64_t> addresses;
  while (lines.Next(&line)) {
    line = Trim(line);
    if (IsSkipped(line)) continue;
    if (IsMapHeadline(line)) break;
    const auto sample = ReadHeapLine(line);
    values.clear();
    addresses.clear();
    int64_t block_bytes = 0;
    if (!sample ||
        (kind->has_allocated && !AddHeapValue(sample->allocated, *kind, &values, &block_bytes)) ||
        !AddHeapValue(sample->in_use, *kind, &values, &block_bytes) ||
        !ParseAddresses(sample->rest, &addresses)) {
      legacy.CountBadLine();
      continue;
    }
    MoveIntoCalls(0, &addresses);
    TRY(legacy.Add(addresses, values, block_bytes));
  }
  return legacy.Finish(MapText(text));
}

Result<Profile> ReadContentionProfile(std::string_view text, const DecodeLimits& limits) {
  LegacyProfile legacy(limits);
  legacy.AddType("contentions", "count");
  legacy.AddType("delay", "nanoseconds");
  int64_t period = 1;
  int64_t cycles_per_second = 0;
  LineReader lines(text);
  std::string_view line;
  lines.Next(&line);
  std::vector<uint64_t> addresses;
  while (lines.Next(&line)) {
    line = Trim(line);
    if (IsSkipped(line)) continue;
    if (line.starts_with("---")) break;
    if (const size_t equals = line.find('='); equals != std::string_view::npos) {
      const std::string_view key = Trim(line.substr(0, equals));
      if (key == "format") return ReadJavaProfile(text, limits);
      const auto number = ParseNumber<int64_t>(Trim(line.substr(equals + 1)));
      if (key == "cycles/second" && number) cycles_per_second = *number;
      if (key == "sampling period" && number) period = *number;
      if (key == "ms since reset" && number)
        legacy.profile().duration_ns = ScaleCount(*number, 1e6);
      continue;
    }
    std::string_view rest = line;
    const auto delay = ParseNumber<int64_t>(TakeWord(&rest));
    const auto count = ParseNumber<int64_t>(TakeWord(&rest));
    addresses.clear();
    if (!delay || !count || TakeWord(&rest) != "@" || !ParseAddresses(rest, &addresses)) {
      legacy.CountBadLine();
      continue;
    }
    std::array<int64_t, 2> values = {*count, *delay};
    if (period > 0) {
      values[0] = ScaleCount(*count, static_cast<double>(period));
      if (cycles_per_second > 0) {
        const double cycles = static_cast<double>(*delay) * static_cast<double>(period);
        values[1] = ScaleCount(1, cycles / (static_cast<double>(cycles_per_second) / 1e9));
      }
    }
    MoveIntoCalls(0, &addresses);
    TRY(legacy.Add(addresses, values));
  }
  legacy.SetPeriod("contentions", "count", period);
  return legacy.Finish(MapText(text));
}

namespace {

bool IsThreadHeadline(std::string_view line) {
  return line.starts_with("--- Thread ") && line.find(" (name: ") != std::string_view::npos &&
         line.ends_with(") stack: ---");
}

}  // namespace

Result<Profile> ReadThreadProfile(std::string_view text, const DecodeLimits& limits) {
  LegacyProfile legacy(limits);
  legacy.AddType("thread", "count");
  legacy.SetPeriod("thread", "count", 1);
  std::vector<uint64_t> addresses;
  bool in_thread = false;
  bool is_same = false;
  const auto end_thread = [&]() -> Status {
    if (!in_thread) return OkStatus();
    if (is_same || addresses.empty()) {
      if (legacy.samples() > 0) legacy.Increment(legacy.samples() - 1, 0);
      return OkStatus();
    }
    MoveIntoCalls(1, &addresses);
    if (addresses.size() > 1 && addresses[0] == addresses[1] + 1)
      addresses.erase(addresses.begin() + 1);
    const int64_t one = 1;
    return legacy.Add(addresses, std::span(&one, 1));
  };
  LineReader lines(text);
  std::string_view line;
  while (lines.Next(&line)) {
    line = Trim(line);
    if (line.starts_with("---")) {
      TRY(end_thread());
      in_thread = IsThreadHeadline(line);
      is_same = false;
      addresses.clear();
      if (IsMapHeadline(line) || line.starts_with("---- no stack trace for")) break;
      continue;
    }
    if (IsMapHeadline(line)) break;
    if (line.find("same as previous thread") != std::string_view::npos) is_same = true;
    if (in_thread && !ParseAddresses(line, &addresses)) legacy.CountBadLine();
  }
  TRY(end_thread());
  return legacy.Finish(MapText(text));
}

namespace {

constexpr std::string_view kCountHeader = " profile: total ";

// "goroutine profile: total 12": the name; empty if it is another line.
std::string_view CountProfileName(std::string_view line) {
  const size_t at = line.find(kCountHeader);
  if (at == std::string_view::npos || !IsDigits(line.substr(at + kCountHeader.size()))) return {};
  const std::string_view name = line.substr(0, at);
  return name.find_first_of(kBlanks) == std::string_view::npos ? name : std::string_view();
}

std::string_view FirstLine(std::string_view text) {
  LineReader lines(text);
  std::string_view line;
  while (lines.Next(&line)) {
    if (!IsSkipped(Trim(line))) return line;
  }
  return {};
}

}  // namespace

Result<Profile> ReadCountProfile(std::string_view text, const DecodeLimits& limits) {
  LegacyProfile legacy(limits);
  const std::string_view header = FirstLine(text);
  const std::string_view name = CountProfileName(header);
  legacy.AddType(name, "count");
  legacy.SetPeriod(name, "count", 1);
  LineReader lines(text.substr(static_cast<size_t>(header.data() + header.size() - text.data())));
  std::string_view line;
  std::vector<uint64_t> addresses;
  while (lines.Next(&line)) {
    if (IsSkipped(Trim(line))) continue;
    if (line.starts_with("---")) break;
    std::string_view rest = line;
    const auto count = ParseNumber<int64_t>(TakeWord(&rest));
    addresses.clear();
    if (!count || TakeWord(&rest) != "@" || !ParseAddresses(rest, &addresses) ||
        addresses.empty()) {
      legacy.CountBadLine();
      continue;
    }
    MoveIntoCalls(0, &addresses);
    const int64_t value = *count;
    TRY(legacy.Add(addresses, std::span(&value, 1)));
  }
  return legacy.Finish(MapText(text));
}

}  // namespace ptarmigan::internal

namespace ptarmigan {
namespace {

enum class LegacyKind { kNone, kBinary, kHeap, kContention, kThreads, kCounts, kJavaHeap };

LegacyKind KindOf(Bytes bytes) {
  if (internal::LooksLikeBinaryCpuProfile(bytes)) return LegacyKind::kBinary;
  const std::string_view line = internal::FirstLine(AsText(bytes));
  if (line.starts_with(internal::kHeapPrefix)) return LegacyKind::kHeap;
  if (line.starts_with("--- heapz 1 ---")) return LegacyKind::kJavaHeap;
  if (line.starts_with("--- threadz ") || internal::IsThreadHeadline(Trim(line)))
    return LegacyKind::kThreads;
  for (const std::string_view prefix : {"--- contentionz ", "--- mutex:", "--- contention:"}) {
    if (line.starts_with(prefix)) return LegacyKind::kContention;
  }
  if (!internal::CountProfileName(line).empty()) return LegacyKind::kCounts;
  return LegacyKind::kNone;
}

}  // namespace

bool LooksLikeLegacyProfile(Bytes prefix) { return KindOf(prefix) != LegacyKind::kNone; }

Result<Profile> ReadLegacyProfile(Bytes bytes, const DecodeLimits& limits) {
  const std::string_view text = AsText(bytes);
  switch (KindOf(bytes)) {
    case LegacyKind::kBinary:
      return internal::ReadBinaryCpuProfile(bytes, limits);
    case LegacyKind::kHeap:
      return internal::ReadHeapProfile(text, limits);
    case LegacyKind::kContention:
      return internal::ReadContentionProfile(text, limits);
    case LegacyKind::kThreads:
      return internal::ReadThreadProfile(text, limits);
    case LegacyKind::kCounts:
      return internal::ReadCountProfile(text, limits);
    case LegacyKind::kJavaHeap:
      return internal::ReadJavaProfile(text, limits);
    case LegacyKind::kNone:
      break;
  }
  return Error{ErrorCode::kInvalidInput, "not a gperftools, Go text or Java profile"};
}

}  // namespace ptarmigan
