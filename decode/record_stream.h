// RecordStream: raw records in, events in time order out. One path for live rings, which lend their bytes only
// for the call (copied into bounded blocks), and for files, whose bytes stay where they are (borrowed).
//
//   RecordStream stream(description, {});
//   stream.SetSink(&sink);          // for each poll
//   source.Poll(stream, timeout);   // OnRecord ..., OnRoundEnd: events are delivered at the end of rounds
//   stream.Finish();                // the rest
//
// Records whose time is 0 or missing although their layout has a time (what perf makes up about processes that
// were there before) are delivered at once, before everything that waits, as perf does. Records whose layout has no
// time keep their place behind the record added before them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/byte_cursor.h"
#include "decode/event_merger.h"
#include "decode/record_parser.h"
#include "model/event_source.h"
#include "model/loss_ledger.h"
#include "model/recording.h"

namespace ptarmigan {

class RecordStream final : public RawRecordSink {
 public:
  struct Options {
    size_t records_max = EventMerger::kRecordsMax;
    // Copied bytes that wait; when more do, the older half is released.
    size_t bytes_max = size_t{32} << 20;
  };

  // `description` outlives the stream.
  explicit RecordStream(const RecordingDescription& description)
      : RecordStream(description, Options()) {}
  RecordStream(const RecordingDescription& description, Options options);
  ~RecordStream() override;

  // Who gets the events from now on; needed before the first record.
  void SetSink(EventSink* sink) { sink_ = sink; }
  // After events or ids were added to the description.
  void EventsChanged() { parser_.EventsChanged(); }

  // The bytes are copied if they have to wait.
  void OnRecord(const RawRecord& record) override {
    if (record.payload.empty())
      Add(record.bytes, /*copy=*/true);
    else
      DeliverAux(record);
  }
  void OnRoundEnd() override;
  // The bytes stay valid until the stream is finished or destroyed.
  void OnBorrowedRecord(Bytes record) { Add(record, /*copy=*/false); }
  // Delivers a record before everything that waits.
  void DeliverNow(Bytes record);
  // Delivers everything that waits. After the last record, or when the recorder says that order starts anew.
  void Finish();

  // The lowest address in [begin, end) that a waiting record lies at, or `end`.
  const std::byte* FirstWaiting(const std::byte* begin, const std::byte* end) const;
  // The time of the last record added that had one.
  uint64_t last_time_ns() const { return last_time_ns_; }

  const LossLedger& losses();
  LossLedger& mutable_losses() { return parser_.mutable_losses(); }

 private:
  // Copied records live in blocks that are used again when all their records have been delivered.
  struct Block {
    std::unique_ptr<std::byte[]> bytes;
    size_t used = 0;
    size_t waiting = 0;
  };
  static constexpr size_t kBlockBytes = size_t{1} << 20;
  static constexpr uint32_t kNoBlock = UINT32_MAX;

  void Add(Bytes record, bool copy);
  // AUXTRACE with its bytes, at once: they have no time, and whoever takes them puts them in order.
  void DeliverAux(const RawRecord& record);
  EventMerger::Reference Copy(Bytes record);
  void Deliver(std::span<const EventMerger::Reference> released);

  EventMerger merger_;
  RecordParser parser_;
  EventSink* sink_ = nullptr;
  Options options_;
  std::vector<Block> blocks_;
  std::vector<uint32_t> free_blocks_;
  uint32_t current_block_ = kNoBlock;
  size_t blocks_in_use_ = 0;
  uint64_t last_time_ns_ = 0;
  uint64_t late_counted_ = 0;
};

// The EventSource made of a live session: polls `source`, orders and parses.
std::unique_ptr<EventSource> MakeEventSource(std::unique_ptr<RawRecordSource> source,
                                             int poll_timeout_ms);

}  // namespace ptarmigan
