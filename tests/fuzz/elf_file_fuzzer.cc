// Everything that ElfFile can be asked about an arbitrary file.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "elf/elf_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ptarmigan;  // NOLINT(google-build-using-namespace): the entry point has C linkage
  const Bytes bytes = std::as_bytes(std::span(data, size));
  const auto file = ElfFile::FromBytes(bytes, "fuzz");
  if (!file) return 0;
  const ElfFile& elf = **file;
  size_t inflated = 0;
  for (const ElfSection& section : elf.sections()) {
    std::string storage;
    // A few compressed sections are enough, and each may say 2 GiB.
    if (inflated < 4) {
      const auto content = elf.Content(section, &storage);
      if (content && content->data() != elf.RawContent(section).data()) ++inflated;
    }
    CHECK(elf.RawContent(section).size() <= size);
  }
  size_t note_bytes = 0;
  elf.ForEachNote([&](const ElfNote& note) { note_bytes += note.content.size(); });
  for (const char* table : {".symtab", ".dynsym"}) {
    size_t symbols = 0;
    elf.ForEachSymbol(table, [&](const ElfSymbol& symbol) {
      CHECK(symbol.name.size() <= ElfFile::kSymbolNameBytesMax);
      ++symbols;
    });
    CHECK(symbols <= ElfFile::kSymbolsMax);
  }
  for (const ElfSegment& segment : elf.segments()) {
    CHECK(elf.ReadAt(segment.vaddr, UINT64_MAX).size() <= size);
    const auto vaddr = elf.ToVaddr(segment.offset);
    if (vaddr) elf.ToOffset(*vaddr);
  }
  elf.DebugLink();
  elf.DebugAltLink();
  elf.HasDwarf();
  return 0;
}
