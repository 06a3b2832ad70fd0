// Names for the entries of procedure linkage tables, which have no symbols of their own.
#pragma once

#include <cstdint>

#include "elf/elf_file.h"
#include "symbolize/symbol_rows.h"

namespace ptarmigan::internal {

// Adds "f@plt" for the entries of .plt, .plt.sec, .plt.got and .plt.bnd (x86_64) and .plt (arm64), found by the
// slot that the entry's jump reads and the relocation that fills that slot. IFUNC slots (IRELATIVE) take the name
// of the resolver's symbol. Returns how many were added; other architectures add none.
uint64_t AddPltNames(const ElfFile& object, SymbolRows* rows);

}  // namespace ptarmigan::internal
