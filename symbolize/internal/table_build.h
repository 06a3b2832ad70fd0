// From open files to the bytes of a symbol table: what the symbol worker does inside its confinement.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "elf/elf_file.h"
#include "symbolize/symbol_worker.h"

namespace ptarmigan::internal {

struct TableInputs {
  std::unique_ptr<ElfFile> object;  // either of the first two may be null, not both
  std::unique_ptr<ElfFile> debug;
  std::unique_ptr<ElfFile> alt;
  int dwarf_fd = -1;  // of dwarf_file()
  std::string notes;  // why one of the files could not be used; sentences, one a line

  // The file whose DWARF is read; null if there is none.
  const ElfFile* dwarf_file() const;
};

// Maps the job's files. kInvalidInput or kTruncated if neither object nor debug file is an ELF file.
Result<TableInputs> OpenTableInputs(const SymbolWorkerJob& job);

// kNotFound if the files name nothing at all.
Result<std::string> BuildTable(const SymbolWorkerJob& job, const TableInputs& inputs);

}  // namespace ptarmigan::internal
