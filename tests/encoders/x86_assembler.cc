#include "tests/encoders/x86_assembler.h"

#include <array>

#include "base/check.h"

namespace ptarmigan {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::array kNops = {
    "\x90"sv,
    "\x66\x90"sv,
    "\x0f\x1f\x00"sv,
    "\x0f\x1f\x40\x00"sv,
    "\x0f\x1f\x44\x00\x00"sv,
    "\x66\x0f\x1f\x44\x00\x00"sv,
    "\x0f\x1f\x80\x00\x00\x00\x00"sv,
    "\x0f\x1f\x84\x00\x00\x00\x00\x00"sv,
    "\x66\x0f\x1f\x84\x00\x00\x00\x00\x00"sv,
};
static_assert(kNops.size() == X86Assembler::kNopBytesMax);

// The same in both modes; among them bytes that would be branches if one looked at the wrong place.
constexpr std::array kFillers = {
    "\x55"sv,                              // push rbp
    "\x89\xe5"sv,                          // mov ebp,esp
    "\x31\xc0"sv,                          // xor eax,eax
    "\x8b\x44\x24\xe8"sv,                  // mov eax,[rsp-24]
    "\xb8\xe9\xe9\xe9\xe9"sv,              // mov eax,imm32
    "\x0f\x1f\x84\x00\xeb\xc3\xe8\xff"sv,  // nop with displacement
    "\xff\x00"sv,                          // inc dword [rax] (group 5)
    "\x66\x0f\x6f\xc1"sv,                  // movdqa xmm0,xmm1
    "\xc5\xfd\x6f\xc1"sv,                  // vmovdqa ymm0,ymm1 (VEX)
    "\x83\xc0\x01"sv,                      // add eax,1
    "\x0f\xaf\xc1"sv,                      // imul eax,ecx
    "\x8d\x04\x48"sv,                      // lea eax,[rax+rcx*2]
    "\x0f\xb6\xc0"sv,                      // movzx eax,al
    "\xf3\xa4"sv,                          // rep movsb
    "\x85\xc0"sv,                          // test eax,eax
    "\xf0\x0f\xb1\x0f"sv,                  // lock cmpxchg [rdi],ecx
    "\x5d"sv,                              // pop rbp
};
constexpr std::array kFillers64 = {
    "\x48\x89\xe5"sv,                  // mov rbp,rsp
    "\x48\x8b\x05\xc3\xc3\x00\x00"sv,  // mov rax,[rip+0xc3c3]
    "\x49\x83\xc4\x01"sv,              // add r12,1
    "\x62\xf1\xfd\x48\x6f\xc1"sv,      // vmovdqa64 (EVEX)
    "\x41\x57"sv,                      // push r15
};

char Byte(uint64_t value) { return static_cast<char>(value & 0xff); }

}  // namespace

X86Assembler::Label X86Assembler::NewLabel() {
  labels_.push_back(kUnbound);
  return {labels_.size() - 1};
}

void X86Assembler::Bind(Label label) {
  CHECK(labels_[label.index] == kUnbound);
  labels_[label.index] = here();
}

void X86Assembler::Add(X86Flow flow, std::string_view bytes) {
  instructions_.push_back(
      {.address = here(), .size_bytes = static_cast<uint8_t>(bytes.size()), .flow = flow});
  bytes_ += bytes;
}

void X86Assembler::Add(X86Flow flow, std::string_view opcode, Label target, Reach reach) {
  std::string bytes(opcode);
  bytes.append(reach == Reach::kShort ? 1 : 4, '\0');
  Add(flow, bytes);
  fixups_.push_back({instructions_.size() - 1, target.index, reach});
}

void X86Assembler::AddNear(X86Flow flow, std::string_view opcode, uint64_t target) {
  Add(flow, std::string(opcode) + std::string(4, '\0'));
  instructions_.back().target = target;
  Patch(instructions_.back(), Reach::kNear);
}

void X86Assembler::AddMemory(X86Flow flow, uint8_t modrm_of_displacement, uint64_t pointer) {
  constexpr uint64_t kSize = 6;
  const uint64_t displacement = is_64_bit() ? pointer - (here() + kSize) : pointer;
  std::string bytes = {Byte(0xff), Byte(modrm_of_displacement)};
  for (unsigned shift = 0; shift < 32; shift += 8) bytes += Byte(displacement >> shift);
  Add(flow, bytes);
}

void X86Assembler::Nop(size_t size_bytes) { Add(X86Flow::kNext, kNops[size_bytes - 1]); }

void X86Assembler::Filler(uint64_t choice) {
  const size_t count = kFillers.size() + (is_64_bit() ? kFillers64.size() : 0);
  const size_t index = choice % count;
  Add(X86Flow::kNext,
      index < kFillers.size() ? kFillers[index] : kFillers64[index - kFillers.size()]);
}

void X86Assembler::PtWrite() { Add(X86Flow::kPtWrite, "\xf3\x0f\xae\xe0"sv); }

void X86Assembler::JumpIf(unsigned condition, Label target, Reach reach) {
  if (reach == Reach::kShort) {
    Add(X86Flow::kConditional, std::string(1, Byte(0x70 + condition)), target, reach);
  } else {
    Add(X86Flow::kConditional, std::string("\x0f") + Byte(0x80 + condition), target, reach);
  }
}

void X86Assembler::Loop(Label target) {
  Add(X86Flow::kConditional, "\xe2"sv, target, Reach::kShort);
}

void X86Assembler::JumpIfCounterZero(Label target) {
  Add(X86Flow::kConditional, "\xe3"sv, target, Reach::kShort);
}

void X86Assembler::Jump(Label target, Reach reach) {
  Add(X86Flow::kJump, reach == Reach::kShort ? "\xeb"sv : "\xe9"sv, target, reach);
}

void X86Assembler::Call(Label target) { Add(X86Flow::kCall, "\xe8"sv, target, Reach::kNear); }
void X86Assembler::JumpTo(uint64_t address) { AddNear(X86Flow::kJump, "\xe9"sv, address); }
void X86Assembler::CallTo(uint64_t address) { AddNear(X86Flow::kCall, "\xe8"sv, address); }
void X86Assembler::CallNext() { CallTo(here() + 5); }

void X86Assembler::JumpRegister(unsigned reg) {
  Add(X86Flow::kIndirectJump, std::string("\xff") + Byte(0xe0 + reg % kRegisters));
}

void X86Assembler::JumpNotrack(unsigned reg) {
  Add(X86Flow::kIndirectJump, std::string("\x3e\xff") + Byte(0xe0 + reg % kRegisters));
}

void X86Assembler::JumpTable(uint32_t table) {
  std::string bytes = "\xff\x24";
  bytes += Byte(is_64_bit() ? 0xc5 : 0x85);  // index rax, no base, scale 8 or 4
  for (unsigned shift = 0; shift < 32; shift += 8) bytes += Byte(table >> shift);
  Add(X86Flow::kIndirectJump, bytes);
}

void X86Assembler::JumpMemory(uint64_t pointer) {
  AddMemory(X86Flow::kIndirectJump, 0x25, pointer);
}
void X86Assembler::CallMemory(uint64_t pointer) {
  AddMemory(X86Flow::kIndirectCall, 0x15, pointer);
}

void X86Assembler::CallRegister(unsigned reg) {
  Add(X86Flow::kIndirectCall, std::string("\xff") + Byte(0xd0 + reg % kRegisters));
}

void X86Assembler::Return() { Add(X86Flow::kReturn, "\xc3"sv); }
void X86Assembler::ReturnPopping(uint16_t bytes) {
  Add(X86Flow::kReturn, std::string("\xc2") + Byte(bytes) + Byte(bytes >> 8));
}
void X86Assembler::ReturnPrefixed() { Add(X86Flow::kReturn, "\xf3\xc3"sv); }

void X86Assembler::Syscall() { Add(X86Flow::kSyscall, is_64_bit() ? "\x0f\x05"sv : "\xcd\x80"sv); }

void X86Assembler::SystemReturn(bool by_iret) {
  Add(X86Flow::kSystemReturn, by_iret ? "\x48\xcf"sv : "\x48\x0f\x07"sv);
}

void X86Assembler::PadTo(uint64_t alignment) {
  while (here() % alignment != 0) bytes_ += Byte(0xcc);
}

void X86Assembler::Patch(const X86Instruction& instruction, Reach reach) {
  const auto displacement = static_cast<int64_t>(instruction.target - instruction.end());
  const size_t end = static_cast<size_t>(instruction.end() - form_.base);
  if (reach == Reach::kShort) {
    CHECK(displacement == static_cast<int8_t>(displacement));
    bytes_[end - 1] = Byte(static_cast<uint64_t>(displacement));
    return;
  }
  CHECK(displacement == static_cast<int32_t>(displacement));
  for (size_t i = 0; i < 4; ++i) {
    bytes_[end - 4 + i] = Byte(static_cast<uint64_t>(displacement) >> (8 * i));
  }
}

void X86Assembler::Finish() {
  for (const Fixup& fixup : fixups_) {
    CHECK(labels_[fixup.label] != kUnbound);
    X86Instruction& instruction = instructions_[fixup.instruction];
    instruction.target = labels_[fixup.label];
    Patch(instruction, fixup.reach);
  }
  fixups_.clear();
}

}  // namespace ptarmigan
