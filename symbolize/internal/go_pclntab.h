// Go's own symbol table: every Go binary carries it for its tracebacks, stripped or not.
//
//   header   magic by version, pc quantum, pointer size, then counts and offsets of the parts
//   functab  sorted (entry, offset of _func)
//   _func    name, tables of (pc range -> value) for file, line and inline tree index
//   inline tree   per function, in go:func.*: (name, pc of the call in the parent)
//
// Sources: golang.org/s/go12symtab; src/runtime/symtab.go and src/internal/abi/symtab.go of Go 1.2, 1.16, 1.18 and
// 1.20 (each changed the magic); src/cmd/link/internal/ld/pcln.go.
#pragma once

#include <cstdint>

#include "elf/elf_file.h"
#include "symbolize/symbol_rows.h"

namespace ptarmigan::internal {

// Pc-value tables may overlap, so that a small hostile file could make us walk one table for each function: at most
// this many steps for each byte of the table, and a constant more.
inline constexpr uint64_t kGoStepsPerByte = 16;

// Adds functions with lines and, from Go 1.18 on, inlined calls; leaves out functions that DWARF rows in `rows`
// already describe. Returns how many functions were added; 0 where there is no table. Notes what is missing.
uint64_t AddGoFunctions(const ElfFile& object, SymbolRows* rows);

}  // namespace ptarmigan::internal
