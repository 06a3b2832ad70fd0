#include "tests/softpmu/program_trace.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/str_format.h"
#include "decode/instruction.h"
#include "elf/elf_file.h"
#include "tests/encoders/pt_packets.h"
#include "tests/pipeline/step_recorder.h"

namespace ptarmigan {
namespace {

using Branch = StepRecording::Branch;

constexpr size_t kStepsMax = 200000;
constexpr size_t kAddressesMax = 100000;
constexpr unsigned kRatio = 30;
constexpr unsigned kShortBranches = 6;

uint64_t AddressOf(const ElfFile& file, std::string_view function) {
  uint64_t address = 0;
  file.ForEachSymbol(".symtab", [&](const ElfSymbol& symbol) {
    if (symbol.name == function) address = symbol.value.value;
  });
  return address;
}

class CallEncoder {
 public:
  explicit CallEncoder(const ElfFile& file) : file_(file), decoder_(file.arch()) {}

  // `branches`: those taken from `begin` on, the return that ends the call last.
  Result<CallTrace> Encode(uint64_t begin, std::span<const Branch> branches) {
    packets_.Psb();
    packets_.Tsc(0);
    packets_.Cbr(kRatio);
    packets_.PsbEnd();
    packets_.ModeExec(true);
    packets_.Address(PtPacketKind::kTipPge, begin);
    uint64_t at = begin;
    for (const Branch& branch : branches) {
      TRY(GoTo(at, branch));
      call_.branches.push_back({branch.from, branch.to});
      at = branch.to;
    }
    FlushTnt();
    packets_.Address(PtPacketKind::kFup, at);
    packets_.AddressSuppressed(PtPacketKind::kTipPgd);
    call_.packets = packets_.TakeBytes();
    return std::move(call_);
  }

 private:
  // Straight on from `at` to the branch, and through it.
  Status GoTo(uint64_t at, const Branch& branch) {
    while (call_.addresses.size() < kAddressesMax) {
      const Instruction instruction = decoder_.Decode(file_.ReadAt({at}, kInstructionBytesMax));
      if (instruction.size_bytes == 0) break;
      call_.addresses.push_back(at);
      const bool taken = at == branch.from;
      if (instruction.kind == Instruction::Kind::kConditionalJump) Tnt(taken);
      if (taken) {
        const bool is_direct = instruction.displacement.has_value();
        if (!is_direct) {
          FlushTnt();
          packets_.Address(PtPacketKind::kTip, branch.to);
        }
        return {};
      }
      at += instruction.size_bytes;
    }
    return Error{ErrorCode::kNotFound, StrFormat("no way to the branch at {:#x}", branch.from)};
  }
  void Tnt(bool taken) {
    bits_ = bits_ << 1 | (taken ? 1U : 0U);
    if (++count_ == kShortBranches) FlushTnt();
  }
  void FlushTnt() {
    if (count_ > 0) packets_.TntShort(bits_, count_);
    bits_ = 0;
    count_ = 0;
  }

  const ElfFile& file_;
  const InstructionDecoder decoder_;
  PtPacketWriter packets_{PtPacketWriter::Form{}};
  CallTrace call_;
  uint64_t bits_ = 0;
  unsigned count_ = 0;
};

}  // namespace

Result<CallTrace> TraceFirstCall(const std::string& program, std::string_view function) {
  TRY_ASSIGN(const auto file, ElfFile::Open(program));
  const uint64_t entry = AddressOf(*file, function);
  TRY_ASSIGN(const StepRecording recording, RecordBySteps(program, kStepsMax));
  const auto& branches = recording.branches;
  const auto call = std::ranges::find(branches, entry, &Branch::to);
  if (call == branches.end()) {
    return Error{ErrorCode::kNotFound, StrFormat("{} is never called", function)};
  }
  const Instruction instruction =
      InstructionDecoder(file->arch()).Decode(file->ReadAt({call->from}, kInstructionBytesMax));
  const uint64_t return_address = call->from + instruction.size_bytes;
  const auto back = std::ranges::find(call + 1, branches.end(), return_address, &Branch::to);
  if (back == branches.end()) {
    return Error{ErrorCode::kNotFound, StrFormat("{} does not return", function)};
  }
  return CallEncoder(*file).Encode(entry, std::span(call + 1, back + 1));
}

}  // namespace ptarmigan
