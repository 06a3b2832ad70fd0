#include "decode/internal/pt_libipt_walk.h"

#include "decode/internal/pt_packet_scan.h"

namespace ptarmigan::internal {
namespace {

// Blocks are not put together beyond this.
constexpr uint32_t kBlockInstructionsMax = 1 << 16;
// Steps of the decoder for each byte of trace, beyond the budget without packets: no packet holds more than 47 branches,
// each of which ends a block and may come with an event.
constexpr uint64_t kStepsPerByte = 64;

}  // namespace

bool LibiptWalk::UseImage() {
  if (image_ == walk_.image() && epoch_ == walk_.epoch()) return true;
  image_ = walk_.image();
  epoch_ = walk_.epoch();
  return decoder_.UseImage(image_, epoch_);
}

void LibiptWalk::Walk(PtWalkResult* result) {
  const Bytes bytes = walk_.task().bytes_and_header;
  started_ = false;
  steps_left_ = bytes.size() * kStepsPerByte + options_.packetless_blocks_max;
  now_ = decoder_.Load(bytes);
  position_ = 0;
  half_.instructions = 0;
  if (now_ == nullptr) {
    RecordError(-pte_nomem);
  } else {
    image_ = walk_.image();
    epoch_ = walk_.epoch();
    decoder_.UseImage(image_, epoch_);
    Run();
  }
  // What an error left unfinished is not known to have run: not its first half either, which depends on what libipt has seen.
  if (walk_.end == End::kError) half_.instructions = 0;
  FlushHalf();
  walk_.Finish(now_ != nullptr ? decoder_.Position() : 0);
  result->counts.unknown_packets = decoder_.unknown_packets();
}

// Where libipt meets code that it has seen before, it ends the block it is in, whether or not a branch stands there. What
// other segments have run must make no difference, so such blocks wait for what follows.
void LibiptWalk::TakeBlock(const pt_block& block, int status) {
  if (block.iclass != ptic_other && block.iclass != ptic_ptwrite && block.ninsn != 0 &&
      half_.instructions == 0 && block.mode != ptem_16bit) [[likely]] {
    recorder_.OnBlock({.start = block.ip,
                       .last = block.end_ip,
                       .instructions = block.ninsn,
                       .is_64_bit = block.mode != ptem_32bit});
    return;
  }
  TakeOddBlock(block, status);
}

void LibiptWalk::Run() {
  int status = decoder_.Start();
  walk_.BeginTracing(status >= 0 && (status & pts_ip_suppressed) == 0);
  for (;;) {
    if (status != 0) {
      status = DrainEvents(status);
      if (status < 0) {
        RecordError(status);
        return;
      }
      if (walk_.end != End::kRunning) return;
      if ((status & pts_eos) != 0) {
        Settle(status);
        return;
      }
    }
    started_ = true;
    if (steps_left_-- == 0) {
      walk_.end = End::kBudget;
      return;
    }
    pt_block block;
    status = pt_blk_next(now_, &block, sizeof(block));
    if (status < 0) {
      if (status == -pte_nomap && block.ninsn == 0 && walk_.TryOtherEpoch(block.ip) && UseImage()) {
        status = 0;
        continue;
      }
      // What was run up to where code is missing did run; what an error left unfinished is not known to have.
      if (status == -pte_nomap) TakeBlock(block, status);
      if (status == -pte_eos) {
        walk_.end = End::kEndOfTrace;
        return;
      }
      // Behind missing code a return may be compressed whose call was there.
      const bool lacks_call = status == -pte_retstack_empty && walk_.has_skipped();
      if (!lacks_call) walk_.address = block.ninsn > 0 ? block.end_ip : block.ip;
      if ((lacks_call || status == -pte_nomap) && ResumeBehindMissingCode(&status)) continue;
      RecordError(lacks_call ? -pte_nomap : status);
      return;
    }
    if (block.mode == ptem_16bit) {
      walk_.address = block.ip;
      RecordError(-pte_bad_insn);
      return;
    }
    TakeBlock(block, status);
    if (options_.want_time) FollowPackets();
  }
}

// How far libipt has read: it has just used the packet at which it stood before, and waits at the next one that tells of
// flow.
void LibiptWalk::FollowPackets() {
  const size_t position = decoder_.Position();
  if (position == position_) return;
  walk_.TakeTime(position_);
  UseImage();
  position_ = position;
}

void LibiptWalk::TakeOddBlock(const pt_block& block, int status) {
  // Nobody traces 16-bit code: a mode packet was wrong.
  if (block.ninsn == 0 || block.mode == ptem_16bit) return;
  FlowRecorder::Block whole = {.start = block.ip,
                               .last = block.end_ip,
                               .instructions = block.ninsn,
                               .is_64_bit = block.mode != ptem_32bit};
  if (half_.instructions != 0) [[unlikely]] {
    whole.start = half_.start;
    whole.instructions += half_.instructions;
    half_.instructions = 0;
  }
  const bool ends_without_branch = block.iclass == ptic_other || block.iclass == ptic_ptwrite;
  if (ends_without_branch && status >= 0 && (status & (pts_event_pending | pts_eos)) == 0 &&
      whole.instructions < kBlockInstructionsMax) [[unlikely]] {
    half_ = whole;
    return;
  }
  if (block.iclass == ptic_ptwrite && whole.instructions > 1) {
    TakeAlongJumps(whole);
    return;
  }
  recorder_.OnBlock(whole);
}

// On its way to a PTWRITE libipt (2.0.5) passes direct jumps and calls, whatever its flags say.
void LibiptWalk::TakeAlongJumps(const FlowRecorder::Block& block) {
  FlowRecorder::Block piece = {.start = block.start, .is_64_bit = block.is_64_bit};
  uint64_t at = block.start;
  for (uint32_t left = block.instructions; left > 1; --left) {
    const Instruction instruction = recorder_.InstructionAt(at, block.is_64_bit);
    piece.last = at;
    ++piece.instructions;
    if (instruction.leaves() && instruction.displacement) {
      recorder_.OnBlock(piece);
      at += static_cast<uint64_t>(*instruction.displacement);
      piece = {.start = at, .is_64_bit = block.is_64_bit};
    } else {
      at += instruction.size_bytes;
    }
  }
  piece.last = block.last;
  ++piece.instructions;
  recorder_.OnBlock(piece);
}

// What waits has run.
void LibiptWalk::FlushHalf() {
  if (half_.instructions == 0) return;
  recorder_.OnBlock(half_);
  half_.instructions = 0;
}

// Only behind code of an object that is known to have been there: what leads to where nothing is mapped is more likely wrong.
bool LibiptWalk::ResumeBehindMissingCode(int* status) {
  const CodeImage* image = walk_.image();
  if (!decoder_.can_restart() || image == nullptr) return false;
  if (image->ObjectAt({walk_.address}, walk_.epoch()).empty()) return false;
  const size_t begin = decoder_.Position();
  if (!walk_.has_skipped()) addresses_.Begin(walk_.task().bytes);
  for (;;) {
    const auto landing = addresses_.Next(begin);
    if (!landing || landing->end_offset < kPtEntryBytes) return false;
    if (image->CodeAt({landing->address}, walk_.epoch()).empty()) continue;
    FlushHalf();
    walk_.Skip(begin, landing->end_offset);
    recorder_.OnEvent(FlowEvent::Kind::kMissingCode, walk_.address, pte_nomap);
    recorder_.OnStoppedBehindBlock(/*by_kernel=*/false);
    walk_.TakeTimeBehindSkip(landing->end_offset, landing->enables);
    UseImage();
    recorder_.OnResumed(landing->address);
    walk_.scan().SkipMarks(landing->end_offset);
    position_ = landing->end_offset;
    walk_.tracing = true;
    started_ = false;
    *status = decoder_.Restart(landing->end_offset, landing->address, landing->is_64_bit);
    return true;
  }
}

int LibiptWalk::DrainEvents(int status) {
  if (status >= 0 && (status & (pts_event_pending | pts_eos)) != 0) FlushHalf();
  while (status >= 0 && (status & pts_event_pending) != 0) {
    if (steps_left_-- == 0) {
      walk_.end = End::kBudget;
      return status;
    }
    if (walk_.tracing && walk_.scan().OverflowBefore(decoder_.Position())) ArriveBeforeOverflow();
    pt_event event;
    status = pt_blk_event(now_, &event, sizeof(event));
    if (status < 0) return status;
    TakeEvent(event);
    UseImage();
    position_ = decoder_.Position();
  }
  return status;
}

void LibiptWalk::TakeEvent(const pt_event& event) {
  if (event.status_update != 0) {
    // Of a PSB's header. Only the mode of execution comes with every header while tracing is on.
    if (started_ && event.type == ptev_exec_mode && event.ip_suppressed == 0 &&
        walk_.task().next != nullptr && walk_.task().next->has_address &&
        event.variant.exec_mode.ip == walk_.task().next->address) {
      // If a branch led there: the next segment only knows that it begins at its target.
      recorder_.OnArrival(walk_.task().next->address);
      walk_.end = End::kArrived;
    }
    return;
  }
  switch (event.type) {
    case ptev_enabled:
      walk_.OnEnabled(event.variant.enabled.ip, decoder_.Position());
      break;
    case ptev_disabled:
      walk_.OnDisabled(event.ip_suppressed != 0 ? 0 : event.variant.disabled.ip,
                       /*by_kernel=*/event.ip_suppressed != 0, decoder_.Position());
      break;
    case ptev_async_disabled:
      walk_.OnDisabledAt(event.variant.async_disabled.at, decoder_.Position());
      break;
    case ptev_async_branch:
      walk_.OnInterrupted(event.variant.async_branch.from);
      break;
    case ptev_overflow:
      walk_.OnOverflow(event.ip_suppressed == 0, event.variant.overflow.ip, decoder_.Position());
      break;
    case ptev_exec_mode:
      recorder_.OnEvent(FlowEvent::Kind::kExecutionMode, event.variant.exec_mode.ip,
                        event.variant.exec_mode.mode);
      break;
    case ptev_tsx:
      recorder_.OnEvent(
          FlowEvent::Kind::kTransaction, event.ip_suppressed != 0 ? 0 : event.variant.tsx.ip,
          uint64_t{event.variant.tsx.speculative} | uint64_t{event.variant.tsx.aborted} << 1U);
      break;
    case ptev_ptwrite:
      recorder_.OnEvent(FlowEvent::Kind::kPtWrite,
                        event.ip_suppressed != 0 ? 0 : event.variant.ptwrite.ip,
                        event.variant.ptwrite.payload);
      break;
    default:
      break;
  }
}

// Where the last branch before an overflow led is known, though not what ran there. An event that waits to be taken makes
// libipt say where it stands.
void LibiptWalk::ArriveBeforeOverflow() {
  pt_block block;
  const int status = pt_blk_next(now_, &block, sizeof(block));
  if (status >= 0 && block.ninsn == 0) recorder_.OnArrival(block.ip);
}

// The packets are used up: execution runs on without branches that need any, to where the next segment begins.
void LibiptWalk::Settle(int status) {
  const PtSyncPoint* next = walk_.task().next;
  walk_.end = End::kEndOfTrace;
  if (next == nullptr || !walk_.tracing || !next->has_address) return;
  for (uint32_t left = options_.packetless_blocks_max; left > 0; --left) {
    pt_block block;
    status = pt_blk_next(now_, &block, sizeof(block));
    if (block.ninsn == 0 || block.mode == ptem_16bit) {
      if (status < 0 && status != -pte_eos) RecordError(status);
      return;
    }
    uint32_t before = 0;
    uint64_t last = 0;
    const FlowRecorder::Block whole = {.start = block.ip,
                                       .last = block.end_ip,
                                       .instructions = block.ninsn,
                                       .is_64_bit = block.mode != ptem_32bit};
    if (next->address >= block.ip && next->address <= block.end_ip &&
        recorder_.InstructionsBefore(whole, next->address, &before, &last)) {
      if (before > 0) {
        block.end_ip = last;
        block.ninsn = static_cast<uint16_t>(before);
        TakeBlock(block, pts_eos);
      } else {
        FlushHalf();
        recorder_.OnArrival(next->address);
      }
      walk_.end = End::kArrived;
      return;
    }
    if (status < 0) {
      if (status != -pte_eos) RecordError(status);
      return;
    }
    TakeBlock(block, 0);
  }
  walk_.end = End::kBudget;
}

}  // namespace ptarmigan::internal
