#include "decode/trace_streams.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/check.h"
#include "decode/internal/aux_queue.h"
#include "decode/internal/window_join.h"
#include "decode/record_types.h"

namespace ptarmigan {
namespace {

using internal::AuxQueue;

// PERF_AUX_FLAG_*
constexpr uint64_t kAuxTruncated = 1;
constexpr uint64_t kAuxOverwrite = 2;
constexpr uint64_t kAuxPartial = 4;
constexpr uint64_t kAuxCollision = 8;
constexpr uint64_t kAuxFormatMask = 0xff00;  // PERF_AUX_FLAG_PMU_FORMAT_TYPE_MASK
constexpr uint64_t kAuxCoreSightFrames = 0;  // PERF_AUX_FLAG_CORESIGHT_FORMAT_CORESIGHT

template <size_t kSize>
constexpr std::array<std::byte, kSize> BytesOf(const std::array<uint8_t, kSize>& values) {
  std::array<std::byte, kSize> bytes = {};
  for (size_t i = 0; i < kSize; ++i) bytes[i] = std::byte{values[i]};
  return bytes;
}
// Intel PT's PSB packet, and the A-Sync packet of ETMv3, PTM, ETMv4 and ETE (its shortest form).
constexpr auto kPsb = BytesOf<16>({0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,  //
                                   0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82});
constexpr auto kASync = BytesOf<6>({0, 0, 0, 0, 0, 0x80});

// The buffer of a CPU or of a thread.
struct Buffer {
  Buffer(AuxQueue::Budget* budget, AuxQueue::Counts* counts) : aux(budget, counts) {}

  AuxQueue aux;
  uint32_t cpu = RecordIdentity::kNoCpu;
  int32_t tid = -1;
  std::vector<AuxEvent> records;
};

}  // namespace

class TraceStreams::Impl {
 public:
  Impl(const RecordingDescription& description, const Options& options)
      : description_(description), options_(options) {
    budget_.copied_bytes_max = options.copied_bytes_max;
    budget_.waiting_max = options.records_max;
  }

  void OnOther(const OtherRecord& record);
  void OnAux(const AuxEvent& event);
  void OnAuxChunk(const AuxChunk& chunk);
  void OnSample(const CapturedSample& sample);
  void CameIn(const RecordIdentity& identity, int32_t pid, int32_t tid);
  void LearnThread(int32_t pid, int32_t tid);
  void Finish();
  uint32_t PmuType() const;
  const EventDescription* TraceEvent() const;

  const RecordingDescription& description_;
  const Options options_;
  TraceKind kind_ = TraceKind::kNone;
  PtRecording pt_;
  CoreSightSetup coresight_;
  std::map<uint32_t, uint8_t> trace_ids_;
  std::optional<TimeConversion> time_conversion_;
  TraceCounts counts_;
  std::vector<TraceStream> streams_;
  std::unordered_map<int32_t, int32_t> process_of_;  // by tid

 private:
  Buffer* FindBuffer(uint32_t cpu, int32_t tid);
  void AssignRecords();
  void Assemble(Buffer* buffer);
  void AddPieces(const Buffer& buffer, TraceStream* stream);
  void AddStints(TraceStream* stream) const;
  bool Continues(const AuxChunk& chunk);
  std::vector<std::byte> Copy(Bytes bytes);

  AuxQueue::Budget budget_;
  AuxQueue::Counts aux_counts_;
  std::map<std::pair<uint32_t, int32_t>, size_t> buffer_of_;
  std::vector<std::unique_ptr<Buffer>> buffers_;  // of first appearance
  std::vector<AuxEvent> records_;
  AuxChunk last_chunk_;  // without data
  bool had_chunk_ = false;
  std::map<uint32_t, std::vector<TraceStint>> stints_;  // by CPU
  size_t stints_count_ = 0;
  internal::WindowJoin windows_;
};

uint32_t TraceStreams::Impl::PmuType() const {
  return kind_ == TraceKind::kIntelPt ? pt_.pmu_type : coresight_.pmu_type;
}

void TraceStreams::Impl::OnOther(const OtherRecord& record) {
  switch (record.type) {
    case kRecordAuxtraceInfo:
      if (auto pt = ReadPtRecording(record.bytes, description_.byte_order)) {
        pt_ = std::move(*pt);
        kind_ = TraceKind::kIntelPt;
        windows_.SetSync(kPsb);
      } else if (auto setup = ReadCoreSightSetup(record.bytes, description_.byte_order)) {
        coresight_ = std::move(*setup);
        kind_ = TraceKind::kCoreSight;
        windows_.SetSync(kASync);
        if (coresight_.has_hardware_ids) return;
        for (const EtmUnit& unit : coresight_.units) {
          trace_ids_[unit.cpu] = static_cast<uint8_t>(unit.trace_id & 0x7f);
        }
      }
      return;
    case kRecordTimeConv:
      time_conversion_ = ReadTimeConversion(record.bytes, description_.byte_order);
      return;
    case kRecordItraceStart: {
      ByteCursor cursor(record.bytes, description_.byte_order);
      cursor.Skip(kRecordHeaderBytes);
      const int32_t pid = cursor.S32();
      const int32_t tid = cursor.S32();
      if (cursor.ok()) CameIn(record.identity, pid, tid);
      return;
    }
    case kRecordAuxOutputHwId: {
      ByteCursor cursor(record.bytes, description_.byte_order);
      cursor.Skip(kRecordHeaderBytes);
      const auto id = ReadCoreSightHardwareId(cursor.U64());
      if (!cursor.ok() || !id || record.identity.cpu == RecordIdentity::kNoCpu) return;
      if (trace_ids_.size() < options_.streams_max) trace_ids_[record.identity.cpu] = id->trace_id;
      return;
    }
    default:
      return;
  }
}

void TraceStreams::Impl::LearnThread(int32_t pid, int32_t tid) {
  if (pid < 0 || tid < 0) return;
  if (process_of_.size() >= options_.records_max && !process_of_.contains(tid)) return;
  process_of_[tid] = pid;
}

void TraceStreams::Impl::CameIn(const RecordIdentity& identity, int32_t pid, int32_t tid) {
  if (tid < 0) return;
  LearnThread(pid, tid);
  if (identity.cpu == RecordIdentity::kNoCpu || stints_count_ >= options_.records_max) return;
  ++stints_count_;
  stints_[identity.cpu].push_back(
      {.since_ns = identity.has_time ? identity.time_ns : 0, .pid = pid, .tid = tid});
}

void TraceStreams::Impl::OnAux(const AuxEvent& event) {
  if (kind_ == TraceKind::kNone) return;
  ++counts_.aux_records;
  if ((event.flags & kAuxTruncated) != 0) ++counts_.aux_truncated;
  if ((event.flags & kAuxPartial) != 0) ++counts_.aux_partial;
  if ((event.flags & kAuxCollision) != 0) ++counts_.aux_collision;
  uint64_t end = 0;
  if (!CheckedAdd(event.aux_offset, event.size_bytes, &end)) return;
  // Of a snapshot it does not say what is valid.
  if ((event.flags & kAuxOverwrite) != 0) return;
  if (records_.size() < options_.records_max) records_.push_back(event);
}

Buffer* TraceStreams::Impl::FindBuffer(uint32_t cpu, int32_t tid) {
  const std::pair key(cpu, cpu != RecordIdentity::kNoCpu ? -1 : tid);
  const auto found = buffer_of_.find(key);
  if (found != buffer_of_.end()) return buffers_[found->second].get();
  if (buffers_.size() >= options_.streams_max) return nullptr;
  buffer_of_.emplace(key, buffers_.size());
  auto& buffer = buffers_.emplace_back(std::make_unique<Buffer>(&budget_, &aux_counts_));
  buffer->cpu = cpu;
  buffer->tid = tid;
  return buffer.get();
}

// Sources that do not have the whole file at hand cut an AUXTRACE into pieces.
bool TraceStreams::Impl::Continues(const AuxChunk& chunk) {
  const AuxChunk last = std::exchange(last_chunk_, chunk);
  last_chunk_.data = {};
  last_chunk_.offset += chunk.data.size();
  const bool had_one = std::exchange(had_chunk_, true);
  return had_one && !chunk.data_outlives_call && last.offset == chunk.offset &&
         last.cpu == chunk.cpu && last.tid == chunk.tid && last.reference == chunk.reference &&
         last.index == chunk.index;
}

void TraceStreams::Impl::OnAuxChunk(const AuxChunk& chunk) {
  if (kind_ == TraceKind::kNone) return;
  const bool continues = Continues(chunk);
  Buffer* buffer = FindBuffer(chunk.cpu, chunk.tid);
  if (buffer == nullptr) {
    aux_counts_.refused_bytes += chunk.data.size();
    return;
  }
  buffer->aux.AddBytes(chunk.offset, chunk.data, chunk.data_outlives_call, continues);
}

void TraceStreams::Impl::OnSample(const CapturedSample& sample) {
  if (kind_ == TraceKind::kNone || sample.aux.empty()) return;
  ++counts_.windows;
  LearnThread(sample.identity.pid, sample.identity.tid);
  const uint64_t left = budget_.copied_bytes_max - budget_.copied_bytes;
  if (sample.aux.size() > left || windows_.size() >= options_.streams_max) {
    counts_.refused_bytes += sample.aux.size();
    return;
  }
  const internal::WindowJoin::Joined joined = windows_.Add(sample.identity, sample.aux);
  budget_.copied_bytes += joined.new_bytes;
  counts_.repeated_bytes += sample.aux.size() - joined.new_bytes;
  if (joined.continues) ++counts_.windows_joined;
}

// Which buffer an AUX record speaks of: the one of its CPU or thread; the only one there is where it does not say.
void TraceStreams::Impl::AssignRecords() {
  for (const AuxEvent& event : records_) {
    counts_.missing_bytes += event.size_bytes;  // until pieces are found
    Buffer* buffer = nullptr;
    for (const auto& key : {std::pair(event.identity.cpu, int32_t{-1}),
                            std::pair(RecordIdentity::kNoCpu, event.identity.tid)}) {
      const auto found = buffer_of_.find(key);
      if (found != buffer_of_.end()) buffer = buffers_[found->second].get();
      if (buffer != nullptr) break;
    }
    if (buffer == nullptr && buffers_.size() == 1) buffer = buffers_.front().get();
    if (buffer != nullptr) buffer->records.push_back(event);
  }
  records_ = {};
  for (const auto& buffer : buffers_) {
    std::ranges::stable_sort(buffer->records, {}, &AuxEvent::aux_offset);
  }
}

void TraceStreams::Impl::AddPieces(const Buffer& buffer, TraceStream* stream) {
  const uint64_t begin = stream->begin_offset;
  const uint64_t end = begin + stream->bytes.size();
  uint64_t covered = begin;
  for (const AuxEvent& event : buffer.records) {
    const uint64_t from = std::max(event.aux_offset, covered);
    const uint64_t to = std::min(event.aux_offset + event.size_bytes, end);
    if (from >= to) continue;
    TracePiece piece;
    piece.begin = from - begin;
    piece.end = to - begin;
    piece.is_lossy = (event.flags & (kAuxTruncated | kAuxPartial | kAuxCollision)) != 0;
    piece.is_formatted =
        kind_ == TraceKind::kCoreSight && (event.flags & kAuxFormatMask) == kAuxCoreSightFrames;
    piece.cpu = event.identity.cpu;
    piece.time_ns = event.identity.has_time ? event.identity.time_ns : 0;
    if (piece.is_lossy) stream->breaks.push_back(piece.end);
    stream->pieces.push_back(piece);
    counts_.missing_bytes -= std::min(counts_.missing_bytes, to - from);
    covered = to;
  }
}

void TraceStreams::Impl::AddStints(TraceStream* stream) const {
  if (stream->tid >= 0) {
    const auto process = process_of_.find(stream->tid);
    stream->stints.push_back(
        {.pid = process != process_of_.end() ? process->second : -1, .tid = stream->tid});
    return;
  }
  const auto found = stints_.find(stream->cpu);
  if (found != stints_.end()) stream->stints = found->second;
  std::ranges::stable_sort(stream->stints, {}, &TraceStint::since_ns);
  if (stream->stints.empty()) stream->stints.emplace_back();
}

// The contiguous runs of a buffer's bytes, each a stream.
void TraceStreams::Impl::Assemble(Buffer* buffer) {
  AuxQueue::Fragment chunk;
  TraceStream* stream = nullptr;
  while (buffer->aux.TakeChunk(&chunk)) {
    const bool follows =
        stream != nullptr && chunk.offset == stream->begin_offset + stream->bytes.size();
    if (!follows) {
      stream = &streams_.emplace_back();
      stream->cpu = buffer->cpu;
      stream->tid = buffer->cpu == RecordIdentity::kNoCpu ? buffer->tid : -1;
      stream->begin_offset = chunk.offset;
      // Bytes of a mapped file stay; the queue's own go with it.
      stream->bytes = chunk.bytes;
      if (buffer->aux.OwnsTaken()) stream->copy.assign(chunk.bytes.begin(), chunk.bytes.end());
    } else {
      if (stream->copy.empty()) stream->copy.assign(stream->bytes.begin(), stream->bytes.end());
      stream->copy.insert(stream->copy.end(), chunk.bytes.begin(), chunk.bytes.end());
    }
    if (!stream->copy.empty()) stream->bytes = stream->copy;
  }
}

void TraceStreams::Impl::Finish() {
  AssignRecords();
  for (const auto& buffer : buffers_) {
    const size_t first = streams_.size();
    Assemble(buffer.get());
    for (size_t i = first; i < streams_.size(); ++i) {
      AddPieces(*buffer, &streams_[i]);
      AddStints(&streams_[i]);
    }
  }
  for (internal::WindowJoin::Run& run : windows_.Take()) {
    TraceStream& stream = streams_.emplace_back();
    stream.cpu = run.identity.cpu;
    stream.tid = run.identity.tid;
    stream.is_window = true;
    stream.copy = std::move(run.bytes);
    stream.stints.push_back({.pid = run.identity.pid, .tid = run.identity.tid});
  }
  // (Vectors of the list may have moved until now.)
  for (TraceStream& stream : streams_) {
    if (!stream.copy.empty()) stream.bytes = stream.copy;
    counts_.bytes += stream.bytes.size();
  }
  counts_.repeated_bytes += aux_counts_.uncovered_bytes;
  counts_.filling_bytes = aux_counts_.filling_bytes;
  counts_.refused_bytes += aux_counts_.refused_bytes;
}

TraceStreams::TraceStreams(const RecordingDescription& description, const Options& options)
    : impl_(std::make_unique<Impl>(description, options)) {}
TraceStreams::~TraceStreams() = default;

void TraceStreams::OnOther(const OtherRecord& record) { impl_->OnOther(record); }
void TraceStreams::OnAux(const AuxEvent& event) { impl_->OnAux(event); }
void TraceStreams::OnAuxChunk(const AuxChunk& chunk) { impl_->OnAuxChunk(chunk); }
void TraceStreams::OnSample(const CapturedSample& sample) { impl_->OnSample(sample); }
void TraceStreams::OnSwitch(const SwitchEvent& event) {
  if (active() && !event.out) impl_->CameIn(event.identity, event.identity.pid, event.identity.tid);
}
void TraceStreams::OnComm(const CommEvent& event) {
  if (active()) impl_->LearnThread(event.pid, event.tid);
}
void TraceStreams::OnFork(const TaskEvent& event) {
  if (active()) impl_->LearnThread(event.pid, event.tid);
}
void TraceStreams::Finish() { impl_->Finish(); }

TraceKind TraceStreams::kind() const { return impl_->kind_; }
const EventDescription* TraceStreams::Impl::TraceEvent() const {
  const auto found = std::ranges::find_if(
      description_.events,
      [type = PmuType()](const EventDescription& event) { return event.attr.type == type; });
  return found != description_.events.end() ? &*found : nullptr;
}

uint64_t TraceStreams::trace_event_config() const {
  const EventDescription* event = impl_->TraceEvent();
  return event != nullptr ? event->attr.config : 0;
}
bool TraceStreams::traces_kernel() const {
  const EventDescription* event = impl_->TraceEvent();
  return event != nullptr && !event->attr.exclude_kernel();
}
PtRecording TraceStreams::PtDescription() const {
  PtRecording pt = impl_->pt_;
  pt.SetEventConfig(trace_event_config());
  pt.SetCpu(impl_->description_.cpuid);
  return pt;
}
const CoreSightSetup& TraceStreams::coresight() const { return impl_->coresight_; }
const std::map<uint32_t, uint8_t>& TraceStreams::trace_ids() const { return impl_->trace_ids_; }
const std::optional<TimeConversion>& TraceStreams::time_conversion() const {
  return impl_->time_conversion_;
}
const std::vector<TraceStream>& TraceStreams::streams() const { return impl_->streams_; }
const TraceCounts& TraceStreams::counts() const { return impl_->counts_; }
int32_t TraceStreams::ProcessOf(int32_t tid) const {
  const auto found = impl_->process_of_.find(tid);
  return found != impl_->process_of_.end() ? found->second : -1;
}

}  // namespace ptarmigan
