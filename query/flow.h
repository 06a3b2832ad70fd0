// The `flow` and `functions` views: what control-flow traces say of threads and of functions.
//
// Borrows the profile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/profile.h"
#include "query/branches.h"

namespace ptarmigan {

// A function as its traces saw it; what inlined it is not told apart.
struct FunctionFlow {
  std::string_view function;  // empty: no symbol
  std::string_view object;
  std::string_view build_id;
  uint64_t address =
      0;  // of its first instruction that was seen; ELF virtual where there is a build id
  uint64_t instructions = 0;
  uint64_t calls = 0;  // direct
  uint64_t indirect_calls = 0;
  uint64_t jumps = 0;
  uint64_t interrupts = 0;
};

struct FlowReport {
  std::vector<FunctionFlow> functions;  // by instructions
  size_t functions_cut = 0;
};

// One row per function and object; `rows_max` of them.
FlowReport MakeFlowReport(const Profile& profile, size_t rows_max);

}  // namespace ptarmigan
