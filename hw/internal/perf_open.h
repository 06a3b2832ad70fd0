// What the refusals of perf_event_open(2) and mmap(2) mean in plain words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "hw/perf_kernel.h"
#include "model/event_attr.h"

namespace ptarmigan::internal {

// True if the event can be opened (and is closed again); `errno_value` gets the refusal.
bool TryOpen(PerfKernel& kernel, const EventAttr& attr, const PerfOpenTarget& target,
             int* errno_value);

// Why opening `name` was refused and what to do about it. `proc_root` is where kernel settings are read.
Error ExplainOpenError(std::string_view name, const EventAttr& attr, const PerfOpenTarget& target,
                       int errno_value, const std::string& proc_root);
// Why mapping a ring of `ring_bytes`, or an AUX area, was refused.
Error ExplainMapError(uint64_t ring_bytes, int errno_value, const std::string& proc_root);
Error ExplainAuxMapError(uint64_t aux_bytes, int errno_value, const std::string& proc_root);

}  // namespace ptarmigan::internal
