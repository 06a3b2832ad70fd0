// Everything that an ELF object says about the names of its code without DWARF, as SymbolRows:
//
//   .symtab            of the object and of its debug file; versions ("@@GLIBC_2.2.5") stripped
//   .gnu_debugdata     an xz-compressed ELF file with one more .symtab (Fedora's mini-debuginfo)
//   .dynsym
//   .plt .plt.sec .plt.got   "f@plt" by the relocation of the slot that an entry jumps through
//   .gopclntab         Go 1.2 and later: names and lines; inlined calls from Go 1.18 on
//   .eh_frame_hdr      starts of functions that nothing else names: "libfoo.so+0x1234"
//
// Hostile input: bounded like ElfFile; xz output is bounded too, and Go's tables may not make us walk more than
// their size warrants. Run it in the symbol worker all the same (symbol_worker.h). One thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "elf/elf_file.h"
#include "symbolize/symbol_rows.h"

namespace ptarmigan {

inline constexpr uint64_t kMiniDebugBytesMax = uint64_t{256} << 20;

struct ElfSymbolsSummary {
  uint64_t symtab = 0;  // also those of .gnu_debugdata
  uint64_t dynsym = 0;
  uint64_t plt = 0;
  uint64_t go_functions = 0;
  uint64_t unwind_entries = 0;
};

// Adds what `object` and `debug` (may be null, or the same) say. Call it after CollectDwarf: Go functions and
// unwind entries are left out where the rows already say something better. What is missing or damaged becomes a
// note in `rows`. `object.name()` gives the name in unwind entries.
ElfSymbolsSummary CollectElfSymbols(const ElfFile& object, const ElfFile* debug, SymbolRows* rows);

}  // namespace ptarmigan
