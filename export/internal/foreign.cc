#include "export/internal/foreign.h"

#include <algorithm>
#include <array>

namespace ptarmigan::internal {
namespace {

struct Magic {
  std::string_view prefix;
  std::string_view what;
};

constexpr std::array kMagics = {
    Magic{"PERFILE2", "a perf.data recording"},
    Magic{"2ELIFREP", "a perf.data recording of a big-endian machine"},
    Magic{"PERFFILE", "a perf.data recording of an old kernel"},
    Magic{"\x7f"
          "ELF",
          "an ELF object file"},
    Magic{std::string_view("FLR\0", 4), "a JDK Flight Recorder file"},
    Magic{"PK\x03\x04", "a zip archive"},
    Magic{"BZh", "a bzip2 file"},
    Magic{"\xfd"
          "7zXZ",
          "an xz file"},
    Magic{"SQLite format 3", "an SQLite database"},
    Magic{"\x89PNG", "a PNG picture"},
    Magic{"%PDF", "a PDF document"},
    Magic{"PTMARCH", "a ptarmigan archive"},
    Magic{"JITDUMP", "a jitdump file"},
    Magic{"DTiJ", "a jitdump file"},
};

bool StartsWithNoCase(std::string_view text, std::string_view lower) {
  if (text.size() < lower.size()) return false;
  return std::equal(lower.begin(), lower.end(), text.begin(), [](char a, char b) {
    return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
  });
}

}  // namespace

bool LooksLikeText(Bytes bytes) {
  constexpr size_t kLookedAtBytes = 4096;
  const Bytes head = bytes.first(std::min(bytes.size(), kLookedAtBytes));
  return !head.empty() && std::all_of(head.begin(), head.end(), [](std::byte byte) {
    const auto value = std::to_integer<uint8_t>(byte);
    return (value >= 0x20 && value != 0x7f) || value == '\t' || value == '\n' || value == '\r' ||
           value == '\f';
  });
}

std::string_view DescribeForeign(Bytes bytes) {
  if (bytes.empty()) return "an empty file";
  std::string_view text = AsText(bytes);
  for (const Magic& magic : kMagics) {
    if (text.starts_with(magic.prefix)) return magic.what;
  }
  if (text.starts_with("go 1.") && text.substr(0, 32).find(" trace") != std::string_view::npos) {
    return "a Go execution trace (open it with `go tool trace`)";
  }
  if (!LooksLikeText(bytes)) return "";
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (text.empty()) return "a file of white space";
  if (StartsWithNoCase(text, "<!doctype html") || StartsWithNoCase(text, "<html"))
    return "an HTML page";
  if (text.starts_with("<?xml") || text.starts_with("<svg")) return "an XML or SVG document";
  if (text.starts_with('{') || text.starts_with('[')) return "a JSON document";
  return "a text";
}

}  // namespace ptarmigan::internal
