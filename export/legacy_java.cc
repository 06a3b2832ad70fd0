// Java's heap and contention profiles: numbers for functions, names at the end.
//
//   --- contentionz 1 ---
//   format = java
//   resolution = microseconds
//   sampling period = 100
//              14     1 @ 0x0000000d 0x0000000e
//    0x000000d com.example.f (source.java:12)
#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/str_format.h"
#include "base/text_lines.h"
#include "export/internal/frame_names.h"
#include "export/internal/legacy_parts.h"

namespace ptarmigan::internal {
namespace {

// The agent samples allocations at this mean distance and does not say so in the file.
constexpr int64_t kJavaHeapRateBytes = 524288;

// "function (file:12)", "function (/path/lib.so)", or a state of the VM such as "GC".
LegacySymbol ReadJavaSymbol(std::string_view text) {
  LegacySymbol symbol{.name = text, .file = {}};
  const size_t open = text.rfind(" (");
  if (open == std::string_view::npos || !text.ends_with(')')) {
    if (text.find("generated stub/JIT") != std::string_view::npos) symbol.name = "STUB";
    return symbol;
  }
  symbol.name = Trim(text.substr(0, open));
  const std::string_view place = text.substr(open + 2, text.size() - open - 3);
  const size_t colon = place.rfind(':');
  const auto line = colon == std::string_view::npos ? std::nullopt
                                                    : ParseNumber<int64_t>(place.substr(colon + 1));
  if (line && colon > 0) {
    symbol.file = place.substr(0, colon);
    symbol.line = *line > 0 ? *line : 0;
  } else {
    symbol.file = BaseName(place);
  }
  return symbol;
}

struct JavaHeader {
  bool is_heap = false;
  std::string_view resolution;
  int64_t period = 0;
};

// False if the line is no "attribute = value".
bool ReadAttribute(std::string_view line, JavaHeader* header, LegacyProfile* legacy) {
  const size_t equals = line.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view key = Trim(line.substr(0, equals));
  const std::string_view value = Trim(line.substr(equals + 1));
  const auto number = ParseNumber<int64_t>(value);
  if (key == "resolution") header->resolution = value;
  if (key == "sampling period" && number) header->period = *number;
  if (key == "ms since reset" && number) legacy->profile().duration_ns = ScaleCount(*number, 1e6);
  return true;
}

// "bytes-or-delay count @ 0x... 0x...". False if it is no sample.
bool ReadSample(std::string_view line, std::array<int64_t, 2>* values,
                std::vector<uint64_t>* addresses) {
  std::string_view rest = line;
  const auto second = ParseNumber<int64_t>(TakeWord(&rest));
  const auto first = ParseNumber<int64_t>(TakeWord(&rest));
  if (!first || !second || TakeWord(&rest) != "@") return false;
  addresses->clear();
  *values = {*first, *second};
  return ParseAddresses(rest, addresses);
}

}  // namespace

std::unordered_map<uint64_t, LegacySymbol> ParseJavaSymbols(std::string_view text) {
  std::unordered_map<uint64_t, LegacySymbol> symbols;
  LineReader lines(text);
  std::string_view line;
  while (lines.Next(&line)) {
    std::string_view rest = line;
    const std::string_view word = TakeWord(&rest);
    const auto address = ParseHex(word);
    if (!word.starts_with("0x") || !address || Trim(rest).empty()) continue;
    symbols.insert_or_assign(*address, ReadJavaSymbol(Trim(rest)));
  }
  return symbols;
}

Result<Profile> ReadJavaProfile(std::string_view text, const DecodeLimits& limits) {
  LegacyProfile legacy(limits);
  LineReader lines(text);
  std::string_view line;
  lines.Next(&line);
  JavaHeader header;
  header.is_heap = line.starts_with("--- heapz");
  std::array<int64_t, 2> values = {};
  std::vector<uint64_t> addresses;
  bool in_header = true;
  std::string_view symbols;
  while (lines.Next(&line)) {
    const std::string_view trimmed = Trim(line);
    if (trimmed.empty() || (in_header && ReadAttribute(trimmed, &header, &legacy))) continue;
    if (in_header) {
      in_header = false;
      legacy.AddType(header.is_heap ? "inuse_objects" : "contentions", "count");
      legacy.AddType(header.is_heap ? "inuse_space" : "delay", header.resolution);
    }
    if (!ReadSample(trimmed, &values, &addresses)) {
      // The first line of another kind begins the names.
      symbols = text.substr(static_cast<size_t>(line.data() - text.data()));
      break;
    }
    if (header.is_heap) {
      if (values[0] == 0) {
        legacy.CountBadLine();
        continue;
      }
      const int64_t block_bytes =
          values[0] == -1 ? -ScaleCount(values[1], 1) : values[1] / values[0];
      const HeapValue scaled = ScaleHeapValue({values[0], values[1]}, kJavaHeapRateBytes);
      values = {scaled.count, scaled.bytes};
      TRY(legacy.Add(addresses, values, block_bytes));
      continue;
    }
    if (header.period != 0) {
      for (int64_t& value : values) value = ScaleCount(value, static_cast<double>(header.period));
    }
    TRY(legacy.Add(addresses, values));
  }
  if (legacy.samples() == 0)
    return Error{ErrorCode::kInvalidInput, "the Java profile has no samples"};
  if (!header.is_heap) legacy.SetPeriod("contentions", "count", header.period);
  return legacy.Finish("", ParseJavaSymbols(symbols));
}

}  // namespace ptarmigan::internal
