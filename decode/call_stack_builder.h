// CallStackBuilder: joins the segments of one thread's control-flow trace into whole call stacks. A segment knows only what
// was called inside of it; here its strands (model/control_flow.h) find the frames that earlier ones left open.
//
//   segment 1   main ─ f ─ g ·            open at its end: main, f
//   segment 2              · ret  h ─     strand 1 goes on in g; a return to f's return address is strand 2, in f
//   tree        main ─ f ─┬ g             contexts, each once: parent, the edge that led there, what ran in it
//                         └ h
//
// A transfer that no return address explains is looked at in this order:
//   1. signals: a handler is called from where tracing had stopped. It returns to code that no call came from (the stub
//      that calls rt_sigreturn), which then stands between the two
//   2. a stack that was left before and waits for this address: coroutines. Their stacks stay apart
//   3. a frame whose function holds the address: longjmp, exceptions. What is above it is left
//   4. else nothing is guessed: a new stack begins at the root, and is counted
//
// Calls in time (Sink) come from the events of the segments (FlowSegment::calls), each when it ends: those that a call made
// before itself. A tail call ends with the call that it replaces, or where another replaces it:
//
//   call f ────────────────────────────────────────── return      f: depth 1
//            jump g ──────────── jump h ──────────────            g, h: depth 1 too, inside of f
//              call i ── return                                   i: depth 2, inside of g
//
// Used by the decoders of Intel PT and of CoreSight. Segments must come in order of time. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/compact_index.h"
#include "model/control_flow.h"

namespace ptarmigan {

// A place in the thread's tree of calls.
struct CallTreeNode {
  uint32_t parent = kNoFlowId;  // kNoFlowId: nothing is known of who called
  uint32_t edge = kNoFlowId;    // of the graph: that led to its first block
  uint32_t block = kNoFlowId;   // where it was entered, or first seen
  uint64_t instructions = 0;    // its own
  uint64_t ticks = 0;           // its own, in units of the trace's clock
  uint64_t ticks_outside = 0;   // while tracing was off below it
  uint64_t cycles = 0;          // its own, of the core
  uint64_t calls = 0;
};

// One execution of a function.
struct CallInterval {
  enum class Entry : uint8_t {
    kUnknown,  // it ran when its stack was first seen
    kCall,
    kTailCall,
    kInterrupt,
  };
  enum class Exit : uint8_t {
    kReturn,
    kReplaced,  // by a tail call
    kUnwound,   // without a return of its own: longjmp, exceptions
    kOpen,      // it had not returned when the trace ended or broke off
  };
  Entry entry = Entry::kCall;
  Exit exit = Exit::kReturn;
  uint32_t context = 0;  // that was entered
  uint32_t edge = 0;     // of the graph: that led there
  uint32_t stack = 0;    // of the thread: others than 0 are those of coroutines
  uint32_t depth = 0;    // frames below it that are known
  bool has_time = false;
  // How far off the ends may be in sum; CallEvent::kUnboundedTicks: one of them lies where no time is known.
  uint32_t uncertainty_ticks = 0;
  uint64_t begin_ticks = 0;
  uint64_t end_ticks = 0;
  uint64_t self_ticks = 0;         // without callees
  uint64_t begin_instruction = 0;  // of the thread
  uint64_t instructions = 0;       // with callees
  uint64_t self_instructions = 0;

  uint64_t end_instruction() const { return begin_instruction + instructions; }
};

// What stack unwinding needs to know of a function.
struct FunctionTraits {
  // Where the function begins that this one is a part of (GCC moves cold code of f to a symbol f.cold); else its own start.
  VirtAddr whole;
  // _Unwind_Resume (Itanium C++ ABI): never comes back to the frame that called it.
  bool resumes_unwinding = false;
};

class CallStackBuilder {
 public:
  // Of the function that holds a block; asked once per function.
  using TraitsOf = std::function<FunctionTraits(const CodeBlock&)>;

  // Deeper stacks lose their outermost frames.
  static constexpr size_t kFramesMax = size_t{1} << 16;
  // How far a return is looked for.
  static constexpr size_t kUnwindMax = 4096;
  static constexpr size_t kContextsMax = size_t{1} << 22;
  // Stacks that were left by a switch; the one left longest ago is forgotten.
  static constexpr size_t kParkedMax = 1024;

  struct Counts {
    uint64_t segments = 0;
    uint64_t roots = 0;              // stacks that began without a known caller
    uint64_t returns_unmatched = 0;  // to where no frame waited
    uint64_t leaps = 0;              // back to a frame by its function
    uint64_t switches = 0;           // to a stack that had been left
    uint64_t frames_unwound = 0;     // left without a return of their own
    uint64_t frames_lost = 0;        // by a gap, or too deep
    uint64_t contexts_beyond = 0;
    uint64_t call_events_cut = 0;  // FlowSegment::calls_cut
  };
  class Sink {
   public:
    virtual ~Sink() = default;
    // Callees before their callers.
    virtual void OnCall(const CallInterval& interval) = 0;
  };

  // `sink` is told of every call that ends; null: nobody wants to know.
  explicit CallStackBuilder(TraitsOf traits = nullptr, Sink* sink = nullptr)
      : traits_of_(std::move(traits)), sink_(sink) {}

  // `may_resume`: the segment may go on where the thread's last one stopped although another stream holds it (a thread
  // that moved to another CPU).
  void Add(const FlowGraph& graph, const FlowSegment& segment, bool may_resume = false);
  // The trace ends, or breaks off: calls that are open are reported, and nothing is known of the stack any more.
  void Break() { Break(last_ticks_); }

  const std::vector<CallTreeNode>& contexts() const { return contexts_; }
  const Counts& counts() const { return counts_; }

 private:
  struct Frame {
    uint32_t context = 0;  // of the caller
    VirtAddr return_address;
    bool is_interrupt = false;
  };
  using Entry = CallInterval::Entry;
  using Exit = CallInterval::Exit;
  // A moment of the thread.
  struct Moment {
    uint64_t ticks = 0;
    uint64_t instruction = 0;
    uint32_t uncertainty_ticks = 0;
  };
  struct OpenCall {
    uint32_t context = 0;
    uint32_t depth = 0;
    Entry entry = Entry::kCall;
    Moment begin;
    uint64_t inside_ticks = 0;  // of what it called
    uint64_t inside_instructions = 0;
  };
  static constexpr size_t kNotFound = SIZE_MAX;

  uint32_t BaseOf(const FlowGraph& graph, const FlowStrand& strand, bool continues);
  uint32_t AfterReturn(const FlowGraph& graph, const FlowStrand& strand);
  uint32_t AfterEnabling(const FlowGraph& graph, const FlowStrand& strand);
  bool LeapTo(const FlowGraph& graph, const FlowStrand& strand, uint32_t* base);
  uint32_t CalleeOf(size_t frame) const {
    return frame + 1 < frames_.size() ? frames_[frame + 1].context : current_;
  }
  FunctionTraits TraitsOfBlock(const FlowGraph& graph, uint32_t block);
  bool SwitchTo(VirtAddr landing, uint32_t* base);
  void Park();
  uint32_t NewRoot(const FlowGraph& graph, const FlowStrand& strand);
  void AddStrand(const FlowGraph& graph, const FlowSegment& segment, size_t index, bool continues);
  uint32_t Child(const FlowGraph& graph, uint32_t parent, uint32_t edge);
  // Or the same.
  bool IsUnder(uint32_t context, uint32_t above) const;
  size_t FindFrame(VirtAddr return_address, bool is_interrupt) const;
  // Leaves what the frames from `frame` on called; `exit` is how the outermost of them ended.
  void UnwindTo(size_t frame, Exit exit);
  void Break(uint64_t ticks);
  // Whether control is in the function that holds the block.
  bool IsIn(const FlowGraph& graph, uint32_t context, const FlowStrand& strand);

  void OpenCallNow(uint32_t context, size_t depth, Entry entry, const Moment& now);
  void CloseCall(Exit exit, const Moment& now);
  // All that are deeper than `depth`: those directly above it by `exit`, the others were unwound.
  void CloseCallsAbove(size_t depth, Exit exit, const Moment& now);
  void CloseAllCalls(Exit exit, const Moment& now);
  void AddCallEvents(const FlowSegment& segment, size_t strand, size_t frames_kept);

  TraitsOf traits_of_;
  std::unordered_map<uint64_t, FunctionTraits> traits_;  // by the function's start
  Sink* sink_;
  std::vector<CallTreeNode> contexts_;
  CompactIndex children_;  // (parent, edge) -> context
  struct ParkedStack {
    std::vector<Frame> frames;
    uint32_t current = kNoFlowId;
    uint32_t stack = 0;
    std::vector<OpenCall> calls;
    Moment left;
  };
  uint32_t UnusedStack() const;
  // Where what ran before the strand will go on; 0: not known.
  VirtAddr StoppedBefore(const FlowGraph& graph, const FlowStrand& strand) const;

  std::vector<Frame> frames_;
  uint32_t current_ = kNoFlowId;    // context; kNoFlowId: not known
  std::deque<ParkedStack> parked_;  // left last at the end
  VirtAddr stopped_at_;
  uint64_t instructions_ = 0;  // of the thread, before the segment that is being added
  Moment now_;                 // when the strand that is being added began
  uint64_t last_ticks_ = 0;
  uint32_t stack_ = 0;
  std::vector<OpenCall> calls_;  // of the present stack, innermost last
  std::vector<uint32_t> ids_;    // contexts of the segment, by theirs
  Counts counts_;
};

}  // namespace ptarmigan
