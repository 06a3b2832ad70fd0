#include "hw/perf_session.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/str_format.h"
#include "hw/internal/attr_bits.h"
#include "hw/internal/auxtrace_records.h"
#include "hw/internal/event_set.h"
#include "hw/internal/machine.h"
#include "hw/internal/record_builder.h"
#include "hw/internal/session_attrs.h"
#include "hw/internal/side_band.h"

namespace ptarmigan {
namespace {

using internal::EventSet;

constexpr uint64_t kRingBytesDefault = uint64_t{1} << 20;
constexpr uint64_t kRingBytesWithStacks = uint64_t{4} << 20;
// Of all rings together, unless the caller says how large each is: machines with hundreds of CPUs get smaller ones.
constexpr uint64_t kAllRingsBytesMax = uint64_t{256} << 20;
constexpr uint64_t kRingBytesAutomaticMin = uint64_t{64} << 10;
constexpr uint64_t kAuxBytesFull = uint64_t{4} << 20;
constexpr uint64_t kAuxBytesOverwritten = uint64_t{1} << 20;

uint64_t ClockNs(clockid_t clock) {
  timespec now = {};
  if (::clock_gettime(clock, &now) != 0) return 0;
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t OwnCpuNs() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto ns = [](const timeval& time) {
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<uint64_t>(time.tv_usec) * 1000;
  };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

uint32_t RecordTypeOf(Bytes record) {
  uint32_t type = 0;
  std::memcpy(&type, record.data(), sizeof(type));
  return type;
}

// Counts what passes and leaves out duplicates.
class Tap : public RawRecordSink {
 public:
  Tap(RawRecordSink& sink, PerfSessionStatistics& statistics, internal::DuplicateFilter& duplicates,
      std::vector<uint64_t>& lost_told)
      : sink_(sink), statistics_(statistics), duplicates_(duplicates), lost_told_(lost_told) {}

  // Whether an AUX record since the last call said that the area was full.
  bool TakeTruncated() { return std::exchange(truncated_, false); }

  void OnRecord(const RawRecord& record) override {
    switch (RecordTypeOf(record.bytes)) {
      case internal::kRecordSample:
        if (duplicates_.armed() && duplicates_.IsDuplicate(record.bytes)) {
          ++statistics_.duplicates;
          return;
        }
        ++statistics_.samples;
        break;
      case internal::kRecordLost: {
        ByteCursor cursor(record.bytes);
        cursor.Skip(internal::kRecordHeaderBytes + 8);
        const uint64_t lost = cursor.U64();
        statistics_.lost_records += lost;
        lost_told_[record.stream - 1] += lost;
        break;
      }
      case internal::kRecordLostSamples: {
        ByteCursor cursor(record.bytes);
        cursor.Skip(internal::kRecordHeaderBytes);
        statistics_.lost_samples += cursor.U64();
        break;
      }
      case internal::kRecordAux:
        CountAux(record.bytes);
        break;
      case internal::kRecordThrottle:
        ++statistics_.throttles;
        break;
      default:
        break;
    }
    sink_.OnRecord(record);
  }
  void OnRoundEnd() override { sink_.OnRoundEnd(); }

 private:
  void CountAux(Bytes record) {
    ByteCursor cursor(record);
    cursor.Skip(internal::kRecordHeaderBytes + 2 * sizeof(uint64_t));  // offset and size
    const uint64_t flags = cursor.U64();
    ++statistics_.aux_records;
    if ((flags & internal::kAuxPartial) != 0) ++statistics_.aux_partial;
    if ((flags & internal::kAuxCollision) != 0) ++statistics_.aux_collisions;
    if ((flags & internal::kAuxTruncated) == 0) return;
    ++statistics_.aux_truncated;
    truncated_ = true;
  }

  bool truncated_ = false;
  RawRecordSink& sink_;
  PerfSessionStatistics& statistics_;
  internal::DuplicateFilter& duplicates_;
  std::vector<uint64_t>& lost_told_;  // per ring
};

Status CheckOptions(const PerfSessionOptions& options) {
  if (options.events.empty()) return Error{ErrorCode::kInvalidInput, "no event to sample"};
  if (options.events.size() > kEventsMax) {
    return Error{ErrorCode::kResourceLimit, StrFormat("more than {} events", kEventsMax)};
  }
  const bool needs_pids = options.target.kind == PerfTarget::Kind::kPids ||
                          options.target.kind == PerfTarget::Kind::kCommand;
  if (needs_pids && options.target.pids.empty())
    return Error{ErrorCode::kInvalidInput, "no process to sample"};
  for (const int32_t pid : options.target.pids) {
    if (pid <= 0) return Error{ErrorCode::kInvalidInput, StrFormat("{} is not a process", pid)};
  }
  if (options.ring_bytes != 0 &&
      (options.ring_bytes < kRingBytesMin || options.ring_bytes > kRingBytesMax)) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("a ring of {} bytes: possible are {} to {}", options.ring_bytes,
                           kRingBytesMin, kRingBytesMax)};
  }
  if (options.aux_bytes != 0 &&
      (options.aux_bytes < kRingBytesMin || options.aux_bytes > kRingBytesMax)) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("an AUX area of {} bytes: possible are {} to {}", options.aux_bytes,
                           kRingBytesMin, kRingBytesMax)};
  }
  if ((options.aux_mode != AuxMode::kNone) != options.events.front().fills_aux) {
    return Error{ErrorCode::kInvalidInput,
                 "AUX areas belong to sessions whose first event fills them"};
  }
  return OkStatus();
}

}  // namespace

class PerfSession::Impl {
 public:
  explicit Impl(PerfSessionOptions options) : options_(std::move(options)) {}

  Status Open();
  Result<PollOutcome> Poll(RawRecordSink& sink, int timeout_ms);

  Status Enable() { return events_->Enable(); }
  Result<uint64_t> TakeSnapshot(RawRecordSink& sink);
  Status WakeOn(int fd) { return events_->WakeOn(fd); }
  int wait_fd() const { return events_->wait_fd(); }
  void Wake() { events_->Wake(); }
  Status Disable() { return events_->Disable(false); }
  void Stop() {
    stopping_ = true;
    events_->Wake();
  }
  const RecordingDescription& description() const { return description_; }
  const std::vector<std::string>& notes() const { return plan_.notes; }
  PerfSessionStatistics statistics() const;

 private:
  Status OpenEvents();
  uint64_t WantedAuxBytes() const;
  void Describe();
  void WriteAuxSetup(RawRecordSink& sink);
  void WriteSideBand(RawRecordSink& sink);
  // Reads each ring and its AUX area once; true if there was anything. `running`: tracing that stopped is started again.
  Result<bool> ReadRings(RawRecordSink& sink, bool running);
  uint64_t ReadAux(RawRecordSink& sink, uint32_t ring);
  // LOST records for what the kernel lost after its last own one.
  void WriteUntoldLosses(RawRecordSink& sink);
  internal::RecordTrailer Trailer() const;

  PerfSessionOptions options_;
  internal::SessionAttrs plan_;
  std::unique_ptr<EventSet> events_;
  RecordingDescription description_;
  PerfSessionStatistics statistics_;
  std::vector<uint64_t> lost_told_;
  std::vector<int32_t> cpus_;
  uint64_t ring_bytes_ = 0;
  uint64_t aux_bytes_ = 0;
  uint64_t opened_ns_ = 0;
  uint64_t cpu_ns_at_open_ = 0;
  bool side_band_written_ = false;
  bool ended_ = false;
  std::atomic<bool> stopping_ = false;
};

Status PerfSession::Impl::Open() {
  TRY(CheckOptions(options_));
  opened_ns_ = ClockNs(CLOCK_MONOTONIC);
  cpu_ns_at_open_ = OwnCpuNs();
  cpus_ = internal::OnlineCpus(options_.sysfs_root);
  TRY_ASSIGN(plan_, internal::PlanSessionAttrs(options_, cpus_.front()));
  TRY(OpenEvents());
  lost_told_.resize(events_->rings().size());
  Describe();
  return OkStatus();
}

Status PerfSession::Impl::OpenEvents() {
  const bool automatic = options_.ring_bytes == 0;
  uint64_t wanted = options_.ring_bytes;
  if (automatic) {
    const uint64_t share = std::bit_floor(kAllRingsBytesMax / cpus_.size());
    const uint64_t usual =
        options_.stack_user_bytes != 0 ? kRingBytesWithStacks : kRingBytesDefault;
    wanted = std::max(std::min(usual, share), kRingBytesAutomaticMin);
  }
  const uint64_t first = std::bit_ceil(std::max<uint64_t>(wanted, PageSizeBytes()));
  const uint64_t first_aux = WantedAuxBytes();
  ring_bytes_ = first;
  aux_bytes_ = first_aux;
  for (;;) {
    events_ = std::make_unique<EventSet>(options_, plan_, ring_bytes_, aux_bytes_);
    Status status = events_->Open(cpus_);
    if (status) break;
    const bool smaller_ring = automatic && ring_bytes_ > kRingBytesAutomaticMin;
    const bool smaller_aux = options_.aux_bytes == 0 && aux_bytes_ > kRingBytesAutomaticMin;
    if (!events_->map_refused() || (!smaller_ring && !smaller_aux)) return status;
    if (smaller_ring) ring_bytes_ /= 2;
    if (smaller_aux) aux_bytes_ /= 2;
  }
  const auto note = [this](std::string_view what, uint64_t bytes, uint64_t wanted_bytes) {
    if (bytes == wanted_bytes) return;
    plan_.notes.push_back(
        StrFormat("{} of {} KiB instead of {} KiB per CPU: this user may not lock more memory "
                  "(kernel.perf_event_mlock_kb, `ulimit -l`, or CAP_IPC_LOCK)",
                  what, bytes >> 10, wanted_bytes >> 10));
  };
  note("rings", ring_bytes_, first);
  note("AUX areas", aux_bytes_, first_aux);
  return OkStatus();
}

uint64_t PerfSession::Impl::WantedAuxBytes() const {
  if (options_.aux_mode == AuxMode::kNone) return 0;
  if (options_.aux_bytes != 0)
    return std::bit_ceil(std::max<uint64_t>(options_.aux_bytes, PageSizeBytes()));
  const uint64_t usual = options_.aux_mode == AuxMode::kFull ? kAuxBytesFull : kAuxBytesOverwritten;
  const uint64_t share = std::bit_floor(kAllRingsBytesMax / cpus_.size());
  return std::max(std::min(usual, share), kRingBytesAutomaticMin);
}

void PerfSession::Impl::Describe() {
  internal::DescribeMachine(options_.proc_root, options_.sysfs_root, &description_);
  description_.source = "live";
  description_.events = plan_.events;
  for (uint32_t i = 0; i < description_.events.size(); ++i)
    description_.events[i].ids = events_->IdsOf(i);
  description_.clockid = plan_.clock_accepted ? options_.clockid : -1;
  if (plan_.clock_accepted) {
    description_.clock_reference_ns = ClockNs(options_.clockid);
    description_.clock_wall_ns = ClockNs(CLOCK_REALTIME);
  }
}

internal::RecordTrailer PerfSession::Impl::Trailer() const {
  const EventDescription& tracking = description_.events.back();
  internal::RecordTrailer trailer;
  trailer.sample_type = tracking.attr.sample_type;
  trailer.id = tracking.ids.empty() ? 0 : tracking.ids.front();
  return trailer;
}

void PerfSession::Impl::WriteSideBand(RawRecordSink& sink) {
  internal::SideBandOptions side_band_options;
  side_band_options.proc_root = options_.proc_root;
  side_band_options.sysfs_root = options_.sysfs_root;
  side_band_options.os_release = description_.os_release;
  side_band_options.build_id_of = options_.build_id_of;
  side_band_options.trailer = Trailer();
  internal::SideBand side_band(std::move(side_band_options));
  side_band.WriteKernel(sink);
  if (options_.cgroup_ids) side_band.WriteCgroups(sink);
  switch (options_.target.kind) {
    case PerfTarget::Kind::kPids:
      for (const int32_t pid : options_.target.pids) side_band.WriteProcess(pid, sink);
      break;
    case PerfTarget::Kind::kCommand:
      break;  // its exec says everything
    case PerfTarget::Kind::kAllCpus:
    case PerfTarget::Kind::kCgroup:
      side_band.WriteAllProcesses(sink);
      break;
  }
  if (side_band.kernel_addresses_hidden()) {
    plan_.notes.emplace_back(
        "kernel addresses are hidden from this user (kernel.kptr_restrict, or CAP_SYSLOG "
        "missing): kernel frames stay without names");
  }
  statistics_.synthesized_records += side_band.counts().records;
}

void PerfSession::Impl::WriteAuxSetup(RawRecordSink& sink) {
  internal::AuxtraceFacts facts;
  facts.event = &description_.events.front();
  facts.clock = events_->rings().front().clock();
  facts.is_snapshot = options_.aux_mode == AuxMode::kSnapshot;
  facts.of_tasks = options_.target.kind == PerfTarget::Kind::kPids ||
                   options_.target.kind == PerfTarget::Kind::kCommand;
  facts.records_switches = options_.context_switches;
  facts.filter = options_.aux_filter;
  facts.cpus = cpus_;
  facts.sysfs_root = options_.sysfs_root;
  const auto name = description_.pmu_names.find(facts.event->attr.type);
  if (name != description_.pmu_names.end()) facts.pmu = name->second;
  internal::RecordBuilder builder;
  for (const auto write : {internal::WriteAuxtraceInfo, internal::WriteTimeConversion}) {
    const Bytes record = write(facts, &builder);
    if (record.empty()) continue;
    sink.OnRecord(RawRecord{record, 0});
    ++statistics_.synthesized_records;
  }
}

uint64_t PerfSession::Impl::ReadAux(RawRecordSink& sink, uint32_t ring) {
  internal::AuxReader* aux = events_->rings()[ring].aux();
  if (aux == nullptr) return 0;
  internal::RecordBuilder builder;
  const auto hand_out = [&](uint64_t offset, Bytes bytes, Bytes rest) {
    const Bytes record = internal::BuildAuxtrace({.bytes = bytes.size() + rest.size(),
                                                  .offset = offset,
                                                  .reference = internal::ReadTimeStampCounter(),
                                                  .ring = ring,
                                                  .cpu = events_->CpuOf(ring)},
                                                 &builder);
    sink.OnRecord(RawRecord{record, ring + 1, bytes, rest});
  };
  return aux->is_snapshot() ? aux->Snapshot(hand_out) : aux->Drain(hand_out);
}

Result<bool> PerfSession::Impl::ReadRings(RawRecordSink& sink, bool running) {
  Tap tap(sink, statistics_, events_->duplicates(), lost_told_);
  uint64_t consumed = 0;
  for (uint32_t i = 0; i < events_->rings().size(); ++i) {
    consumed += events_->rings()[i].reader().Read(tap, i + 1);
    const bool truncated = tap.TakeTruncated();
    if (options_.aux_mode == AuxMode::kFull) consumed += ReadAux(sink, i);
    if (!truncated || !running) continue;
    // Between the two the area is read once more: what the tracer wrote while it was being stopped.
    ++statistics_.aux_restarts;
    TRY(events_->RestartAux(i, [&] { consumed += ReadAux(sink, i); }));
  }
  if (events_->duplicates().armed()) events_->StopDuplicates();
  return consumed > 0;
}

void PerfSession::Impl::WriteUntoldLosses(RawRecordSink& sink) {
  const std::vector<uint64_t> lost = events_->LostPerRing();
  internal::RecordTrailer trailer = Trailer();
  trailer.time_ns = plan_.clock_accepted ? ClockNs(options_.clockid) : 0;
  for (uint32_t ring = 0; ring < lost.size(); ++ring) {
    if (lost[ring] <= lost_told_[ring]) continue;
    const uint64_t untold = lost[ring] - lost_told_[ring];
    internal::RecordBuilder builder;
    builder.Begin(internal::kRecordLost, 0);
    builder.Put<uint64_t>(trailer.id);
    builder.Put<uint64_t>(untold);
    sink.OnRecord(RawRecord{builder.Finish(trailer), ring + 1});
    lost_told_[ring] += untold;
    statistics_.lost_records += untold;
    ++statistics_.synthesized_records;
  }
}

Result<uint64_t> PerfSession::Impl::TakeSnapshot(RawRecordSink& sink) {
  if (options_.aux_mode != AuxMode::kSnapshot)
    return Error{ErrorCode::kUnsupported, "this session keeps no snapshot"};
  uint64_t bytes = 0;
  // The tracers of all CPUs first: what they hold belongs to one moment.
  TRY(events_->SwitchAux(false));
  TRY(ReadRings(sink, /*running=*/false));
  for (uint32_t i = 0; i < events_->rings().size(); ++i) bytes += ReadAux(sink, i);
  if (!ended_) TRY(events_->SwitchAux(true));
  sink.OnRoundEnd();
  return bytes;
}

Result<PollOutcome> PerfSession::Impl::Poll(RawRecordSink& sink, int timeout_ms) {
  if (ended_) return PollOutcome::kEnd;
  ++statistics_.polls;
  if (!side_band_written_) {
    side_band_written_ = true;
    if (options_.aux_mode != AuxMode::kNone) WriteAuxSetup(sink);
    WriteSideBand(sink);
  }
  if (!stopping_) events_->Wait(timeout_ms);
  // Decided before reading: what was written until now is read below.
  const bool stopped = stopping_;
  const bool last = stopped || events_->all_ended();
  if (stopped) TRY(events_->Disable(true));
  TRY_ASSIGN(const bool any, ReadRings(sink, !last));
  if (last) {
    if (options_.aux_mode == AuxMode::kSnapshot && options_.snapshot_at_end) {
      TRY(events_->Disable(true));
      for (uint32_t i = 0; i < events_->rings().size(); ++i) ReadAux(sink, i);
    }
    WriteUntoldLosses(sink);
    ended_ = true;
  }
  sink.OnRoundEnd();
  if (last) return PollOutcome::kEnd;
  return any ? PollOutcome::kMore : PollOutcome::kIdle;
}

PerfSessionStatistics PerfSession::Impl::statistics() const {
  PerfSessionStatistics statistics = statistics_;
  for (const internal::PerfRing& ring : events_->rings()) {
    const internal::RingCounts& counts = ring.reader().counts();
    statistics.records += counts.records;
    statistics.bytes += counts.bytes;
    statistics.corrupt_bytes += counts.corrupt_bytes;
    if (const internal::AuxReader* aux = ring.aux()) {
      statistics.aux_bytes += aux->counts().bytes;
      statistics.aux_areas_bytes += aux->size();
      statistics.aux_overrun_bytes += aux->counts().overrun_bytes;
    }
  }
  statistics.events_opened = events_->counts().events_opened;
  statistics.threads_vanished = events_->counts().threads_vanished;
  statistics.rings = events_->rings().size();
  statistics.ring_bytes = ring_bytes_;
  statistics.cpu_ns = OwnCpuNs() - cpu_ns_at_open_;
  statistics.elapsed_ns = ClockNs(CLOCK_MONOTONIC) - opened_ns_;
  return statistics;
}

PerfSession::PerfSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PerfSession::~PerfSession() = default;

Result<std::unique_ptr<PerfSession>> PerfSession::Open(PerfSessionOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  TRY(impl->Open());
  return std::unique_ptr<PerfSession>(new PerfSession(std::move(impl)));
}

const RecordingDescription& PerfSession::description() const { return impl_->description(); }
Status PerfSession::Enable() { return impl_->Enable(); }
Status PerfSession::Disable() { return impl_->Disable(); }
void PerfSession::Stop() { impl_->Stop(); }
void PerfSession::Wake() { impl_->Wake(); }
int PerfSession::wait_fd() const { return impl_->wait_fd(); }
Status PerfSession::WakeOn(int fd) { return impl_->WakeOn(fd); }
Result<uint64_t> PerfSession::TakeSnapshot(RawRecordSink& sink) {
  return impl_->TakeSnapshot(sink);
}
Result<PollOutcome> PerfSession::Poll(RawRecordSink& sink, int timeout_ms) {
  return impl_->Poll(sink, timeout_ms);
}
PerfSessionStatistics PerfSession::statistics() const { return impl_->statistics(); }
const std::vector<std::string>& PerfSession::notes() const { return impl_->notes(); }

}  // namespace ptarmigan
