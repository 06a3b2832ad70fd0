#include "decode/spe_stream.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "decode/internal/aux_queue.h"
#include "decode/internal/spe_metadata.h"
#include "decode/internal/switch_history.h"
#include "decode/record_types.h"
#include "decode/time_conversion.h"

namespace ptarmigan {
namespace {

using internal::AuxQueue;
using internal::SwitchHistory;

// PERF_AUX_FLAG_*
constexpr uint64_t kAuxTruncated = 1;
constexpr uint64_t kAuxOverwrite = 2;
constexpr uint64_t kAuxPartial = 4;
constexpr uint64_t kAuxCollision = 8;

constexpr uint16_t kCounterMax16 = 0xffff;
// Records that go to the sink together: few enough to stay in the processor's first cache.
constexpr size_t kBatchRecords = 32;

// The AUX stream of a CPU or of a thread.
struct Queue {
  Queue(AuxQueue::Budget* budget, AuxQueue::Counts* counts) : aux(budget, counts) {}

  AuxQueue aux;
  SpeOrigin origin;  // what all records share
  int32_t tid = -1;  // per-thread recordings
  bool snapshots = false;
};

enum class QueueMode : uint8_t { kUnknown, kPerCpu, kPerThread };

}  // namespace

class SpeStream::Impl {
 public:
  Impl(const RecordingDescription& description, const Options& options)
      : description_(description), options_(options) {
    budget_.copied_bytes_max = options.copied_bytes_max;
    budget_.waiting_max = options.waiting_max;
  }

  void OnOther(const OtherRecord& record);
  void OnAux(const AuxEvent& event);
  void OnAuxChunk(const AuxChunk& chunk);
  void OnSwitch(const SwitchEvent& event);
  void LearnThread(int32_t pid, int32_t tid);
  void Finish();

  SpeRecordSink* sink_ = nullptr;
  bool active_ = false;
  SpeStatistics statistics_;
  LossLedger losses_;

 private:
  void OnItraceStart(const OtherRecord& record);
  void CameIn(const RecordIdentity& identity, int32_t pid, int32_t tid);
  Queue* FindQueue(uint32_t cpu, int32_t tid);
  Queue* QueueOf(const RecordIdentity& identity);
  void AddFragment(Queue* queue, const AuxEvent& event);
  void AssignWaiting(bool finishing);
  bool Continues(const AuxChunk& chunk);
  void DecodeReady(Queue* queue, bool finishing);
  void DecodeChunks(Queue* queue);
  void Decode(Queue* queue, const AuxQueue::Fragment& fragment);
  void DescribeQueue(Queue* queue) const;
  void FindThread(const Queue& queue, const SpeRecord& record, SwitchHistory* history,
                  SpeOrigin* origin);
  int32_t ProcessOf(int32_t tid);
  void SettleCounts();

  const RecordingDescription& description_;
  const Options options_;
  std::optional<internal::SpeMetadata> metadata_;
  std::optional<TimeConversion> time_;

  AuxQueue::Budget budget_;
  AuxQueue::Counts aux_counts_;
  QueueMode mode_ = QueueMode::kUnknown;
  std::unordered_map<uint64_t, std::unique_ptr<Queue>> queues_;
  std::vector<Queue*> queue_order_;   // of first appearance
  std::vector<AuxEvent> unassigned_;  // it is not known yet to which queue they belong
  AuxChunk last_chunk_;               // without data

  std::unordered_map<uint32_t, SwitchHistory> switches_;  // by CPU
  std::unordered_map<int32_t, int32_t> process_of_;       // by tid
  int32_t last_tid_ = -1;                                 // asked last
  int32_t last_pid_ = -1;

  SpeDecoder decoder_;
  std::array<SpeSample, kBatchRecords> batch_;
};

void SpeStream::Impl::OnOther(const OtherRecord& record) {
  switch (record.type) {
    case kRecordAuxtraceInfo: {
      auto metadata = internal::ReadSpeMetadata(record.bytes, description_.byte_order);
      if (!metadata.has_value()) return;
      metadata_ = std::move(metadata);
      active_ = true;
      return;
    }
    case kRecordTimeConv:
      time_ = ReadTimeConversion(record.bytes, description_.byte_order);
      return;
    case kRecordItraceStart:
      OnItraceStart(record);
      return;
    default:
      return;
  }
}

void SpeStream::Impl::OnItraceStart(const OtherRecord& record) {
  ByteCursor cursor(record.bytes, description_.byte_order);
  cursor.Skip(kRecordHeaderBytes);
  const int32_t pid = cursor.S32();
  const int32_t tid = cursor.S32();
  if (cursor.ok()) CameIn(record.identity, pid, tid);
}

void SpeStream::Impl::OnSwitch(const SwitchEvent& event) {
  if (!event.out) CameIn(event.identity, event.identity.pid, event.identity.tid);
}

void SpeStream::Impl::CameIn(const RecordIdentity& identity, int32_t pid, int32_t tid) {
  if (tid < 0) return;
  LearnThread(pid, tid);
  if (!identity.has_time || identity.cpu == RecordIdentity::kNoCpu) return;
  if (switches_.size() >= options_.queues_max && !switches_.contains(identity.cpu)) return;
  switches_[identity.cpu].Add({.time_ns = identity.time_ns, .pid = pid, .tid = tid},
                              options_.switches_max);
}

void SpeStream::Impl::LearnThread(int32_t pid, int32_t tid) {
  if (pid < 0 || tid < 0) return;
  last_tid_ = last_pid_ = -1;
  if (process_of_.size() >= options_.threads_max && !process_of_.contains(tid)) return;
  process_of_[tid] = pid;
}

int32_t SpeStream::Impl::ProcessOf(int32_t tid) {
  if (tid == last_tid_) return last_pid_;
  const auto found = process_of_.find(tid);
  last_tid_ = tid;
  last_pid_ = found != process_of_.end() ? found->second : -1;
  return last_pid_;
}

// --- pairing ---

Queue* SpeStream::Impl::FindQueue(uint32_t cpu, int32_t tid) {
  const uint64_t key =
      mode_ == QueueMode::kPerCpu ? cpu : uint64_t{1} << 32 | static_cast<uint32_t>(tid);
  const auto found = queues_.find(key);
  if (found != queues_.end()) return found->second.get();
  if (queues_.size() >= options_.queues_max) return nullptr;
  auto queue = std::make_unique<Queue>(&budget_, &aux_counts_);
  if (mode_ == QueueMode::kPerCpu) {
    queue->origin.identity.cpu = cpu;
  } else {
    queue->tid = tid;
  }
  queue_order_.push_back(queue.get());
  return queues_.emplace(key, std::move(queue)).first->second.get();
}

Queue* SpeStream::Impl::QueueOf(const RecordIdentity& identity) {
  if (mode_ == QueueMode::kPerCpu && identity.cpu != RecordIdentity::kNoCpu) {
    return FindQueue(identity.cpu, -1);
  }
  if (mode_ == QueueMode::kPerThread && identity.tid >= 0) {
    return FindQueue(RecordIdentity::kNoCpu, identity.tid);
  }
  return nullptr;
}

void SpeStream::Impl::OnAux(const AuxEvent& event) {
  if (!active_) return;
  ++statistics_.aux_records;
  if ((event.flags & kAuxTruncated) != 0) ++statistics_.aux_truncated;
  if ((event.flags & kAuxOverwrite) != 0) ++statistics_.aux_overwrite;
  if ((event.flags & kAuxPartial) != 0) ++statistics_.aux_partial;
  if ((event.flags & kAuxCollision) != 0) ++statistics_.aux_collision;
  uint64_t end = 0;
  if (!CheckedAdd(event.aux_offset, event.size_bytes, &end)) {
    losses_.Lose(LossStage::kParse, LossReason::kBadValue, 1, LossUnit::kRecords);
    return;
  }
  if (Queue* queue = QueueOf(event.identity); queue != nullptr) {
    AddFragment(queue, event);
    DecodeReady(queue, /*finishing=*/false);
    return;
  }
  if (unassigned_.size() < options_.waiting_max) {
    unassigned_.push_back(event);
  } else {
    statistics_.aux_bytes += event.size_bytes;
    aux_counts_.missing_bytes += event.size_bytes;
  }
}

void SpeStream::Impl::AddFragment(Queue* queue, const AuxEvent& event) {
  // Of a snapshot it does not say what is valid.
  if ((event.flags & kAuxOverwrite) != 0) {
    queue->snapshots = true;
    return;
  }
  statistics_.aux_bytes += event.size_bytes;
  queue->aux.AddFragment(event.aux_offset, event.size_bytes);
}

// Fragments that came before it was known whether buffers are per CPU or per thread; at the end also those that do not
// say where they belong, if there is but one queue.
void SpeStream::Impl::AssignWaiting(bool finishing) {
  const std::vector<AuxEvent> waiting = std::exchange(unassigned_, {});
  for (const AuxEvent& event : waiting) {
    Queue* queue = QueueOf(event.identity);
    if (queue == nullptr && finishing && queue_order_.size() == 1) queue = queue_order_.front();
    if (queue != nullptr) {
      AddFragment(queue, event);
    } else if (finishing) {
      statistics_.aux_bytes += event.size_bytes;
      aux_counts_.missing_bytes += event.size_bytes;
    } else {
      unassigned_.push_back(event);
    }
  }
}

// Sources that do not have the whole file at hand cut an AUXTRACE into pieces.
bool SpeStream::Impl::Continues(const AuxChunk& chunk) {
  AuxChunk last = std::exchange(last_chunk_, chunk);
  last_chunk_.data = {};
  last_chunk_.offset += chunk.data.size();
  return !chunk.data_outlives_call && last.offset == chunk.offset && last.cpu == chunk.cpu &&
         last.tid == chunk.tid && last.reference == chunk.reference && last.index == chunk.index &&
         statistics_.auxtrace_events > 0;
}

void SpeStream::Impl::OnAuxChunk(const AuxChunk& chunk) {
  if (!active_) return;
  const bool continues = Continues(chunk);
  if (!continues) ++statistics_.auxtrace_events;
  statistics_.auxtrace_bytes += chunk.data.size();
  if (mode_ == QueueMode::kUnknown) {
    mode_ = chunk.cpu != RecordIdentity::kNoCpu ? QueueMode::kPerCpu : QueueMode::kPerThread;
    AssignWaiting(/*finishing=*/false);
  }
  Queue* queue = FindQueue(chunk.cpu, chunk.tid);
  if (queue == nullptr) {
    aux_counts_.refused_bytes += chunk.data.size();
    return;
  }
  queue->aux.AddBytes(chunk.offset, chunk.data, chunk.data_outlives_call, continues);
  DecodeReady(queue, /*finishing=*/false);
}

void SpeStream::Impl::DecodeReady(Queue* queue, bool finishing) {
  AuxQueue::Fragment fragment;
  while (queue->aux.Take(finishing, &fragment)) Decode(queue, fragment);
}

void SpeStream::Impl::DecodeChunks(Queue* queue) {
  AuxQueue::Fragment chunk;
  while (queue->aux.TakeChunk(&chunk)) {
    statistics_.bytes_without_record += chunk.bytes.size();
    Decode(queue, chunk);
  }
}

void SpeStream::Impl::Finish() {
  AssignWaiting(/*finishing=*/true);
  for (Queue* queue : queue_order_) {
    DecodeReady(queue, /*finishing=*/true);
    if (queue->snapshots || !queue->aux.had_fragments()) DecodeChunks(queue);
    queue->aux.DropRest();
  }
  SettleCounts();
}

// --- decoding ---

// What depends on the recording's description, which may have grown.
void SpeStream::Impl::DescribeQueue(Queue* queue) const {
  SpeOrigin& origin = queue->origin;
  uint32_t pmu_type = metadata_->pmu_type;
  origin.data_sources = &UnknownSpeDataSources();
  if (!metadata_->has_cpus) {
    origin.data_sources = &SpeDataSourcesOf(MidrFromCpuid(description_.cpuid));
  } else if (mode_ == QueueMode::kPerThread) {
    if (metadata_->shared_data_sources != nullptr) {
      origin.data_sources = metadata_->shared_data_sources;
    }
  } else if (const auto cpu = metadata_->cpus.find(origin.identity.cpu);
             cpu != metadata_->cpus.end()) {
    origin.data_sources = cpu->second.data_sources;
    pmu_type = cpu->second.pmu_type.value_or(pmu_type);
  }
  const auto event =
      std::ranges::find(description_.events, pmu_type,
                        [](const EventDescription& description) { return description.attr.type; });
  origin.event = event == description_.events.end()
                     ? SpeOrigin::kNoEvent
                     : static_cast<uint32_t>(event - description_.events.begin());
}

void SpeStream::Impl::Decode(Queue* queue, const AuxQueue::Fragment& fragment) {
  CHECK(sink_ != nullptr);
  DescribeQueue(queue);
  SwitchHistory* history = nullptr;
  if (const auto found = switches_.find(queue->origin.identity.cpu); found != switches_.end()) {
    history = &found->second;
  }
  uint64_t newest_ns = 0;
  decoder_.Start(fragment.bytes, fragment.offset);
  size_t count = 0;
  while (decoder_.Next(&batch_[count].record)) {
    const SpeRecord& record = batch_[count].record;
    SpeOrigin& origin = queue->origin;
    for (unsigned i = 0; i < kSpeCounters; ++i) {
      const auto counter = static_cast<SpeCounter>(i);
      if (record.Has(counter) && record.Counter(counter) > origin.counter_max) {
        origin.counter_max = kCounterMax16;
      }
    }
    origin.identity.has_time = time_.has_value() && record.HasTimestamp();
    origin.identity.time_ns =
        origin.identity.has_time ? time_->ToNanoseconds(record.timestamp()) : 0;
    newest_ns = std::max(newest_ns, origin.identity.time_ns);
    FindThread(*queue, record, history, &origin);
    batch_[count].origin = origin;
    if (++count < batch_.size()) continue;
    sink_->OnSpeRecords(batch_);
    count = 0;
  }
  if (count > 0) sink_->OnSpeRecords(std::span(batch_).first(count));
  if (history != nullptr) history->Forget(newest_ns);
}

void SpeStream::Impl::FindThread(const Queue& queue, const SpeRecord& record,
                                 SwitchHistory* history, SpeOrigin* origin) {
  RecordIdentity& identity = origin->identity;
  if (record.HasContext()) {
    identity.tid = static_cast<int32_t>(record.Context());
    identity.pid = ProcessOf(identity.tid);
    origin->thread_source = SpeThreadSource::kContext;
    return;
  }
  if (history != nullptr && identity.has_time) {
    if (const SwitchHistory::Entry* entry = history->Find(identity.time_ns); entry != nullptr) {
      identity.tid = entry->tid;
      identity.pid = entry->pid;
      origin->thread_source = SpeThreadSource::kSwitch;
      return;
    }
  }
  identity.tid = queue.tid;
  identity.pid = queue.tid >= 0 ? ProcessOf(queue.tid) : -1;
  origin->thread_source = queue.tid >= 0 ? SpeThreadSource::kAuxtrace : SpeThreadSource::kNone;
}

void SpeStream::Impl::SettleCounts() {
  statistics_.decode = decoder_.counts();
  statistics_.auxtrace_filling_bytes = aux_counts_.filling_bytes;
  statistics_.auxtrace_bytes -= aux_counts_.filling_bytes;
  statistics_.uncovered_bytes = aux_counts_.uncovered_bytes;
  statistics_.refused_bytes = aux_counts_.refused_bytes;
  statistics_.missing_bytes = aux_counts_.missing_bytes;

  const SpeDecodeCounts& counts = statistics_.decode;
  losses_.Capture(counts.RecordsInStream());
  losses_.Keep(counts.records);
  const auto lose = [this](LossStage stage, LossReason reason, uint64_t count, LossUnit unit) {
    if (count > 0) losses_.Lose(stage, reason, count, unit);
  };
  lose(LossStage::kParse, LossReason::kBadPacket, counts.bad_packet, LossUnit::kSamples);
  lose(LossStage::kParse, LossReason::kTruncatedTail, counts.truncated_tail, LossUnit::kSamples);
  lose(LossStage::kFilter, LossReason::kNoPc, counts.no_pc, LossUnit::kSamples);
  lose(LossStage::kFilter, LossReason::kEl3, counts.el3, LossUnit::kSamples);
  lose(LossStage::kFilter, LossReason::kSecure, counts.secure, LossUnit::kSamples);
  lose(LossStage::kParse, LossReason::kBadPacket, counts.bytes.bad, LossUnit::kBytes);
  lose(LossStage::kParse, LossReason::kTruncatedTail, counts.bytes.truncated, LossUnit::kBytes);
  lose(LossStage::kMerge, LossReason::kNoAuxRecord, statistics_.uncovered_bytes, LossUnit::kBytes);
  lose(LossStage::kMerge, LossReason::kMissingFile, statistics_.missing_bytes, LossUnit::kBytes);
  lose(LossStage::kMerge, LossReason::kLimit, statistics_.refused_bytes, LossUnit::kBytes);
}

// --- the interface ---

SpeStream::SpeStream(const RecordingDescription& description) : SpeStream(description, Options()) {}
SpeStream::SpeStream(const RecordingDescription& description, const Options& options)
    : impl_(std::make_unique<Impl>(description, options)) {}
SpeStream::~SpeStream() = default;

void SpeStream::SetSink(SpeRecordSink* sink) { impl_->sink_ = sink; }
bool SpeStream::active() const { return impl_->active_; }
void SpeStream::OnOther(const OtherRecord& record) { impl_->OnOther(record); }
void SpeStream::OnAux(const AuxEvent& event) { impl_->OnAux(event); }
void SpeStream::OnAuxChunk(const AuxChunk& chunk) { impl_->OnAuxChunk(chunk); }
void SpeStream::OnSwitch(const SwitchEvent& event) { impl_->OnSwitch(event); }
void SpeStream::OnComm(const CommEvent& event) { impl_->LearnThread(event.pid, event.tid); }
void SpeStream::OnFork(const TaskEvent& event) { impl_->LearnThread(event.pid, event.tid); }
void SpeStream::Finish() { impl_->Finish(); }
const SpeStatistics& SpeStream::statistics() const { return impl_->statistics_; }
const LossLedger& SpeStream::losses() const { return impl_->losses_; }

}  // namespace ptarmigan
