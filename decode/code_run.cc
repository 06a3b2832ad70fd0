#include "decode/code_run.h"

namespace ptarmigan {

CodeRun WalkCodeRun(Arch arch, Bytes code, uint64_t length_bytes) {
  if (length_bytes >= code.size()) return {};
  const InstructionDecoder decoder(arch);
  CodeRun run;
  uint64_t at = 0;
  for (;;) {
    const Instruction instruction = decoder.Decode(code.subspan(static_cast<size_t>(at)));
    if (instruction.size_bytes == 0) return {};
    ++run.instructions;
    if (at == length_bytes) break;
    if (instruction.leaves()) return {.verdict = CodeRun::Verdict::kLeaves};
    at += instruction.size_bytes;
    if (at > length_bytes) return {.verdict = CodeRun::Verdict::kMisaligned};
  }
  run.verdict = CodeRun::Verdict::kStraight;
  return run;
}

bool IsReturnInstruction(Arch arch, Bytes code) {
  return InstructionDecoder(arch).Decode(code).kind == Instruction::Kind::kReturn;
}

}  // namespace ptarmigan
