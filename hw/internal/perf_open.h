// perf_event_open(2) and what its refusals mean in plain words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/result.h"
#include "model/event_attr.h"

namespace ptarmigan::internal {

struct OpenTarget {
  int32_t pid = 0;  // thread, 0: this one, -1: every one; a cgroup's descriptor if is_cgroup
  int32_t cpu = -1;
  bool is_cgroup = false;
};

// wakeup_watermark is not part of EventAttr. 0: leave the kernel's default.
struct OpenExtras {
  uint32_t wakeup_watermark_bytes = 0;
};

// The descriptor (close-on-exec), or -errno.
int PerfEventOpen(const EventAttr& attr, const OpenTarget& target, const OpenExtras& extras = {});
// True if the event can be opened (and is closed again); `errno_value` gets the refusal.
bool TryOpen(const EventAttr& attr, const OpenTarget& target, int* errno_value);

// Why opening `name` was refused and what to do about it. `proc_root` is where kernel settings are read.
Error ExplainOpenError(std::string_view name, const EventAttr& attr, const OpenTarget& target,
                       int errno_value, const std::string& proc_root);
// Why mapping a ring of `ring_bytes` was refused.
Error ExplainMapError(uint64_t ring_bytes, int errno_value, const std::string& proc_root);

}  // namespace ptarmigan::internal
