// What `perf script` prints, read back into a profile: the interchange format of flame graph tools.
//
//   comm with blanks 27409/28744 [000] 441995.133575:  10101010 cycles:u:
//             59fef5 copy_user+0x1f (/lib/modules/4.3.0/build/vmlinux)
//              f7eb inner (inlined)
//              f7eb __libc_recv (/lib/x86_64-linux-gnu/libpthread-2.19.so)
//
// Comm, tid, cpu, time and period may be missing (`-F`); an event without call chain has its address on the same
// line. Sample types: samples/count, then one per event (cpu-clock and task-clock in nanoseconds if periods are
// given; a missing period counts as 1). Labels: comm, pid, tid. Functions have no lines unless srcline is printed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "model/profile.h"

namespace ptarmigan {

struct PerfScriptLimits {
  size_t frames_per_stack_max = 4096;
  size_t events_max = 256;  // different event names
};

// Branch records (`addr => addr`) are no samples: counted (parse, unsupported). Lines that cannot be read are
// counted (parse, unreadable_line). kInvalidInput if there is no sample at all.
Result<Profile> ReadPerfScript(Bytes bytes, const PerfScriptLimits& limits = {});

// Whether the first lines look like it.
bool LooksLikePerfScript(Bytes prefix);

}  // namespace ptarmigan
