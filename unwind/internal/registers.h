// The registers of a walk, by DWARF number, and how perf numbers them.
#pragma once

#include <array>
#include <cstdint>

#include "model/arch.h"
#include "model/event.h"
#include "unwind/unwind_row.h"

namespace ptarmigan::internal {

class RegisterFile {
 public:
  bool Has(unsigned number) const { return number < values_.size() && (valid_ >> number & 1) != 0; }
  uint64_t operator[](unsigned number) const { return values_[number]; }
  void Set(unsigned number, uint64_t value) {
    values_[number] = value;
    valid_ |= uint64_t{1} << number;
  }
  void Forget(unsigned number) { valid_ &= ~(uint64_t{1} << number); }
  void Clear() { valid_ = 0; }

 private:
  std::array<uint64_t, UnwindRow::kRegistersMax> values_ = {};
  uint64_t valid_ = 0;
};

struct ArchRegisters {
  uint8_t word_bytes;
  uint8_t stack_pointer;  // DWARF numbers
  uint8_t frame_pointer;
  uint8_t return_address;  // x86: the pc's column; arm64: x30
  uint8_t perf_pc;         // perf numbers
  uint8_t perf_sp;
};

// Null for architectures that cannot be walked.
const ArchRegisters* FindArchRegisters(Arch arch);
// The recorded registers by DWARF number. On x86 the pc is in its column.
void LoadRegisters(Arch arch, const RegisterSet& recorded, RegisterFile* registers);

}  // namespace ptarmigan::internal
