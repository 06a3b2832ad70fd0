#include "symbolize/internal/code_ranges.h"

#include <elf.h>

namespace ptarmigan::internal {
namespace {

void AddRange(FileVaddr start, uint64_t size_bytes, std::vector<CodeRange>* ranges) {
  uint64_t end = 0;
  if (size_bytes == 0 || !CheckedAdd(start.value, size_bytes, &end)) return;
  ranges->push_back({.start = start, .end = {end}});
}

}  // namespace

FileVaddr SectionAddress(const ElfFile& file, const ElfSection& section) {
  return file.type() == ET_REL ? FileVaddr{section.offset.value} : section.vaddr;
}

std::vector<CodeRange> CodeRanges(const ElfFile& file) {
  std::vector<CodeRange> ranges;
  constexpr uint64_t kCode = SHF_ALLOC | SHF_EXECINSTR;
  for (const ElfSection& section : file.sections()) {
    if ((section.flags & kCode) == kCode) {
      AddRange(SectionAddress(file, section), section.size_bytes, &ranges);
    }
  }
  if (!ranges.empty()) return ranges;
  for (const ElfSegment& segment : file.segments()) {
    if (segment.type == PT_LOAD && (segment.flags & PF_X) != 0) {
      AddRange(segment.vaddr, segment.memory_bytes, &ranges);
    }
  }
  return ranges;
}

}  // namespace ptarmigan::internal
