// The hardware sources of `--source`, as events that a PerfSession opens: which PMU, which terms, what each sample carries,
// and what becomes of an AUX area. Terms are placed by the names in /sys/bus/event_source/devices/<pmu>/format, and
// values are those that caps/ allows (Documentation/ABI/testing/sysfs-bus-event_source-devices-*, Linux 6.18).
// Pure but for reading files below the roots; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hw/event_spec.h"
#include "hw/perf_session.h"

namespace ptarmigan {

struct SourceRequest {
  // "pt", "spe", "coresight", "ibs", "ibs-fetch", "pebs-mem", "lbr", "brbe", or the name of an event ("cycles", "cpu-clock").
  std::string name = {};
  // Added to the terms of the source's PMU event and stronger than them, as perf writes them: "cyc,noretcomp".
  std::string terms = {};
  bool kernel = false;  // kernel code, too
  AuxMode aux_mode =
      AuxMode::kFull;            // pt: full, snapshot or samples; spe, coresight: full or snapshot
  uint32_t window_bytes = 4096;  // kSamples: of each window; multiple of 8, at most kWindowBytesMax
  // spe: operations between samples, rounded to a multiple of 256; 0: 65536. The others take the session's period or
  // frequency.
  uint64_t period = 0;
};
// A record's size has 16 bits (Linux: perf-intel-pt(1)).
constexpr uint32_t kWindowBytesMax = 60 << 10;

struct SourceSetup {
  std::vector<EventSpec> events;
  AuxMode aux_mode = AuxMode::kNone;
  // The source's time stamps are of perf's own clock: PerfSessionOptions::clockid must be -1.
  bool needs_perf_clock = false;
  bool needs_switches = false;  // PERF_RECORD_SWITCH tells whose trace it is
  std::vector<std::string> notes;
};

// kUnavailable: this machine lacks it (the message says what, and what to do); kInvalidInput: a term or size that is not
// possible.
Result<SourceSetup> SetUpSource(const SourceRequest& request, const EventRoots& roots = {});

// Whether `name` is one of the hardware sources, not an event.
bool IsHardwareSource(std::string_view name);
// Adds branch records in call-stack mode to an event: the CPU keeps the calls that have not returned, user code only.
void AddCallStacksOfBranchRecords(EventSpec* event);
// Puts the source into the options of a session.
void UseSource(const SourceSetup& setup, PerfSessionOptions* options);

}  // namespace ptarmigan
