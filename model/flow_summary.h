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
  // Calls of one function from one place that were seen from entry to return.
  struct Calls {
    uint32_t callee = UINT32_MAX;  // LocationId of its first instruction
    uint32_t caller = UINT32_MAX;  // LocationId of the call; UINT32_MAX: not known
    uint64_t count = 0;
    uint64_t instructions = 0;  // with callees
    uint64_t ns_sum = 0;        // with callees; 0 where the trace has no time
    // Nanoseconds, rounded down to two significant binary digits more than the highest, and how many calls took so long.
    std::map<uint64_t, uint64_t> durations;
  };
  // One call in time.
  struct Interval {
    uint32_t thread = 0;    // index
    uint32_t function = 0;  // LocationId of its first instruction
    uint32_t depth = 0;     // below the outermost frame that is known
    uint64_t begin_ns = 0;
    uint64_t end_ns = 0;
    bool is_open = false;  // it had not returned when the trace ended
  };

  std::string source;           // "pt" or "coresight"
  std::vector<Thread> threads;  // by pid and tid
  std::vector<Function> functions;
  std::vector<Calls> calls;
  std::vector<Interval> intervals;  // on request; by thread and begin
  uint64_t intervals_cut = 0;
  // Code that was traced and is not at hand, by object: bytes of trace.
  std::map<std::string, uint64_t> missing_code;

  bool empty() const { return threads.empty(); }
};

}  // namespace ptarmigan
