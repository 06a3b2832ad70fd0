// Runs the instructions of a CIE and an FDE up to one address.
#pragma once

#include "model/arch.h"
#include "unwind/cfi.h"
#include "unwind/internal/cfi_entry.h"

namespace ptarmigan::internal {

// Fills `row` with the rules at `pc`, which must lie in [fde.start, fde.end), and `range` with where they hold. False
// if the instructions up to there are damaged or beyond the bounds of CfiTable.
bool RunCfiProgram(const CfiSection& section, Arch arch, const Fde& fde, FileVaddr pc,
                   UnwindRow* row, CfiRange* range);

}  // namespace ptarmigan::internal
