// Any bytes as a table of a kernel's symbols. Its checksums are made right first: what is tested is what stands behind
// them.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "symbolize/kernel_symbols.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ptarmigan;  // NOLINT(google-build-using-namespace)
  constexpr size_t kHeaderBytes = 96;
  constexpr size_t kIdentitySizeAt = 36;
  if (size < kHeaderBytes || size > size_t{1} << 20) return 0;
  std::vector<uint64_t> words((size + 7) / 8);  // for the alignment of a mapping
  std::memcpy(words.data(), data, size);
  const std::span bytes(reinterpret_cast<char*>(words.data()), size);
  std::memcpy(bytes.data(), "\x89PKSYM\r\n\x01\0\0\0", 12);
  std::memset(bytes.data() + kIdentitySizeAt, 0, 4);
  const uint64_t content = HashBytes64(std::as_bytes(bytes.subspan(kHeaderBytes)));
  std::memcpy(bytes.data() + 80, &content, 8);
  const uint64_t header = HashBytes64(std::as_bytes(bytes.first(88)));
  std::memcpy(bytes.data() + 88, &header, 8);

  auto table = KernelSymbols::FromTable(std::as_bytes(bytes), "");
  if (!table) return 0;
  size_t text_bytes = 0;
  const auto ask = [&](uint64_t address) {
    KernelSymbols::Symbol symbol;
    if (!table->Find({address}, &symbol)) return;
    SourceFrame frame;
    table->Describe({.function = symbol.index}, &frame);
    CHECK(frame.function == symbol.name);
    text_bytes += symbol.name.size() + symbol.module.size();
  };
  for (size_t i = kHeaderBytes / 8; i < words.size() && i < 64; ++i) {
    for (const uint64_t distance : {0U, 1U, 4096U, 8192U}) ask(words[i] + distance);
  }
  (void)table->AddressOf("do_thing");
  (void)table->IsInKernelItself({words[6]});
  const std::string copy = table->ToTable({});
  if (table->MoveTo("_text", {0x1000})) ask(0x1100);
  CHECK(text_bytes < size_t{1} << 40 && copy.size() >= kHeaderBytes);
  return 0;
}
