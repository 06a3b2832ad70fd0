// Folded stacks, one line each: `root;...;leaf 42`. What flame graph scripts read and write.
//
// Kernel frames end in "_[k]". In names, ';' becomes ':' (as stackcollapse-perf does) and line breaks become
// blanks. A frame without a name is "[object]". Lines are sorted, so equal profiles give equal bytes.
#pragma once

#include <cstddef>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "export/sink.h"
#include "model/profile.h"

namespace ptarmigan {

struct FoldedOptions {
  size_t sample_type = 0;    // index; values of 0 are left out
  bool comm_root = false;    // the label `comm` is the first frame, blanks as '_'
  bool pid_in_root = false;  // "comm-pid"
};
Status WriteFolded(const Profile& profile, const FoldedOptions& options, ByteSink* sink);

struct FoldedLimits {
  size_t frames_per_stack_max = 4096;
  uint64_t lines_max = uint64_t{1} << 24;
};
// Sample type samples/count. Suffixes "_[k]", "_[j]" and "_[i]" become a kernel mapping, a JIT mapping and an
// inlined line of the next frame. Lines that cannot be read are counted (parse, unreadable_line); kInvalidInput if
// no line can be.
Result<Profile> ReadFolded(Bytes bytes, const FoldedLimits& limits = {});

}  // namespace ptarmigan
