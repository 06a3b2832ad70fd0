// UnwindRow: how to get from a frame to its caller at one program counter: the answer of call frame information (DWARF 5
// section 6.4.1, one row of its table). Registers are numbered as DWARF numbers them for the architecture.
#pragma once

#include <cstdint>
#include <vector>

#include "base/byte_cursor.h"

namespace ptarmigan {

enum class RuleKind : uint8_t {
  kSameValue,
  kUndefined,      // for the return address: the outermost frame
  kOffset,         // saved at CFA + offset
  kValOffset,      // is CFA + offset
  kRegister,       // is in register `source`; for the CFA: `source` + offset
  kExpression,     // saved at the address the expression gives; for the CFA: the expression's value
  kValExpression,  // is the expression's value
};

struct RegisterRule {
  RuleKind kind = RuleKind::kSameValue;
  uint8_t register_number = 0;  // whose rule it is; not used for the CFA
  // kRegister: the source register. Expressions: size in bytes.
  uint16_t source = 0;
  // kOffset, kValOffset, CFA: in bytes. Expressions: position in UnwindRow::section, as unsigned.
  int32_t offset = 0;

  bool operator==(const RegisterRule&) const = default;
};
static_assert(sizeof(RegisterRule) == 8);

struct UnwindRow {
  // Registers from this number on (vector registers) are of no use to a walk and left out.
  static constexpr unsigned kRegistersMax = 36;

  RegisterRule cfa;  // kRegister, kExpression, or kUndefined if no instruction set it
  std::vector<RegisterRule> rules;     // by register number; registers without a rule are left out
  uint8_t return_register = 0;         // the return address column
  bool signal_frame = false;           // the caller was interrupted: its pc is not a return address
  bool return_address_signed = false;  // arm64 pointer authentication
  Bytes section;  // the CFI section, which holds the expressions; borrowed from the CfiTable

  Bytes Expression(const RegisterRule& rule) const {
    return SubspanOrEmpty(section, static_cast<uint32_t>(rule.offset), rule.source);
  }
  bool operator==(const UnwindRow& other) const {
    return cfa == other.cfa && rules == other.rules && return_register == other.return_register &&
           signal_frame == other.signal_frame &&
           return_address_signed == other.return_address_signed &&
           section.data() == other.section.data();
  }
};

}  // namespace ptarmigan
