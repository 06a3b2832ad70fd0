// SpeStream: the Arm SPE part of a recording. Takes the events that matter, pairs each PERF_RECORD_AUX fragment with
// its bytes from PERF_RECORD_AUXTRACE, decodes it once both are there, finds out who ran and when, and hands out
// records.
//
//   AUXTRACE_INFO  metadata: CPUs, their MIDR            ┐
//   TIME_CONV      timer ticks -> perf's clock           │
//   AUX            fragment (offset, size) is valid      ├──▶ per CPU or thread: bytes + fragments ──▶ OnSpeRecord
//   AUXTRACE       bytes of the AUX stream               │                       (SpeDecoder)
//   SWITCH, ITRACE_START, COMM, FORK: who runs, tid->pid ┘
//
// A fragment is decoded when its PERF_RECORD_AUX arrives, or its bytes if they come later. Since events come in time
// order and a fragment's records are older than its PERF_RECORD_AUX, the side-band that they need has been seen.
// A queue that never gets a PERF_RECORD_AUX, or only snapshots, is decoded at Finish, each AUXTRACE as one fragment.
//
// Nothing happens before an AUXTRACE_INFO of SPE's type, which comes first. Not thread-safe. Bounded: see Options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "decode/spe_data_source.h"
#include "decode/spe_decoder.h"
#include "decode/spe_record.h"
#include "model/event.h"
#include "model/loss_ledger.h"
#include "model/recording.h"

namespace ptarmigan {

struct SpeSample {
  SpeRecord record;
  SpeOrigin origin;
};

class SpeRecordSink {
 public:
  virtual ~SpeRecordSink() = default;
  // In the order of each AUX stream. Valid during the call.
  virtual void OnSpeRecord(const SpeRecord& record, const SpeOrigin& origin) = 0;
  // The next ones of one stream, never none: for sinks that fetch what a later record needs while they work on one.
  virtual void OnSpeRecords(std::span<const SpeSample> samples) {
    for (const SpeSample& sample : samples) OnSpeRecord(sample.record, sample.origin);
  }
};

struct SpeStatistics {
  uint64_t aux_records = 0;  // PERF_RECORD_AUX
  uint64_t aux_bytes = 0;    // that they speak of
  uint64_t aux_truncated = 0;
  uint64_t aux_overwrite = 0;
  uint64_t aux_partial = 0;
  uint64_t aux_collision = 0;
  uint64_t auxtrace_events = 0;
  uint64_t auxtrace_bytes = 0;          // of the AUX stream; complete after Finish
  uint64_t auxtrace_filling_bytes = 0;  // beyond these: perf fills up to a multiple of 8 bytes
  // auxtrace_bytes = decode.bytes.Sum() + uncovered_bytes + refused_bytes
  uint64_t uncovered_bytes =
      0;  // in AUXTRACE, but of no fragment: the driver's holes, lost PERF_RECORD_AUX
  uint64_t refused_bytes = 0;  // beyond the bounds
  // aux_bytes + bytes decoded without PERF_RECORD_AUX = decode.bytes.Sum() + missing_bytes
  uint64_t missing_bytes = 0;         // of fragments, without AUXTRACE
  uint64_t bytes_without_record = 0;  // decoded by AUXTRACE alone
  SpeDecodeCounts decode;

  // 64-byte slots that began with a bad header.
  uint64_t GarbageSlots() const { return decode.bad_packet_resyncs - decode.bad_packet; }
};

class SpeStream {
 public:
  struct Options {
    // Bytes and fragments that wait for each other, all queues together. Bytes of mapped files are not copied and do
    // not count. What comes beyond is refused and counted.
    uint64_t copied_bytes_max = uint64_t{256} << 20;
    size_t waiting_max = size_t{1} << 20;  // pieces and fragments
    size_t queues_max = size_t{1} << 16;
    size_t switches_max = size_t{1} << 20;  // per CPU: older ones are forgotten
    size_t threads_max = size_t{1} << 20;   // tids whose process is known
  };

  // `description` outlives the stream; it may still grow. `sink` too, and may be set later but before the first event.
  explicit SpeStream(const RecordingDescription& description);
  SpeStream(const RecordingDescription& description, const Options& options);
  ~SpeStream();
  SpeStream(const SpeStream&) = delete;
  SpeStream& operator=(const SpeStream&) = delete;
  void SetSink(SpeRecordSink* sink);

  // True once AUXTRACE_INFO said that the AUX area holds SPE.
  bool active() const;

  void OnOther(
      const OtherRecord& record);  // AUXTRACE_INFO, TIME_CONV, ITRACE_START; ignores the rest
  void OnAux(const AuxEvent& event);
  void OnAuxChunk(const AuxChunk& chunk);
  void OnSwitch(const SwitchEvent& event);
  void OnComm(const CommEvent& event);
  void OnFork(const TaskEvent& event);
  // Decodes what waits and settles the counts. After the last event.
  void Finish();

  const SpeStatistics& statistics() const;
  // Unit samples: captured = records in the stream, kept = delivered, lost (parse) bad_packet, truncated_tail, no_pc,
  // el3, secure. Unit bytes: bad_packet, truncated_tail, and (merge) no_aux_record, missing_file, limit. Complete after
  // Finish.
  const LossLedger& losses() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ptarmigan
