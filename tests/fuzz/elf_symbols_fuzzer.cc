// Symbols of hostile ELF files: symbol tables, PLTs, mini-debuginfo, Go's table, unwind entries; then the demangler over
// the names that were found.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "symbolize/demangle.h"
#include "symbolize/elf_symbols.h"
#include "symbolize/symbol_table.h"
#include "symbolize/symbol_table_writer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ptarmigan;
  const Bytes bytes = std::as_bytes(std::span(data, size));
  const auto object = ElfFile::FromBytes(bytes, "/usr/lib/fuzzed.so");
  if (!object) {
    // Not an ELF file: still text for the demangler.
    const std::string name = Demangle(AsText(bytes));
    CHECK(name.size() <= std::max(size, kDemangledBytesMax + 3));
    return 0;
  }
  SymbolRows rows;
  CollectElfSymbols(**object, object->get(), &rows);
  SymbolTableWriterOptions options;
  options.demangle = [](std::string_view name) { return Demangle(name); };
  const auto written = WriteSymbolTable(rows, options);
  if (!written) return 0;
  const auto table = SymbolTable::FromString(*written, "fuzzed");
  CHECK(table.has_value());
  InlineStack frames;
  for (const SymbolRows::ScopeRange& range : rows.ranges())
    (*table)->Find(range.range.start, &frames);
  return 0;
}
