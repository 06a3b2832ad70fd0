// X86Assembler: the few x86 instructions that programs for control-flow tests are made of, 64-bit or 32-bit, as bytes and
// as a list of what each of them does. Encodings by Intel SDM volume 2.
//
//   X86Assembler code({.base = 0x1000});
//   const X86Assembler::Label loop = code.NewLabel();
//   code.Bind(loop);
//   code.Nop(3);
//   code.JumpIf(4, loop, X86Assembler::Reach::kShort);
//   code.Return();
//   code.Finish();   // displacements are known now
//
// Not for production: a displacement that does not fit ends the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ptarmigan {

enum class X86Flow : uint8_t {
  kNext,  // goes on to the next instruction
  kConditional,
  kJump,
  kIndirectJump,
  kCall,
  kIndirectCall,
  kReturn,
  kSyscall,       // SYSCALL, INT 0x80
  kSystemReturn,  // SYSRET, IRET
  kPtWrite,       // goes on; a trace may carry its operand
};

struct X86Instruction {
  uint64_t address = 0;
  uint64_t target = 0;  // of direct transfers, after Finish
  uint8_t size_bytes = 0;
  X86Flow flow = X86Flow::kNext;

  uint64_t end() const { return address + size_bytes; }
  // CALL to the next instruction, as position-independent code reads its own address: no return ever matches it, and
  // neither processors nor decoders keep its return address.
  bool is_call_to_next() const { return flow == X86Flow::kCall && target == end(); }
};

class X86Assembler {
 public:
  struct Form {
    uint64_t base = 0;  // address of the first byte
    bool is_64_bit = true;
  };
  struct Label {
    size_t index = 0;
  };
  enum class Reach { kShort, kNear };  // 8 or 32 bits of displacement
  static constexpr size_t kNopBytesMax = 9;
  static constexpr unsigned kRegisters = 8;
  static constexpr unsigned kConditions = 16;

  explicit X86Assembler(const Form& form) : form_(form) {}

  uint64_t here() const { return form_.base + bytes_.size(); }
  bool is_64_bit() const { return form_.is_64_bit; }

  Label NewLabel();
  void Bind(Label label);

  void Nop(size_t size_bytes);  // 1 to kNopBytesMax
  // One of a fixed set of other instructions that go on to the next, at most 8 bytes; any choice.
  void Filler(uint64_t choice);
  void PtWrite();
  void JumpIf(unsigned condition, Label target, Reach reach);
  // LOOP and JRCXZ are conditional branches with a short form only.
  void Loop(Label target);
  void JumpIfCounterZero(Label target);
  void Jump(Label target, Reach reach);
  void Call(Label target);
  void JumpTo(uint64_t address);
  void CallTo(uint64_t address);
  void CallNext();
  void JumpRegister(unsigned reg);  // jmp rax
  void JumpNotrack(unsigned reg);   // with the prefix of code compiled for indirect branch tracking
  void JumpTable(uint32_t table);   // jmp [table + rax * 8], or * 4
  void JumpMemory(uint64_t pointer);  // jmp [pointer], as PLT stubs do
  void CallRegister(unsigned reg);
  void CallMemory(uint64_t pointer);
  void Return();
  void ReturnPopping(uint16_t bytes);  // ret imm16
  void ReturnPrefixed();               // rep ret
  void Syscall();                      // int 0x80 in 32-bit code
  void SystemReturn(bool by_iret);
  // Filling between functions: never executed.
  void PadTo(uint64_t alignment);

  // Fills in the displacements. Every label that was used must be bound.
  void Finish();

  const std::string& bytes() const { return bytes_; }
  const std::vector<X86Instruction>& instructions() const { return instructions_; }

 private:
  struct Fixup {
    size_t instruction = 0;
    size_t label = 0;
    Reach reach = Reach::kNear;
  };
  static constexpr uint64_t kUnbound = UINT64_MAX;

  void Add(X86Flow flow, std::string_view bytes);
  void Add(X86Flow flow, std::string_view opcode, Label target, Reach reach);
  void AddNear(X86Flow flow, std::string_view opcode, uint64_t target);
  void AddMemory(X86Flow flow, uint8_t modrm_of_displacement, uint64_t pointer);
  void Patch(const X86Instruction& instruction, Reach reach);

  Form form_;
  std::string bytes_;
  std::vector<X86Instruction> instructions_;
  std::vector<uint64_t> labels_;  // addresses
  std::vector<Fixup> fixups_;
};

}  // namespace ptarmigan
