// PtPerfData: a perf.data file around the traces of a PtWalk, as `perf record -e intel_pt//` would have written it, with
// the ELF files of the program, and the truth of what can be seen in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/encoders/pt_trace.h"

namespace ptarmigan {

struct PtPerfDataOptions {
  enum class Mode : uint8_t {
    kPerThread,  // one AUX buffer for each thread
    kPerCpu,     // one for each CPU, and records of context switches
    kSnapshot,   // per thread; only the last bytes, beginning anywhere
    kSamples,    // no AUX buffers: the last bytes before each of some interrupts, with a sample
  };
  Mode mode = Mode::kPerThread;
  PtTraceSettings trace;
  size_t chunk_bytes =
      0;  // kPerThread, kPerCpu: cut about there, also inside packets; 0: one piece
  size_t snapshot_bytes = 4096;      // kSnapshot
  size_t sample_bytes_max = 2048;    // kSamples
  size_t interrupts_per_sample = 1;  // kSamples
  // kPerThread: what the records of buffers that ended early say; PERF_AUX_FLAG_TRUNCATED, _PARTIAL or _COLLISION.
  uint64_t restart_flags = 1;
  bool lost_records = false;  // PERF_RECORD_LOST where tracing restarted
  bool build_ids_in_maps = false;
  bool id_index = true;                 // perf finds no AUX samples without it
  uint64_t reference_tsc = UINT64_MAX;  // of AUXTRACE records; by default the time of their end
  std::string directory = "/pt/bin";    // of the mapped files
};

struct PtPerfData {
  static constexpr int32_t kPid = 4242;  // thread n is kPid + n
  static constexpr uint32_t kPmuType = 10;
  static constexpr unsigned kTimeShift = 31;
  static constexpr uint64_t kTimeMult = 715827883;  // 3 GHz
  static constexpr uint64_t kTimeZeroNs = 5000000000;
  static uint64_t TimeNs(uint64_t tsc);

  // What one AUX buffer or sample holds.
  struct Window {
    unsigned thread = 0;   // kPerCpu: CPU
    uint64_t time_ns = 0;  // kSamples: the sample's
    uint64_t ip = 0;       // kSamples: not executed yet
    size_t bytes = 0;
    std::vector<uint32_t> visible;  // steps, in order; overlapping windows repeat them
  };

  std::string perf_data;
  // By path: what lies under the root that --symfs names.
  std::map<std::string, std::string> files;
  std::vector<std::vector<uint32_t>> visible;  // of each thread: its visible steps once, in order
  std::vector<Window> windows;
  uint64_t trace_bytes = 0;  // of all windows
  uint64_t overflows = 0;
};

PtPerfData RecordPt(const PtWalk& walk, const PtPerfDataOptions& options);

}  // namespace ptarmigan
