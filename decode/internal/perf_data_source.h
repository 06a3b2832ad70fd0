// The EventSource behind OpenPerfData: one or more feeds of records, one description, one stream.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "decode/internal/byte_feed.h"
#include "decode/internal/feature_sections.h"
#include "decode/internal/file_header.h"
#include "decode/internal/record_decompressor.h"
#include "decode/internal/record_scan.h"
#include "decode/record_stream.h"
#include "model/event_source.h"

namespace ptarmigan::internal {

class PerfDataSource final : public EventSource {
 public:
  // AUX data from a pipe is handed out in contiguous pieces of at most this size; from a file in one.
  static constexpr size_t kAuxPieceBytes = size_t{8} << 20;
  // A simpleperf record put together from its SPLIT pieces.
  static constexpr size_t kSplitBytesMax = size_t{64} << 20;

  PerfDataSource();

  // What the opener fills in before StartReading.
  RecordingDescription* mutable_description() { return &description_; }
  FeatureReader* features() { return &features_; }
  LossLedger* mutable_losses() { return &stream_.mutable_losses(); }
  // Keeps a mapping alive.
  void Keep(MappedFile file) { files_.push_back(std::move(file)); }
  // Adds records that come from `feed`; `file` (an index into the kept mappings, or -1) is where they lie.
  void AddFeed(std::unique_ptr<ByteFeed> feed, Bytes data, int file);
  void StartReading() { stream_.EventsChanged(); }

  const RecordingDescription& description() const override { return description_; }
  Result<PollOutcome> Poll(EventSink& sink) override;
  const LossLedger& losses() const override { return stream_.losses(); }
  double Progress() const override;

 private:
  struct Reader {
    std::unique_ptr<ByteFeed> feed;
    Bytes data;  // empty if the feed is a pipe
    int file = -1;
    std::unique_ptr<RecordDecompressor> decompressor;
    uint64_t newest_ns = 0;
    uint64_t dropped_bytes = 0;
    bool ended = false;
  };

  Reader* NextReader();
  // False at the reader's end.
  bool ReadRecord(Reader* reader, EventSink& sink);
  void Resynchronise(Reader* reader, const RecordHeader& header);
  void EndInsideRecord(const RecordHeader& header, size_t bytes_left);
  void DropConsumed(Reader* reader);

  // `reader` is where data that follows the record comes from; null for records inside compressed ones.
  void HandleRecord(const RecordHeader& header, Bytes record, Reader* reader, EventSink& sink);
  // False if `header.type` is not one that only describes the recording.
  bool HandleDescription(const RecordHeader& header, Bytes record, Reader* reader, EventSink& sink);
  void HandleCompressed(const RecordHeader& header, Bytes record, Reader* reader, EventSink& sink);
  size_t HandleInflated(Bytes bytes, Reader* reader, EventSink& sink);
  void HandleAuxtrace(Bytes record, Reader* reader, EventSink& sink);
  void HandleTracingData(Bytes record, Reader* reader);
  void HandleSplit(const RecordHeader& header, Bytes record, EventSink& sink);
  void EventsChanged();
  bool HasKnownId(Bytes attr_body) const;

  RecordingDescription description_;
  std::vector<MappedFile> files_;
  std::vector<Reader> readers_;
  // losses() settles counts that only the stream knows.
  mutable RecordStream stream_;
  FeatureReader features_;
  std::vector<std::byte> split_;
  bool sent_build_ids_ = false;
  bool finished_ = false;
};

}  // namespace ptarmigan::internal
