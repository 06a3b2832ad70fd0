// PtFastWalk: walks a segment without libipt, for speed: code as a graph (PtFastCode), packets where they are needed
// (PtFastPackets), the bits of a TNT packet in a register.
//
// It follows only what is certain. While bits are left, code runs on until each of them has been used; behind the last one
// the next packet is looked at first, and says how far to go: to the next branch, or to where an event struck. So nothing
// that was recorded has to be taken back.
//
//   bits used up at A ──▶ next packet? ── TNT, TIP ─────────▶ on to the next branch that needs one
//                                      ── FUP at x, TIP.PGD … ▶ on to x, which must be reached without a branch that does
//
// What it does not follow, and whatever does not fit, it leaves to libipt, from the segment's beginning: then nothing was
// said. So what it does say is what libipt would have said, and errors are told in libipt's words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "decode/internal/flow_recorder.h"
#include "decode/internal/pt_fast_code.h"
#include "decode/internal/pt_fast_packets.h"
#include "decode/internal/pt_segment_walk.h"
#include "decode/pt_decoder.h"

namespace ptarmigan::internal {

// Return addresses that compressed returns lead to: as many as the processor keeps.
class PtReturnStack {
 public:
  void Clear() { size_ = 0; }
  void Push(uint64_t address) {
    addresses_[top_++ % kAddresses] = address;
    if (size_ < kAddresses) ++size_;
  }
  bool Pop(uint64_t* address) {
    if (size_ == 0) return false;
    --size_;
    *address = addresses_[--top_ % kAddresses];
    return true;
  }

 private:
  static constexpr uint32_t kAddresses = 64;
  std::array<uint64_t, kAddresses> addresses_ = {};
  uint32_t top_ = 0;
  uint32_t size_ = 0;
};

class PtFastWalk {
 public:
  // Both outlive it.
  PtFastWalk(const PtOptions& options, bool odd_overflows, PtSegmentWalk* walk);

  // Of the segment that has been begun. False if it has to be done by libipt: then what was recorded counts for nothing.
  bool Walk();

 private:
  static constexpr unsigned kNoSlot = 2;

  // All of these: false if libipt has to do it.
  bool Step();
  bool UseBits();
  bool FollowTarget();
  bool TakeEvent();
  bool Arrive();
  // To the next branch that needs a packet.
  bool RunToBranch();
  // To where an event struck; or, if `or_branch`, to the next branch that needs a packet.
  bool RunTo(uint64_t address, bool or_branch);
  // Into the block at which execution goes on.
  bool Enter();
  void PushCall(const PtFastBlock& block) { returns_.Push(block.end); }
  // The next block begins at `address`, and is not reached from the one that ran last.
  void GoTo(uint64_t address) {
    address_ = address;
    slot_ = kNoSlot;
  }
  // Which of its successors a block has at `target`; makes room for it.
  static unsigned SlotOf(PtFastBlock* block, uint64_t target);
  void ReadOn() { packets_.Next(&packet_); }
  // The time of the packet that a branch has just used, or that stood behind its last bit.
  void TakeTime() {
    if (options_.want_time) walk_.TakeTime(packet_.offset);
  }

  const PtOptions& options_;
  PtSegmentWalk& walk_;
  FlowRecorder& recorder_;
  PtFastCode code_;
  PtFastPackets packets_;
  PtReturnStack returns_;

  // Of the segment being walked.
  PtFastPacket packet_;  // that is used next
  bool is_64_bit_ = true;
  uint32_t block_ = 0;       // that ran last
  uint64_t address_ = 0;     // where execution goes on, unless at the end of `block_`
  unsigned slot_ = kNoSlot;  // by which successor of `block_` it does
  uint64_t steps_left_ = 0;  // blocks that lead on by themselves
};

}  // namespace ptarmigan::internal
