// Jitdumps: bytes that any profiled program may write.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "symbolize/jit_maps.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ptarmigan::Bytes bytes = std::as_bytes(std::span(data, size));
  const auto dump = ptarmigan::JitDump::Parse(bytes, true);
  if (!dump) {
    CHECK(!dump.error().message.empty());
    return 0;
  }
  ptarmigan::ByteCursor cursor(bytes);
  ptarmigan::JitDump::Symbol symbol;
  while (!cursor.AtEnd()) {
    const uint64_t address = cursor.U64();
    for (const uint64_t time_ns : {uint64_t{0}, address, ptarmigan::JitDump::kLatest}) {
      for (const uint64_t at : {address, address + 1, address - 1}) {
        if (!dump->Find({at}, time_ns, &symbol)) continue;
        CHECK(symbol.name.size() <= ptarmigan::JitDump::kNameBytesMax);
        CHECK(symbol.code.empty() || symbol.code.size() == symbol.size_bytes);
      }
    }
  }
  return 0;
}
