// Any bytes as an object: our own code around libdw. libdw itself is not meant for hostile input (it runs in the
// symbol worker for that reason), so it is left out here: sections are inflated and relocated, the ELF file for libdw is made, and
// line programs are run from every offset that could be one.
#include <cstddef>
#include <cstdint>

#include "elf/elf_file.h"
#include "symbolize/dwarf_collector.h"
#include "symbolize/internal/code_ranges.h"
#include "symbolize/internal/dwarf_image.h"
#include "symbolize/internal/line_program.h"
#include "symbolize/symbol_rows.h"

namespace {

void RunLinePrograms(const ptarmigan::internal::LineSections& sections) {
  constexpr uint64_t kProgramsMax = 64;
  for (uint64_t offset = 0; offset < sections.line.size() && offset < kProgramsMax; ++offset) {
    ptarmigan::SymbolRows rows;
    auto program = ptarmigan::internal::LineProgram::Parse(sections, offset, "/build");
    if (!program.has_value()) continue;
    (void)program->AddRows(&rows);
    for (const uint64_t index : {0U, 1U, 2U, 255U, UINT32_MAX}) (void)program->File(index, &rows);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kBytesMax = 1 << 18;
  if (size > kBytesMax) return 0;
  const ptarmigan::Bytes bytes = std::as_bytes(std::span(data, size));
  // The bytes as a line program of their own, so that the fuzzer need not make an ELF file first.
  RunLinePrograms({.line = bytes, .line_str = bytes, .str = bytes});
  const auto file = ptarmigan::ElfFile::FromBytes(bytes, "fuzz");
  if (!file) return 0;
  (void)ptarmigan::HasSplitDwarf(**file);
  ptarmigan::SymbolRows rows;
  rows.SetCodeRanges(ptarmigan::internal::CodeRanges(**file));
  const auto image = ptarmigan::internal::DwarfImage::Make(**file);
  if (!image) return 0;
  RunLinePrograms({.line = (*image)->Section(".debug_line"),
                   .line_str = (*image)->Section(".debug_line_str"),
                   .str = (*image)->Section(".debug_str"),
                   .order = (*file)->byte_order()});
  if ((*image)->rebuilt()) {
    // What was made must be an object again, with plain sections.
    const auto rebuilt = ptarmigan::ElfFile::FromBytes((*image)->elf(), "rebuilt");
    if (!rebuilt) __builtin_trap();
  }
  return 0;
}
