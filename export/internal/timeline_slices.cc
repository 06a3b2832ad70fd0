#include "export/internal/timeline_slices.h"

#include <algorithm>

#include "base/str_format.h"

namespace ptarmigan::internal {

TimelineSlices::TimelineSlices(const Profile& profile) : flow_(profile.summary.flow) {
  has_time_ = std::ranges::any_of(flow_.intervals, [](const FlowSummary::Interval& interval) {
    return interval.begin_ns != 0;
  });
  for (const FlowSummary::Interval& interval : flow_.intervals) {
    if (has_time_ && interval.begin_ns == 0) {
      ++untimed_;
    } else {
      begin_ = std::min(begin_, BeginOf(interval));
    }
  }
  for (const FlowSummary::Mark& mark : flow_.marks) begin_ = std::min(begin_, mark.begin_ns);
}

void TimelineSlices::ForEach(Sink* sink) const {
  std::vector<uint64_t> ends;  // of open slices
  const FlowSummary::Interval* last = nullptr;
  // Slices without length begin and end together: which are around which shows in their instructions.
  std::vector<uint64_t> end_instructions;
  const auto close_one = [&] {
    sink->OnEnd(ends.back());
    ends.pop_back();
    end_instructions.pop_back();
  };
  for (const FlowSummary::Interval& interval : flow_.intervals) {
    if (has_time_ && interval.begin_ns == 0) continue;
    const bool is_new_track =
        last == nullptr || last->thread != interval.thread || last->stack != interval.stack;
    // (A thread that began a new program counts its instructions anew.)
    if (is_new_track || interval.begin_instruction < last->begin_instruction) {
      while (!ends.empty()) close_one();
    }
    if (is_new_track) sink->OnTrack({interval.thread, interval.stack});
    last = &interval;
    const uint64_t begin = BeginOf(interval);
    while (!ends.empty() &&
           (ends.back() < begin || end_instructions.back() <= interval.begin_instruction)) {
      close_one();
    }
    uint64_t end = std::max(begin, EndOf(interval));
    if (!ends.empty()) end = std::min(end, ends.back());
    sink->OnBegin(interval, begin, end);
    ends.push_back(end);
    end_instructions.push_back(interval.begin_instruction + interval.instructions);
  }
  while (!ends.empty()) close_one();
}

StringId SliceName(const FlowSummary::Interval& interval, FrameNames* names) {
  // (What is inlined is a part of its function here.)
  return interval.function == kNoId ? 0 : names->Frames(interval.function).back().name;
}

std::string_view SliceTitle(StringId name, const FrameNames& names) {
  return name == 0 ? "[unknown]" : names.Text(name);
}

std::string_view SliceCategory(FlowSummary::Entry entry) {
  switch (entry) {
    case FlowSummary::Entry::kCall:
      return "call";
    case FlowSummary::Entry::kTailCall:
      return "jump";
    case FlowSummary::Entry::kInterrupt:
      return "interrupt";
    case FlowSummary::Entry::kUnknown:
      break;
  }
  return "began before";
}

std::string_view SliceEnding(FlowSummary::Exit exit) {
  switch (exit) {
    case FlowSummary::Exit::kReturn:
      return {};
    case FlowSummary::Exit::kReplaced:
      return "jump";
    case FlowSummary::Exit::kUnwound:
      return "unwound";
    case FlowSummary::Exit::kOpen:
      break;
  }
  return "open";
}

std::string_view MarkTitle(FlowSummary::Mark::Kind kind) {
  switch (kind) {
    case FlowSummary::Mark::Kind::kOverflow:
      return "trace lost: overflow";
    case FlowSummary::Mark::Kind::kMissingCode:
      return "trace unusable: code is missing";
    case FlowSummary::Mark::Kind::kError:
      return "trace unusable: it does not fit the code";
    case FlowSummary::Mark::Kind::kSuspect:
      return "suspect";
    case FlowSummary::Mark::Kind::kBad:
      break;
  }
  return "bad";
}

std::string ThreadTitle(const FlowSummary::Thread& thread) {
  return thread.name.empty() ? StrFormat("thread {}", thread.tid) : thread.name;
}

Status CheckHasTimeline(const Profile& profile) {
  if (!profile.summary.flow.intervals.empty()) return OkStatus();
  return Error{ErrorCode::kInvalidInput,
               "there is no timeline to write: it needs a recording of Intel PT or CoreSight; "
               "samples are sums without times"};
}

}  // namespace ptarmigan::internal
