#include "tests/encoders/pt_program.h"

#include <elf.h>

#include "base/check.h"
#include "tests/encoders/pt_program_builder.h"
#include "tests/support/elf_bytes.h"

namespace ptarmigan {
namespace {

constexpr size_t kBuildIdBytes = 20;

}  // namespace

PtProgram::PtProgram(const PtProgramOptions& options) : options_(options) {
  CHECK(options.functions >= 4);
  CHECK(options.is_64_bit || !options.kernel);
  PtProgramBuilder(this).Build();
}

bool PtProgram::Has(PtRegion region) const {
  for (const PtCode& code : code_) {
    if (code.region == region) return true;
  }
  return false;
}

const PtCode& PtProgram::CodeOf(PtRegion region) const {
  for (const PtCode& code : code_) {
    if (code.region == region) return code;
  }
  CHECK(false);
  return code_.front();
}

uint64_t PtProgram::LoadBias(PtRegion region) const {
  if (region == PtRegion::kKernel) return 0;
  return CodeOf(region).address - kTextOffset;
}

std::string PtProgram::BuildId(PtRegion region) const {
  ByteWriter id;
  id.U64(options_.seed * 0x9e3779b97f4a7c15).U64(CodeOf(region).bytes.size());
  id.U32(static_cast<uint32_t>(region) + 1);
  CHECK(id.size() == kBuildIdBytes);
  return id.bytes();
}

std::string PtProgram::Elf(PtRegion region) const {
  const PtCode& code = CodeOf(region);
  const uint64_t bias = LoadBias(region);
  ElfBytes elf({.is_64_bit = options_.is_64_bit,
                .machine = static_cast<uint16_t>(options_.is_64_bit ? EM_X86_64 : EM_386),
                .type = static_cast<uint16_t>(region == PtRegion::kKernel ? ET_EXEC : ET_DYN)});
  const uint32_t text = elf.Add({.name = ".text",
                                 .flags = SHF_ALLOC | SHF_EXECINSTR,
                                 .vaddr = code.address - bias,
                                 .content = code.bytes,
                                 .alignment = kTextOffset});
  const std::string note =
      elf.NoteBytes({.name = "GNU", .type = NT_GNU_BUILD_ID, .content = BuildId(region)});
  elf.Add({.name = ".note.gnu.build-id",
           .type = SHT_NOTE,
           .flags = 0,
           .content = note,
           .alignment = 4});
  elf.AddSegment(PT_LOAD, PF_R | PF_X, {text, text}, kTextOffset);
  elf.AddSegment(PT_NOTE, PF_R, {text + 1, text + 1}, 4);
  std::vector<ElfBytes::Symbol> symbols;
  if (region == PtRegion::kKernel) {
    // By which readers find out where the kernel was loaded.
    symbols.push_back({.name = "_text",
                       .value = code.address - bias,
                       .size_bytes = 0,
                       .section = static_cast<uint16_t>(text)});
  }
  for (const PtFunction& function : functions_) {
    if (function.region != region) continue;
    symbols.push_back({.name = function.name,
                       .value = function.start - bias,
                       .size_bytes = function.end - function.start,
                       .section = static_cast<uint16_t>(text)});
  }
  elf.AddSymbols(".symtab", symbols);
  return elf.Build();
}

}  // namespace ptarmigan
