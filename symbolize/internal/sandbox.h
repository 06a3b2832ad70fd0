// Confines the calling process for good: it can compute, use memory and read and write the descriptors that it has.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace ptarmigan::internal {

struct SandboxLimits {
  uint64_t memory_bytes_max = 0;  // address space
  uint64_t cpu_seconds_max = 0;
  uint64_t file_bytes_max = 0;  // of any file it writes
  uint64_t files_max = 0;       // open at a time
};

// Limits, no core dump, no capabilities (effective, permitted, inheritable, ambient), no new privileges, killed with
// its parent.
Status LimitProcess(const SandboxLimits& limits);

// From here on a system call outside of the list ends the process with SIGSYS, except for harmless questions, which
// fail. `may_open_files` allows to open files for reading.
Status FilterSystemCalls(bool may_open_files);

}  // namespace ptarmigan::internal
