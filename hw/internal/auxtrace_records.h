// The records about AUX areas that user space writes, as perf does: what traced and how (AUXTRACE_INFO), how its time becomes
// perf's (TIME_CONV), and a piece of an area (AUXTRACE). Layouts: tools/perf/util/{auxtrace.h,intel-pt.h,arm-spe.h} and
// tools/lib/perf/include/perf/event.h, Linux 6.18.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/byte_cursor.h"
#include "hw/internal/perf_ring.h"
#include "hw/internal/record_builder.h"
#include "model/event_attr.h"

namespace ptarmigan::internal {

// What the records are made of.
struct AuxtraceFacts {
  const EventDescription* event = nullptr;  // that fills the area
  std::string pmu;                          // its PMU's name in sysfs
  ClockConversion clock;
  bool is_snapshot = false;
  bool of_tasks = false;          // else every task of the CPUs
  bool records_switches = false;  // PERF_RECORD_SWITCH
  std::string filter;             // of addresses, as the kernel was given it
  std::vector<int32_t> cpus;      // that are online
  std::string sysfs_root = "/sys";
};

// Nothing for a PMU whose trace we cannot describe. Each record is valid until the builder is used again.
Bytes WriteAuxtraceInfo(const AuxtraceFacts& facts, RecordBuilder* builder);
// Nothing where the kernel does not say how time passes.
Bytes WriteTimeConversion(const AuxtraceFacts& facts, RecordBuilder* builder);

struct AuxtracePiece {
  uint64_t bytes = 0;
  uint64_t offset = 0;     // in all that the area ever held
  uint64_t reference = 0;  // perf's intel-pt: the time-stamp counter when the piece was read
  uint32_t ring = 0;
  int32_t cpu = -1;
};
// The record; the piece's bytes go behind it, filled up to a multiple of 8 as the record says.
Bytes BuildAuxtrace(const AuxtracePiece& piece, RecordBuilder* builder);
// The time-stamp counter; 0 on machines that have none.
uint64_t ReadTimeStampCounter();

}  // namespace ptarmigan::internal
