#include "export/perfetto.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/str_format.h"
#include "export/internal/frame_names.h"
#include "export/internal/protobuf_wire.h"
#include "export/internal/timeline_slices.h"

namespace ptarmigan {
namespace {

using internal::TimelineSlices;

// Field numbers of protos/perfetto/trace/ (trace.proto, trace_packet.proto, track_event/*.proto, interned_data.proto).
constexpr int kTracePacket = 1;
namespace packet {
constexpr int kTimestamp = 8;
constexpr int kSequenceId = 10;
constexpr int kTrackEvent = 11;
constexpr int kInternedData = 12;
constexpr int kSequenceFlags = 13;
constexpr int kTrackDescriptor = 60;
constexpr uint64_t kIncrementalStateCleared = 1;
constexpr uint64_t kNeedsIncrementalState = 2;
}  // namespace packet
namespace track_event {
constexpr int kCategoryIids = 3;
constexpr int kDebugAnnotations = 4;
constexpr int kType = 9;
constexpr int kNameIid = 10;
constexpr int kTrackUuid = 11;
constexpr int kName = 23;
constexpr uint64_t kSliceBegin = 1;
constexpr uint64_t kSliceEnd = 2;
constexpr uint64_t kInstant = 3;
}  // namespace track_event
namespace annotation {
constexpr int kText = 6;
constexpr int kName = 10;
}  // namespace annotation
namespace interned {
constexpr int kCategories = 1;
constexpr int kEventNames = 2;
constexpr int kIid = 1;
constexpr int kName = 2;
}  // namespace interned
namespace track {
constexpr int kUuid = 1;
constexpr int kName = 2;
constexpr int kProcess = 3;
constexpr int kThread = 4;
constexpr int kParentUuid = 5;
constexpr int kProcessPid = 1;
constexpr int kProcessName = 6;
constexpr int kThreadPid = 1;
constexpr int kThreadTid = 2;
constexpr int kThreadName = 5;
}  // namespace track

constexpr size_t kFlushBytes = size_t{1} << 18;

class Writer : private TimelineSlices::Sink {
 public:
  Writer(const Profile& profile, ByteSink* sink)
      : flow_(profile.summary.flow), names_(profile), slices_(profile), sink_(*sink) {}

  Status Write() {
    DescribeThreads();
    slices_.ForEach(this);
    WriteMarks();
    Flush();
    return status_;
  }

 private:
  // Tracks are numbered from 1 on (0 is Perfetto's own): threads, processes, then others as they come.
  static uint64_t ThreadTrack(uint32_t thread) { return uint64_t{thread} + 1; }

  template <typename Fields>
  void Packet(const Fields& fields) {
    wire_.Message(kTracePacket, fields);
    if (wire_.size() >= kFlushBytes) Flush();
  }
  void Flush() {
    if (status_) status_ = sink_.Write(wire_.bytes());
    wire_.Clear();
  }

  template <typename Fields>
  void Describe(uint64_t uuid, const Fields& fields) {
    Packet([&] {
      wire_.Message(packet::kTrackDescriptor, [&] {
        wire_.Unsigned(track::kUuid, uuid);
        fields();
      });
    });
  }

  void DescribeThreads() {
    std::map<int32_t, std::string> processes;
    for (const FlowSummary::Thread& thread : flow_.threads) {
      std::string& name = processes[thread.pid];
      if (name.empty() || thread.pid == thread.tid) name = thread.name;
    }
    tracks_ = flow_.threads.size();
    for (const auto& [pid, name] : processes) {
      process_tracks_[pid] = ++tracks_;
      Describe(tracks_, [&, id = pid, title = std::string_view(name)] {
        wire_.Message(track::kProcess, [&] {
          wire_.Signed(track::kProcessPid, id);
          if (!title.empty()) wire_.Text(track::kProcessName, title);
        });
      });
    }
    for (uint32_t i = 0; i < flow_.threads.size(); ++i) {
      const FlowSummary::Thread& thread = flow_.threads[i];
      Describe(ThreadTrack(i), [&] {
        wire_.Unsigned(track::kParentUuid, process_tracks_[thread.pid]);
        wire_.Message(track::kThread, [&] {
          wire_.Signed(track::kThreadPid, thread.pid);
          wire_.Signed(track::kThreadTid, thread.tid);
          wire_.Text(track::kThreadName, internal::ThreadTitle(thread));
        });
      });
    }
  }

  void OnTrack(const TimelineSlices::Track& of) override {
    track_ = of.stack == 0 ? ThreadTrack(of.thread) : ++tracks_;
    ++sequence_;
    is_first_ = true;
    name_ids_.assign(name_ids_.size(), 0);
    names_used_ = 0;
    category_ids_.clear();
    if (of.stack == 0) return;
    const FlowSummary::Thread& thread = flow_.threads[of.thread];
    Describe(track_, [&] {
      wire_.Text(track::kName, StrFormat("{} ({}), stack {}", internal::ThreadTitle(thread),
                                         thread.tid, of.stack));
      wire_.Unsigned(track::kParentUuid, ThreadTrack(of.thread));
    });
  }

  void OnBegin(const FlowSummary::Interval& interval, uint64_t begin, uint64_t) override {
    // (By name, not by place: a function has many places.)
    const StringId name = internal::SliceName(interval, &names_);
    if (name_ids_.size() <= name) name_ids_.resize(name + 1);
    uint64_t& name_id = name_ids_[name];
    const bool is_new_name = name_id == 0;
    if (is_new_name) name_id = ++names_used_;
    const std::string_view category = internal::SliceCategory(interval.entry);
    const auto [category_id, is_new_category] =
        category_ids_.try_emplace(category, category_ids_.size() + 1);
    Packet([&, name_iid = name_id, category_iid = category_id->second, is_new = is_new_category] {
      Header(begin);
      if (is_new_name || is_new) {
        wire_.Message(packet::kInternedData, [&] {
          if (is_new) Intern(interned::kCategories, category_iid, category);
          if (is_new_name)
            Intern(interned::kEventNames, name_iid, internal::SliceTitle(name, names_));
        });
      }
      wire_.Message(packet::kTrackEvent, [&] {
        wire_.Unsigned(track_event::kType, track_event::kSliceBegin);
        wire_.Unsigned(track_event::kTrackUuid, track_);
        wire_.Unsigned(track_event::kCategoryIids, category_iid);
        wire_.Unsigned(track_event::kNameIid, name_iid);
        const std::string_view ending = internal::SliceEnding(interval.exit);
        if (ending.empty()) return;
        wire_.Message(track_event::kDebugAnnotations, [&] {
          wire_.Text(annotation::kName, "ended by");
          wire_.Text(annotation::kText, ending);
        });
      });
    });
  }

  void OnEnd(uint64_t end) override { Event(end, track_event::kSliceEnd, track_, {}); }

  void Event(uint64_t time, uint64_t type, uint64_t track_uuid, std::string_view name) {
    Packet([&] {
      Header(time);
      wire_.Message(packet::kTrackEvent, [&] {
        wire_.Unsigned(track_event::kType, type);
        wire_.Unsigned(track_event::kTrackUuid, track_uuid);
        if (!name.empty()) wire_.Text(track_event::kName, name);
      });
    });
  }

  void Header(uint64_t time) {
    // (Also if it is 0: a packet without a time has another meaning.)
    wire_.Tag(packet::kTimestamp, internal::WireType::kVarint);
    wire_.Varint(time);
    wire_.Unsigned(packet::kSequenceId, sequence_);
    wire_.Unsigned(packet::kSequenceFlags,
                   is_first_ ? packet::kIncrementalStateCleared : packet::kNeedsIncrementalState);
    is_first_ = false;
  }
  void Intern(int field, uint64_t iid, std::string_view name) {
    wire_.Message(field, [&] {
      wire_.Unsigned(interned::kIid, iid);
      wire_.Text(interned::kName, name);
    });
  }

  void WriteMarks() {
    uint32_t thread = UINT32_MAX;
    for (const FlowSummary::Mark& mark : flow_.marks) {
      if (mark.thread != thread) {
        thread = mark.thread;
        ++sequence_;
        is_first_ = true;
        track_ = ++tracks_;
        Describe(track_, [&] {
          wire_.Text(track::kName,
                     StrFormat("trust in the trace of {}", flow_.threads[thread].tid));
          wire_.Unsigned(track::kParentUuid, ThreadTrack(thread));
        });
      }
      const std::string_view title = internal::MarkTitle(mark.kind);
      if (mark.end_ns <= mark.begin_ns) {
        Event(mark.begin_ns, track_event::kInstant, track_, title);
        continue;
      }
      Event(mark.begin_ns, track_event::kSliceBegin, track_, title);
      Event(mark.end_ns, track_event::kSliceEnd, track_, {});
    }
    const uint64_t left_out = flow_.intervals_cut + slices_.untimed();
    if (left_out == 0 || flow_.threads.empty()) return;
    ++sequence_;
    is_first_ = true;
    Event(slices_.begin(), track_event::kInstant, process_tracks_[flow_.threads.front().pid],
          StrFormat("{} calls are not shown: {} were the shortest, of {} no time is known",
                    left_out, flow_.intervals_cut, slices_.untimed()));
  }

  const FlowSummary& flow_;
  internal::FrameNames names_;
  TimelineSlices slices_;
  ByteSink& sink_;
  internal::WireWriter wire_;
  Status status_;
  uint64_t tracks_ = 0;  // so far
  std::map<int32_t, uint64_t> process_tracks_;
  uint64_t track_ = 0;  // that is being written
  // A sequence of packets per track: names are known within it only.
  uint64_t sequence_ = 0;
  bool is_first_ = true;
  std::vector<uint64_t> name_ids_;  // by FrameNames' number; 0: not interned yet
  uint64_t names_used_ = 0;
  std::map<std::string_view, uint64_t> category_ids_;
};

}  // namespace

Status WritePerfetto(const Profile& profile, ByteSink* sink) {
  TRY(profile.CheckValid());
  TRY(internal::CheckHasTimeline(profile));
  return Writer(profile, sink).Write();
}

}  // namespace ptarmigan
