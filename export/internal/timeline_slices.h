// TimelineSlices: the intervals of a profile's traces as slices that nest, track by track: what timeline formats are written
// from. Intervals of a profile are in the order in which slices begin, so nothing is sorted or kept but the slices that are open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "export/internal/frame_names.h"
#include "model/profile.h"

namespace ptarmigan::internal {

class TimelineSlices {
 public:
  // Where slices stand: a stack of a thread.
  struct Track {
    uint32_t thread = 0;  // of FlowSummary::threads
    uint32_t stack = 0;
  };
  class Sink {
   public:
    virtual ~Sink() = default;
    // Each once, before its slices.
    virtual void OnTrack(const Track& track) = 0;
    // In order of time; those that begin together, the outer one first. `end` is never behind that of a slice around it.
    virtual void OnBegin(const FlowSummary::Interval& interval, uint64_t begin, uint64_t end) = 0;
    // Of the slice that began last and has not ended.
    virtual void OnEnd(uint64_t end) = 0;
  };

  explicit TimelineSlices(const Profile& profile);

  // Nanoseconds; of traces without time, instructions.
  bool has_time() const { return has_time_; }
  // Of the first slice and of the last mark or slice.
  uint64_t begin() const { return begin_; }
  // Intervals of which no time is known in a trace that has time.
  uint64_t untimed() const { return untimed_; }
  void ForEach(Sink* sink) const;

 private:
  uint64_t BeginOf(const FlowSummary::Interval& interval) const {
    return has_time_ ? interval.begin_ns : interval.begin_instruction;
  }
  uint64_t EndOf(const FlowSummary::Interval& interval) const {
    return has_time_ ? interval.end_ns : interval.begin_instruction + interval.instructions;
  }

  const FlowSummary& flow_;
  bool has_time_ = false;
  uint64_t begin_ = UINT64_MAX;
  uint64_t untimed_ = 0;
};

// What a slice is called, as FrameNames has it; 0 where nothing is known of the code.
StringId SliceName(const FlowSummary::Interval& interval, FrameNames* names);
std::string_view SliceTitle(StringId name, const FrameNames& names);
// "call", "jump", "interrupt", "began before"
std::string_view SliceCategory(FlowSummary::Entry entry);
// What is to be said of how a slice ended; empty for a return.
std::string_view SliceEnding(FlowSummary::Exit exit);
// "overflow"
std::string_view MarkTitle(FlowSummary::Mark::Kind kind);
// Of a thread: its name, or "thread 4242".
std::string ThreadTitle(const FlowSummary::Thread& thread);
// kInvalidInput with a sentence for people if the profile holds no timeline.
Status CheckHasTimeline(const Profile& profile);

}  // namespace ptarmigan::internal
