// TraceFlow: the control-flow trace of a recording, decoded once everything around it is known: who ran in which stream, on
// what code; and, by thread, what was decoded and how far it can be trusted.
//
//   TraceStreams ──streams, stints──▶ occupants (thread, image by time) ──▶ PtDecoder     ──FlowSegment──▶ TraceFlow
//   CodeImages   ──lives of pids────▶                                       CoreSightFlow    │ threads, edges, stacks
//
// One thread (decoders have their own).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decode/call_stack_builder.h"
#include "decode/flow_decoder.h"
#include "decode/instruction.h"
#include "decode/pt_config.h"
#include "decode/pt_decoder.h"
#include "decode/trace_streams.h"
#include "model/control_flow.h"
#include "model/flow_summary.h"
#include "pipeline/internal/call_times.h"
#include "pipeline/internal/code_images.h"

namespace ptarmigan::internal {

struct TraceFlowOptions {
  size_t threads = 1;
  PtWalkerKind pt_walker = PtOptions().walker;
  bool want_digest = false;
  bool include_suspect = false;  // in what goes into profiles
  bool want_calls = false;       // how long they took
  IntervalOptions intervals;     // with want_calls
  // Of segments that wait for the order of a thread's streams.
  uint64_t waiting_bytes_max = uint64_t{1} << 30;
};

// One life of a thread in the trace.
struct TraceOwner {
  int32_t pid = -1;
  int32_t tid = -1;
  uint64_t life = 0;  // Process::life; 0: not known
  const CodeImage* image = nullptr;
  uint32_t thread = 0;  // FlowSummary::threads
  // The tree of what it called.
  std::unique_ptr<CallStackBuilder> stacks;
};

class TraceFlow : private FlowSink {
 public:
  // Of the edges of one owner's process. Places that equal addresses mean are the caller's to find.
  struct EdgeSum {
    uint32_t owner = 0;  // the first that took it in its process
    uint32_t edge = 0;   // of graph()
    uint64_t count = 0;
  };

  TraceFlow(const TraceStreams& streams, CodeImages& images, const TraceFlowOptions& options);

  // "pt" or "coresight".
  const char* source() const { return is_coresight_ ? "coresight" : "pt"; }
  // Decodes everything. An error says why nothing can be decoded (a program built without the library).
  Status Run();

  const std::vector<TraceOwner>& owners() const { return owners_; }
  const FlowGraph& graph() const { return graph_; }
  bool has_time() const { return has_time_; }
  bool has_cycles() const { return has_cycles_; }
  // How long calls took; null if nobody asked.
  CallTimes* calls() const { return calls_.get(); }
  // Ticks of the trace's clock as nanoseconds; 0 without one.
  uint64_t ToNs(uint64_t ticks) const {
    return is_coresight_ ? ticks : pt_.ToNs(ticks) - pt_.ToNs(0);
  }
  // A moment of the trace's clock on the recording's; 0 where that is not known.
  uint64_t MomentNs(uint64_t ticks) const { return is_coresight_ ? ticks : pt_.ToNs(ticks); }
  // By process and edge, of trusted segments (or all, if suspect ones are asked for).
  std::vector<EdgeSum> Edges() const;
  // Threads with their counts; functions and calls are left to those who know places.
  FlowSummary TakeSummary() { return std::move(summary_); }
  const FlowStatistics& statistics() const { return statistics_; }

 private:
  // A segment of a thread whose trace lies in several streams.
  struct WaitingSegment {
    uint64_t order = 0;  // of decoding
    size_t stream = 0;
    FlowSegment segment;
  };
  struct ThreadState {
    FlowDigest digest;
    bool digest_lost = false;
    size_t streams = 0;      // that it can appear in
    size_t last_stream = 0;  // of the segment that was used last
    std::vector<WaitingSegment> waiting;
  };

  void OnFlowSegment(const FlowGraph& graph, const FlowSegment& segment) override;
  bool IsUsed(const FlowSegment& segment) const {
    return segment.trust == FlowTrust::kVerified || options_.include_suspect;
  }
  Status RunPt();
  Status RunCoreSight();
  std::vector<CodeOccupant> OccupantsOf(const TraceStream& stream);
  // Of all streams, before any is decoded.
  std::vector<std::vector<CodeOccupant>> AllOccupants();
  std::optional<CodeOccupant> OccupantOf(int32_t tid, uint64_t time_ns);
  uint64_t ToTicks(uint64_t ns) const { return is_coresight_ ? ns : pt_.ToTicks(ns); }
  uint32_t OwnerOf(int32_t pid, int32_t tid, const CodeImages::Life* life);
  uint32_t ThreadOf(int32_t pid, int32_t tid);
  void Count(const FlowGraph& graph, const FlowSegment& segment);
  void CountTime(const FlowSegment& segment, FlowSummary::Thread* thread);
  void NoteMarks(const FlowSegment& segment);
  void AddMark(FlowSummary::Mark::Kind kind, uint64_t begin_ticks, uint64_t end_ticks,
               uint32_t thread);
  // In order of time within each thread.
  void Use(const FlowSegment& segment, size_t stream);
  void Digest(const std::vector<uint32_t>& path, ThreadState* state);
  void LearnBlock(const CodeBlock& block, const TraceOwner& owner);
  uint64_t InstructionBytes(const CodeBlock& block, const CodeImage& image, VirtAddr address) const;
  void UseWaiting();

  const TraceStreams& streams_;
  CodeImages& images_;
  const TraceFlowOptions options_;
  std::unique_ptr<CallTimes> calls_;
  std::vector<TraceOwner> owners_;
  std::map<std::pair<uint64_t, int32_t>, uint32_t> owner_of_;  // by life and tid
  std::map<std::pair<int32_t, int32_t>, uint32_t> thread_of_;
  std::vector<ThreadState> states_;                         // by thread
  FlowGraph graph_;                                         // a copy that outlives the decoder
  std::map<std::pair<uint64_t, uint32_t>, EdgeSum> edges_;  // by life and edge
  FlowSummary summary_;
  FlowStatistics statistics_;
  const bool is_coresight_;
  PtConfig pt_;
  bool has_time_ = false;
  bool has_cycles_ = false;
  size_t stream_ = 0;      // that is being decoded
  FlowBytes in_segments_;  // of its bytes
  uint64_t order_ = 0;
  uint64_t waiting_bytes_ = 0;
  std::vector<std::vector<uint16_t>>
      offsets_;  // by block: of its instructions from its start; empty: not known
  // Of x86.
  InstructionDecoder decoder_64_{Arch::kX86_64};
  InstructionDecoder decoder_32_{Arch::kX86};
};

}  // namespace ptarmigan::internal
