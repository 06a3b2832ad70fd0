// AutoFDO profiles in the text format of LLVM's sample profiles (llvm/ProfileData/SampleProfReader.h), which
// `clang -fprofile-sample-use` reads and `llvm-profdata merge --sample --text` checks:
//
//   function:total_samples:head_samples
//    offset[.discriminator]: count [callee:count ...]
//    offset[.discriminator]: inlined_callee:total_samples
//     offset[.discriminator]: count
//
// One space per inline level. `offset` is line - line of the function's declaration, modulo 2^16. What is counted, and
// under which name, is what llvm-profgen (LLVM 19) does without context and without pseudo probes:
//   * the count of a line is the greatest of its instructions' executions, times LLVM's duplication factor; code of a
//     function that has a sample is there with 0 where it did not run;
//   * total_samples is the sum of executions over the bytes of the function's code;
//   * head_samples and the calls of a line are branches to the first instruction of a function; a line counts at least
//     as often as its calls;
//   * names are DWARF's linkage names without the suffixes ".llvm.N" and ".part.N"; code that DWARF does not name is
//     left out, and so are initializers that the compiler names alike in every file.
// Where DWARF names none of the code that ran, llvm-profgen writes nothing; here functions of the symbol table get
// their totals and heads, without lines: enough to tell hot functions from cold ones.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "export/sink.h"
#include "model/code_lines.h"
#include "model/object_branches.h"

namespace ptarmigan {

struct AutofdoSummary {
  uint64_t functions = 0;
  // Executions (sum over blocks) and branch counts without a function known to DWARF.
  uint64_t blocks_without_function = 0;
  bool by_symbols = false;  // DWARF was of no use
};

// kNotFound if neither DWARF nor the symbol table names any of the code that ran. `lines` is that of the object.
Result<AutofdoSummary> WriteAutofdo(const ObjectBranches& branches, CodeLines* lines,
                                    ByteSink* sink);

}  // namespace ptarmigan
