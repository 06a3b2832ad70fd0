#include "decode/internal/landing_check.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ptarmigan::internal {
namespace {

// Sizes of near calls on x86, with prefixes.
constexpr uint64_t kCallBytesMin = 2;
constexpr uint64_t kCallBytesMax = 9;
// Of instructions that control does not pass, and of padding.
constexpr uint64_t kBarrierBytesMax = 11;
// Functions are looked through up to here.
constexpr uint64_t kFunctionBytesMax = uint64_t{1} << 20;
// Of all functions that are remembered, in bytes of code.
constexpr size_t kStartsBitsMax = size_t{1} << 28;
constexpr uint64_t kFunctionAlignment = 16;
constexpr uint64_t kSectionAlignment = 4;
// The stub behind a signal handler: the number of rt_sigreturn into EAX, SYSCALL.
constexpr uint32_t kSignalReturnInstructionsMax = 3;

uint8_t ByteAt(Bytes code, size_t at) {
  return at < code.size() ? std::to_integer<uint8_t>(code[at]) : uint8_t{0};
}

// ENDBR64, ENDBR32: nothing else is a target of indirect branches in code made with -fcf-protection.
bool IsEndbr(Bytes code) {
  return ByteAt(code, 0) == 0xf3 && ByteAt(code, 1) == 0x0f && ByteAt(code, 2) == 0x1e &&
         (ByteAt(code, 3) | 1) == 0xfb;
}

// Two of ADD %al,(%rax): what fills the rest of a page.
bool IsEmpty(Bytes code) {
  return code.size() >= 4 && ByteAt(code, 0) == 0 && ByteAt(code, 1) == 0 && ByteAt(code, 2) == 0 &&
         ByteAt(code, 3) == 0;
}

// INT3, HLT, UD2, and what assemblers fill gaps with.
bool IsStopOrPadding(Bytes code, bool is_64_bit) {
  size_t at = 0;
  while (ByteAt(code, at) == 0x66 || ByteAt(code, at) == 0x2e) ++at;
  const uint8_t first = ByteAt(code, at);
  const uint8_t second = ByteAt(code, at + 1);
  if (first == 0x90 || first == 0xcc || first == 0xf4) return true;
  if (first == 0x0f && (second == 0x1f || second == 0x0b)) return true;
  if (is_64_bit || at > 0) return false;
  // LEA of a register to itself; MOV %esi,%esi; MOV %edi,%edi.
  return (first == 0x8d && (second == 0x74 || second == 0xb4 || second == 0x76 || second == 0xb6 ||
                            second == 0x7c || second == 0xbc)) ||
         (first == 0x89 && (second == 0xf6 || second == 0xff));
}

}  // namespace

size_t LandingCheck::KeyHash::operator()(const Key& key) const {
  uint64_t hash = key.start * 0x9e3779b97f4a7c15U;
  hash = (hash ^ key.epoch ^ reinterpret_cast<uintptr_t>(key.image)) * 0xff51afd7ed558ccdU;
  return static_cast<size_t>(hash ^ hash >> 32);
}

LandingCheck::LandingCheck() : decoder_64_(Arch::kX86_64), decoder_32_(Arch::kX86) {}

bool LandingCheck::IsBarrier(const Place& place, uint64_t address, uint64_t size) const {
  InstructionBuffer buffer;
  const Bytes code = CodeOf(place, address, &buffer);
  const Instruction instruction = DecoderOf(place).Decode(code);
  return instruction.size_bytes == size &&
         (instruction.leaves() || IsStopOrPadding(code, place.is_64_bit));
}

bool LandingCheck::IsBehindCall(const Place& place) const {
  for (uint64_t size = kCallBytesMin; size <= kCallBytesMax; ++size) {
    InstructionBuffer buffer;
    const Instruction instruction =
        DecoderOf(place).Decode(CodeOf(place, place.address - size, &buffer));
    if (instruction.size_bytes == size && instruction.is_call()) return true;
  }
  return false;
}

const LandingCheck::Starts& LandingCheck::StartsOf(const Place& place) {
  const Key key = {place.code.image, place.code.epoch, place.function};
  if (const auto found = starts_.find(key); found != starts_.end()) return found->second;
  const CodeFunction function =
      place.code.image->FunctionContaining({place.function}, place.code.epoch);
  Starts starts;
  const uint64_t size = std::min(function.end - function.start, kFunctionBytesMax);
  starts.begins.resize(static_cast<size_t>(size));
  while (starts.walked < size) {
    InstructionBuffer buffer;
    const Instruction instruction =
        DecoderOf(place).Decode(CodeOf(place, place.function + starts.walked, &buffer));
    if (instruction.size_bytes == 0) break;
    starts.begins[static_cast<size_t>(starts.walked)] = true;
    starts.walked += instruction.size_bytes;
  }
  starts_bits_ += starts.begins.size();
  if (starts_bits_ > kStartsBitsMax) {
    starts_.clear();
    starts_bits_ = starts.begins.size();
  }
  return starts_.emplace(key, std::move(starts)).first->second;
}

bool LandingCheck::IsInstruction(const Place& place) {
  if (!place.knows_function) return true;
  const Starts& starts = StartsOf(place);
  const uint64_t at = place.address - place.function;
  return at >= starts.begins.size() || at >= starts.walked ||
         starts.begins[static_cast<size_t>(at)];
}

bool LandingCheck::IsBehindBarrier(const Place& place) {
  if (!place.knows_function) {
    // Linkers leave zeros between sections: .fini is one of its own.
    uint64_t end = place.address;
    while (place.address % kSectionAlignment == 0 && place.address - end < kSectionAlignment - 1 &&
           ByteAt(place.code.image->CodeAt({end - 1}, place.code.epoch), 0) == 0) {
      --end;
    }
    for (uint64_t size = 1; size <= kBarrierBytesMax; ++size) {
      if (IsBarrier(place, end - size, size)) return true;
    }
    return false;
  }
  const Starts& starts = StartsOf(place);
  const uint64_t at = place.address - place.function;
  if (at == 0 || at >= starts.begins.size() || at >= starts.walked) return true;
  for (uint64_t size = 1; size <= std::min(at, kInstructionBytesMax); ++size) {
    if (!starts.begins[static_cast<size_t>(at - size)]) continue;
    return IsBarrier(place, place.address - size, size);
  }
  return false;
}

bool LandingCheck::MayBeFunctionStart(const Place& place) const {
  return place.address % kFunctionAlignment == 0;
}

bool LandingCheck::IsSignalReturn(const Place& place, const CodeBlock& to) const {
  return to.ending == BranchKind::kSystemCall && to.instructions <= kSignalReturnInstructionsMax &&
         place.address == to.start.value;
}

uint32_t LandingCheck::AgainstReturn(const Place& place, const CodeBlock& to) {
  if (IsFunctionStart(place) || IsBehindCall(place) || IsSignalReturn(place, to)) return 0;
  if (!place.knows_function && MayBeFunctionStart(place)) return 0;
  return IsInstruction(place) && IsBehindBarrier(place) ? 0 : uint32_t{FlowChecks::kReturnMismatch};
}

uint32_t LandingCheck::AgainstCall(const Place& place) {
  if (IsFunctionStart(place)) return 0;
  const bool plausible =
      !place.knows_function && (MayBeFunctionStart(place) || IsBehindBarrier(place));
  return plausible ? 0 : uint32_t{FlowChecks::kCallIntoFunction};
}

bool LandingCheck::IsJumpBySlot(const Code& code, const CodeBlock& from) {
  const Bytes jump = code.image->CodeAt(from.last, code.epoch);
  const size_t prefixes = ByteAt(jump, 0) == 0xf2 ? 1 : 0;  // BND
  return ByteAt(jump, prefixes) == 0xff && ByteAt(jump, prefixes + 1) == 0x25;
}

uint32_t LandingCheck::AgainstJump(const Place& place, const CodeBlock& from) {
  if (IsFunctionStart(place)) return 0;
  if (!IsInstruction(place)) return FlowChecks::kImplausible;
  const bool same_function =
      from.function == VirtAddr{place.function} && from.knows_function == place.knows_function;
  if (same_function) return 0;
  // Stubs of linkers jump by a slot in memory, and only to functions.
  if (place.knows_function && !from.knows_function && IsJumpBySlot(place.code, from)) {
    return FlowChecks::kImplausible;
  }
  if (!place.knows_function && MayBeFunctionStart(place)) return 0;
  return IsBehindCall(place) || IsBehindBarrier(place) ? 0 : uint32_t{FlowChecks::kImplausible};
}

uint32_t LandingCheck::ReasonsAgainst(const Code& code, const CodeBlock& from,
                                      const CodeBlock& to) {
  if (from.ending != BranchKind::kReturn && from.ending != BranchKind::kIndirectCall &&
      from.ending != BranchKind::kIndirectJump) {
    return 0;
  }
  const Place place = PlaceOf(code, to);
  InstructionBuffer buffer;
  const Bytes landing = CodeOf(place, place.address, &buffer);
  // Nothing can be told from what is not there.
  if (code.image->CodeAt({place.address - 1}, code.epoch).empty()) return 0;
  if (IsEmpty(landing)) return FlowChecks::kImplausible;
  if (IsEndbr(landing)) return 0;
  switch (from.ending) {
    case BranchKind::kReturn:
      return AgainstReturn(place, to);
    case BranchKind::kIndirectCall:
      return AgainstCall(place);
    default:
      return AgainstJump(place, from);
  }
}

uint32_t LandingCheck::ReasonsAgainstResuming(const Code& code, uint64_t address, uint64_t expected,
                                              bool is_64_bit) {
  const CodeFunction function = code.image->FunctionContaining({address}, code.epoch);
  const Place place = {.code = code,
                       .address = address,
                       .is_64_bit = is_64_bit,
                       .knows_function = !function.empty(),
                       .function = function.start.value};
  if (IsEmpty(code.image->CodeAt({address}, code.epoch)) || !IsInstruction(place)) {
    return FlowChecks::kImplausible;
  }
  // A system call that a signal interrupted is made again (the kernel's ERESTARTSYS): tracing goes on before it.
  if (expected == 0 || expected - address == 2) return 0;
  return std::has_single_bit(address ^ expected) ? uint32_t{FlowChecks::kImplausible} : 0;
}

}  // namespace ptarmigan::internal
