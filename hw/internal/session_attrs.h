// The attributes that a session opens: the caller's events completed, and the tracking event behind them. What this
// kernel accepts is found by trying.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "hw/perf_session.h"
#include "model/event_attr.h"

namespace ptarmigan::internal {

struct SessionAttrs {
  std::vector<EventDescription> events;    // ids still empty; the last is the tracking event
  std::vector<std::vector<int32_t>> cpus;  // per event: the CPUs of its PMU, empty: all
  std::vector<bool> fills_aux;             // per event
  bool clock_accepted = false;
  bool lost_accepted = false;  // PERF_FORMAT_LOST
  std::vector<std::string> notes;
};

// `cpu` is any CPU that is online. Errors explain what was refused.
Result<SessionAttrs> PlanSessionAttrs(const PerfSessionOptions& options, int32_t cpu);

// The registers that unwinding needs, by perf's numbers of this architecture; 0 if it is not supported.
uint64_t UserRegisterMask();

}  // namespace ptarmigan::internal
