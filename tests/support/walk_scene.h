// WalkScene: a made-up process for walks: functions with CFI of the test's choice, a stack of words, registers.
#pragma once

#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/str_format.h"
#include "tests/support/cfi_bytes.h"
#include "tests/support/elf_bytes.h"
#include "tests/support/fake_process.h"
#include "unwind/stack_walker.h"

namespace ptarmigan {

class WalkScene {
 public:
  static constexpr uint64_t kBias = 0x7f0000000000;
  static constexpr uint64_t kText = 0x1000;  // file address of the code
  static constexpr uint64_t kTextBytes = 0x4000;
  static constexpr uint64_t kRodata = 0x8000;
  static constexpr uint64_t kJit = 0x550000000000;  // code without a file
  static constexpr uint64_t kVdso = 0x7fff00000000;
  static constexpr uint64_t kStack = 0x7ffe00001000;

  explicit WalkScene(Arch arch) : arch_(arch) {
    registers_.abi = arch == Arch::kX86 ? RegisterSet::Abi::k32 : RegisterSet::Abi::k64;
    code_.assign(kTextBytes, '\x90');
    SetSp(kStack);
  }

  // A function at kText + offset, 0x100 bytes long, with these rules on all of it.
  void Function(uint64_t offset, const std::string& rules, const std::string& augmentation = "zR") {
    functions_.push_back({offset, rules, augmentation});
  }
  void Code(uint64_t offset, std::string_view bytes) { code_.replace(offset, bytes.size(), bytes); }
  void PltSection(const std::string& name, uint64_t offset, uint64_t size_bytes) {
    plt_ = {name, offset, size_bytes};
  }
  void Rodata(const std::string& bytes) { rodata_ = bytes; }
  void EntryPoint(uint64_t offset) { entry_ = kText + offset; }

  static uint64_t At(uint64_t offset) { return kBias + kText + offset; }

  void SetPc(uint64_t value) { SetRegister(arch_ == Arch::kArm64 ? 32 : 8, value); }
  void SetSp(uint64_t value) { SetRegister(arch_ == Arch::kArm64 ? 31 : 7, value); }
  void SetFp(uint64_t value) { SetRegister(arch_ == Arch::kArm64 ? 29 : 6, value); }
  void SetLr(uint64_t value) { SetRegister(30, value); }
  // perf's number.
  void SetRegister(unsigned number, uint64_t value) {
    registers_.values[number] = value;
    registers_.mask |= uint64_t{1} << number;
  }
  RegisterSet& registers() { return registers_; }
  // A word of the stack, `offset` bytes above kStack; the gaps are filled with a pattern that is no address.
  void Word(uint64_t offset, uint64_t value) { words_[offset] = value; }
  void StackBytes(uint64_t size_bytes) { stack_bytes_ = size_bytes; }
  void StackIsWhole() { stack_is_whole_ = true; }

  WalkResult Walk(const WalkOptions& options = {}) {
    const std::string stack = BuildStack();
    FakeProcess process;
    BuildProcess(&process);
    StackWalker walker(arch_, options);
    frames_.assign(3, WalkedFrame{});  // leftovers of another walk
    return walker.Walk(
        {.registers = registers_, .stack = AsBytes(stack), .stack_is_whole = stack_is_whole_},
        process, &frames_);
  }
  const std::vector<WalkedFrame>& frames() const { return frames_; }

  // Frames as "0x10 0x210! jit+5": offsets in the code, "!" marks return addresses.
  std::string FramesText() const {
    std::string text;
    for (const WalkedFrame& frame : frames_) {
      if (!text.empty()) text += ' ';
      const uint64_t pc = frame.pc.value;
      if (pc - At(0) < kTextBytes)
        text += StrFormat("{:#x}", pc - At(0));
      else if (pc - kJit < 0x1000)
        text += StrFormat("jit+{:#x}", pc - kJit);
      else if (pc - kVdso < 0x1000)
        text += StrFormat("vdso+{:#x}", pc - kVdso);
      else
        text += StrFormat("?{:#x}", pc);
      if (frame.is_return_address) text += '!';
    }
    return text;
  }

  void BuildProcess(FakeProcess* process) const {
    const uint16_t machine = arch_ == Arch::kArm64 ? uint16_t{EM_AARCH64}
                             : arch_ == Arch::kX86 ? uint16_t{EM_386}
                                                   : uint16_t{EM_X86_64};
    const bool is_64_bit = arch_ != Arch::kX86;
    ElfBytes elf({.is_64_bit = is_64_bit, .machine = machine});
    const uint32_t text = elf.Add(
        {.name = ".text", .flags = SHF_ALLOC | SHF_EXECINSTR, .vaddr = kText, .content = code_});
    elf.AddSegment(PT_LOAD, PF_R | PF_X, {text, text});
    const uint32_t rodata =
        elf.Add({.name = ".rodata", .flags = SHF_ALLOC, .vaddr = kRodata, .content = rodata_});
    elf.AddSegment(PT_LOAD, PF_R, {rodata, rodata});
    if (!plt_.name.empty()) {
      // Only its header matters: the bytes are those of .text.
      elf.Add({.name = plt_.name,
               .flags = SHF_ALLOC | SHF_EXECINSTR,
               .vaddr = kText + plt_.offset,
               .content = std::string(plt_.size_bytes, '\0')});
    }
    AddCfi(&elf, is_64_bit);
    std::string bytes = elf.Build();
    if (is_64_bit)
      bytes.replace(offsetof(Elf64_Ehdr, e_entry), 8, ByteWriter().U64(entry_).bytes());
    FakeProcess::Object* object = process->AddObject("program", bytes);
    ASSERT_NE(object, nullptr);
    process->MapSegments(object, kBias);
    process->Map({.start = {kJit}, .end = {kJit + 0x1000}});
    process->Map({.start = {kVdso}, .end = {kVdso + 0x1000}, .is_vdso = true});
  }

 private:
  struct FunctionRules {
    uint64_t offset;
    std::string rules;
    std::string augmentation;
  };
  struct Plt {
    std::string name = {};
    uint64_t offset = 0;
    uint64_t size_bytes = 0;
  };

  void AddCfi(ElfBytes* elf, bool is_64_bit) const {
    CfiBytes frame({.is_64_bit = is_64_bit, .vaddr = 0x9000});
    const int64_t data_alignment = arch_ == Arch::kX86 ? -4 : -8;
    const uint64_t return_register = arch_ == Arch::kArm64 ? 30 : arch_ == Arch::kX86 ? 8 : 16;
    for (const FunctionRules& function : functions_) {
      const size_t cie = frame.AddCie({.augmentation = function.augmentation,
                                       .data_alignment = data_alignment,
                                       .return_register = return_register});
      frame.AddFde({.cie = cie,
                    .start = kText + function.offset,
                    .size_bytes = 0x100,
                    .instructions = function.rules});
    }
    elf->Add({.name = ".eh_frame", .flags = SHF_ALLOC, .vaddr = 0x9000, .content = frame.bytes()});
  }
  std::string BuildStack() const {
    constexpr uint64_t kPattern = 0xdeadbeefdeadbeef;
    const size_t word_bytes = arch_ == Arch::kX86 ? 4 : 8;
    uint64_t size_bytes = stack_bytes_;
    if (size_bytes == 0) size_bytes = words_.empty() ? 0 : words_.rbegin()->first + word_bytes;
    ByteWriter stack;
    for (uint64_t offset = 0; offset < size_bytes; offset += word_bytes) {
      const auto word = words_.find(offset);
      stack.Number(word == words_.end() ? kPattern : word->second, word_bytes);
    }
    return stack.bytes();
  }

  Arch arch_;
  RegisterSet registers_;
  std::string code_;
  std::string rodata_ = "rodata";
  Plt plt_;
  uint64_t entry_ = 0;
  std::vector<FunctionRules> functions_;
  std::map<uint64_t, uint64_t> words_;
  uint64_t stack_bytes_ = 0;
  bool stack_is_whole_ = false;
  std::vector<WalkedFrame> frames_;
};

}  // namespace ptarmigan
