#include "decode/internal/pt_fast_walk.h"

namespace ptarmigan::internal {
namespace {

using Kind = PtFastBlock::Kind;
using PacketKind = PtFastPacket::Kind;
using End = PtSegmentWalk::End;

// Blocks that lead on by themselves, for each byte of trace: more are no program's, and fewer than libipt's walk allows, which
// has the last word.
constexpr uint64_t kStepsPerByte = 32;
// As libipt numbers modes of execution (enum pt_exec_mode).
constexpr uint64_t kMode32 = 2;
constexpr uint64_t kMode64 = 3;

FlowRecorder::Block RecordedBlock(const PtFastBlock& block) {
  return {.start = block.start,
          .last = block.last(),
          .instructions = block.instructions,
          .is_64_bit = block.is_64_bit};
}

}  // namespace

PtFastWalk::PtFastWalk(const PtOptions& options, bool odd_overflows, PtSegmentWalk* walk)
    : options_(options), walk_(*walk), recorder_(walk->recorder()), packets_(odd_overflows) {}

bool PtFastWalk::Walk() {
  const PtSegmentTask& task = walk_.task();
  const PtFastPackets::Header header = packets_.Begin(task.bytes_and_header, task.bytes.size());
  if (!header.is_plain) return false;
  is_64_bit_ = header.is_64_bit;
  returns_.Clear();
  steps_left_ = task.bytes_and_header.size() * kStepsPerByte + options_.packetless_blocks_max;
  block_ = 0;
  GoTo(header.address);
  walk_.BeginTracing(header.has_address);
  ReadOn();
  while (walk_.end == End::kRunning) {
    if (!Step()) return false;
  }
  walk_.Finish(task.bytes.size());
  return true;
}

bool PtFastWalk::Step() {
  switch (packet_.kind) {
    case PacketKind::kBits:
      return walk_.tracing && UseBits();
    case PacketKind::kTarget:
      return walk_.tracing && FollowTarget();
    case PacketKind::kEnd:
      // What runs on towards the next segment without a header to meet is libipt's.
      if (walk_.tracing && walk_.task().next != nullptr && walk_.task().next->has_address)
        return false;
      walk_.end = End::kEndOfTrace;
      return true;
    case PacketKind::kOdd:
      return false;
    default:
      return TakeEvent();
  }
}

unsigned PtFastWalk::SlotOf(PtFastBlock* block, uint64_t target) {
  if (block->target[0] == target) return 0;
  if (block->target[1] == target) return 1;
  // The latest: where a return led before it will lead again.
  const unsigned slot = block->edge[0] == 0 ? 0 : 1;
  block->target[slot] = target;
  block->edge[slot] = 0;
  return slot;
}

bool PtFastWalk::Enter() {
  const bool by_flow = recorder_.follows_flow() && slot_ != kNoSlot;
  if (by_flow) {
    const PtFastBlock& from = code_[block_];
    if (from.edge[slot_] != 0) {
      block_ = from.next[slot_];
      const PtFastBlock& to = code_[block_];
      recorder_.TakeEdge(from.edge[slot_], to.start, to.instructions);
      return true;
    }
  }
  const uint32_t id = code_.Find(recorder_, address_, is_64_bit_);
  const PtFastBlock& to = code_[id];
  if (id == 0 || to.kind == Kind::kOdd) return false;
  const uint32_t edge = recorder_.FindEdge(RecordedBlock(to));
  if (by_flow && code_[block_].space == to.space) {
    code_[block_].next[slot_] = id;
    code_[block_].edge[slot_] = edge;
  }
  recorder_.TakeEdge(edge, to.start, to.instructions);
  block_ = id;
  return true;
}

bool PtFastWalk::RunToBranch() {
  while (steps_left_-- > 0) {
    if (!Enter()) return false;
    const PtFastBlock& block = code_[block_];
    if (!block.leads_on()) return true;
    if (block.kind == Kind::kCall) PushCall(block);
    address_ = block.target[1];
    slot_ = 1;
  }
  return false;
}

bool PtFastWalk::UseBits() {
  if (!RunToBranch()) return false;
  TakeTime();
  uint64_t bits = packet_.bits;
  const bool is_single = (bits << 1) == PtFastPackets::kNoBits;
  bool is_linked = recorder_.follows_flow();  // new code may just have been taken up
  for (;;) {
    PtFastBlock* block = &code_[block_];
    unsigned slot = 0;
    if (block->kind == Kind::kConditional) [[likely]] {
      slot = static_cast<unsigned>(bits >> 63);
      address_ = block->target[slot];
    } else {
      // A compressed return.
      if (block->kind != Kind::kReturn || bits >> 63 == 0 || !returns_.Pop(&address_)) return false;
      slot = SlotOf(block, address_);
    }
    slot_ = slot;
    bits <<= 1;
    if (bits == PtFastPackets::kNoBits) break;
    for (;;) {
      if (block->edge[slot] != 0 && is_linked) [[likely]] {
        block_ = block->next[slot];
        const uint32_t edge = block->edge[slot];
        block = &code_[block_];
        recorder_.TakeEdge(edge, block->start, block->instructions);
      } else {
        if (!Enter()) return false;
        block = &code_[block_];
        is_linked = true;
      }
      if (!block->leads_on()) break;
      if (steps_left_-- == 0) return false;
      if (block->kind == Kind::kCall) PushCall(*block);
      address_ = block->target[1];
      slot_ = slot = 1;
    }
  }
  ReadOn();
  // libipt has read on to the packet behind the bits, and now uses it.
  const bool waits = packet_.kind == PacketKind::kNextHeader && packet_.states > 1;
  if (!is_single && packet_.is_event() && !waits) TakeTime();
  return true;
}

bool PtFastWalk::FollowTarget() {
  if (!RunToBranch()) return false;
  TakeTime();
  PtFastBlock& block = code_[block_];
  if (block.kind == Kind::kConditional) return false;
  if (block.kind == Kind::kIndirectCall) PushCall(block);
  address_ = packet_.address;
  slot_ = SlotOf(&block, address_);
  ReadOn();
  return true;
}

bool PtFastWalk::RunTo(uint64_t address, bool or_branch) {
  while (steps_left_-- > 0) {
    if (address_ == address) return true;
    const uint32_t id = code_.Find(recorder_, address_, is_64_bit_);
    if (id == 0) return false;
    const PtFastBlock& block = code_[id];
    if (address > block.start && address < block.end) {
      const FlowRecorder::Block whole = RecordedBlock(block);
      FlowRecorder::Block part = whole;
      if (!recorder_.InstructionsBefore(whole, address, &part.instructions, &part.last))
        return false;
      recorder_.OnBlock(part);
      GoTo(address);
      return true;
    }
    if (!block.leads_on() && !or_branch) return false;
    if (!Enter()) return false;
    const PtFastBlock& entered = code_[block_];
    if (entered.kind == Kind::kCall || entered.kind == Kind::kIndirectCall) PushCall(entered);
    if (!entered.leads_on()) return true;
    address_ = entered.target[1];
    slot_ = 1;
  }
  return false;
}

bool PtFastWalk::TakeEvent() {
  const PtFastPacket& packet = packet_;
  switch (packet.kind) {
    case PacketKind::kInterrupt:
      if (!walk_.tracing || !RunTo(packet.from, false)) return false;
      walk_.OnInterrupted(packet.from);
      GoTo(packet.address);
      break;
    case PacketKind::kStopAt:
      // (Erratum SKD022 is about instructions that are kOdd.)
      if (!walk_.tracing || !RunTo(packet.from, false)) return false;
      if (code_.Find(recorder_, packet.from, is_64_bit_) == 0) return false;
      walk_.OnDisabledAt(packet.from, packet.end);
      break;
    case PacketKind::kStop:
      if (!walk_.tracing) return false;
      // Without an address: at the next branch that would need one.
      if (packet.has_address ? !RunTo(packet.address, true) : !RunTo(UINT64_MAX, true))
        return false;
      walk_.OnDisabled(packet.has_address ? packet.address : 0, !packet.has_address, packet.end);
      break;
    case PacketKind::kStart:
      if (walk_.tracing) return false;
      walk_.OnEnabled(packet.address, packet.end);
      if (packet.has_mode) {
        is_64_bit_ = packet.is_64_bit;
        recorder_.OnEvent(FlowEvent::Kind::kExecutionMode, packet.address,
                          packet.is_64_bit ? kMode64 : kMode32);
      }
      GoTo(packet.address);
      break;
    case PacketKind::kOverflow:
      // Where the last branch before it led is known, though not what ran there.
      if (walk_.tracing) recorder_.OnArrival(address_);
      walk_.OnOverflow(packet.has_address, packet.address, packet.end);
      GoTo(packet.address);
      break;
    case PacketKind::kRatio:
      break;
    case PacketKind::kNextHeader:
      return Arrive();
    default:
      return false;
  }
  ReadOn();
  return true;
}

bool PtFastWalk::Arrive() {
  const PtSyncPoint* next = walk_.task().next;
  // libipt tells the headers apart by what ran between them.
  if (!walk_.tracing || recorder_.instructions() == 0 || packet_.is_64_bit != is_64_bit_ ||
      next == nullptr || !next->has_address || next->address != packet_.address) {
    return false;
  }
  if (!RunTo(next->address, false)) return false;
  // If a branch led there: the next segment only knows that it begins at its target.
  recorder_.OnArrival(next->address);
  walk_.end = End::kArrived;
  return true;
}

}  // namespace ptarmigan::internal
