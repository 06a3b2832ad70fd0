#include "symbolize/internal/table_build.h"

#include <utility>

#include "base/str_format.h"
#include "symbolize/demangle.h"
#include "symbolize/dwarf_collector.h"
#include "symbolize/elf_symbols.h"
#include "symbolize/internal/code_ranges.h"
#include "symbolize/symbol_rows.h"
#include "symbolize/symbol_table_writer.h"

namespace ptarmigan::internal {

const ElfFile* TableInputs::dwarf_file() const {
  if (debug != nullptr && debug->HasDwarf()) return debug.get();
  if (object != nullptr && object->HasDwarf()) return object.get();
  return nullptr;
}

Result<TableInputs> OpenTableInputs(const SymbolWorkerJob& job) {
  TableInputs inputs;
  std::optional<Error> first_error;
  const auto open = [&](int fd, const std::string& name, std::unique_ptr<ElfFile>* file) {
    if (fd < 0) return;
    auto opened = ElfFile::FromFd(fd, name);
    if (opened.has_value()) {
      *file = std::move(opened).value();
      return;
    }
    inputs.notes += opened.error().message + "\n";
    if (!first_error.has_value()) first_error = std::move(opened).error();
  };
  open(job.object_fd, job.object_name, &inputs.object);
  open(job.debug_fd, job.debug_name, &inputs.debug);
  if (inputs.object == nullptr && inputs.debug == nullptr) {
    if (first_error.has_value()) return *std::move(first_error);
    return Error{ErrorCode::kInvalidInput, "no file was given to take symbols from"};
  }
  open(job.alt_fd, job.alt_name, &inputs.alt);
  inputs.dwarf_fd = inputs.dwarf_file() == inputs.debug.get() ? job.debug_fd : job.object_fd;
  return inputs;
}

Result<std::string> BuildTable(const SymbolWorkerJob& job, const TableInputs& inputs) {
  SymbolRows rows;
  // A debug file's sections have the same addresses, but only the object's are surely all there.
  const ElfFile& object = inputs.object != nullptr ? *inputs.object : *inputs.debug;
  rows.SetCodeRanges(CodeRanges(object));
  std::string_view notes = inputs.notes;
  for (size_t end = 0; (end = notes.find('\n')) != std::string_view::npos;) {
    rows.AddNote(notes.substr(0, end));
    notes.remove_prefix(end + 1);
  }
  if (!job.note.empty()) rows.AddNote(job.note);
  if (const ElfFile* dwarf = job.dwarf ? inputs.dwarf_file() : nullptr) {
    const auto collected =
        CollectDwarf({.debug = dwarf, .alt = inputs.alt.get(), .debug_fd = inputs.dwarf_fd}, &rows);
    rows.AddNote(collected.has_value()
                     ? StrFormat("DWARF of {}: {} units, {} functions, {} inlined copies",
                                 dwarf->name(), collected->units, collected->functions,
                                 collected->inlined)
                     : collected.error().message);
  } else if (job.dwarf) {
    rows.AddNote(StrFormat("no DWARF in {}",
                           inputs.debug != nullptr ? inputs.debug->name() : object.name()));
  }
  CollectElfSymbols(object, inputs.debug.get(), &rows);
  if (rows.ranges().empty() && rows.sequences().empty()) {
    return Error{ErrorCode::kNotFound, StrFormat("{}: no symbols of any kind", object.name())};
  }
  if (rows.dropped_by_limit() != 0) {
    rows.AddNote(StrFormat("{} symbols, scopes or lines beyond the bounds were left out",
                           rows.dropped_by_limit()));
  }
  SymbolTableWriterOptions options;
  if (job.demangle) {
    options.demangle = [](std::string_view name) { return Demangle(name); };
  }
  options.identity = job.identity;
  options.table_bytes_max = job.table_bytes_max;
  return WriteSymbolTable(rows, options);
}

}  // namespace ptarmigan::internal
