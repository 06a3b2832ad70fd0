// EventSpec: an event as people name it, made into the part of perf_event_attr that says what to count. The rest
// (period, sample type, side-band) is PerfSession's business.
//
//   cycles:u                     generic hardware, cache and software names, and their aliases
//   r01c2                        raw event of the CPU's PMU
//   cpu/event=0x3c,umask=1/pp    terms and event names of a PMU, from /sys/bus/event_source/devices/<pmu>
//   mem-loads                    an event that a CPU PMU lists in sysfs
//   sched:sched_switch           tracepoint, id from tracefs
//
// Modifiers after ':' or the last '/': u k h (only these modes), p pp ppp P (precision), G H (guest, host).
// Pure but for reading files below the roots; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/event_attr.h"

namespace ptarmigan {

// Where sysfs and tracefs are, so that tests lay out their own.
struct EventRoots {
  std::string sysfs = "/sys";
  // Empty: <sysfs>/kernel/tracing, then <sysfs>/kernel/debug/tracing.
  std::string tracefs;
};

struct EventSpec {
  // type, config.., exclude_*, precise_ip, and period or frequency if the event itself gives one (period=, freq=). What a
  // source adds (sample_type, branch_sample_type, aux_sample_bytes) is kept by the session.
  EventAttr attr;
  std::string name;  // perf's name with the modifiers as given: "cycles:u", "cpu/event=0x3c/pp"
  bool modes_given = false;   // u, k or h was given: exclude_* are a wish, not a default
  bool precise_max = false;   // P: the highest precision that opens
  bool period_given = false;  // attr.sample_period or sample_freq_hz came with the event
  bool in_group = false;   // with the event before it, which must not have one of its own in front
  bool fills_aux = false;  // its PMU writes an AUX area; no stacks, no frequency
  std::vector<int32_t> cpus;  // the only CPUs of this PMU (hybrid machines); empty: all
  std::string unit;           // from events/NAME.unit
  double scale = 1.0;         // from events/NAME.scale
};

// One event. kInvalidInput: cannot be understood; kNotFound: no such event, PMU or term here (the message has near
// names); kPermission: tracefs or sysfs may not be read (the message has the remedy).
Result<EventSpec> ParseEvent(std::string_view text, const EventRoots& roots = {});
// A list separated by commas (those between slashes belong to the PMU syntax). At most kEventsMax.
Result<std::vector<EventSpec>> ParseEventList(std::string_view text, const EventRoots& roots = {});
constexpr size_t kEventsMax = 64;

// The text of a tracepoint's `format` file, which says where its fields stand in the raw data.
Result<std::string> ReadTracepointFormat(std::string_view system, std::string_view event,
                                         const EventRoots& roots = {});

// Generic names that ParseEvent knows without sysfs, aliases included, for completion.
std::vector<std::string> GenericEventNames();

}  // namespace ptarmigan
