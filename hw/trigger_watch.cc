#include <linux/perf_event.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/file.h"
#include "base/str_format.h"
#include "hw/event_spec.h"
#include "hw/internal/attr_bits.h"
#include "hw/internal/pmu_events.h"
#include "hw/trigger.h"

namespace ptarmigan {
namespace {

using internal::SetBit;

// Records are few and must be seen at once.
constexpr uint64_t kRingBytes = uint64_t{64} << 10;

// One record, as far as a watch looks at it. The layout is that of PerfSession's events (kSampleIdentifier | Ip | Tid | Time
// | Cpu | Period | Raw) and of its trailers.
struct SeenRecord {
  uint32_t type = 0;
  uint16_t misc = 0;
  uint64_t id = 0;
  int32_t tid = 0;
  uint64_t time_ns = 0;
  int32_t woken_tid = 0;  // of sched_wakeup
};

class RecordReader : public RawRecordSink {
 public:
  explicit RecordReader(size_t pid_offset) : pid_offset_(pid_offset) {}

  void OnRecord(const RawRecord& record) override {
    if (record.stream == 0) return;  // what the session makes up about processes that were there
    ByteCursor cursor(record.bytes);
    SeenRecord seen;
    seen.type = cursor.U32();
    seen.misc = cursor.U16();
    cursor.Skip(2);
    if (seen.type == internal::kRecordLost) {
      cursor.Skip(8);
      lost += cursor.U64();
      return;
    }
    if (seen.type == internal::kRecordSample) {
      seen.id = cursor.U64();
      cursor.Skip(8);  // instruction pointer
      cursor.Skip(4);
      seen.tid = cursor.S32();
      seen.time_ns = cursor.U64();
      if (pid_offset_ > 0) {
        cursor.Skip(8 + 8 + 4 + pid_offset_);  // CPU, period, size of the raw data
        seen.woken_tid = cursor.S32();
      }
    } else if (seen.type == PERF_RECORD_SWITCH) {
      // Nothing of its own; trailer: tid, time, CPU, identifier.
      cursor.Skip(4);
      seen.tid = cursor.S32();
      seen.time_ns = cursor.U64();
    } else {
      return;
    }
    if (cursor.ok()) records.push_back(seen);
  }
  void OnRoundEnd() override {}

  std::vector<SeenRecord> records;
  uint64_t lost = 0;

 private:
  size_t pid_offset_;
};

// Where a field stands in a tracepoint's raw data, from its `format` file; 0: not found.
size_t FieldOffset(const std::string& format, std::string_view field) {
  const size_t name = format.find(StrFormat(" {};\t", field));
  constexpr std::string_view kKey = "offset:";
  const size_t at = name == std::string::npos ? name : format.find(kKey, name);
  if (at == std::string::npos) return 0;
  return static_cast<size_t>(std::strtoul(format.c_str() + at + kKey.size(), nullptr, 10));
}

}  // namespace

class TriggerWatch::Impl {
 public:
  explicit Impl(const Options& options) : options_(options) {}

  Status Open();
  Result<std::vector<TriggerHit>> Poll();
  int wait_fd() const { return epoll_.get(); }
  const TriggerWatchCounts& counts() const { return counts_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Watched {
    std::unique_ptr<PerfSession> session;
    size_t pid_offset = 0;
  };
  struct Thread {
    std::vector<uint64_t> begun_ns;  // spans that have not ended, innermost last
    uint64_t out_ns = 0;             // kSched: left the CPU; 0: runs
    bool was_preempted = false;
    uint64_t woken_ns = 0;
  };

  Status OpenFunction();
  Status OpenSyscall();
  Status OpenSched();
  PerfSessionOptions SessionOptions(std::vector<EventSpec> events) const;
  Status Add(PerfSessionOptions session_options, size_t pid_offset);
  Result<EventSpec> Uprobe(bool is_return) const;
  void FollowSpan(const SeenRecord& record, std::vector<TriggerHit>* hits);
  void FollowSwitch(const SeenRecord& record, std::vector<TriggerHit>* hits);
  void End(int32_t tid, uint64_t begin_ns, uint64_t end_ns, std::vector<TriggerHit>* hits);
  Thread* ThreadOf(int32_t tid);
  bool IsBegin(uint64_t id) const { return std::ranges::find(begin_ids_, id) != begin_ids_.end(); }

  Options options_;
  std::vector<Watched> watched_;
  std::vector<uint64_t> begin_ids_;  // ids of the events that begin a span
  std::unordered_map<int32_t, Thread> threads_;
  Fd epoll_;
  TriggerWatchCounts counts_;
  std::vector<std::string> notes_;
};

PerfSessionOptions TriggerWatch::Impl::SessionOptions(std::vector<EventSpec> events) const {
  PerfSessionOptions session;
  session.target = options_.target;
  session.events = std::move(events);
  session.period = 1;
  session.call_chain = CallChainMode::kNone;
  session.ring_bytes = kRingBytes;
  session.wakeup_bytes = 1;
  session.kernel = options_.kernel;
  session.proc_root = options_.proc_root;
  session.sysfs_root = options_.roots.sysfs;
  return session;
}

Status TriggerWatch::Impl::Add(PerfSessionOptions session_options, size_t pid_offset) {
  const bool by_exec = session_options.target.kind == PerfTarget::Kind::kCommand;
  TRY_ASSIGN(std::unique_ptr<PerfSession> session, PerfSession::Open(std::move(session_options)));
  RecordReader ignored(0);
  TRY(session->Poll(ignored, 0));
  if (!by_exec) TRY(session->Enable());
  epoll_event event = {};
  event.events = EPOLLIN;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, session->wait_fd(), &event) != 0)
    return ErrnoError("epoll_ctl", errno);
  watched_.push_back({std::move(session), pid_offset});
  return OkStatus();
}

Result<EventSpec> TriggerWatch::Impl::Uprobe(bool is_return) const {
  TRY_ASSIGN(EventSpec spec,
             internal::ParsePmuEvent("uprobe", is_return ? "retprobe=1" : "", options_.roots));
  // The kernel reads the path during the call of perf_event_open; options_ outlives the session.
  spec.attr.config1 = reinterpret_cast<uintptr_t>(options_.condition.object.c_str());
  spec.attr.config2 = options_.condition.file_offset;
  spec.name = is_return ? "uretprobe" : "uprobe";
  spec.modes_given = true;
  return spec;
}

Status TriggerWatch::Impl::OpenFunction() {
  TRY_ASSIGN(EventSpec entry, Uprobe(false));
  TRY_ASSIGN(EventSpec back, Uprobe(true));
  TRY(Add(SessionOptions({std::move(entry), std::move(back)}), 0));
  begin_ids_ = watched_.front().session->description().events[0].ids;
  return OkStatus();
}

Status TriggerWatch::Impl::OpenSyscall() {
  const std::string& name = options_.condition.syscall;
  TRY_ASSIGN(EventSpec enter, ParseEvent(StrFormat("syscalls:sys_enter_{}", name), options_.roots));
  TRY_ASSIGN(EventSpec leave, ParseEvent(StrFormat("syscalls:sys_exit_{}", name), options_.roots));
  TRY(Add(SessionOptions({std::move(enter), std::move(leave)}), 0));
  begin_ids_ = watched_.front().session->description().events[0].ids;
  return OkStatus();
}

// A task is ready to run from the moment when it was preempted, or else when it was woken. Its switches are seen in its own
// context; who wakes it is another task, which only a watch of every CPU sees.
Status TriggerWatch::Impl::OpenSched() {
  TRY_ASSIGN(EventSpec nothing, ParseEvent("dummy", options_.roots));
  PerfSessionOptions switches = SessionOptions({std::move(nothing)});
  switches.context_switches = true;
  TRY(Add(std::move(switches), 0));
  const auto refused = [this](const Error& error) {
    notes_.push_back(
        "sched: only the delay after a preemption is seen, not that after a wake-up: " +
        error.message);
    return OkStatus();
  };
  auto wakeup = ParseEvent("sched:sched_wakeup", options_.roots);
  if (!wakeup) return refused(wakeup.error());
  const auto format = ReadTracepointFormat("sched", "sched_wakeup", options_.roots);
  const size_t pid_offset = format ? FieldOffset(*format, "pid") : 0;
  if (pid_offset == 0)
    return refused(Error{ErrorCode::kUnsupported, "sched_wakeup's format names no pid"});
  PerfSessionOptions wakeups = SessionOptions({*std::move(wakeup)});
  wakeups.target = PerfTarget();
  if (const Status status = Add(std::move(wakeups), pid_offset); !status)
    return refused(status.error());
  return OkStatus();
}

Status TriggerWatch::Impl::Open() {
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return ErrnoError("epoll_create1", errno);
  switch (options_.condition.kind) {
    case TriggerCondition::Kind::kFunction:
      return OpenFunction();
    case TriggerCondition::Kind::kSyscall:
      return OpenSyscall();
    case TriggerCondition::Kind::kSched:
      return OpenSched();
  }
  return OkStatus();
}

TriggerWatch::Impl::Thread* TriggerWatch::Impl::ThreadOf(int32_t tid) {
  const auto found = threads_.find(tid);
  if (found != threads_.end()) return &found->second;
  if (threads_.size() >= kThreadsMax) {
    // Those with nothing begun are forgotten first.
    std::erase_if(threads_, [](const auto& entry) {
      return entry.second.begun_ns.empty() && entry.second.out_ns == 0;
    });
  }
  if (threads_.size() >= kThreadsMax) {
    ++counts_.refused_threads;
    return nullptr;
  }
  return &threads_[tid];
}

void TriggerWatch::Impl::End(int32_t tid, uint64_t begin_ns, uint64_t end_ns,
                             std::vector<TriggerHit>* hits) {
  ++counts_.spans;
  const uint64_t duration_ns = end_ns > begin_ns ? end_ns - begin_ns : 0;
  if (duration_ns > static_cast<uint64_t>(options_.condition.threshold.count()))
    hits->push_back({tid, end_ns, duration_ns});
}

void TriggerWatch::Impl::FollowSpan(const SeenRecord& record, std::vector<TriggerHit>* hits) {
  Thread* thread = ThreadOf(record.tid);
  if (thread == nullptr) return;
  if (IsBegin(record.id)) {
    if (thread->begun_ns.size() < kDepthMax)
      thread->begun_ns.push_back(record.time_ns);
    else
      ++counts_.refused_threads;
    return;
  }
  if (thread->begun_ns.empty()) {
    ++counts_.unmatched;
    return;
  }
  const uint64_t begin_ns = thread->begun_ns.back();
  thread->begun_ns.pop_back();
  End(record.tid, begin_ns, record.time_ns, hits);
}

void TriggerWatch::Impl::FollowSwitch(const SeenRecord& record, std::vector<TriggerHit>* hits) {
  Thread* thread = ThreadOf(record.tid);
  if (thread == nullptr) return;
  if ((record.misc & PERF_RECORD_MISC_SWITCH_OUT) != 0) {
    thread->out_ns = record.time_ns;
    thread->was_preempted = (record.misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0;
    return;
  }
  const uint64_t out_ns = std::exchange(thread->out_ns, 0);
  if (out_ns == 0) return;
  const uint64_t ready_ns = thread->was_preempted ? out_ns : thread->woken_ns;
  if (ready_ns >= out_ns) End(record.tid, ready_ns, record.time_ns, hits);
}

Result<std::vector<TriggerHit>> TriggerWatch::Impl::Poll() {
  std::vector<TriggerHit> hits;
  std::vector<SeenRecord> records;
  uint64_t lost = 0;
  // Wake-ups last: whoever is seen to run was woken before.
  for (const Watched& watched : watched_) {
    RecordReader reader(watched.pid_offset);
    TRY(watched.session->Poll(reader, 0));
    std::ranges::move(reader.records, std::back_inserter(records));
    lost += reader.lost;
  }
  std::ranges::stable_sort(records, {}, &SeenRecord::time_ns);
  counts_.events += records.size();
  for (const SeenRecord& record : records) {
    if (options_.condition.kind != TriggerCondition::Kind::kSched) {
      if (record.type == internal::kRecordSample) FollowSpan(record, &hits);
    } else if (record.type == PERF_RECORD_SWITCH) {
      FollowSwitch(record, &hits);
    } else {
      const auto woken = threads_.find(record.woken_tid);
      if (woken != threads_.end()) woken->second.woken_ns = record.time_ns;
    }
  }
  if (lost > 0) {
    // Beginnings may be among them: an end would be matched with the wrong one.
    counts_.lost_records += lost;
    threads_.clear();
  }
  return hits;
}

TriggerWatch::TriggerWatch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TriggerWatch::~TriggerWatch() = default;

Result<std::unique_ptr<TriggerWatch>> TriggerWatch::Open(const Options& options) {
  auto impl = std::make_unique<Impl>(options);
  TRY(impl->Open());
  return std::unique_ptr<TriggerWatch>(new TriggerWatch(std::move(impl)));
}

int TriggerWatch::wait_fd() const { return impl_->wait_fd(); }
Result<std::vector<TriggerHit>> TriggerWatch::Poll() { return impl_->Poll(); }
const TriggerWatchCounts& TriggerWatch::counts() const { return impl_->counts(); }
const std::vector<std::string>& TriggerWatch::notes() const { return impl_->notes(); }

}  // namespace ptarmigan
