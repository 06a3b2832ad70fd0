// FlowRecorder: what a walker tells its blocks to. Keeps the graph of code (blocks, edges), counts edges, follows calls
// and returns (CallTracker), and makes a FlowSegment of it. One per worker; decoders of Intel PT and of CoreSight use
// the same.
//
//   SetCode       code to look at from now on                 once per image and epoch
//   Begin         a segment
//   OnBlock       straight-line code ran                      the hot path: one compare and one increment
//   OnTime, OnStopped, OnResumed, OnInterrupt, OnGap, OnEvent
//   Finish        hands the segment over
//
// Ids are the worker's own, in order of creation; what was created since the last Finish is handed over with the segment.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/compact_index.h"
#include "base/large_pages.h"
#include "decode/instruction.h"
#include "decode/instruction_bytes.h"
#include "decode/internal/call_tracker.h"
#include "decode/internal/landing_check.h"
#include "model/code_image.h"
#include "model/control_flow.h"

namespace ptarmigan::internal {

// What makes a block the same block for every worker.
struct BlockIdentity {
  CodeBlock block;
  const CodeImage* image = nullptr;  // null: `code` says all
  uint64_t code = 0;                 // CodeRegion::content, or the image's epoch
};

// What a worker found out since it was last asked.
struct RecordedGraph {
  std::vector<BlockIdentity> blocks;
  std::vector<FlowEdge> edges;  // by the worker's block ids
  uint32_t last_block = 0;      // behind which flow goes on; 0: none
  void Clear() {
    last_block = 0;
    blocks.clear();
    edges.clear();
  }
};

class FlowRecorder {
 public:
  struct Options {
    bool want_path = false;
    bool want_calls = false;
    bool want_contexts = true;
    bool check_landings = false;  // LandingCheck; x86 only
  };
  // One block as walkers see it. Without instructions it is a place that was reached. Of x86 code the recorder finds out
  // itself how it ends.
  struct Block {
    uint64_t start = 0;
    uint64_t last = 0;  // first byte of its last instruction
    uint32_t instructions = 0;
    bool is_64_bit = true;
    uint8_t last_size_bytes = 0;  // of the last instruction; 0: x86 code
    BranchKind ending = BranchKind::kNone;
  };

  explicit FlowRecorder(const Options& options);

  void SetCode(const CodeImage* image, size_t epoch);
  // `segment` is cleared, but keeps its memory, and is filled until Finish.
  void Begin(FlowSegment* segment, FlowStrand::Start start);
  [[gnu::always_inline]] void OnBlock(const Block& block) {
    const uint32_t length = LengthAndMode(block);
    const HotBlock& from = blocks_[block_];
    uint32_t id = from.next[0];
    const HotEdge* edge = &edges_[id];
    if (edge->start != block.start || edge->length != length) [[unlikely]] {
      id = from.next[1];
      edge = &edges_[id];
      // A copy, so that the block itself may stay in registers.
      if (edge->start != block.start || edge->length != length) [[unlikely]]
        id = FindEdge(Block{block});
    }
    TakeEdge(id, block.start, block.instructions);
  }
  // The same in two steps, for who remembers edges: the edge from what ran last to `block`, which may be remembered for as
  // long as follows_flow() and the code stay the same; and that it was taken.
  uint32_t FindEdge(const Block& block);
  [[gnu::always_inline]] void TakeEdge(uint32_t id, uint64_t start, uint32_t instructions) {
    HotEdge& edge = edges_[id];
    if (edge.count++ == 0) [[unlikely]]
      touched_.push_back(id);
    if (edge.step != FlowStep::kStay && options_.want_contexts) Step(id, edge, start);
    block_ = edge.to;
    instructions_ += instructions;
    if (options_.want_path) segment_->path.push_back(id);
  }
  // What comes next is reached from the block that ran last.
  bool follows_flow() const { return block_ != 0; }
  // Of the code that is looked at.
  uint32_t space() const { return space_; }
  // The last branch led to `address`, where nothing could run: what comes next is an event.
  void OnArrival(uint64_t address);
  // The trace's clock, as of all instructions so far; and the core's cycles, counted from the same moment for all segments
  // of a walk, where the trace tells them.
  void OnTime(uint64_t ticks, uint64_t cycles = 0) {
    if (ticks != last_ticks_) AddAnchor(ticks, cycles);
  }
  // Tracing went off; it may go on at `resume` (0: not known). What follows is no edge.
  void OnStopped(uint64_t resume);
  // The same, behind the block that ran last: by a system call (`by_kernel`), or where an address filter ends.
  void OnStoppedBehindBlock(bool by_kernel = false);
  // Tracing is on again at `address`, which need not be where it stopped.
  void OnResumed(uint64_t address);
  // An interrupt struck before the instruction at `from`; the next block is what it ran.
  void OnInterrupt(uint64_t from);
  // What comes next is not connected with what was.
  void OnGap();
  void OnEvent(FlowEvent::Kind kind, uint64_t address, uint64_t value);

  uint64_t instructions() const { return instructions_; }
  bool has_time() const { return has_time_; }
  uint64_t last_ticks() const { return last_ticks_; }
  uint64_t stopped_at() const { return stopped_at_; }
  const CallTracker& tracker() const { return tracker_; }
  // How many instructions of `block`, which is straight-line code, stand before the one at `address`, and which is the
  // last of them. False if none begins there.
  bool InstructionsBefore(const Block& block, uint64_t address, uint32_t* count,
                          uint64_t* last) const;
  // In the code that is looked at; without a size if there is none.
  Instruction InstructionAt(uint64_t address, bool is_64_bit) const;
  Bytes CodeAt(uint64_t address, InstructionBuffer* buffer) const;
  Instruction Decode(Bytes code, bool is_64_bit) const {
    return (is_64_bit ? decoder_64_ : decoder_32_).Decode(code);
  }
  // The segment is begun anew: nothing of it has run.
  void Abandon();
  // Fills in what is known now. What was created since the last call is appended to `graph`.
  void Finish(RecordedGraph* graph);

 private:
  static constexpr size_t kEventsMax = size_t{1} << 16;  // of a segment

  // How the next block is reached, if not from the last one.
  enum class Arrival : uint8_t {
    kFlow,
    kBegin,
    kResume,     // where tracing stopped
    kInterrupt,  // an interrupt's first code
    kElsewhere,  // tracing stopped at one place and went on at another
  };
  // What is compared and counted at each block.
  struct HotEdge {
    uint64_t start = UINT64_MAX;   // of the block it leads to
    uint32_t length = UINT32_MAX;  // LengthAndMode
    uint32_t to = 0;
    uint32_t count = 0;  // in this segment
    uint32_t from = 0;
    uint32_t function = 0;  // of the block it leads to
    FlowStep step = FlowStep::kStay;
    bool lands_on_start = false;  // of a function
    bool knows_start = false;
    uint8_t reasons = 0;  // FlowChecks::Reason: what speaks against it
  };
  struct HotBlock {
    uint64_t end = 0;           // behind the last instruction
    uint32_t next[2] = {0, 0};  // the edges that were found first and last; 0: none
    uint32_t space = 0;
    uint32_t function = 0;
    BranchKind ending = BranchKind::kNone;
  };
  struct Space {
    const CodeImage* image = nullptr;
    size_t epoch = 0;
    std::unique_ptr<CompactIndex> blocks;  // by start and length
  };
  struct FunctionKey {
    uint64_t start = 0;
    bool is_known = false;
    auto operator<=>(const FunctionKey&) const = default;
  };

  // The same code may run in either mode.
  static uint32_t LengthAndMode(const Block& block) {
    return static_cast<uint32_t>(block.last - block.start) ^ static_cast<uint32_t>(!block.is_64_bit)
                                                                 << 31;
  }
  void Step(uint32_t id, const HotEdge& edge, uint64_t start);
  void LeaveBlock(Arrival arrival);
  void AddEdge(uint32_t from, uint32_t to, const Block& block, Arrival arrival);
  void DescribeBlock(const Space& space, BlockIdentity* told, uint32_t* function_id);
  uint32_t FindBlock(const Block& block);
  void AddBlock(const Block& block);
  void AddAnchor(uint64_t ticks, uint64_t cycles);

  Options options_;
  LandingCheck landing_check_;
  InstructionDecoder decoder_64_;
  InstructionDecoder decoder_32_;
  LargeVector<HotBlock> blocks_;  // 0: none
  LargeVector<CodeBlock> code_;   // the same blocks
  LargeVector<HotEdge> edges_;    // 0: none
  CompactIndex edge_index_;       // (from, to, arrival) -> edge
  std::vector<Space> spaces_;
  std::map<std::pair<const CodeImage*, size_t>, uint32_t> space_ids_;
  std::map<FunctionKey, uint32_t> function_ids_;
  uint32_t space_ = 0;

  FlowSegment* segment_ = nullptr;
  std::vector<uint32_t> touched_;
  uint32_t block_ = 0;  // that ran last; 0: the next one is not simply reached from it
  uint32_t from_ = 0;   // then, the block that ran last
  Arrival arrival_ = Arrival::kBegin;
  FlowStrand::Start begin_ = FlowStrand::Start::kSegment;
  uint64_t stopped_at_ = 0;
  uint64_t interrupted_at_ = 0;
  uint64_t instructions_ = 0;
  uint64_t last_ticks_ = 0;
  uint64_t last_cycles_ = 0;
  bool has_time_ = false;
  CallTracker tracker_;
  RecordedGraph fresh_;
};

}  // namespace ptarmigan::internal
