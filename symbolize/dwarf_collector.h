// DWARF to SymbolRows: one libdw pass over all units of an object (DWARF 2 to 5): functions,
// inlined copies with their call sites, line programs. Does not use .debug_aranges or .debug_names,
// which producers leave out. Frames are those that `llvm-symbolizer --inlines` gives.
//
// libdw is not safe on hostile input: call this only in the symbol worker (symbol_worker.h). One
// thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "elf/elf_file.h"
#include "symbolize/symbol_rows.h"

namespace ptarmigan {

struct DwarfInput {
  const ElfFile* debug = nullptr;  // the file with .debug_info
  // The dwz file that .gnu_debugaltlink of `debug` names; may be null: then what it holds is missing.
  const ElfFile* alt = nullptr;
  // `debug` once more, open for reading, or -1: with it .dwo files beside the object are found too,
  // not only those in the compilation directory.
  int debug_fd = -1;
};

struct DwarfSummary {
  uint64_t units = 0;
  uint64_t debug_info_bytes = 0;
  uint64_t functions = 0;
  uint64_t inlined = 0;
  uint64_t line_rows = 0;
  uint64_t units_damaged = 0;
  uint64_t split_units = 0;
  uint64_t split_units_missing =
      0;  // the .dwo was not found or not readable; .dwp is not supported
};

// Whether the object has split units, whose .dwo files a collector has to open.
bool HasSplitDwarf(const ElfFile& debug);

// kNotFound: no DWARF in the file. kInvalidInput: DWARF that cannot be read at all. Partly damaged
// DWARF gives what can be read; a note in `rows` says what is missing.
Result<DwarfSummary> CollectDwarf(const DwarfInput& input, SymbolRows* rows);

}  // namespace ptarmigan
