#include "unwind/internal/expression.h"

#include <array>

namespace ptarmigan::internal {
namespace {

// DWARF 5 table 7.9.
enum : uint8_t {
  kOpAddr = 0x03,
  kOpDeref = 0x06,
  kOpConst1u = 0x08,
  kOpConst1s = 0x09,
  kOpConst2u = 0x0a,
  kOpConst2s = 0x0b,
  kOpConst4u = 0x0c,
  kOpConst4s = 0x0d,
  kOpConst8u = 0x0e,
  kOpConst8s = 0x0f,
  kOpConstu = 0x10,
  kOpConsts = 0x11,
  kOpDup = 0x12,
  kOpDrop = 0x13,
  kOpOver = 0x14,
  kOpPick = 0x15,
  kOpSwap = 0x16,
  kOpRot = 0x17,
  kOpAbs = 0x19,
  kOpAnd = 0x1a,
  kOpDiv = 0x1b,
  kOpMinus = 0x1c,
  kOpMod = 0x1d,
  kOpMul = 0x1e,
  kOpNeg = 0x1f,
  kOpNot = 0x20,
  kOpOr = 0x21,
  kOpPlus = 0x22,
  kOpPlusUconst = 0x23,
  kOpShl = 0x24,
  kOpShr = 0x25,
  kOpShra = 0x26,
  kOpXor = 0x27,
  kOpBra = 0x28,
  kOpEq = 0x29,
  kOpGe = 0x2a,
  kOpGt = 0x2b,
  kOpLe = 0x2c,
  kOpLt = 0x2d,
  kOpNe = 0x2e,
  kOpSkip = 0x2f,
  kOpLit0 = 0x30,
  kOpLit31 = 0x4f,
  kOpBreg0 = 0x70,
  kOpBreg31 = 0x8f,
  kOpBregx = 0x92,
  kOpDerefSize = 0x94,
  kOpNop = 0x96,
};

class Evaluator {
 public:
  Evaluator(Bytes expression, const RegisterFile& registers, const WalkMemory& memory)
      : cursor_(expression, std::endian::little),
        registers_(registers),
        memory_(memory),
        address_mask_(memory.word_bytes() == 4 ? UINT32_MAX : UINT64_MAX) {}

  bool Push(uint64_t value) {
    if (depth_ == stack_.size()) return false;
    stack_[depth_++] = value & address_mask_;
    return true;
  }
  std::optional<uint64_t> Run() {
    for (size_t steps = 0; !cursor_.AtEnd(); ++steps) {
      if (steps == kExpressionStepsMax || !Step() || !cursor_.ok()) return std::nullopt;
    }
    if (depth_ == 0) return std::nullopt;
    return stack_[depth_ - 1];
  }

 private:
  bool Step();
  bool Constant(uint8_t opcode);
  bool StackOperation(uint8_t opcode);
  bool Unary(uint8_t opcode);
  bool Binary(uint8_t opcode);
  bool Deref(size_t size_bytes);
  bool Register(uint64_t number) {
    const int64_t offset = cursor_.Sleb128();
    if (number >= UnwindRow::kRegistersMax || !registers_.Has(static_cast<unsigned>(number))) {
      return false;
    }
    return Push(registers_[static_cast<unsigned>(number)] + static_cast<uint64_t>(offset));
  }
  bool Jump(int16_t delta) {
    const int64_t target = static_cast<int64_t>(cursor_.position()) + delta;
    if (target < 0) return false;
    cursor_.Seek(static_cast<uint64_t>(target));
    return cursor_.ok();
  }
  bool Pop(uint64_t* value) {
    if (depth_ == 0) return false;
    *value = stack_[--depth_];
    return true;
  }
  int64_t Signed(uint64_t value) const {
    return address_mask_ == UINT32_MAX ? static_cast<int32_t>(static_cast<uint32_t>(value))
                                       : static_cast<int64_t>(value);
  }

  ByteCursor cursor_;
  const RegisterFile& registers_;
  const WalkMemory& memory_;
  const uint64_t address_mask_;
  std::array<uint64_t, kExpressionDepthMax> stack_;
  size_t depth_ = 0;
};

bool Evaluator::Step() {
  const uint8_t opcode = cursor_.U8();
  if (opcode >= kOpLit0 && opcode <= kOpLit31) return Push(opcode - kOpLit0);
  if (opcode >= kOpBreg0 && opcode <= kOpBreg31) return Register(opcode - kOpBreg0);
  if (opcode == kOpAddr || (opcode >= kOpConst1u && opcode <= kOpConsts)) return Constant(opcode);
  if (opcode >= kOpDup && opcode <= kOpRot) return StackOperation(opcode);
  uint64_t value = 0;
  switch (opcode) {
    case kOpBregx:
      return Register(cursor_.Uleb128());
    case kOpDeref:
      return Deref(memory_.word_bytes());
    case kOpDerefSize:
      return Deref(cursor_.U8());
    case kOpAbs:
    case kOpNeg:
    case kOpNot:
    case kOpPlusUconst:
      return Unary(opcode);
    case kOpBra: {
      const auto delta = cursor_.Read<int16_t>();
      return Pop(&value) && (value == 0 || Jump(delta));
    }
    case kOpSkip:
      return Jump(cursor_.Read<int16_t>());
    case kOpNop:
      return true;
    default:
      return Binary(opcode);
  }
}

bool Evaluator::Constant(uint8_t opcode) {
  switch (opcode) {
    case kOpAddr:
      return Push(memory_.word_bytes() == 4 ? cursor_.U32() : cursor_.U64());
    case kOpConst1u:
      return Push(cursor_.U8());
    case kOpConst1s:
      return Push(static_cast<uint64_t>(int64_t{cursor_.Read<int8_t>()}));
    case kOpConst2u:
      return Push(cursor_.U16());
    case kOpConst2s:
      return Push(static_cast<uint64_t>(int64_t{cursor_.Read<int16_t>()}));
    case kOpConst4u:
      return Push(cursor_.U32());
    case kOpConst4s:
      return Push(static_cast<uint64_t>(int64_t{cursor_.S32()}));
    case kOpConst8u:
    case kOpConst8s:
      return Push(cursor_.U64());
    case kOpConstu:
      return Push(cursor_.Uleb128());
    default:
      return Push(static_cast<uint64_t>(cursor_.Sleb128()));
  }
}

bool Evaluator::StackOperation(uint8_t opcode) {
  const auto pick = [&](size_t index) {
    return index < depth_ && Push(stack_[depth_ - 1 - index]);
  };
  switch (opcode) {
    case kOpDup:
      return pick(0);
    case kOpOver:
      return pick(1);
    case kOpPick:
      return pick(cursor_.U8());
    case kOpDrop:
      if (depth_ == 0) return false;
      --depth_;
      return true;
    case kOpSwap:
      if (depth_ < 2) return false;
      std::swap(stack_[depth_ - 1], stack_[depth_ - 2]);
      return true;
    case kOpRot:  // the top moves below the next two
      if (depth_ < 3) return false;
      std::swap(stack_[depth_ - 1], stack_[depth_ - 2]);
      std::swap(stack_[depth_ - 2], stack_[depth_ - 3]);
      return true;
    default:
      return false;
  }
}

bool Evaluator::Unary(uint8_t opcode) {
  uint64_t value = 0;
  if (!Pop(&value)) return false;
  switch (opcode) {
    case kOpAbs:
      return Push(Signed(value) < 0 ? 0 - value : value);
    case kOpNeg:
      return Push(0 - value);
    case kOpNot:
      return Push(~value);
    default:
      return Push(value + cursor_.Uleb128());
  }
}

bool Evaluator::Binary(uint8_t opcode) {
  uint64_t right = 0;
  uint64_t left = 0;
  if (!Pop(&right) || !Pop(&left)) return false;
  const unsigned bits = 8U * memory_.word_bytes();
  switch (opcode) {
    case kOpAnd:
      return Push(left & right);
    case kOpOr:
      return Push(left | right);
    case kOpXor:
      return Push(left ^ right);
    case kOpPlus:
      return Push(left + right);
    case kOpMinus:
      return Push(left - right);
    case kOpMul:
      return Push(left * right);
    case kOpDiv:
      if (right == 0) return false;
      if (Signed(right) == -1) return Push(0 - left);  // INT64_MIN / -1 overflows
      return Push(static_cast<uint64_t>(Signed(left) / Signed(right)));
    case kOpMod:
      return right != 0 && Push(left % right);
    case kOpShl:
      return Push(right < bits ? left << right : 0);
    case kOpShr:
      return Push(right < bits ? left >> right : 0);
    case kOpShra:
      return Push(static_cast<uint64_t>(Signed(left) >> (right < bits ? right : bits - 1)));
    case kOpEq:
      return Push(left == right ? 1 : 0);
    case kOpNe:
      return Push(left != right ? 1 : 0);
    case kOpGe:
      return Push(Signed(left) >= Signed(right) ? 1 : 0);
    case kOpGt:
      return Push(Signed(left) > Signed(right) ? 1 : 0);
    case kOpLe:
      return Push(Signed(left) <= Signed(right) ? 1 : 0);
    case kOpLt:
      return Push(Signed(left) < Signed(right) ? 1 : 0);
    default:
      return false;
  }
}

bool Evaluator::Deref(size_t size_bytes) {
  uint64_t address = 0;
  uint64_t value = 0;
  if (size_bytes != 1 && size_bytes != 2 && size_bytes != 4 && size_bytes != 8) return false;
  return Pop(&address) && memory_.Read(address, size_bytes, &value) == WalkMemory::Status::kOk &&
         Push(value);
}

}  // namespace

std::optional<uint64_t> EvaluateExpression(Bytes expression, std::optional<uint64_t> first,
                                           const RegisterFile& registers,
                                           const WalkMemory& memory) {
  Evaluator evaluator(expression, registers, memory);
  if (first && !evaluator.Push(*first)) return std::nullopt;
  return evaluator.Run();
}

}  // namespace ptarmigan::internal
