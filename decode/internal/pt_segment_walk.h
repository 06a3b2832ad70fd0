// PtSegmentWalk: what a walker keeps of the segment that it walks, whichever decoder reads the packets: who runs on what
// code, the time, the parts of the result, and at the end the verdict and where the bytes went.
//
//   Begin         scans the packets for times, and opens the first part
//   TakeTime      the time of a packet that tells of branches; with it come new code, or somebody else
//   On...         an event, with the time of its own packet
//   Finish        the verdict, and the counts
//
// One per worker; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "decode/internal/flow_recorder.h"
#include "decode/internal/pt_packet_scan.h"
#include "decode/internal/pt_walker.h"

namespace ptarmigan::internal {

class PtSegmentWalk {
 public:
  enum class End : uint8_t { kRunning, kEndOfTrace, kArrived, kMissingCode, kError, kBudget };

  // The options outlive it.
  PtSegmentWalk(const PtConfig& config, const PtOptions& options);

  void Begin(const PtSegmentTask& task, PtWalkResult* result);
  // The same segment once more: what was made of it counts for nothing.
  void BeginAgain();
  // The time at the packet at `offset`, which a branch has just used. Offsets must not fall.
  void TakeTime(size_t offset) {
    uint64_t ticks = 0;
    uint64_t cycles = 0;
    if (scan_.TicksAt(offset, &ticks, &cycles) && ticks > recorder_.last_ticks()) {
      recorder_.OnTime(ticks, cycles);
      FollowTime(ticks, cycles, false);
    }
  }
  void BeginTracing(bool is_on) { result_->began_tracing = tracing = is_on; }
  // Events whose packets lie before `position`.
  void OnEnabled(uint64_t at, size_t position);
  // Behind the block that ran last; `to` is 0 if that is not said.
  void OnDisabled(uint64_t to, bool by_kernel, size_t position);
  void OnDisabledAt(uint64_t at, size_t position);
  void OnInterrupted(uint64_t from);
  void OnOverflow(bool traces_on, uint64_t at, size_t position);
  // Code that is missing may be there a little later, or may have been until now: times are uncertain. Looks at the other
  // epoch from now on.
  bool TryOtherEpoch(uint64_t address);
  // From `begin` to `end_offset` the segment ran in code that is missing.
  void Skip(size_t begin, size_t end_offset);
  void TakeTimeBehindSkip(size_t offset, bool enabled_now);
  void RecordError(bool code_is_missing, uint64_t code);
  // `used`: bytes up to where decoding stopped, if it did.
  void Finish(size_t used);

  const PtSegmentTask& task() const { return *task_; }
  const CodeImage* image() const { return image_; }
  size_t epoch() const { return epoch_; }
  FlowRecorder& recorder() { return recorder_; }
  PtPacketScan& scan() { return scan_; }
  bool has_skipped() const { return !skips_.empty(); }

  bool tracing = false;
  End end = End::kRunning;
  uint64_t address = 0;  // where the last event took place
  uint64_t overflows = 0;

 private:
  struct Skipped {
    size_t begin = 0;
    size_t end = 0;
  };

  void TakeMark(PtPacketScan::Mark::Kind kind, size_t position);
  // Takes up new code when its time comes. `enabled_now`: tracing has just begun, so that another owner may run.
  void FollowTime(uint64_t ticks, uint64_t cycles, bool enabled_now);
  void Open();
  void UseOccupant(size_t index, uint64_t ticks);
  void SetCode(const CodeImage* image, size_t epoch);
  void StartPart(FlowStrand::Start start);
  void FinishPart() { recorder_.Finish(&result_->graph); }
  uint64_t ContentBytes(size_t begin, size_t end) const;
  void AddMissing(uint64_t bytes);
  void Judge();
  void CountBytes(size_t used);

  const PtConfig config_;
  const PtOptions& options_;
  PtPacketScan scan_;
  FlowRecorder recorder_;

  const PtSegmentTask* task_ = nullptr;
  PtWalkResult* result_ = nullptr;
  FlowSegment* part_ = nullptr;
  size_t occupant_ = 0;
  size_t epoch_ = 0;
  const CodeImage* image_ = nullptr;
  uint64_t next_change_ticks_ = 0;  // when the image or its epoch changes
  std::vector<Skipped> skips_;
};

}  // namespace ptarmigan::internal
