// FlowClock: the time between a segment's anchors, interpolated by instructions.
//
//   ticks            x anchor
//     │        x━━━━━┛
//     │        ┃ outside: ticks pass, no instruction is traced
//     │  x━━━━━x
//     └──────────────────── instructions
//
// Before the first anchor and behind the last one, time stands still: nothing is known there. Borrows the anchors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "model/control_flow.h"

namespace ptarmigan::internal {

class FlowClock {
 public:
  // Rising in all members; not empty. `what` is told: ticks, or cycles.
  explicit FlowClock(std::span<const FlowAnchor> anchors,
                     uint64_t FlowAnchor::*what = &FlowAnchor::ticks)
      : anchors_(anchors), what_(what) {}

  // When the instructions before number `instruction` had run. Calls must not go back.
  uint64_t TicksAt(uint64_t instruction) {
    while (at_ + 1 < anchors_.size() && anchors_[at_ + 1].instruction < instruction) ++at_;
    return Between(at_, instruction);
  }
  // The same, but after the time that passed before the next instruction ran.
  uint64_t TicksBehind(uint64_t instruction) {
    while (at_ + 1 < anchors_.size() && anchors_[at_ + 1].instruction <= instruction) ++at_;
    return Between(at_, instruction);
  }
  // How far the last answer may be off: CallEvent::kUnboundedTicks where no anchor is on one side. The branches of a TNT packet
  // are told together, so a timing packet beside one may belong to any of them: `spread` more anchors count on either side.
  uint32_t UncertaintyAt(uint64_t instruction, size_t spread) const {
    const size_t last = anchors_.size() - 1;
    if (instruction < anchors_[at_].instruction ||
        (at_ == last && instruction > anchors_[at_].instruction)) {
      return CallEvent::kUnboundedTicks;
    }
    const FlowAnchor& low = anchors_[at_ - std::min(at_, spread)];
    const FlowAnchor& high = anchors_[std::min(at_ + 1 + spread, last)];
    return static_cast<uint32_t>(
        std::min<uint64_t>(high.ticks - low.ticks, CallEvent::kUnboundedTicks - 1));
  }
  // In any order.
  uint64_t Find(uint64_t instruction) const {
    const auto after = std::upper_bound(
        anchors_.begin(), anchors_.end(), instruction,
        [](uint64_t value, const FlowAnchor& anchor) { return value < anchor.instruction; });
    if (after == anchors_.begin()) return anchors_.front().*what_;
    return Between(static_cast<size_t>(after - anchors_.begin()) - 1, instruction);
  }

 private:
  __extension__ using Wide = unsigned __int128;

  uint64_t Between(size_t index, uint64_t instruction) const {
    const FlowAnchor& low = anchors_[index];
    const uint64_t before = low.*what_;
    if (instruction <= low.instruction || index + 1 == anchors_.size()) return before;
    const FlowAnchor& high = anchors_[index + 1];
    const uint64_t ticks = high.*what_ - before;
    const uint64_t passed = instruction - low.instruction;
    const uint64_t all = high.instruction - low.instruction;
    if (ticks <= UINT32_MAX && passed <= UINT32_MAX) return before + ticks * passed / all;
    return before + static_cast<uint64_t>(static_cast<Wide>(ticks) * passed / all);
  }

  std::span<const FlowAnchor> anchors_;
  uint64_t FlowAnchor::*what_;
  size_t at_ = 0;
};

}  // namespace ptarmigan::internal
