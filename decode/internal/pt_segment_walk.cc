#include "decode/internal/pt_segment_walk.h"

#include <algorithm>
#include <string_view>

namespace ptarmigan::internal {
namespace {

// How far from the epoch that the clock says code is looked for that is not in it.
constexpr size_t kEpochsTried = 16;
// With CYC packets times are known this many times better than to an MTC period.
constexpr uint64_t kCycSlackPart = 8;
// How many parts a segment may have, if who runs keeps changing.
constexpr size_t kPartsMax = 4096;

FlowTrust TrustOf(uint32_t reasons) {
  constexpr uint32_t kWrong =
      FlowChecks::kDecoderError | FlowChecks::kEndNotReached | FlowChecks::kBudget;
  constexpr uint32_t kDoubtful =
      FlowChecks::kReturnMismatch | FlowChecks::kCallIntoFunction | FlowChecks::kImplausible;
  if ((reasons & kWrong) != 0) return FlowTrust::kBad;
  if ((reasons & kDoubtful) != 0) return FlowTrust::kSuspect;
  return FlowTrust::kVerified;
}

}  // namespace

PtSegmentWalk::PtSegmentWalk(const PtConfig& config, const PtOptions& options)
    : config_(config),
      options_(options),
      scan_(config_, options.want_time),
      recorder_({.want_path = options.want_path,
                 .want_calls = options.want_calls,
                 .want_contexts = options.want_contexts,
                 .check_landings = true}) {}

void PtSegmentWalk::Begin(const PtSegmentTask& task, PtWalkResult* result) {
  task_ = &task;
  result_ = result;
  result->Clear();
  scan_.Scan(task.bytes_and_header);
  Open();
}

void PtSegmentWalk::BeginAgain() {
  recorder_.Abandon();
  scan_.Rewind();
  // (The graph stays: blocks and edges that were found are known.)
  result_->size = 0;
  result_->missing.clear();
  Open();
}

void PtSegmentWalk::Open() {
  const PtSegmentTask& task = *task_;
  end = End::kRunning;
  address = 0;
  overflows = 0;
  tracing = false;
  skips_.clear();
  const uint64_t ticks = task.begin.has_tsc ? task.begin.tsc : 0;
  size_t index = 0;
  while (index + 1 < task.occupants.size() && task.occupants[index + 1].since_ticks <= ticks) {
    ++index;
  }
  UseOccupant(index, ticks);
  StartPart(FlowStrand::Start::kSegment);
  if (options_.want_time && task.begin.has_tsc) recorder_.OnTime(ticks);
}

void PtSegmentWalk::SetCode(const CodeImage* image, size_t epoch) {
  image_ = image;
  epoch_ = epoch;
  recorder_.SetCode(image, epoch);
}

void PtSegmentWalk::UseOccupant(size_t index, uint64_t ticks) {
  occupant_ = index;
  const std::span<const CodeOccupant> occupants = task_->occupants;
  const CodeImage* image = occupants[index].image;
  // Code is published a little before it is known to have run: times are those of the last timing packet.
  const uint64_t slack = config_.MtcPeriodTicks() / (config_.cyc ? kCycSlackPart : 1);
  size_t epoch = 0;
  if (image != nullptr) {
    // Without a clock: what was mapped in the end, which holds most of what was mapped at all.
    epoch = ticks == 0 || !config_.has_clock() ? image->Epochs() - 1
                                               : image->EpochAt(config_.ToNs(ticks + slack));
  }
  SetCode(image, epoch);
  uint64_t next = UINT64_MAX;
  if (index + 1 < occupants.size()) next = occupants[index + 1].since_ticks;
  if (image != nullptr && epoch + 1 < image->Epochs()) {
    const uint64_t begins = config_.ToTicks(image->EpochStartNs(epoch + 1));
    next = std::min(next, begins - std::min(begins, slack));
  }
  next_change_ticks_ = next;
}

void PtSegmentWalk::FollowTime(uint64_t ticks, uint64_t cycles, bool enabled_now) {
  if (ticks < next_change_ticks_) return;
  const std::span<const CodeOccupant> occupants = task_->occupants;
  size_t index = occupant_;
  while (index + 1 < occupants.size() && occupants[index + 1].since_ticks <= ticks) ++index;
  const bool same_owner = occupants[index].owner == occupants[occupant_].owner;
  // Somebody else's code runs only behind a switch, where tracing was off.
  if (!same_owner && !enabled_now) return;
  if (!same_owner && result_->size < kPartsMax) {
    FinishPart();
    UseOccupant(index, ticks);
    StartPart(FlowStrand::Start::kEnabled);
    if (options_.want_time) recorder_.OnTime(ticks, cycles);
    return;
  }
  UseOccupant(index, ticks);
}

// Times are those of the packets that events come from: what reads packets ahead has read on since.
void PtSegmentWalk::TakeMark(PtPacketScan::Mark::Kind kind, size_t position) {
  const PtPacketScan::Mark* mark = scan_.NextMark(kind, position);
  if (!options_.want_time || mark == nullptr || !mark->has_time) return;
  recorder_.OnTime(mark->ticks, mark->cycles);
  if (kind == PtPacketScan::Mark::Kind::kEnable) FollowTime(mark->ticks, mark->cycles, true);
}

void PtSegmentWalk::OnEnabled(uint64_t at, size_t position) {
  tracing = true;
  TakeMark(PtPacketScan::Mark::Kind::kEnable, position);
  recorder_.OnResumed(at);
  recorder_.OnEvent(FlowEvent::Kind::kEnabled, at, 0);
}

void PtSegmentWalk::OnDisabled(uint64_t to, bool by_kernel, size_t position) {
  tracing = false;
  TakeMark(PtPacketScan::Mark::Kind::kDisable, position);
  recorder_.OnStoppedBehindBlock(by_kernel);
  recorder_.OnEvent(FlowEvent::Kind::kDisabled, to, 0);
}

void PtSegmentWalk::OnDisabledAt(uint64_t at, size_t position) {
  tracing = false;
  TakeMark(PtPacketScan::Mark::Kind::kDisable, position);
  recorder_.OnArrival(at);
  recorder_.OnStopped(at);
  recorder_.OnEvent(FlowEvent::Kind::kDisabled, at, 0);
}

void PtSegmentWalk::OnInterrupted(uint64_t from) {
  recorder_.OnArrival(from);
  recorder_.OnInterrupt(from);
  recorder_.OnEvent(FlowEvent::Kind::kInterrupted, from, 0);
}

void PtSegmentWalk::OnOverflow(bool traces_on, uint64_t at, size_t position) {
  ++overflows;
  TakeMark(PtPacketScan::Mark::Kind::kOverflow, position);
  tracing = traces_on;
  recorder_.OnGap();
  recorder_.OnEvent(FlowEvent::Kind::kOverflow, traces_on ? at : 0, 0);
}

void PtSegmentWalk::TakeTimeBehindSkip(size_t offset, bool enabled_now) {
  uint64_t ticks = 0;
  uint64_t cycles = 0;
  if (!options_.want_time || !scan_.TicksAt(offset, &ticks, &cycles)) return;
  recorder_.OnTime(ticks, cycles);
  FollowTime(ticks, cycles, enabled_now);
}

bool PtSegmentWalk::TryOtherEpoch(uint64_t missing) {
  if (image_ == nullptr) return false;
  const size_t epochs = image_->Epochs();
  for (size_t step = 1; step <= kEpochsTried; ++step) {
    for (const size_t epoch : {epoch_ + step, epoch_ - step}) {
      if (epoch < epochs && !image_->CodeAt({missing}, epoch).empty()) {
        SetCode(image_, epoch);
        return true;
      }
    }
  }
  return false;
}

void PtSegmentWalk::StartPart(FlowStrand::Start start) {
  part_ = result_->NextPart();
  part_->number = task_->number;
  part_->owner = task_->occupants[occupant_].owner;
  part_->begin_offset = task_->offset;
  part_->end_offset = task_->offset + task_->bytes.size();
  recorder_.Begin(part_, start);
}

void PtSegmentWalk::Skip(size_t begin, size_t end_offset) {
  skips_.push_back({begin, end_offset});
  AddMissing(ContentBytes(begin, end_offset));
}

void PtSegmentWalk::RecordError(bool code_is_missing, uint64_t code) {
  end = code_is_missing ? End::kMissingCode : End::kError;
  recorder_.OnEvent(code_is_missing ? FlowEvent::Kind::kMissingCode : FlowEvent::Kind::kError,
                    address, code);
}

void PtSegmentWalk::Finish(size_t used) {
  Judge();
  CountBytes(used);
  result_->counts.overflows = overflows;
}

void PtSegmentWalk::Judge() {
  const PtSyncPoint* next = task_->next;
  uint32_t reasons = 0;
  bool end_checked = false;
  switch (end) {
    case End::kMissingCode:
      reasons |= FlowChecks::kMissingCode;
      break;
    case End::kError:
      reasons |= FlowChecks::kDecoderError;
      break;
    case End::kBudget:
      reasons |= FlowChecks::kBudget;
      break;
    case End::kArrived:
      end_checked = true;
      break;
    case End::kRunning:
    case End::kEndOfTrace:
      if (next == nullptr || next->header_end == 0) break;
      end_checked = true;
      // Tracing is off here and there, or goes on somewhere else than here.
      if (tracing || next->has_address) reasons |= FlowChecks::kEndNotReached;
      break;
  }
  if (scan_.implausible()) reasons |= FlowChecks::kImplausible;
  result_->ended_well = (reasons & ~uint32_t{FlowChecks::kImplausible}) == 0;
  if (!skips_.empty()) reasons |= FlowChecks::kMissingCode;
  result_->ended_tracing = tracing;
  if (result_->ended_well && options_.want_time && next != nullptr && next->has_tsc &&
      part_ != nullptr) {
    recorder_.OnTime(next->tsc);
  }
  FinishPart();
  // What is wrong with one part may have been wrong before.
  uint64_t instructions = 0;
  for (size_t i = 0; i < result_->size; ++i) {
    reasons |= result_->parts[i]->checks.reasons;
    instructions += result_->parts[i]->instructions;
  }
  // Where nothing could be followed, nothing has been verified.
  const bool is_empty = (end == End::kError || end == End::kMissingCode) && instructions == 0;
  for (size_t i = 0; i < result_->size; ++i) {
    FlowSegment& part = *result_->parts[i];
    part.checks.reasons = reasons;
    part.checks.end_checked = end_checked;
    part.trust = is_empty ? FlowTrust::kBad : TrustOf(reasons);
  }
}

void PtSegmentWalk::CountBytes(size_t used) {
  FlowBytes& bytes = result_->parts[0]->bytes;
  const size_t size = task_->bytes.size();
  const bool stopped = end == End::kError || end == End::kMissingCode || end == End::kBudget;
  used = stopped ? std::min(used, size) : size;
  bytes.padding = scan_.PaddingBefore(size);
  bytes.overflow = 2 * scan_.OverflowsBefore(used);
  bytes.decoded = ContentBytes(0, used);
  for (const Skipped& skipped : skips_) {
    const uint64_t content = ContentBytes(skipped.begin, skipped.end);
    bytes.decoded -= content;
    bytes.no_image += content;
  }
  const uint64_t rest = size - used - (bytes.padding - scan_.PaddingBefore(used));
  if (end == End::kMissingCode) {
    bytes.no_image += rest;
    AddMissing(rest);
  } else {
    bytes.after_error = rest;
  }
}

// Of a piece of the segment, what is neither padding nor an overflow.
uint64_t PtSegmentWalk::ContentBytes(size_t begin, size_t end_offset) const {
  return end_offset - begin - (scan_.PaddingBefore(end_offset) - scan_.PaddingBefore(begin)) -
         2 * (scan_.OverflowsBefore(end_offset) - scan_.OverflowsBefore(begin));
}

// Of the object that holds the place where the trace led last.
void PtSegmentWalk::AddMissing(uint64_t bytes) {
  const std::string_view object =
      image_ == nullptr ? std::string_view() : image_->ObjectAt({address}, epoch_);
  const auto known = std::ranges::find(result_->missing, object, &PtMissingCode::object);
  if (known != result_->missing.end()) {
    known->bytes += bytes;
  } else {
    result_->missing.push_back({object, {address}, bytes});
  }
}

}  // namespace ptarmigan::internal
