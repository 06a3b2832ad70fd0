// Perf maps: text that any profiled program may write.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "symbolize/jit_maps.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ptarmigan::Bytes bytes = std::as_bytes(std::span(data, size));
  const ptarmigan::PerfMap map = ptarmigan::PerfMap::Parse(ptarmigan::AsText(bytes));
  CHECK(map.lines() + map.malformed_lines() + map.lines_beyond_limit() <= size);
  // Addresses of the text itself, read as numbers, and the ends of the space.
  ptarmigan::ByteCursor cursor(bytes);
  ptarmigan::PerfMap::Symbol symbol;
  for (uint64_t address : {uint64_t{0}, ~uint64_t{0}}) {
    for (int i = 0; i < 64; ++i) {
      if (map.Find({address}, &symbol)) {
        CHECK(address >= symbol.start.value && address - symbol.start.value < symbol.size_bytes);
        CHECK(!symbol.name.empty() && symbol.name.size() <= ptarmigan::PerfMap::kNameBytesMax);
      }
      address = cursor.U8() * uint64_t{0x101};
    }
  }
  return 0;
}
