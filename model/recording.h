// RecordingDescription: what a recording (or a live session) says about itself, apart from its
// events.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/arch.h"
#include "model/event.h"
#include "model/event_attr.h"

namespace ptarmigan {

struct RecordingDescription {
  std::vector<EventDescription> events;  // in file order; indexes are stable once assigned
  std::string source;  // "perf.data", "perf.data (pipe)", "simpleperf", "live", ...
  std::endian byte_order = std::endian::native;
  Arch arch = Arch::kUnknown;
  bool is_64_bit = true;

  // perf.data header features; empty or 0 where the recording has none.
  std::string hostname;
  std::string os_release;
  std::string perf_version;
  std::string arch_name;
  std::string cpu_description;
  std::string cpuid;
  uint32_t cpus_online = 0;
  uint32_t cpus_available = 0;
  uint64_t memory_total_kib = 0;
  std::vector<std::string> command_line;
  std::map<uint32_t, std::string> pmu_names;  // dynamic PMU type -> name
  // What the PMUs say that they can do (sysfs caps/), by PMU and name; "cpu" where there is one for all processors.
  std::map<std::string, std::map<std::string, std::string>> pmu_caps;
  std::vector<BuildIdEvent> build_ids;
  bool build_ids_follow = false;            // pipe mode: they come as events, after the samples
  std::map<std::string, std::string> meta;  // simpleperf's META_INFO
  int32_t clockid = -1;                     // -1: perf's own clock
  uint64_t clock_reference_ns = 0;          // CLOCK_DATA: this event-clock time ...
  uint64_t clock_wall_ns = 0;               // ... was this wall-clock time (ns since 1970)
  uint64_t first_sample_ns = 0;             // SAMPLE_TIME feature
  uint64_t last_sample_ns = 0;
  std::string tracing_data;            // HEADER_TRACING_DATA, raw
  bool cut_short = false;              // the recorder never finished the file
  bool processes_are_made_up = false;  // pids only tie samples to mappings and mean nothing
  uint64_t records_bytes = 0;  // of all records; 0 where only the end will tell (pipe, live)
};

}  // namespace ptarmigan
