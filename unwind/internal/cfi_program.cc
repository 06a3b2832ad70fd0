#include "unwind/internal/cfi_program.h"

#include <array>
#include <limits>
#include <vector>

namespace ptarmigan::internal {
namespace {

// DWARF 5 table 7.29, with the GNU and arm64 extensions.
enum : uint8_t {
  kAdvanceLoc = 0x40,  // these three keep their operand in the low six bits
  kOffset = 0x80,
  kRestore = 0xc0,
  kNop = 0x00,
  kSetLoc = 0x01,
  kAdvanceLoc1 = 0x02,
  kAdvanceLoc2 = 0x03,
  kAdvanceLoc4 = 0x04,
  kOffsetExtended = 0x05,
  kRestoreExtended = 0x06,
  kUndefined = 0x07,
  kSameValue = 0x08,
  kRegister = 0x09,
  kRememberState = 0x0a,
  kRestoreState = 0x0b,
  kDefCfa = 0x0c,
  kDefCfaRegister = 0x0d,
  kDefCfaOffset = 0x0e,
  kDefCfaExpression = 0x0f,
  kExpression = 0x10,
  kOffsetExtendedSf = 0x11,
  kDefCfaSf = 0x12,
  kDefCfaOffsetSf = 0x13,
  kValOffset = 0x14,
  kValOffsetSf = 0x15,
  kValExpression = 0x16,
  kMipsAdvanceLoc8 = 0x1d,
  kAarch64NegateRaStateWithPc = 0x2c,
  kAarch64NegateRaState = 0x2d,  // elsewhere GNU_window_save, which only SPARC has
  kGnuArgsSize = 0x2e,
  kGnuNegativeOffsetExtended = 0x2f,
};

struct RuleSet {
  RegisterRule cfa{.kind = RuleKind::kUndefined};
  std::array<RegisterRule, UnwindRow::kRegistersMax> registers = {};
  bool return_address_signed = false;
};

class Machine {
 public:
  Machine(const CfiSection& section, Arch arch, const Fde& fde, FileVaddr pc)
      : section_(section), arch_(arch), fde_(fde), pc_(pc), start_(fde.start), end_(fde.end) {}

  bool Run() {
    if (!RunInstructions(fde_.cie.instructions_start, fde_.cie.instructions_end)) return false;
    initial_ = now_;
    start_ = fde_.start;  // a CIE that advances would be damaged; its rules count all the same
    remembered_.clear();
    passed_ = false;
    return RunInstructions(fde_.instructions_start, fde_.instructions_end);
  }
  const RuleSet& rules() const { return now_; }
  CfiRange range() const { return {start_, end_}; }

 private:
  bool RunInstructions(uint64_t start, uint64_t end);
  bool Step(ByteCursor& cursor);
  bool StepExtended(uint8_t opcode, ByteCursor& cursor);
  bool StepCfa(uint8_t opcode, ByteCursor& cursor);
  // Moves the location; sets passed_ when the new one is beyond pc.
  bool AdvanceTo(uint64_t location);
  bool Advance(uint64_t delta) {
    uint64_t bytes = 0;
    uint64_t location = 0;
    return CheckedMul(delta, fde_.cie.code_alignment, &bytes) &&
           CheckedAdd(start_.value, bytes, &location) && AdvanceTo(location);
  }
  bool Factored(uint64_t value, int32_t* out) const {
    return value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) &&
           FactoredSigned(static_cast<int64_t>(value), out);
  }
  bool FactoredSigned(int64_t value, int32_t* out) const {
    int64_t product = 0;
    return !__builtin_mul_overflow(value, fde_.cie.data_alignment, &product) && Fits(product, out);
  }
  static bool Fits(int64_t value, int32_t* out) {
    if (value < std::numeric_limits<int32_t>::min() ||
        value > std::numeric_limits<int32_t>::max()) {
      return false;
    }
    *out = static_cast<int32_t>(value);
    return true;
  }
  void Set(uint64_t number, RegisterRule rule) {
    if (number >= now_.registers.size()) return;  // a vector register
    rule.register_number = static_cast<uint8_t>(number);
    now_.registers[number] = rule;
  }
  void Restore(uint64_t number) {
    if (number < now_.registers.size()) now_.registers[number] = initial_.registers[number];
  }
  bool SetSavedAt(RuleKind kind, uint64_t number, bool fits, int32_t offset) {
    if (fits) Set(number, {.kind = kind, .offset = offset});
    return fits || number >= now_.registers.size();
  }
  // A block of expression bytes at the cursor, as a rule.
  bool TakeExpression(RuleKind kind, ByteCursor& cursor, RegisterRule* rule) const {
    const uint64_t size = cursor.Uleb128();
    const uint64_t position = cursor.position();
    if (!cursor.Skip(size) || size > UINT16_MAX || position > UINT32_MAX) return false;
    *rule = {.kind = kind,
             .source = static_cast<uint16_t>(size),
             .offset = static_cast<int32_t>(static_cast<uint32_t>(position))};
    return true;
  }

  const CfiSection& section_;
  const Arch arch_;
  const Fde& fde_;
  const FileVaddr pc_;
  FileVaddr start_;  // the location of the row being built
  FileVaddr end_;    // where the next row begins, once passed_
  bool passed_ = false;
  size_t instructions_ = 0;
  RuleSet now_;
  RuleSet initial_;
  std::vector<RuleSet> remembered_;
};

bool Machine::AdvanceTo(uint64_t location) {
  if (location < start_.value) return false;
  if (location > pc_.value) {
    end_.value = std::min(location, fde_.end.value);
    passed_ = true;
  } else {
    start_.value = location;
  }
  return true;
}

bool Machine::RunInstructions(uint64_t start, uint64_t end) {
  ByteCursor cursor(section_.bytes.first(static_cast<size_t>(end)), section_.order);
  cursor.Seek(start);
  while (!cursor.AtEnd() && !passed_) {
    if (++instructions_ > CfiTable::kInstructionsMax) return false;
    if (!Step(cursor)) return false;
    if (!cursor.ok()) return false;
  }
  return cursor.ok();
}

bool Machine::Step(ByteCursor& cursor) {
  const uint8_t opcode = cursor.U8();
  const uint8_t low = opcode & 0x3f;
  switch (opcode & 0xc0) {
    case kAdvanceLoc:
      return Advance(low);
    case kOffset: {
      int32_t offset = 0;
      const bool fits = Factored(cursor.Uleb128(), &offset);
      return SetSavedAt(RuleKind::kOffset, low, fits, offset);
    }
    case kRestore:
      Restore(low);
      return true;
    default:
      break;
  }
  switch (opcode) {
    case kNop:
      return true;
    case kSetLoc: {
      const auto location =
          ReadEncodedPointer(section_, fde_.cie.pointer_encoding, fde_.cie.address_bytes, &cursor);
      return location && AdvanceTo(*location);
    }
    case kAdvanceLoc1:
      return Advance(cursor.U8());
    case kAdvanceLoc2:
      return Advance(cursor.U16());
    case kAdvanceLoc4:
      return Advance(cursor.U32());
    case kMipsAdvanceLoc8:
      return Advance(cursor.U64());
    case kRememberState:
      if (remembered_.size() >= CfiTable::kRememberDepthMax) return false;
      remembered_.push_back(now_);
      return true;
    case kRestoreState:
      if (remembered_.empty()) return false;
      now_ = remembered_.back();
      remembered_.pop_back();
      return true;
    case kGnuArgsSize:
      cursor.Uleb128();
      return true;
    case kAarch64NegateRaState:
    case kAarch64NegateRaStateWithPc:
      if (arch_ != Arch::kArm64) return opcode == kAarch64NegateRaState;
      now_.return_address_signed = !now_.return_address_signed;
      return true;
    case kDefCfa:
    case kDefCfaSf:
    case kDefCfaRegister:
    case kDefCfaOffset:
    case kDefCfaOffsetSf:
    case kDefCfaExpression:
      return StepCfa(opcode, cursor);
    default:
      return StepExtended(opcode, cursor);
  }
}

bool Machine::StepCfa(uint8_t opcode, ByteCursor& cursor) {
  RegisterRule& cfa = now_.cfa;
  if (opcode == kDefCfaExpression) return TakeExpression(RuleKind::kExpression, cursor, &cfa);
  if (opcode == kDefCfa || opcode == kDefCfaSf || opcode == kDefCfaRegister) {
    const uint64_t number = cursor.Uleb128();
    if (number >= UnwindRow::kRegistersMax) return false;
    // def_cfa_register needs a register rule before it to take the offset from.
    if (opcode == kDefCfaRegister && cfa.kind != RuleKind::kRegister) return false;
    cfa.kind = RuleKind::kRegister;
    cfa.source = static_cast<uint16_t>(number);
    if (opcode == kDefCfaRegister) return true;
  } else if (cfa.kind != RuleKind::kRegister) {
    return false;
  }
  if (opcode == kDefCfaSf || opcode == kDefCfaOffsetSf) {
    return FactoredSigned(cursor.Sleb128(), &cfa.offset);
  }
  const uint64_t offset = cursor.Uleb128();
  return offset <= INT32_MAX && Fits(static_cast<int64_t>(offset), &cfa.offset);
}

bool Machine::StepExtended(uint8_t opcode, ByteCursor& cursor) {
  const uint64_t number = cursor.Uleb128();
  int32_t offset = 0;
  bool fits = false;
  RegisterRule rule;
  switch (opcode) {
    case kOffsetExtended:
    case kValOffset:
      fits = Factored(cursor.Uleb128(), &offset);
      return SetSavedAt(opcode == kValOffset ? RuleKind::kValOffset : RuleKind::kOffset, number,
                        fits, offset);
    case kOffsetExtendedSf:
    case kValOffsetSf:
      fits = FactoredSigned(cursor.Sleb128(), &offset);
      return SetSavedAt(opcode == kValOffsetSf ? RuleKind::kValOffset : RuleKind::kOffset, number,
                        fits, offset);
    case kGnuNegativeOffsetExtended: {
      const uint64_t factor = cursor.Uleb128();
      fits = factor <= INT32_MAX && FactoredSigned(-static_cast<int64_t>(factor), &offset);
      return SetSavedAt(RuleKind::kOffset, number, fits, offset);
    }
    case kRestoreExtended:
      Restore(number);
      return true;
    case kUndefined:
      Set(number, {.kind = RuleKind::kUndefined});
      return true;
    case kSameValue:
      Set(number, {.kind = RuleKind::kSameValue});
      return true;
    case kRegister: {
      const uint64_t source = cursor.Uleb128();
      rule.kind = source < UnwindRow::kRegistersMax ? RuleKind::kRegister : RuleKind::kUndefined;
      rule.source = static_cast<uint16_t>(source < UnwindRow::kRegistersMax ? source : 0);
      Set(number, rule);
      return true;
    }
    case kExpression:
    case kValExpression:
      if (!TakeExpression(opcode == kExpression ? RuleKind::kExpression : RuleKind::kValExpression,
                          cursor, &rule)) {
        return false;
      }
      Set(number, rule);
      return true;
    default:
      return false;
  }
}

}  // namespace

bool RunCfiProgram(const CfiSection& section, Arch arch, const Fde& fde, FileVaddr pc,
                   UnwindRow* row, CfiRange* range) {
  Machine machine(section, arch, fde, pc);
  if (!machine.Run()) return false;
  const RuleSet& rules = machine.rules();
  if (fde.cie.return_register >= UnwindRow::kRegistersMax) return false;
  row->cfa = rules.cfa;
  row->return_register = static_cast<uint8_t>(fde.cie.return_register);
  row->signal_frame = fde.cie.signal_frame;
  row->return_address_signed = rules.return_address_signed;
  row->section = section.bytes;
  row->rules.clear();
  for (const RegisterRule& rule : rules.registers) {
    if (rule.kind != RuleKind::kSameValue) row->rules.push_back(rule);
  }
  if (range != nullptr) *range = machine.range();
  return true;
}

}  // namespace ptarmigan::internal
