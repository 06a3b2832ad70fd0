#include "decode/coresight_flow.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "decode/coresight_decoder.h"
#include "decode/internal/flow_merger.h"
#include "decode/internal/flow_recorder.h"

namespace ptarmigan {
namespace {

using internal::FlowMerger;
using internal::FlowRecorder;
using internal::RecordedGraph;
using Element = CoreSightElement;

// Which element of a trace unit's context is the thread that runs.
enum class ThreadIdSource : uint8_t { kNone, kContextId, kVmId };

// Linux: CONTEXTIDR_EL1 holds the tid if the kernel was built so (CONFIG_PID_IN_CONTEXTIDR); a kernel that runs in EL2 has it
// in CONTEXTIDR_EL2, which is traced in the place of the VMID (tools/perf/util/cs-etm.c, cs_etm__init_pid_fmt).
ThreadIdSource ThreadIdOf(const EtmUnit& unit) {
  constexpr uint32_t kContextId = 1 << 6;  // TRCCONFIGR.CID
  constexpr uint32_t kVmId = 1 << 7;       // TRCCONFIGR.VMID
  constexpr uint32_t kVmIdOption = 1 << 15;
  constexpr uint32_t kEtm3ContextIdSize = 3 << 14;  // ETMCR.ContextIDsize
  if (unit.protocol == EtmProtocol::kEtm3 || unit.protocol == EtmProtocol::kPtm) {
    return (unit.config & kEtm3ContextIdSize) != 0 ? ThreadIdSource::kContextId
                                                   : ThreadIdSource::kNone;
  }
  if ((unit.config & (kVmId | kVmIdOption)) == (kVmId | kVmIdOption)) return ThreadIdSource::kVmId;
  return (unit.config & kContextId) != 0 ? ThreadIdSource::kContextId : ThreadIdSource::kNone;
}

BranchKind KindOf(const Element& range) {
  switch (range.branch) {
    case ArmBranch::kNone:
      break;
    case ArmBranch::kDirect:
      return range.conditional ? BranchKind::kConditionalJump : BranchKind::kJump;
    case ArmBranch::kIndirect:
      return BranchKind::kIndirectJump;
    case ArmBranch::kDirectCall:
      return BranchKind::kCall;
    case ArmBranch::kIndirectCall:
      return BranchKind::kIndirectCall;
    case ArmBranch::kReturn:
      return BranchKind::kReturn;
    case ArmBranch::kExceptionReturn:
      return BranchKind::kSystemReturn;
  }
  return BranchKind::kNone;
}

// One trace unit: what it ran goes to a recorder of its own.
struct Unit {
  Unit(const EtmUnit& described, uint8_t id, const FlowRecorder::Options& options)
      : description(described), trace_id(id), thread_id(ThreadIdOf(described)), recorder(options) {}

  const EtmUnit description;
  const uint8_t trace_id;
  const ThreadIdSource thread_id;
  bool names_threads = false;  // known threads, in this stream
  FlowRecorder recorder;
  RecordedGraph graph;
  FlowSegment segment;
  bool is_open = false;             // a segment is being recorded
  bool continues = false;           // the next one goes on where the last one ended
  uint32_t last_block = kNoFlowId;  // of the merged graph: the next one follows it directly
  uint64_t ranges = 0;
  // Tracing is off; the next range says where it goes on.
  bool is_off = false;
  std::optional<uint64_t> interrupted_at;  // by an exception, whose code has not been seen yet
  CodeOccupant occupant;
  size_t epoch = 0;
  uint64_t stamp_ns = 0;  // the last time stamp; 0: none yet
  uint64_t now_ns = 0;    // the same, or when the piece was reported; 0: neither is known
};

class Flow : public CoreSightFlow, private CoreSightSink, private CoreSightCode {
 public:
  Flow(std::vector<std::unique_ptr<Unit>> units, const CoreSightFlowOptions& options)
      : units_(std::move(units)), options_(options), merger_(units_.size()) {}

  Status Decode(const CoreSightStream& stream, FlowSink& sink) override;
  const FlowStatistics& statistics() const override { return statistics_; }

 private:
  // Those of one stream: one for frames, one for each unit that writes without.
  using Decoders = std::map<const Unit*, std::unique_ptr<CoreSightDecoder>>;

  void OnElement(uint8_t trace_id, uint64_t offset, const Element& element) override;
  size_t Read(uint8_t trace_id, VirtAddr address, std::span<std::byte> bytes) override;

  Unit* UnitOf(uint8_t trace_id) {
    return raw_unit_ != nullptr ? raw_unit_ : unit_of_id_[trace_id];
  }
  Unit* RawUnitOf(uint32_t cpu) const;
  void ChooseUnits(uint32_t cpu);
  Result<CoreSightDecoder*> DecoderOf(Unit* raw, Decoders* decoders);
  Status DecodePiece(const TracePiece& piece, Decoders* decoders);

  void OnRange(Unit* unit, uint64_t offset, const Element& range);
  void OnGap(Unit* unit, FlowEvent::Kind kind, VirtAddr address);
  void OnBadPacket(Unit* unit, uint64_t offset);
  void OnException(Unit* unit, const Element& exception);
  void OnMissingCode(Unit* unit, uint64_t offset, VirtAddr address);
  void SettleMissing();
  void OnProcessorState(Unit* unit, uint64_t offset, const Element::ProcessorState& state);
  void SetOccupant(Unit* unit, const CodeOccupant& occupant, uint64_t offset);
  void FollowTime(Unit* unit, uint64_t offset);
  void Open(Unit* unit, uint64_t offset);
  void Finish(Unit* unit, uint64_t offset);
  // A segment that ran nothing, for bytes that belong to none.
  void ReportRest(uint64_t begin, uint64_t end);
  FlowBytes NewBytes();

  std::vector<std::unique_ptr<Unit>> units_;
  const CoreSightFlowOptions options_;
  FlowMerger merger_;
  FlowStatistics statistics_;
  std::map<std::string, FlowStatistics::MissingObject, std::less<>> missing_;

  // While decoding.
  const CoreSightStream* stream_ = nullptr;
  FlowSink* sink_ = nullptr;
  std::array<Unit*, 256> unit_of_id_ = {};
  Unit* raw_unit_ = nullptr;  // that wrote the piece, if it is not in frames
  CoreSightDecoder* decoder_ = nullptr;
  CoreSightByteCounts counted_;  // of decoder_, already in segments
  FlowBytes extra_;              // not in segments yet
  FlowStatistics::MissingObject* missing_now_ = nullptr;
  uint64_t no_image_settled_ = 0;
  uint64_t number_ = 0;
};

// Which unit has which id in this stream. Units of several sinks may share one: then that of the stream's CPU is meant.
void Flow::ChooseUnits(uint32_t cpu) {
  unit_of_id_ = {};
  for (const auto& unit : units_) {
    Unit*& chosen = unit_of_id_[unit->trace_id];
    if (unit->trace_id != 0 && (chosen == nullptr || unit->description.cpu == cpu)) {
      chosen = unit.get();
    }
  }
}

Unit* Flow::RawUnitOf(uint32_t cpu) const {
  const auto with_cpu = std::ranges::find_if(
      units_, [cpu](const auto& unit) { return unit->description.cpu == cpu; });
  if (with_cpu != units_.end()) return with_cpu->get();
  // Where the recording does not say: only ETEs write without frames, and they are all alike in most machines.
  const auto ete = std::ranges::find_if(
      units_, [](const auto& unit) { return unit->description.protocol == EtmProtocol::kEte; });
  return ete != units_.end() ? ete->get() : units_.front().get();
}

Result<CoreSightDecoder*> Flow::DecoderOf(Unit* raw, Decoders* decoders) {
  std::unique_ptr<CoreSightDecoder>& decoder = (*decoders)[raw];
  if (decoder != nullptr) return decoder.get();
  CoreSightOptions options;
  options.is_formatted = raw == nullptr;
  if (raw != nullptr) {
    options.sources.push_back({raw->description, raw->trace_id});
  } else {
    for (const Unit* unit : unit_of_id_) {
      if (unit != nullptr) options.sources.push_back({unit->description, unit->trace_id});
    }
  }
  TRY_ASSIGN(decoder, CoreSightDecoder::Create(options, this, this));
  return decoder.get();
}

Status Flow::Decode(const CoreSightStream& stream, FlowSink& sink) {
  stream_ = &stream;
  sink_ = &sink;
  ChooseUnits(stream.cpu);
  for (const auto& unit : units_) {
    unit->continues = false;
    unit->names_threads = false;
    unit->stamp_ns = 0;
  }
  Decoders decoders;
  const TracePiece whole = {
      .begin = 0,
      .end = stream.bytes.size(),
      .is_formatted = RawUnitOf(stream.cpu)->description.protocol != EtmProtocol::kEte};
  const std::span<const TracePiece> pieces =
      stream.pieces.empty() ? std::span(&whole, 1) : stream.pieces;
  uint64_t end = 0;
  for (const TracePiece& piece : pieces) {
    extra_.padding += piece.begin - end;
    end = piece.end;
    TRY(DecodePiece(piece, &decoders));
    if (!piece.is_lossy) continue;
    for (const auto& unit : units_) unit->continues = false;
  }
  extra_.padding += stream.bytes.size() - end;
  if (extra_.padding > 0) ReportRest(end, stream.bytes.size());
  statistics_.missing.clear();
  for (const auto& [name, object] : missing_) {
    statistics_.missing.push_back(object);
    statistics_.missing.back().name = name;
  }
  return OkStatus();
}

Status Flow::DecodePiece(const TracePiece& piece, Decoders* decoders) {
  raw_unit_ = piece.is_formatted
                  ? nullptr
                  : RawUnitOf(piece.cpu != RecordIdentity::kNoCpu ? piece.cpu : stream_->cpu);
  TRY_ASSIGN(decoder_, DecoderOf(raw_unit_, decoders));
  counted_ = decoder_->counts().bytes;
  no_image_settled_ = counted_.no_image;
  const uint64_t errors = decoder_->counts().errors;
  const uint64_t begin = stream_->begin_offset + piece.begin;
  const uint64_t end = stream_->begin_offset + piece.end;
  for (const auto& unit : units_) {
    unit->now_ns = std::max(unit->stamp_ns, piece.time_ns);
    FollowTime(unit.get(), begin);
  }
  decoder_->Restart();
  decoder_->Decode(begin, stream_->bytes.subspan(static_cast<size_t>(piece.begin),
                                                 static_cast<size_t>(piece.end - piece.begin)));
  decoder_->Finish();
  SettleMissing();
  missing_now_ = nullptr;
  const bool has_failed = decoder_->counts().errors > errors;
  if (has_failed) ++statistics_.errors;
  bool reported = false;
  for (const auto& unit : units_) {
    if (!unit->is_open) continue;
    if (has_failed) {
      unit->segment.trust = FlowTrust::kBad;
      unit->segment.checks.reasons |= FlowChecks::kDecoderError;
    }
    // What an exception interrupted goes on behind it.
    if (unit->interrupted_at) unit->recorder.OnStopped(*unit->interrupted_at);
    unit->interrupted_at.reset();
    Finish(unit.get(), end);
    unit->is_off = true;
    unit->last_block = kNoFlowId;
    reported = true;
  }
  if (!reported && piece.end > piece.begin) ReportRest(begin, end);
  return OkStatus();
}

FlowBytes Flow::NewBytes() {
  const CoreSightByteCounts& now = decoder_->counts().bytes;
  FlowBytes bytes = std::exchange(extra_, {});
  bytes += {.decoded = now.decoded - counted_.decoded,
            .before_sync = now.before_sync - counted_.before_sync,
            .after_error = now.after_error - counted_.after_error,
            .overflow = now.overflow - counted_.overflow,
            .no_image = now.no_image - counted_.no_image,
            .padding = now.padding - counted_.padding};
  counted_ = now;
  return bytes;
}

void Flow::ReportRest(uint64_t begin, uint64_t end) {
  Unit* unit = raw_unit_ != nullptr ? raw_unit_ : units_.front().get();
  Open(unit, begin);
  Finish(unit, end);
  unit->continues = false;
}

void Flow::Open(Unit* unit, uint64_t offset) {
  if (unit->is_open) return;
  unit->is_open = true;
  unit->ranges = 0;
  FlowSegment& segment = unit->segment;
  segment.Clear();
  segment.number = number_++;
  segment.begin_offset = offset;
  segment.continues = unit->continues;
  segment.owner = unit->occupant.owner;
  const FlowStrand::Start start = !unit->continues ? FlowStrand::Start::kGap
                                  : unit->is_off   ? FlowStrand::Start::kEnabled
                                                   : FlowStrand::Start::kSegment;
  unit->recorder.Begin(&segment, start);
  unit->recorder.SetCode(unit->occupant.image, unit->epoch);
  unit->is_off = false;
  if (unit->stamp_ns != 0) unit->recorder.OnTime(unit->stamp_ns);
}

void Flow::Finish(Unit* unit, uint64_t offset) {
  if (!unit->is_open) return;
  unit->is_open = false;
  FlowSegment& segment = unit->segment;
  unit->recorder.Finish(&unit->graph);
  segment.end_offset = std::max(offset, segment.begin_offset);
  segment.bytes = NewBytes();
  const auto worker = static_cast<size_t>(
      std::ranges::find_if(units_, [unit](const auto& other) { return other.get() == unit; }) -
      units_.begin());
  merger_.Learn(worker, unit->graph);
  merger_.Merge(worker, &segment);
  if (segment.continues) merger_.Connect(unit->last_block, &segment);
  unit->last_block = merger_.MergedBlock(worker, unit->graph.last_block);
  unit->graph.Clear();
  unit->continues = segment.trust != FlowTrust::kBad;
  ++statistics_.segments;
  ++(segment.trust == FlowTrust::kVerified ? statistics_.verified : statistics_.bad);
  statistics_.instructions += segment.instructions;
  statistics_.bytes += segment.bytes;
  sink_->OnFlowSegment(merger_.graph(), segment);
}

void Flow::SetOccupant(Unit* unit, const CodeOccupant& occupant, uint64_t offset) {
  const bool same_owner = unit->occupant.owner == occupant.owner;
  if (!same_owner) {
    Finish(unit, offset);
    unit->is_off = true;
    unit->last_block = kNoFlowId;
    unit->interrupted_at.reset();
  }
  unit->occupant = occupant;
  const CodeImage* image = occupant.image;
  if (image != nullptr) {
    // Without a clock: what was mapped in the end, which holds most of what was mapped at all.
    unit->epoch = unit->now_ns == 0 ? image->Epochs() - 1 : image->EpochAt(unit->now_ns);
  }
  if (unit->is_open) unit->recorder.SetCode(image, unit->epoch);
}

void Flow::FollowTime(Unit* unit, uint64_t offset) {
  const std::vector<CodeOccupant>& occupants = stream_->occupants;
  // (Without any time: the last one. A program that was started has run longer than what started it.)
  const uint64_t now_ns = unit->now_ns == 0 ? UINT64_MAX : unit->now_ns;
  const CodeOccupant* now = &occupants.front();
  for (const CodeOccupant& occupant : occupants) {
    if (occupant.since_ticks <= now_ns) now = &occupant;
  }
  SetOccupant(unit, *now, offset);
}

void Flow::OnProcessorState(Unit* unit, uint64_t offset, const Element::ProcessorState& state) {
  if (!stream_->occupant_of || unit->thread_id == ThreadIdSource::kNone) return;
  const std::optional<uint32_t>& thread =
      unit->thread_id == ThreadIdSource::kVmId ? state.vm_id : state.context_id;
  if (!thread) return;
  const std::optional<CodeOccupant> occupant = stream_->occupant_of(*thread, unit->now_ns);
  if (!occupant) return;
  unit->names_threads = true;
  SetOccupant(unit, *occupant, offset);
}

void Flow::OnRange(Unit* unit, uint64_t offset, const Element& range) {
  const bool goes_on = unit->is_open;
  Open(unit, offset);
  FlowRecorder& recorder = unit->recorder;
  if (goes_on && unit->is_off) {
    if (unit->interrupted_at) {
      recorder.OnStopped(*unit->interrupted_at);
    } else {
      recorder.OnStoppedBehindBlock();
    }
    recorder.OnEvent(FlowEvent::Kind::kDisabled, unit->interrupted_at.value_or(0), 0);
    recorder.OnResumed(range.start.value);
  } else if (goes_on && unit->interrupted_at) {
    recorder.OnInterrupt(*unit->interrupted_at);
  }
  unit->is_off = false;
  unit->interrupted_at.reset();
  recorder.OnBlock({.start = range.start.value,
                    .last = range.end.value - range.last_bytes,
                    .instructions = range.instructions,
                    .is_64_bit = range.isa == ArmInstructionSet::kA64,
                    .last_size_bytes = range.last_bytes,
                    .ending = KindOf(range)});
  if (++unit->ranges >= kRangesMax) Finish(unit, offset);
}

void Flow::OnGap(Unit* unit, FlowEvent::Kind kind, VirtAddr address) {
  if (!unit->is_open) {
    unit->continues = false;
    return;
  }
  unit->recorder.OnEvent(kind, address.value, 0);
  unit->recorder.OnGap();
  unit->is_off = false;
  unit->interrupted_at.reset();
}

void Flow::OnBadPacket(Unit* unit, uint64_t offset) {
  Open(unit, offset);
  unit->segment.trust = FlowTrust::kBad;
  unit->segment.checks.reasons |= FlowChecks::kDecoderError;
  unit->recorder.OnEvent(FlowEvent::Kind::kError, 0, 0);
  ++statistics_.errors;
  Finish(unit, offset);
}

void Flow::OnException(Unit* unit, const Element& exception) {
  const VirtAddr address = exception.return_address.value_or(VirtAddr{});
  if (unit->is_open) {
    // It may strike where a branch led, before anything ran there.
    const bool is_on = !unit->is_off && !unit->interrupted_at;
    if (is_on && exception.return_address) unit->recorder.OnArrival(address.value);
    unit->recorder.OnEvent(FlowEvent::Kind::kInterrupted, address.value, exception.number);
  }
  unit->interrupted_at = address.value;
}

// Flow goes on elsewhere: as if tracing had been off for as long.
void Flow::OnMissingCode(Unit* unit, uint64_t offset, VirtAddr address) {
  Open(unit, offset);
  unit->segment.checks.reasons |= FlowChecks::kMissingCode;
  unit->recorder.OnEvent(FlowEvent::Kind::kMissingCode, address.value, 0);
  unit->is_off = true;
  const CodeImage* image = unit->occupant.image;
  const std::string_view name =
      image != nullptr ? image->ObjectAt(address, unit->epoch) : std::string_view();
  SettleMissing();
  missing_now_ = &missing_[std::string(name)];
  if (missing_now_->segments++ == 0) missing_now_->first_address = address;
}

// The bytes since code went missing belong to the object that it was missing of.
void Flow::SettleMissing() {
  const uint64_t now = decoder_->counts().bytes.no_image;
  if (missing_now_ != nullptr) missing_now_->bytes += now - no_image_settled_;
  no_image_settled_ = now;
}

void Flow::OnElement(uint8_t trace_id, uint64_t offset, const Element& element) {
  Unit* unit = UnitOf(trace_id);
  if (unit == nullptr) return;
  switch (element.kind) {
    case Element::Kind::kNoSync:
      if (element.reason == Element::Reason::kOverflow) {
        ++statistics_.overflows;
        OnGap(unit, FlowEvent::Kind::kOverflow, {});
      } else if (element.reason == Element::Reason::kBadPacket) {
        OnBadPacket(unit, offset);
      }
      return;
    case Element::Kind::kTraceOn:
      if (element.reason == Element::Reason::kOverflow) {
        ++statistics_.overflows;
        OnGap(unit, FlowEvent::Kind::kOverflow, {});
        return;
      }
      unit->is_off = true;
      return;
    case Element::Kind::kContext:
      OnProcessorState(unit, offset, element.context);
      return;
    case Element::Kind::kRange:
      OnRange(unit, offset, element);
      return;
    case Element::Kind::kNoImage:
      OnMissingCode(unit, offset, element.start);
      return;
    case Element::Kind::kUnknownPath:
    case Element::Kind::kUnknownAddress:
      OnGap(unit, FlowEvent::Kind::kUnknownPath, element.start);
      return;
    case Element::Kind::kException:
      OnException(unit, element);
      return;
    case Element::Kind::kTimestamp:
      if (!options_.time || element.value == 0) return;
      unit->stamp_ns = options_.time->ToNanoseconds(element.value);
      unit->now_ns = unit->stamp_ns;
      // (Threads that the trace names are not asked for by time.)
      if (!unit->names_threads) FollowTime(unit, offset);
      if (unit->is_open) unit->recorder.OnTime(unit->stamp_ns);
      return;
    case Element::Kind::kExceptionReturn:
    case Element::Kind::kCycles:
    case Element::Kind::kEnd:
    case Element::Kind::kOther:
      return;
  }
}

size_t Flow::Read(uint8_t trace_id, VirtAddr address, std::span<std::byte> bytes) {
  const Unit* unit = UnitOf(trace_id);
  if (unit == nullptr || unit->occupant.image == nullptr) return 0;
  const Bytes code = unit->occupant.image->CodeAt(address, unit->epoch);
  const size_t size = std::min(code.size(), bytes.size());
  std::copy_n(code.begin(), size, bytes.begin());
  return size;
}

}  // namespace

Result<std::unique_ptr<CoreSightFlow>> CoreSightFlow::Create(
    const CoreSightSetup& setup, const std::map<uint32_t, uint8_t>& trace_ids,
    const CoreSightFlowOptions& options) {
  const FlowRecorder::Options recording = {.want_path = options.want_path,
                                           .want_calls = options.want_calls,
                                           .want_contexts = options.want_contexts};
  std::vector<std::unique_ptr<Unit>> units;
  for (const EtmUnit& unit : setup.units) {
    const auto id = trace_ids.find(unit.cpu);
    units.push_back(
        std::make_unique<Unit>(unit, id != trace_ids.end() ? id->second : 0, recording));
  }
  if (units.empty()) {
    return Error{ErrorCode::kUnsupported,
                 "the recording describes no CoreSight trace unit that is known here"};
  }
  return std::unique_ptr<CoreSightFlow>(std::make_unique<Flow>(std::move(units), options));
}

}  // namespace ptarmigan
