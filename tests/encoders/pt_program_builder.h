// Makes the functions of a PtProgram, then their bytes. Part of pt_program.cc, apart for its length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/encoders/pt_program.h"

namespace ptarmigan {

class PtProgramBuilder {
 public:
  explicit PtProgramBuilder(PtProgram* program)
      : program_(program), options_(program->options_), random_(program->options_.seed) {}

  void Build();

  static uint64_t RegionBase(PtRegion region, bool is_64_bit);

 private:
  enum class Ending { kReturn, kForEver };

  uint64_t Random(uint64_t below) { return random_() % below; }
  bool Chance(unsigned percent) { return Random(100) < percent; }
  // Functions of the program from here on do not call JIT code.
  uint32_t first_leaf() const { return static_cast<uint32_t>(options_.functions * 2 / 3); }
  std::vector<PtBlock>& blocks() { return program_->blocks_; }
  uint32_t next_block() const { return static_cast<uint32_t>(program_->blocks_.size()); }

  void NameFunctions();
  uint32_t NameFunction(const std::string& name, PtRegion region);
  void Open(uint32_t function);
  void Close();
  uint32_t Add(X86Flow end);
  void AddOrdinary(uint32_t function, Ending ending);
  void AddSpecials();
  void AddJit();
  void AddKernel();

  void Body(unsigned nesting);
  void Statement(unsigned nesting);
  void OrdinaryStatement(unsigned nesting);
  void If(unsigned nesting);
  void Loop(unsigned nesting);
  void Switch(unsigned nesting);
  void Call();
  void IndirectCall();
  void Guarded(PtGuard guard, uint32_t callee);
  void Special();
  void End(Ending ending);
  // An ordinary function that the present one may call or jump to; its PLT stub if it is in another object.
  // PtBlock::kNone if there is none.
  uint32_t Callee();
  uint32_t StubOf(uint32_t function);

  void Assemble();
  void AssembleFunctions(X86Assembler* code, uint32_t first, uint32_t end);
  void AssembleBlock(X86Assembler* code, uint32_t block);
  void AssembleEnd(X86Assembler* code, uint32_t block);
  void AssembleConditional(X86Assembler* code, uint32_t block);
  void AssembleIndirectJump(X86Assembler* code);

  PtProgram* program_;
  PtProgramOptions options_;
  std::mt19937_64 random_;
  uint32_t function_ = 0;           // the one being made
  size_t loops_ = 0;                // of it
  std::vector<uint32_t> landings_;  // call blocks that need a landing pad
  uint32_t ordinary_end_ = 0;
  uint32_t library_first_ = 0;
  std::map<uint32_t, uint32_t> stubs_;  // by the function behind it
  uint32_t setjmp_ = 0;
  uint32_t longjmp_ = 0;
  uint32_t throw_ = 0;
  uint32_t switch_stack_ = 0;
  uint32_t compile_ = 0;
  uint32_t jit_first_ = 0;
  uint32_t kernel_first_ = 0;
  // Of blocks, in the assembler at work.
  std::vector<X86Assembler::Label> labels_;
  uint32_t labels_first_block_ = 0;
};

}  // namespace ptarmigan
