// ControlFlow: what a decoder of control-flow traces (Intel PT, CoreSight) says, one result per segment of the trace,
// never a call per block. A segment is a piece that can be decoded by itself: from one PSB to the next.
//
//   FlowGraph     code that ran: blocks and the edges between them, each once, by id       grows, never changes
//   FlowSegment   one segment: how often each edge was taken, which contexts ran for how
//                 long, what was open at its ends, events, time, trust                      reused from call to call
//   FlowSink      takes the segments of a stream in order
//
// Contexts of a segment are a tree of its own, since what called the code at its beginning is not known there.
// decode/call_stack_builder.h joins them:
//
//   strand 0  ──call──▶ f ──ret──▶ ──ret (to what is not on the segment's own stack)──▶ strand 1 ──call──▶ g ─ end: g open
//
// A strand is a piece of a segment during which its own shadow stack explains every transfer. It ends at a transfer that
// it does not: a return below its base, longjmp, an exception, a stack switch. Its open frames are kept; only with the
// frames of earlier segments can be told where the next strand belongs.
//
// Plain values; not thread-safe while being changed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/address.h"

namespace ptarmigan {

// How control left a block.
enum class BranchKind : uint8_t {
  kNone,  // it did not: an event stopped the block, or it is too long for one record
  kConditionalJump,
  kJump,
  kIndirectJump,
  kCall,
  kIndirectCall,
  kReturn,
  kSystemCall,    // far transfers: SYSCALL, SYSENTER, INT; SVC, HVC, SMC
  kSystemReturn,  // SYSRET, SYSEXIT, IRET; ERET
};

constexpr uint32_t kNoFlowId = UINT32_MAX;

// Straight-line code from `start` up to and with the instruction at `last`. Without instructions: a place that a branch led
// to, but where nothing ran before an event.
struct CodeBlock {
  VirtAddr start;
  VirtAddr last;
  uint32_t instructions = 0;
  BranchKind ending = BranchKind::kNone;
  uint8_t last_size_bytes = 0;  // of the last instruction; 0: not known
  bool is_64_bit = true;
  // Of its image, when it first ran. Other code at the same address is another block.
  uint32_t epoch = 0;
  // The start of the function that holds `start`; where none is known, of the region of code.
  VirtAddr function;
  bool knows_function = false;

  VirtAddr end() const { return last + last_size_bytes; }  // behind the last instruction
};

// What an edge does to the stack of calls.
enum class FlowStep : uint8_t {
  kStay,  // a jump within a function, falling through, a call of the next instruction (which fetches the pc)
  kCall,      // pushes blocks[from].end()
  kReturn,    // pops
  kTailCall,  // the callee replaces the caller: a jump to another function, PLT stubs
  kLeap,  // a jump into the middle of another function: longjmp, landing pads, hand-made switches of stacks
  kInterrupt,  // pushes the address at which it happened: signals, interrupts, exceptions; system calls into a traced kernel
  kResume,     // tracing goes on where it stopped
  kBegin,      // the first block after a gap
};

// What a branch from one block to another does.
FlowStep StepBetween(const CodeBlock& from, const CodeBlock& to);
// From the last instruction of a block to the first of another. An edge of kind kNone, or to the block right behind a
// conditional jump, was no taken branch.
struct FlowEdge {
  uint32_t from = kNoFlowId;  // kNoFlowId for FlowStep::kBegin
  uint32_t to = kNoFlowId;
  BranchKind kind = BranchKind::kNone;
  bool taken = false;  // a branch was; kNone, asynchronous and not-taken edges are false
  FlowStep step = FlowStep::kStay;

  // By flow, not by an event.
  static FlowEdge Between(uint32_t from, const CodeBlock& from_block, uint32_t to,
                          const CodeBlock& to_block);
};

// Ids are indexes in order of first execution, so that they do not depend on how many threads decoded.
struct FlowGraph {
  std::vector<CodeBlock> blocks;
  std::vector<FlowEdge> edges;
};

struct EdgeCount {
  uint32_t edge = 0;
  uint64_t count = 0;
};

// A place in the tree of calls. Each strand's contexts follow each other, its root first.
struct CallNode {
  // In FlowSegment::contexts, always an earlier one. kNoFlowId: the strand's root, or (by a tail call) what replaced it
  // under the same unknown caller.
  uint32_t parent = kNoFlowId;
  uint32_t edge =
      kNoFlowId;  // that led here: the call, with call site and callee; of a root, FlowStrand::edge
  uint64_t instructions = 0;   // its own, without callees
  uint64_t ticks = 0;          // its own, in units of the trace's clock
  uint64_t ticks_outside = 0;  // while tracing was off below it: system calls, preemption
  uint64_t cycles = 0;         // its own, of the core; 0 where the trace does not count them
  uint64_t calls = 0;
};

// A frame that was open when its strand ended, outermost first.
struct OpenFrame {
  uint32_t context = 0;  // of the caller
  VirtAddr return_address;
  bool is_interrupt = false;
};

struct FlowStrand {
  // Why it began.
  enum class Start : uint8_t {
    kSegment,  // the segment begins; execution goes on from the segment before if there was no gap
    kGap,      // after an overflow, or code that is missing: nothing is known of the stack
    kReturn,   // a return to an address that is not on the segment's stack
    kLeap,     // a jump into the middle of a function that is not on the segment's stack
    kEnabled,  // tracing began elsewhere than it had stopped
  };
  Start start = Start::kSegment;
  uint32_t root = 0;          // context
  uint32_t edge = 0;          // of the graph: that led to its first block
  uint32_t frames_begin = 0;  // its part of FlowSegment::frames
  uint32_t frames_size = 0;
  uint32_t calls_begin = 0;   // its part of FlowSegment::calls, up to the next strand's
  uint32_t last_context = 0;  // that was running when it ended
  uint64_t begin_instruction = 0;
  uint64_t begin_ticks = 0;
};

// A change of a strand's own stack of calls.
struct CallEvent {
  // Of a time that no two anchors enclose.
  static constexpr uint32_t kUnboundedTicks = UINT32_MAX;

  enum class Kind : uint8_t {
    kCall,
    kInterrupt,
    kTailCall,  // what runs is replaced: no frame is added
    kReturn,    // the innermost frame goes
    kUnwind,    // the same, without a return of its own
  };
  Kind kind = Kind::kCall;
  uint32_t context = 0;            // that is entered; of kReturn and kUnwind: that is left
  uint32_t uncertainty_ticks = 0;  // how far the anchors are apart that `ticks` lies between
  uint64_t ticks = 0;              // 0: not known
  uint64_t instruction = 0;        // how many of the segment had run
};

// A known moment: when this many instructions of the segment had run. Between two of them time is interpolated by
// instructions, so it is uncertain by their distance.
struct FlowAnchor {
  uint64_t instruction = 0;
  uint64_t ticks = 0;
  uint64_t cycles = 0;  // of the core, since some moment before the segment's first anchor
};

struct FlowEvent {
  enum class Kind : uint8_t {
    kEnabled,
    kDisabled,
    kOverflow,
    kInterrupted,
    kExecutionMode,
    kTransaction,
    kPtWrite,
    kMissingCode,
    kUnknownPath,  // the trace does not say which way it went on
    kError,
  };
  Kind kind = Kind::kEnabled;
  VirtAddr address;    // 0: not known
  uint64_t ticks = 0;  // 0: not known
  uint64_t instruction = 0;
  uint64_t value = 0;  // PTWRITE's operand; the decoder's error code
};

enum class FlowTrust : uint8_t {
  kVerified,  // every check that could be made holds
  kSuspect,   // decoded, but something does not fit
  kBad,       // decoding failed, or the next segment begins elsewhere than this one ends
};

// What the checks of a segment said.
struct FlowChecks {
  enum Reason : uint32_t {
    kDecoderError = 1 << 0,
    kEndNotReached = 1 << 1,     // the next segment's first address does not follow
    kReturnMismatch = 1 << 2,    // returns to where no call came from
    kCallIntoFunction = 1 << 3,  // calls into the middle of functions
    kBudget = 1 << 4,            // too many instructions without a packet
    kImplausible = 1 << 5,
    kMissingCode = 1 << 6,  // ends where code is missing; what was decoded before may be right
    kLostRecords = 1 << 7,  // mappings may be missing
  };
  uint32_t reasons = 0;
  bool end_checked = false;  // there was a next segment to compare with
  uint32_t returns_matched = 0;
  uint32_t returns_unmatched = 0;  // each of them begins a strand, or unwinds several frames
  uint32_t calls_to_starts = 0;    // of functions
  uint32_t calls_elsewhere = 0;
};

// Where the bytes of a trace went; each is in exactly one.
struct FlowBytes {
  uint64_t decoded = 0;
  uint64_t before_sync = 0;
  uint64_t after_error = 0;
  uint64_t overflow = 0;  // of the packets that say that the hardware lost some
  uint64_t no_image = 0;
  uint64_t padding = 0;
  uint64_t dropped = 0;  // whole segments, for memory

  uint64_t Sum() const {
    return decoded + before_sync + after_error + overflow + no_image + padding + dropped;
  }
  FlowBytes& operator+=(const FlowBytes& other);
};

struct FlowSegment {
  uint64_t number =
      0;  // of the trace's segment in its stream; several results have the same one if who ran changed
  uint64_t begin_offset = 0;  // in the stream
  uint64_t end_offset = 0;
  uint32_t owner = 0;  // who ran, as the decoder was told
  bool continues =
      false;  // goes on where the result before it of the same owner ended, without a gap
  // Where tracing was off at the end: the address at which it will go on if nothing else happens. 0: it was on.
  VirtAddr stopped_at;

  uint64_t instructions = 0;
  bool has_time = false;
  bool has_cycles = false;
  uint64_t begin_ticks = 0;
  uint64_t end_ticks = 0;
  uint64_t uncertainty_ticks = 0;  // the largest distance between two anchors
  FlowTrust trust = FlowTrust::kVerified;
  FlowChecks checks;
  FlowBytes bytes;

  std::vector<EdgeCount> edges;  // in order of first execution
  std::vector<CallNode> contexts;
  std::vector<FlowStrand> strands;
  std::vector<OpenFrame> frames;
  std::vector<FlowAnchor> anchors;
  std::vector<FlowEvent> events;
  std::vector<CallEvent> calls;  // on request; in order
  uint64_t calls_cut = 0;        // events at the end that found no room
  std::vector<uint32_t>
      path;  // on request: the edges in order, each leading to the block that ran next

  void Clear();  // keeps its memory
};

class FlowSink {
 public:
  virtual ~FlowSink() = default;
  // In the order of the stream, from one thread. Both are valid during the call; the graph of one stream only grows.
  virtual void OnFlowSegment(const FlowGraph& graph, const FlowSegment& segment) = 0;
};

inline FlowStep StepBetween(const CodeBlock& from, const CodeBlock& to) {
  switch (from.ending) {
    case BranchKind::kCall:
    case BranchKind::kIndirectCall:
      // A call of the next instruction only asks for the program counter.
      return to.start == from.end() ? FlowStep::kStay : FlowStep::kCall;
    case BranchKind::kSystemCall:
      return FlowStep::kCall;
    case BranchKind::kReturn:
    case BranchKind::kSystemReturn:
      return FlowStep::kReturn;
    default:
      break;
  }
  if (from.function == to.function && from.knows_function == to.knows_function) {
    return FlowStep::kStay;
  }
  // Direct jumps into the middle of another symbol lead to and from the cold parts of one function.
  const bool into_the_middle = to.knows_function && to.start != to.function;
  if (from.ending == BranchKind::kIndirectJump && into_the_middle) return FlowStep::kLeap;
  return FlowStep::kTailCall;
}

inline FlowEdge FlowEdge::Between(uint32_t from, const CodeBlock& from_block, uint32_t to,
                                  const CodeBlock& to_block) {
  const BranchKind kind = from_block.ending;
  const bool falls_through =
      kind == BranchKind::kConditionalJump && to_block.start == from_block.end();
  return {.from = from,
          .to = to,
          .kind = kind,
          .taken = kind != BranchKind::kNone && !falls_through,
          .step = StepBetween(from_block, to_block)};
}

inline void FlowSegment::Clear() {
  number = begin_offset = end_offset = 0;
  owner = 0;
  continues = false;
  stopped_at = {};
  instructions = 0;
  has_time = has_cycles = false;
  begin_ticks = end_ticks = uncertainty_ticks = 0;
  trust = FlowTrust::kVerified;
  checks = {};
  bytes = {};
  edges.clear();
  contexts.clear();
  strands.clear();
  frames.clear();
  anchors.clear();
  events.clear();
  calls.clear();
  calls_cut = 0;
  path.clear();
}

inline FlowBytes& FlowBytes::operator+=(const FlowBytes& other) {
  decoded += other.decoded;
  before_sync += other.before_sync;
  after_error += other.after_error;
  overflow += other.overflow;
  no_image += other.no_image;
  padding += other.padding;
  dropped += other.dropped;
  return *this;
}

}  // namespace ptarmigan
