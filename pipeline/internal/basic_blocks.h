// Where basic blocks of hot functions begin, found by reading the code once from each function's start, and how often
// control went on from one to the next without a branch. BOLT's branch data need that: its records are edges between
// basic blocks, while hardware records only those that were taken.
#pragma once

#include <span>
#include <vector>

#include "elf/elf_file.h"
#include "model/code_lines.h"
#include "model/object_branches.h"

namespace ptarmigan::internal {

// Larger functions are left out.
constexpr uint64_t kDecodedFunctionBytesMax = uint64_t{16} << 20;

// `branches` has edges, blocks and traces, sorted. `symbols` as CodeLines::Symbols. Sorted by address.
std::vector<ObjectBranches::Edge> FindFallThroughs(const ElfFile& file,
                                                   std::span<const LinkedSymbol> symbols,
                                                   const ObjectBranches& branches);

}  // namespace ptarmigan::internal
