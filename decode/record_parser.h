// RecordParser: one record's bytes, as a ring or a perf.data file holds them, into one call of an EventSink. The
// same parser serves live rings and files of any byte order.
//
// The event objects are reused: after the first few records of each kind nothing is allocated. Not thread-safe.
//
// What becomes of each kind of record:
//   SAMPLE                     OnSample; with PERF_SAMPLE_READ one sample for each counter of the group that moved,
//                              its period being how far it moved (as perf does)
//   MMAP MMAP2                 OnMmap                COMM                    OnComm
//   FORK / EXIT                OnFork / OnExit       LOST LOST_SAMPLES       OnLost
//   THROTTLE UNTHROTTLE        OnThrottle            SWITCH SWITCH_CPU_WIDE  OnSwitch
//   KSYMBOL                    OnKsymbol             TEXT_POKE               OnTextPoke
//   CGROUP                     OnCgroup              AUX                     OnAux
//   CALLCHAIN_DEFERRED         the samples that wait for it are delivered with the complete chain
//   READ ITRACE_START NAMESPACES BPF_EVENT AUX_OUTPUT_HW_ID and perf's own types: OnOther
//   types that nobody knows    counted (parse, unknown_record_type, records)
//
// Bad input: a record too short for its fixed fields is counted and not delivered. A size inside a record that does
// not fit into the record ends that record: what lies before it is delivered, (parse, bad_size, records) is counted.
//
// Lost samples: LOST_SAMPLES counts samples. LOST counts records of every kind, which are nearly always samples; it
// is counted as samples unless the recording's attrs ask for PERF_FORMAT_LOST (perf 6.1 and newer) and LOST_SAMPLES
// records came too, because then those say the same thing exactly (perf report does the same).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/byte_cursor.h"
#include "decode/internal/event_index.h"
#include "model/event.h"
#include "model/event_source.h"
#include "model/loss_ledger.h"
#include "model/recording.h"

namespace ptarmigan {

// PERF_RECORD_AUXTRACE without its data, which stand behind it; nothing if the record is too short.
std::optional<AuxChunk> ReadAuxtrace(Bytes record, std::endian order);

class RecordParser {
 public:
  // Samples that wait for their deferred user chain; when more do, the oldest is delivered without it.
  static constexpr size_t kDeferredSamplesMax = 4096;
  // What one LOST record can claim: no ring can drop more, and 65,535 such records still fit into the ledger.
  static constexpr uint64_t kLostPerRecordMax = uint64_t{1} << 48;

  // `description` outlives the parser. Call EventsChanged after adding events or ids to it.
  explicit RecordParser(const RecordingDescription& description);
  void EventsChanged();

  // The record's time, as cheaply as possible. Nothing if it has none: no TIME field, a perf record, too short.
  std::optional<uint64_t> PeekTime(Bytes record) const;
  // False if records other than samples do not say when they were written, so that only file order is known.
  bool CanOrderByTime() const { return index_.sample_id_all(); }

  // Parses one whole record, header included, and delivers it.
  void Parse(Bytes record, EventSink& sink);
  // Delivers what still waits for another record, and settles how LOST records count. After the last record.
  void Finish(EventSink& sink);

  const LossLedger& losses() const { return losses_; }
  LossLedger& mutable_losses() { return losses_; }

 private:
  struct Header {
    uint32_t type;
    uint16_t misc;
  };
  // A copied sample whose user chain is to come; `cookie` is the last entry of its chain.
  struct DeferredSample {
    std::vector<std::byte> record;
    uint64_t cookie;
    int32_t tid;
    uint32_t event;
  };

  void OnSample(Bytes record, EventSink& sink);
  void DeliverSample(EventSink& sink);
  void DeliverCounters(EventSink& sink);
  bool Defer(Bytes record);
  void DeliverDeferred(const DeferredSample& waiting, const std::vector<uint64_t>* user_chain,
                       EventSink& sink);

  // Each returns false if the record is too short.
  bool OnKernelRecord(Header header, Bytes record, EventSink& sink);
  void StartMmap(Header header, ByteCursor* body);
  bool OnMmap(Header header, Bytes record, EventSink& sink);
  bool OnMmap2(Header header, Bytes record, EventSink& sink);
  bool OnComm(Header header, Bytes record, EventSink& sink);
  bool OnTask(Header header, Bytes record, EventSink& sink);
  bool OnLost(Header header, Bytes record, EventSink& sink);
  bool OnSwitch(Header header, Bytes record, EventSink& sink);
  bool OnKsymbol(Bytes record, EventSink& sink);
  bool OnTextPoke(Bytes record, EventSink& sink);
  bool OnCgroup(Bytes record, EventSink& sink);
  bool OnAux(Bytes record, EventSink& sink);
  bool OnCallchainDeferred(Bytes record, EventSink& sink);
  void OnOther(Header header, Bytes record, EventSink& sink);

  // A cursor over the record's body without the trailer; sets `identity` from the trailer.
  ByteCursor Body(Bytes record, RecordIdentity* identity) const;

  const RecordingDescription& description_;
  internal::EventIndex index_;
  bool swap_;
  std::endian order_;
  bool counts_lost_exactly_ = false;  // some attr has PERF_FORMAT_LOST
  bool saw_lost_samples_ = false;
  uint64_t lost_undecided_ = 0;  // from LOST records, while counts_lost_exactly_
  LossLedger losses_;

  CapturedSample sample_;
  MmapEvent mmap_;
  CommEvent comm_;
  TaskEvent task_;
  KsymbolEvent ksymbol_;
  CgroupEvent cgroup_;
  std::deque<DeferredSample> deferred_;
};

}  // namespace ptarmigan
