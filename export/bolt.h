// Profiles for BOLT, LLVM's post-link optimizer.
//
// Branch data (`.fdata`, read by `llvm-bolt -data=`), one branch a line:
//
//   1 main 1a 1 main 30 mispredictions count        hexadecimal offsets in functions, decimal counts
//   0 [unknown] 0 1 main 0 0 12                     from another object
//
// A local function is `name/N`: BOLT numbers local symbols of one name in the order of their addresses. Blanks in names
// are escaped. As perf2bolt does it, returns are left out, and beside taken branches there are the ways on to the next
// basic block that were not branches (without mispredictions).
//
// Pre-aggregated (`.preagg`, read by `perf2bolt --pa -p`): hexadecimal addresses instead of names,
// without a build id, because all are of one object; an address in another object is X:0. Two dialects:
//
//   kBranches   B from to count mispredictions      every version of BOLT reads these
//               F start branch count                the code between two branches; f: entered from another function
//   kTraces     T from to branch count              LLVM 20 and later; R instead of T: `from` is a return
#pragma once

#include <cstdint>

#include "base/result.h"
#include "export/sink.h"
#include "model/code_lines.h"
#include "model/object_branches.h"

namespace ptarmigan {

struct BoltSummary {
  uint64_t lines = 0;
  uint64_t branches_without_function = 0;  // sum of counts: no side in a function symbol
};

// kNotFound if no symbol holds any of the branches.
Result<BoltSummary> WriteBoltFdata(const ObjectBranches& branches, CodeLines* lines,
                                   ByteSink* sink);

enum class PreaggregatedDialect : uint8_t { kBranches, kTraces };
// `lines` tells functions apart; with null every block counts as entered from its own function.
Result<BoltSummary> WriteBoltPreaggregated(const ObjectBranches& branches,
                                           PreaggregatedDialect dialect, CodeLines* lines,
                                           ByteSink* sink);

}  // namespace ptarmigan
