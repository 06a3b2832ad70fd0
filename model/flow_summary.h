// FlowSummary: what control-flow traces (Intel PT, CoreSight) say beyond sums per stack: how much of each thread could be
// decoded and trusted, what functions cost by call, when they ran. Part of TraceSummary; refers to a Profile's locations.
//
// Plain values; not thread-safe while being changed. LocationIds are plain uint32_t here, since Profile includes this.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/control_flow.h"
#include "model/duration_counts.h"

namespace ptarmigan {

// The digest that reports print for a thread's flow: FNV-1a of 64 bits over the run-time address of every instruction, as 8
// little-endian bytes, in the order of execution.
class FlowDigest {
 public:
  void Add(VirtAddr address) {
    for (unsigned byte = 0; byte < 8; ++byte) {
      value_ = (value_ ^ (address.value >> (8 * byte) & 0xff)) * kPrime;
    }
  }
  uint64_t value() const { return value_; }

 private:
  static constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t value_ = 0xcbf29ce484222325;
};

struct FlowSummary {
  struct Error {
    uint64_t offset = 0;  // in the AUX area
    int64_t code = 0;     // the decoder's
    std::string reason;
  };
  // All of a thread's buffers together.
  struct Thread {
    static constexpr size_t kErrorsMax = 64;

    int32_t pid = -1;
    int32_t tid = -1;
    std::string name;             // comm; empty: not known
    std::optional<uint32_t> cpu;  // where its trace lay, if on one CPU only
    uint64_t instructions = 0;    // decoded without error, suspect ones included
    uint64_t blocks = 0;          // executed
    uint64_t branches = 0;        // taken
    uint64_t calls = 0;
    uint64_t returns = 0;
    std::optional<uint64_t> ip_digest;  // FlowDigest; on request
    uint64_t verified = 0;              // segments
    uint64_t suspect = 0;
    uint64_t bad = 0;
    FlowBytes bytes;
    std::map<std::string, uint64_t> gaps;  // by reason
    std::vector<Error> errors;             // the first ones
    uint64_t errors_cut = 0;
    // Of the recording's clock; 0: the trace has no time.
    uint64_t begin_ns = 0;
    uint64_t end_ns = 0;
    // The longest that instructions ran between two known moments: how far off single times may be.
    uint64_t uncertainty_ns = 0;
  };
  // What a function did, wherever it was called from.
  struct Function {
    uint32_t location = UINT32_MAX;  // LocationId of its first instruction that was seen to run
    uint64_t instructions = 0;       // its own
    uint64_t calls = 0;              // direct
    uint64_t indirect_calls = 0;
    uint64_t jumps = 0;       // from other functions: tail calls, PLT stubs
    uint64_t interrupts = 0;  // signals
  };
  // How an execution of a function began, and how it ended.
  enum class Entry : uint8_t { kUnknown, kCall, kTailCall, kInterrupt };
  enum class Exit : uint8_t { kReturn, kReplaced, kUnwound, kOpen };
  // Executions of one function, entered from one place, that were seen from their beginning to their end.
  struct Calls {
    uint32_t callee = UINT32_MAX;  // LocationId of its first instruction
    uint32_t caller = UINT32_MAX;  // LocationId of the call; UINT32_MAX: not known
    Entry entry = Entry::kCall;    // of an interrupt, the caller is what was interrupted
    uint64_t count = 0;
    uint64_t unwound = 0;       // of these: left without a return of their own
    uint64_t instructions = 0;  // with callees
    uint64_t self_instructions = 0;
    // Time that passes while the function runs or waits for what it called, and without that. Empty where the trace has no
    // time; calls at the trace's ends may be left out.
    DurationCounts total;
    DurationCounts self;
    // How far off the durations may be in sum, and how many of them took longer than counted: they began before the first
    // known moment or ended behind the last one.
    uint64_t uncertainty_ns = 0;
    uint64_t unbounded = 0;

    // Adds other executions of the same.
    Calls& operator+=(const Calls& other) {
      count += other.count;
      unwound += other.unwound;
      instructions += other.instructions;
      self_instructions += other.self_instructions;
      total.Add(other.total);
      self.Add(other.self);
      uncertainty_ns += other.uncertainty_ns;
      unbounded += other.unbounded;
      return *this;
    }
  };
  // One execution of a function.
  struct Interval {
    static constexpr uint32_t kUnbounded = UINT32_MAX;

    uint32_t thread = 0;  // index
    uint32_t stack = 0;   // of the thread: coroutines have others than 0
    uint32_t function =
        UINT32_MAX;  // LocationId of its first instruction, or of the first that was seen
    uint32_t caller = UINT32_MAX;  // LocationId of the call; UINT32_MAX: not known
    uint32_t depth = 0;            // below the outermost frame that is known
    Entry entry = Entry::kCall;
    Exit exit = Exit::kReturn;
    // Of both ends in sum; kUnbounded: one lies where no time is known.
    uint32_t uncertainty_ns = 0;
    uint64_t begin_ns = 0;  // of the recording's clock; 0 without time, as is the end
    uint64_t end_ns = 0;
    uint64_t begin_instruction = 0;  // of the thread
    uint64_t instructions = 0;
  };
  // Something that a timeline shows beside what ran.
  struct Mark {
    enum class Kind : uint8_t { kOverflow, kMissingCode, kError, kSuspect, kBad };
    uint32_t thread = 0;
    Kind kind = Kind::kOverflow;
    uint64_t begin_ns = 0;
    uint64_t end_ns = 0;  // of a segment that is suspect or bad; else the beginning
  };

  std::string source;           // "pt" or "coresight"
  std::vector<Thread> threads;  // by pid and tid
  std::vector<Function> functions;
  std::vector<Calls> calls;  // on request
  // On request, by thread, stack and begin; callers before their callees.
  std::vector<Interval> intervals;
  uint64_t intervals_cut = 0;  // left out: the shortest
  std::vector<Mark> marks;     // with the intervals; by thread and begin
  uint64_t marks_cut = 0;
  // Code that was traced and is not at hand, by object: bytes of trace.
  std::map<std::string, uint64_t> missing_code;

  bool empty() const { return threads.empty(); }
};

}  // namespace ptarmigan
