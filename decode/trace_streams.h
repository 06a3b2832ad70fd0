// TraceStreams: the control-flow trace of a recording, Intel PT or CoreSight, put together for a decoder.
//
//   AUXTRACE_INFO, TIME_CONV, ITRACE_START, AUX_OUTPUT_HW_ID   what traced, and how
//   AUXTRACE            ├───────┤├────┤ ├────────┤             bytes of one buffer, cut anywhere
//   AUX                 ├───┤├────────┤ ├───┤├───┤             where the kernel switched tracing or lost some
//   samples' windows         ├──────┤  ├──────┤                PERF_SAMPLE_AUX: the last bytes before each sample
//   SWITCH, ITRACE_START     who ran on the buffer's CPU, from when on
//                                   │ Finish
//                                   ▼
//   TraceStream: contiguous bytes, pieces, stints              windows that overlap are one stream
//
// Traces are decoded when everything around them is known, so nothing is delivered before Finish. Bytes that outlive the
// source's call are borrowed if a stream lies in one piece, others are copied, within a bound; what exceeds it is counted.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/byte_cursor.h"
#include "decode/coresight_setup.h"
#include "decode/pt_config.h"
#include "decode/time_conversion.h"
#include "model/event.h"
#include "model/loss_ledger.h"
#include "model/recording.h"

namespace ptarmigan {

// A part of a stream that the kernel reported in one PERF_RECORD_AUX.
struct TracePiece {
  uint64_t begin = 0;  // in TraceStream::bytes
  uint64_t end = 0;
  bool is_lossy = false;      // TRUNCATED, PARTIAL or COLLISION: what follows does not continue it
  bool is_formatted = false;  // CoreSight: in frames; false also for PT
  // Of the record: who reported it, and when, which was at its end; 0 without a time.
  uint32_t cpu = RecordIdentity::kNoCpu;
  uint64_t time_ns = 0;
};

// A task that ran on the stream's CPU from a moment on.
struct TraceStint {
  uint64_t since_ns = 0;
  int32_t pid = -1;
  int32_t tid = -1;
};

struct TraceStream {
  uint32_t cpu =
      RecordIdentity::kNoCpu;  // of a buffer per CPU, or where a window's sample was taken
  int32_t tid = -1;            // of a buffer per thread, or of a window's sample
  uint64_t begin_offset = 0;   // of bytes[0] in the AUX area
  Bytes bytes;
  std::vector<std::byte> copy;     // what `bytes` refers to, unless borrowed
  std::vector<uint64_t> breaks;    // in `bytes`: nothing continues across them; rising
  std::vector<TracePiece> pieces;  // rising, not overlapping; none for windows and snapshots
  std::vector<TraceStint> stints;  // by time, at least one; the first holds from the beginning
  bool is_window = false;
};

enum class TraceKind : uint8_t { kNone, kIntelPt, kCoreSight };

struct TraceCounts {
  uint64_t aux_records = 0;
  uint64_t aux_truncated = 0;
  uint64_t aux_partial = 0;
  uint64_t aux_collision = 0;
  uint64_t windows = 0;
  uint64_t windows_joined = 0;  // that overlap or continue the one before
  uint64_t bytes = 0;           // of all streams
  uint64_t repeated_bytes = 0;  // of windows and snapshots that overlap: once each in `bytes`
  uint64_t filling_bytes = 0;   // perf's, at the end of AUXTRACE
  uint64_t refused_bytes = 0;   // beyond the bounds
  uint64_t missing_bytes = 0;   // that AUX records speak of, but no AUXTRACE brought
};

class TraceStreams {
 public:
  struct Options {
    uint64_t copied_bytes_max = uint64_t{1} << 30;
    size_t streams_max = size_t{1} << 16;
    size_t records_max = size_t{1} << 22;  // AUX records, switches, threads: each
  };

  // `description` may grow and outlives the object.
  explicit TraceStreams(const RecordingDescription& description)
      : TraceStreams(description, Options()) {}
  TraceStreams(const RecordingDescription& description, const Options& options);
  ~TraceStreams();

  void OnOther(const OtherRecord& record);
  void OnAux(const AuxEvent& event);
  void OnAuxChunk(const AuxChunk& chunk);
  void OnSample(const CapturedSample& sample);
  void OnSwitch(const SwitchEvent& event);
  void OnComm(const CommEvent& event);
  void OnFork(const TaskEvent& event);
  // At the end of the source, while its bytes are still there.
  void Finish();

  TraceKind kind() const;
  bool active() const { return kind() != TraceKind::kNone; }
  // What the recording says of Intel PT; valid where kind() is kIntelPt.
  PtRecording PtDescription() const;
  const CoreSightSetup& coresight() const;
  // Trace ids of CoreSight sources by CPU, from the setup or from HW_ID records.
  const std::map<uint32_t, uint8_t>& trace_ids() const;
  // Of the timer that CoreSight's time stamps count; nothing if the recording does not say.
  const std::optional<TimeConversion>& time_conversion() const;
  // Of an event of the trace's PMU; 0 if there is none.
  uint64_t trace_event_config() const;
  // Whether that event traced the kernel, too.
  bool traces_kernel() const;

  // After Finish, in order of first appearance.
  const std::vector<TraceStream>& streams() const;
  const TraceCounts& counts() const;
  // The process of a thread, as far as the recording tells; -1 if not.
  int32_t ProcessOf(int32_t tid) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ptarmigan
