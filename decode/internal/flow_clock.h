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
  // Rising in both members; not empty.
  explicit FlowClock(std::span<const FlowAnchor> anchors) : anchors_(anchors) {}

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
  // In any order.
  uint64_t Find(uint64_t instruction) const {
    const auto after = std::upper_bound(
        anchors_.begin(), anchors_.end(), instruction,
        [](uint64_t value, const FlowAnchor& anchor) { return value < anchor.instruction; });
    if (after == anchors_.begin()) return anchors_.front().ticks;
    return Between(static_cast<size_t>(after - anchors_.begin()) - 1, instruction);
  }

 private:
  __extension__ using Wide = unsigned __int128;

  uint64_t Between(size_t index, uint64_t instruction) const {
    const FlowAnchor& low = anchors_[index];
    if (instruction <= low.instruction || index + 1 == anchors_.size()) return low.ticks;
    const FlowAnchor& high = anchors_[index + 1];
    const uint64_t ticks = high.ticks - low.ticks;
    const uint64_t passed = instruction - low.instruction;
    const uint64_t all = high.instruction - low.instruction;
    if (ticks <= UINT32_MAX && passed <= UINT32_MAX) return low.ticks + ticks * passed / all;
    return low.ticks + static_cast<uint64_t>(static_cast<Wide>(ticks) * passed / all);
  }

  std::span<const FlowAnchor> anchors_;
  size_t at_ = 0;
};

}  // namespace ptarmigan::internal
