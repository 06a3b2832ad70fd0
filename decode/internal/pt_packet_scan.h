// PtPacketScan: one look at the packets of a segment before its flow is followed: what time it was at each of them, where
// the packets are that events come from, and how much is padding.
//
// The clock (SDM volume 3, "Intel Processor Trace", sections on TSC, TMA, MTC, CYC and CBR packets):
//
//   TSC  the time                                   TMA  where the crystal's clock stood then
//   MTC  the crystal's clock passed a multiple of 2^frequency       CBR  core cycles per bus cycle
//   CYC  core cycles since the last CYC             -> ticks by the ratio of CBR, else by that of the last two MTC packets
//
// It never goes back: an estimate by cycles that was too large waits for the next packet to catch up. One per worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/byte_cursor.h"
#include "decode/pt_config.h"

namespace ptarmigan::internal {

// Time as packets tell it.
class PtClock {
 public:
  // Unless `want_time`, it only looks for contradictions, and stands still between TSC and MTC packets.
  PtClock(const PtConfig& config, bool want_time);
  void Reset();
  void Tsc(uint64_t tsc);
  void Tma(uint16_t crystal, uint16_t fast);
  void Mtc(uint8_t value);
  void Cyc(uint64_t cycles) {
    // MTC packets that come late have all come when time goes on.
    if (cycles > 0 && excess_cycles_ > fitting_cycles_) implausible_ = true;
    mtc_cycles_ += cycles;
    if (want_time_) Pass(cycles);
  }
  void Cbr(uint8_t ratio);
  // Tracing went off or packets were lost: what MTC packets do not tell is no wonder.
  void Interrupt() {
    mtcs_in_a_row_ = 0;
    excess_cycles_ = 0;
  }
  // Packets were lost: cycles tell nothing until a packet says the time again.
  void Overflow() { lost_ = true; }
  bool known() const { return known_; }
  uint64_t ticks() const { return ticks_; }
  // Of all CYC packets.
  uint64_t cycles() const { return all_cycles_; }
  // More cycles passed than the crystal's clock had time for.
  bool implausible() const { return implausible_; }
  const PtConfig& config() const { return config_; }

 private:
  bool KnowsRatio() const { return config_.nominal_ratio != 0 && cbr_ != 0; }
  void Advance(uint64_t ticks);
  void Pass(uint64_t cycles);
  void Compare(uint64_t ticks);
  uint64_t CrystalToTicks(uint64_t crystal_ticks) const;

  const PtConfig& config_;
  const bool want_time_;
  const uint64_t mtc_ticks_;  // from one MTC packet to the next
  bool known_ = false;
  bool lost_ = false;
  uint64_t ticks_ = 0;
  // Of the last packet that is exact.
  uint64_t base_ticks_ = 0;
  uint64_t cycles_ = 0;  // since then
  uint64_t all_cycles_ = 0;
  bool has_tma_ = false;
  bool has_mtc_ = false;
  uint64_t tma_ticks_ = 0;  // when the crystal's clock stood at `tma_crystal_`
  uint16_t tma_crystal_ = 0;
  uint8_t last_mtc_ = 0;
  uint64_t last_mtc_ticks_ = 0;
  uint64_t mtc_cycles_ = 0;  // since the last MTC
  uint8_t cbr_ = 0;
  uint8_t cbr_max_ = 0;  // since the last MTC
  unsigned mtcs_in_a_row_ = 0;
  uint64_t excess_cycles_ = 0;   // that no time was left for
  uint64_t fitting_cycles_ = 0;  // between the last two MTC packets
  // What Compare computed last.
  uint64_t compared_ticks_ = 0;
  uint8_t compared_ratio_ = 0;
  bool implausible_ = false;
  // Ticks per 2^16 cycles, measured; 0: not known.
  uint64_t measured_ = 0;
};

class PtPacketScan {
 public:
  struct Mark {
    enum class Kind : uint8_t { kEnable, kDisable, kOverflow };
    size_t offset = 0;
    Kind kind = Kind::kEnable;
    bool has_time = false;
    uint64_t ticks = 0;
    uint64_t cycles = 0;
  };

  // Unless `want_time`, TicksAt is not asked.
  PtPacketScan(const PtConfig& config, bool want_time)
      : clock_(config, want_time), want_time_(want_time) {}

  // `bytes` begin with a PSB. Stops at what is no packet.
  void Scan(Bytes bytes);

  // All questions begin anew.
  void Rewind() { next_point_ = next_mark_ = 0; }

  // The time at the packet at `offset`, and the cycles that CYC packets told until then: false if the time is not known.
  // Offsets must not fall.
  bool TicksAt(size_t offset, uint64_t* ticks, uint64_t* cycles) {
    while (next_point_ < points_.size() && points_[next_point_].offset <= offset) ++next_point_;
    if (next_point_ == 0) return false;
    *ticks = points_[next_point_ - 1].ticks;
    *cycles = points_[next_point_ - 1].cycles;
    return true;
  }
  // The next packet of a kind that lies before `end`; null if there is none. What it passes is not found again.
  const Mark* NextMark(Mark::Kind kind, size_t end);
  // Those before `offset` are not looked for any more.
  void SkipMarks(size_t offset);
  // Whether there is one between the last that was found and `end`.
  bool OverflowBefore(size_t end) const {
    return next_mark_ < marks_.size() && marks_[next_mark_].kind == Mark::Kind::kOverflow &&
           marks_[next_mark_].offset < end;
  }
  // Packets that this trace cannot have: times that contradict each other; one or two of a kind that was not asked for.
  bool implausible() const;
  // Of the bytes before `end`.
  uint64_t PaddingBefore(size_t end) const;
  uint64_t OverflowsBefore(size_t end) const;

 private:
  struct Point {
    size_t offset = 0;  // behind the packet
    uint64_t ticks = 0;
    uint64_t cycles = 0;
  };
  struct Padding {
    size_t offset = 0;
    size_t bytes = 0;
  };

  size_t Extended(const std::byte* at, size_t left, size_t offset);
  void AddPoint(size_t offset) {
    if (!want_time_ || !clock_.known()) return;
    if (points_.empty() || points_.back().ticks != clock_.ticks()) {
      points_.push_back({offset, clock_.ticks(), clock_.cycles()});
    }
  }
  void AddMark(size_t offset, Mark::Kind kind);

  PtClock clock_;
  const bool want_time_;
  std::vector<Point> points_;
  std::vector<Mark> marks_;
  std::vector<Padding> padding_;
  size_t next_point_ = 0;
  size_t next_mark_ = 0;
  size_t bytes_ = 0;
  uint64_t cycs_ = 0;
  uint64_t mtcs_ = 0;
};

}  // namespace ptarmigan::internal
