// EventSource and EventSink: the only way events enter. Live perf, BPF, perf.data and scripted test
// sources implement EventSource; everything after it is the same for all.
//
//   RawRecordSource --RawRecord--> decode::RecordStream (merge, parse) --events, in time order-->
//   EventSink (hw rings)                     \__________ EventSource ___________/ (pipeline)
//
// A source is polled by one thread at a time.
#pragma once

#include <cstdint>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "model/event.h"
#include "model/loss_ledger.h"
#include "model/recording.h"

namespace ptarmigan {

// Receives events in time order, in the polling thread. An event is valid during the call only.
// The defaults ignore what a sink has no use for.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void OnSample(const CapturedSample&) {}
  virtual void OnMmap(const MmapEvent&) {}
  virtual void OnComm(const CommEvent&) {}
  virtual void OnFork(const TaskEvent&) {}
  virtual void OnExit(const TaskEvent&) {}
  virtual void OnLost(const LostEvent&) {}
  virtual void OnThrottle(const ThrottleEvent&) {}
  virtual void OnSwitch(const SwitchEvent&) {}
  virtual void OnKsymbol(const KsymbolEvent&) {}
  virtual void OnTextPoke(const TextPokeEvent&) {}
  virtual void OnCgroup(const CgroupEvent&) {}
  virtual void OnBuildId(const BuildIdEvent&) {}
  virtual void OnAux(const AuxEvent&) {}
  virtual void OnAuxChunk(const AuxChunk&) {}
  virtual void OnOther(const OtherRecord&) {}
};

enum class PollOutcome {
  kMore,  // call again at once
  kIdle,  // nothing now, more may come (live only)
  kEnd,   // nothing will come any more
};

class EventSource {
 public:
  virtual ~EventSource() = default;
  // Complete for files once open; in pipe mode and live it grows, and events stand in it before
  // their samples.
  virtual const RecordingDescription& description() const = 0;
  // Delivers a bounded number of events. An error ends the source: what was delivered before stays
  // valid.
  virtual Result<PollOutcome> Poll(EventSink& sink) = 0;
  // What this source itself could not deliver (samples, records, bytes), including what the kernel
  // says it lost. captured() counts every sample seen or known to be lost; kept() those delivered.
  virtual const LossLedger& losses() const = 0;
  // Position for a progress bar, 0..1; negative if not known.
  virtual double Progress() const { return -1; }
};

// One record's bytes, header included, as a ring holds them; valid until the call returns.
struct RawRecord {
  Bytes bytes;
  uint32_t stream =
      0;  // records of one stream (one ring) are in the order in which they were written
  // PERF_RECORD_AUXTRACE: the bytes behind it, which its size does not count, in two parts where a ring wrapped. The record
  // says how many stand there in a file: zeros fill up what is missing here.
  Bytes payload = {};
  Bytes payload_rest = {};
};

class RawRecordSink {
 public:
  virtual ~RawRecordSink() = default;
  virtual void OnRecord(const RawRecord& record) = 0;
  // Every stream has been read once since the last call: what is older than the newest record read
  // before the previous round can be ordered (PERF_RECORD_FINISHED_ROUND).
  virtual void OnRoundEnd() = 0;
};

// Bytes in, nothing parsed: what `hw` hands out and `decode::RecordStream` takes.
class RawRecordSource {
 public:
  virtual ~RawRecordSource() = default;
  virtual const RecordingDescription& description() const = 0;
  // Reads every stream once (bounded by the ring sizes), waiting up to `timeout_ms` for something
  // to read.
  virtual Result<PollOutcome> Poll(RawRecordSink& sink, int timeout_ms) = 0;
};

}  // namespace ptarmigan
