// The Intel PT of a real program: which packets a processor would have written while it called a function, known because the
// program was run one instruction at a time (tests/pipeline/step_recorder.h).
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ptarmigan {

struct CallTrace {
  // PSB+, what was executed from the function's first instruction to its return, and an interrupt behind that.
  std::string packets;
  std::vector<uint64_t> addresses;  // of the instructions, in order
  // Those that were taken, in order: the return last.
  struct Branch {
    uint64_t from = 0;
    uint64_t to = 0;
    auto operator<=>(const Branch&) const = default;
  };
  std::vector<Branch> branches;
};

// The first call of `function` by a program that needs no interpreter and is loaded where it was linked. kNotFound if it is
// never called, or never returns; kUnavailable where programs cannot be stepped through.
Result<CallTrace> TraceFirstCall(const std::string& program, std::string_view function);

}  // namespace ptarmigan
