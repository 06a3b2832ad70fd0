#include "unwind/internal/registers.h"

namespace ptarmigan::internal {
namespace {

constexpr ArchRegisters kAmd64Registers = {.word_bytes = 8,
                                           .stack_pointer = 7,
                                           .frame_pointer = 6,
                                           .return_address = 16,
                                           .perf_pc = 8,
                                           .perf_sp = 7};
constexpr ArchRegisters kI386Registers = {.word_bytes = 4,
                                          .stack_pointer = 4,
                                          .frame_pointer = 5,
                                          .return_address = 8,
                                          .perf_pc = 8,
                                          .perf_sp = 7};
constexpr ArchRegisters kArm64Registers = {.word_bytes = 8,
                                           .stack_pointer = 31,
                                           .frame_pointer = 29,
                                           .return_address = 30,
                                           .perf_pc = 32,
                                           .perf_sp = 31};

// By DWARF number: perf's number. x86 psABI 64 figure 3.36, i386 psABI figure 2.14; perf: AX BX CX DX SI DI BP SP IP
// FLAGS and six segments, then R8 to R15 from 16 (asm/perf_regs.h).
constexpr std::array<uint8_t, 17> kPerfFromDwarfAmd64 = {0,  3,  2,  1,  4,  5,  6,  7, 16,
                                                         17, 18, 19, 20, 21, 22, 23, 8};
constexpr std::array<uint8_t, 9> kPerfFromDwarfI386 = {0, 2, 3, 1, 7, 6, 4, 5, 8};

template <size_t N>
void Load(const std::array<uint8_t, N>& perf_from_dwarf, const RegisterSet& recorded,
          RegisterFile* registers) {
  for (unsigned number = 0; number < N; ++number) {
    const unsigned perf = perf_from_dwarf[number];
    if (recorded.Has(perf)) registers->Set(number, recorded.values[perf]);
  }
}

}  // namespace

const ArchRegisters* FindArchRegisters(Arch arch) {
  switch (arch) {
    case Arch::kX86_64:
      return &kAmd64Registers;
    case Arch::kX86:
      return &kI386Registers;
    case Arch::kArm64:
      return &kArm64Registers;
    default:
      return nullptr;
  }
}

void LoadRegisters(Arch arch, const RegisterSet& recorded, RegisterFile* registers) {
  registers->Clear();
  switch (arch) {
    case Arch::kX86_64:
      Load(kPerfFromDwarfAmd64, recorded, registers);
      break;
    case Arch::kX86:
      Load(kPerfFromDwarfI386, recorded, registers);
      break;
    case Arch::kArm64:  // x0 to x30 and sp have the same numbers
      for (unsigned number = 0; number < 32; ++number) {
        if (recorded.Has(number)) registers->Set(number, recorded.values[number]);
      }
      break;
    default:
      break;
  }
}

}  // namespace ptarmigan::internal
