// Any bytes as a `.sym` table. Because a directory with a wrong checksum is refused at once, the checksum is made right
// first, and the file's length too: what is tested is what stands behind them.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/check.h"
#include "base/hash.h"
#include "symbolize/internal/sym_format.h"
#include "symbolize/symbol_table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ptarmigan;  // NOLINT(google-build-using-namespace)
  if (size < internal::kSymHeaderBytes || size > size_t{1} << 20) return 0;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  std::memcpy(bytes.data(), internal::kSymMagic, sizeof(internal::kSymMagic));
  std::memcpy(bytes.data() + 8, &internal::kSymVersion, 4);
  uint32_t directory_bytes = 0;
  std::memcpy(&directory_bytes, bytes.data() + 12, 4);
  const uint64_t file_bytes = size;
  std::memcpy(bytes.data() + 16, &file_bytes, 8);
  std::memset(bytes.data() + internal::kSymChecksumOffset, 0, 8);
  if (directory_bytes <= size) {
    const uint64_t checksum =
        HashBytes64(AsBytes(std::string_view(bytes).substr(0, directory_bytes)));
    std::memcpy(bytes.data() + internal::kSymChecksumOffset, &checksum, 8);
  }
  const auto table = SymbolTable::FromBytes(AsBytes(bytes), "fuzz");
  if (!table) return 0;
  FrameRef frames[SymbolTable::kFramesMax];
  size_t text_bytes = 0;
  // The first addresses of the pages as the directory has them, and around them.
  uint32_t pages = 0;
  std::memcpy(&pages, bytes.data() + 44, 4);
  for (uint32_t page = 0; page < pages && page < 16; ++page) {
    uint64_t start = 0;
    std::memcpy(&start,
                bytes.data() + internal::kSymHeaderBytes + page * internal::kSymCodeEntryBytes, 8);
    for (const uint64_t distance : {0U, 1U, 7U, 64U, 300U, 4096U, 70000U, UINT32_MAX}) {
      const size_t count = (*table)->FindFrames({start + distance}, frames);
      CHECK(count <= SymbolTable::kFramesMax);
      for (size_t i = 0; i < count; ++i) {
        text_bytes +=
            frames[i].function.size() + frames[i].system_name.size() + frames[i].file.size();
      }
      (void)(*table)->FindFunction({start + distance});
      const FileVaddr address = {start + distance};
      const FileVaddr change = (*table)->NextChange(address);
      CHECK(change > address || address.value == UINT64_MAX);
    }
  }
  DebugFunction described;
  (*table)->ForEachFunction([&](CodeRange range, uint32_t function) {
    CHECK(range.start < range.end);
    (*table)->DescribeFunction(function, &described);
    text_bytes += described.name.size();
  });
  InlineStack copies;
  (void)(*table)->Find({0x1000}, &copies);
  CHECK(text_bytes < size_t{1} << 40);
  return 0;
}
