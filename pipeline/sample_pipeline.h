// SamplePipeline: events in, Profile out. The one path that `record`, `convert`, `report FILE`, the agent and
// ingest share: it keeps the address spaces, turns each sample's evidence (kernel chain, user chain, registers and
// stack) into a stack of places, aggregates, and symbolizes what is distinct once, at the end.
//
//   EventSource --events--> SamplePipeline --Finish--> Profile
//                           | ProcessTable   (who has mapped what, at this moment)
//                           | user unwinder  (registers + stack bytes -> addresses)
//                           | SpeStream, MemoryDecoder (what the hardware saw of one operation)
//                           | TraceStreams, CodeImages, TraceFlow (control-flow traces, decoded at the end)
//                           | StackTable     (places, stacks, rows)
//                           | MemoryTable    (latencies by row and place, shared cache lines)
//                           ' Symbolizer     (places -> functions, inlines, lines)
//
// Memory grows with what is distinct, not with the recording's length. One thread; Symbolizer and description must
// outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "decode/pt_decoder.h"
#include "model/event_source.h"
#include "model/profile.h"
#include "symbolize/symbolizer.h"

namespace ptarmigan {

enum class UnwindMode : uint8_t {
  kAuto,  // CFI where there is some, else frame pointers, chosen per frame
  kFramePointer,
  kCfi,
};

// What becomes of control-flow traces (Intel PT, CoreSight).
struct TraceOptions {
  bool digest = false;           // FlowSummary::Thread::ip_digest
  bool include_suspect = false;  // parts that decoded but fail a check go into the profile, too
  size_t threads = 1;            // that decode
  PtWalkerKind pt_walker = PtOptions().walker;
  bool calls = false;  // FlowSummary::calls: how long they took
  // FlowSummary::intervals and marks: how many intervals at most (0: none), of what time of the recording's clock, of which thread
  // (-1: all).
  size_t intervals_max = 0;
  uint64_t from_ns = 0;
  uint64_t to_ns = UINT64_MAX;
  int32_t tid = -1;
};

struct PipelineOptions {
  bool label_process = true;  // pid, tid, comm, thread_start
  bool label_cpu = false;
  bool label_cgroup = true;
  bool command_line = false;  // write the recorder's command line into the comments
  bool symbols = true;
  UnwindMode unwind = UnwindMode::kAuto;
  // Samples arrive while their processes run: what JIT compilers write about their code is complete only at the end.
  bool live = false;
  // Memory samples: latency distributions and shared cache lines (Profile::summary), beside the sums by row. No format
  // but the archive holds them, and gathering them costs as much as everything else.
  bool memory_details = true;
  // Of what is aggregated (stacks, rows); 0: no bound. Samples beyond are counted as lost (build limit).
  uint64_t memory_bytes_max = 0;
  TraceOptions trace = {};
};

class SamplePipeline : public EventSink {
 public:
  SamplePipeline(const RecordingDescription& description, Symbolizer& symbolizer,
                 const PipelineOptions& options);
  ~SamplePipeline() override;

  void OnSample(const CapturedSample& sample) override;
  void OnMmap(const MmapEvent& event) override;
  void OnComm(const CommEvent& event) override;
  void OnFork(const TaskEvent& event) override;
  void OnExit(const TaskEvent& event) override;
  void OnSwitch(const SwitchEvent& event) override;
  void OnAux(const AuxEvent& event) override;
  void OnAuxChunk(const AuxChunk& chunk) override;
  void OnOther(const OtherRecord& record) override;
  void OnThrottle(const ThrottleEvent& event) override;
  void OnKsymbol(const KsymbolEvent& event) override;
  void OnCgroup(const CgroupEvent& event) override;
  void OnBuildId(const BuildIdEvent& event) override;

  // Samples so far, for progress.
  uint64_t samples() const;

  // The profile of everything received. `source_losses` is what the source itself lost; the profile's ledger
  // balances: captured = kept + lost. Call once.
  Profile Finish(const LossLedger& source_losses);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ptarmigan
