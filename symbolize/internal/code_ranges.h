// Where the code of an object lies, in the addresses that symbols use.
#pragma once

#include <vector>

#include "elf/elf_file.h"
#include "symbolize/symbol_rows.h"

namespace ptarmigan::internal {

// The address that symbols, DWARF and samples use for the start of a section. Relocatable objects (kernel modules)
// have no addresses yet: there it is the section's offset in the file, as perf does.
FileVaddr SectionAddress(const ElfFile& file, const ElfSection& section);

// The executable sections, or the executable segments of a file without sections; unsorted.
std::vector<CodeRange> CodeRanges(const ElfFile& file);

}  // namespace ptarmigan::internal
