#include "export/chrome_trace.h"

#include <map>
#include <string>
#include <string_view>

#include "base/json_writer.h"
#include "base/str_format.h"
#include "export/internal/frame_names.h"
#include "export/internal/timeline_slices.h"

namespace ptarmigan {
namespace {

using internal::TimelineSlices;

// Rows are threads there: other stacks of a thread are threads with numbers that no kernel gives.
constexpr int64_t kStackTidStep = 10'000'000;

class Writer : private TimelineSlices::Sink {
 public:
  Writer(const Profile& profile, ByteSink* sink)
      : flow_(profile.summary.flow), names_(profile), slices_(profile), json_(sink) {}

  Status Write() {
    json_.BeginObject().Field("displayTimeUnit", "ns").Key("traceEvents").BeginArray();
    NameProcesses();
    slices_.ForEach(this);
    WriteMarks();
    json_.EndArray().Key("otherData").BeginObject();
    json_.Field("exporter", "ptarmigan").Field("source", flow_.source);
    // Times are small numbers, since readers take them for floating-point ones.
    json_.Field("begin_ns", StrFormat("{}", slices_.begin()));
    json_.Field("unit", slices_.has_time() ? "nanoseconds" : "instructions");
    json_.Key("intervals_cut").Uint(flow_.intervals_cut);
    json_.Key("intervals_without_time").Uint(slices_.untimed());
    json_.EndObject().EndObject();
    return json_.Finish();
  }

 private:
  void Begin(std::string_view phase, uint32_t thread, uint32_t stack) {
    const FlowSummary::Thread& of = flow_.threads[thread];
    json_.BeginObject().Field("ph", phase).Field("pid", int64_t{of.pid});
    json_.Field("tid", of.tid + kStackTidStep * stack);
  }
  void Time(std::string_view key, uint64_t ns) {
    json_.Key(key).Microseconds(static_cast<int64_t>(ns));
  }
  void Name(std::string_view what, uint32_t thread, uint32_t stack, std::string_view name) {
    Begin("M", thread, stack);
    json_.Field("name", what).Key("args").BeginObject().Field("name", name).EndObject();
    json_.EndObject();
  }

  void NameProcesses() {
    std::map<int32_t, uint32_t> threads;  // that gives each process its name
    for (uint32_t i = 0; i < flow_.threads.size(); ++i) {
      const FlowSummary::Thread& thread = flow_.threads[i];
      const auto [found, is_new] = threads.try_emplace(thread.pid, i);
      if (!is_new && thread.pid == thread.tid) found->second = i;
    }
    for (const auto& [pid, thread] : threads) {
      Name("process_name", thread, 0, internal::ThreadTitle(flow_.threads[thread]));
    }
  }

  void OnTrack(const TimelineSlices::Track& track) override {
    track_ = track;
    std::string name = internal::ThreadTitle(flow_.threads[track.thread]);
    if (track.stack != 0) name += StrFormat(", stack {}", track.stack);
    Name("thread_name", track.thread, track.stack, name);
  }

  void OnBegin(const FlowSummary::Interval& interval, uint64_t begin, uint64_t end) override {
    Begin("X", track_.thread, track_.stack);
    Time("ts", begin - slices_.begin());
    Time("dur", end - begin);
    json_.Field("name", internal::SliceTitle(internal::SliceName(interval, &names_), names_));
    json_.Field("cat", internal::SliceCategory(interval.entry));
    const std::string_view ending = internal::SliceEnding(interval.exit);
    if (!ending.empty()) json_.Key("args").BeginObject().Field("ended by", ending).EndObject();
    json_.EndObject();
  }

  void OnEnd(uint64_t) override {}

  void WriteMarks() {
    for (const FlowSummary::Mark& mark : flow_.marks) {
      Begin("i", mark.thread, 0);
      Time("ts", mark.begin_ns - slices_.begin());
      json_.Field("s", "t").Field("name", internal::MarkTitle(mark.kind)).Field("cat", "trust");
      if (mark.end_ns > mark.begin_ns) {
        json_.Key("args").BeginObject().Key("ns").Uint(mark.end_ns - mark.begin_ns).EndObject();
      }
      json_.EndObject();
    }
  }

  const FlowSummary& flow_;
  internal::FrameNames names_;
  TimelineSlices slices_;
  JsonWriter json_;
  TimelineSlices::Track track_;
};

}  // namespace

Status WriteChromeTrace(const Profile& profile, ByteSink* sink) {
  TRY(profile.CheckValid());
  TRY(internal::CheckHasTimeline(profile));
  return Writer(profile, sink).Write();
}

}  // namespace ptarmigan
