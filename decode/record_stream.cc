#include "decode/record_stream.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "base/check.h"
#include "decode/record_types.h"

namespace ptarmigan {
namespace {

constexpr size_t kPrefetchRecords = 4;
constexpr size_t kPrefetchBytesMax = 1024;
constexpr size_t kCacheLineBytes = 64;

}  // namespace

RecordStream::RecordStream(const RecordingDescription& description, Options options)
    : merger_(options.records_max), parser_(description), options_(options) {}

RecordStream::~RecordStream() = default;

void RecordStream::Add(Bytes record, bool copy) {
  CHECK(sink_ != nullptr);
  if (record.size() < kRecordHeaderBytes || record.size() > kRecordBytesMax ||
      !parser_.CanOrderByTime()) {
    parser_.Parse(record, *sink_);
    return;
  }
  uint64_t time_ns = last_time_ns_;
  if (const auto time = parser_.PeekTime(record); time.has_value()) {
    time_ns = *time;
    // perf writes 0 into the records that it makes up.
    if (time_ns == 0 || time_ns == UINT64_MAX) {
      parser_.Parse(record, *sink_);
      return;
    }
    last_time_ns_ = time_ns;
  } else if (merger_.empty()) {
    parser_.Parse(record, *sink_);
    return;
  }
  EventMerger::Reference reference;
  if (copy) {
    reference = Copy(record);
  } else {
    reference.data = record.data();
    reference.block = kNoBlock;
  }
  reference.time_ns = time_ns;
  reference.size_bytes = static_cast<uint32_t>(record.size());
  merger_.Add(reference);
  if (merger_.full() || blocks_in_use_ * kBlockBytes > options_.bytes_max)
    Deliver(merger_.ReleaseOlderHalf());
}

void RecordStream::DeliverAux(const RawRecord& record) {
  CHECK(sink_ != nullptr);
  std::optional<AuxChunk> chunk = ReadAuxtrace(record.bytes, std::endian::native);
  if (!chunk) {
    parser_.mutable_losses().Lose(LossStage::kParse, LossReason::kTruncated, 1, LossUnit::kRecords);
    return;
  }
  for (const Bytes part : {record.payload, record.payload_rest}) {
    if (part.empty()) continue;
    chunk->data = part;
    chunk->size_bytes = part.size();
    sink_->OnAuxChunk(*chunk);
    chunk->offset += part.size();
  }
}

EventMerger::Reference RecordStream::Copy(Bytes record) {
  EventMerger::Reference reference;
  if (current_block_ == kNoBlock || record.size() > kBlockBytes - blocks_[current_block_].used) {
    uint32_t next = 0;
    if (!free_blocks_.empty()) {
      next = free_blocks_.back();
      free_blocks_.pop_back();
    } else {
      next = static_cast<uint32_t>(blocks_.size());
      blocks_.emplace_back();
      // Not value-initialised: it is written before it is read.
      blocks_.back().bytes.reset(new std::byte[kBlockBytes]);
    }
    ++blocks_in_use_;
    const uint32_t left = std::exchange(current_block_, next);
    if (left != kNoBlock && blocks_[left].waiting == 0) {
      free_blocks_.push_back(left);
      --blocks_in_use_;
    }
    blocks_[next].used = 0;
  }
  Block& block = blocks_[current_block_];
  std::byte* at = block.bytes.get() + block.used;
  std::copy(record.begin(), record.end(), at);
  block.used += record.size();
  ++block.waiting;
  reference.data = at;
  reference.block = current_block_;
  return reference;
}

void RecordStream::Deliver(std::span<const EventMerger::Reference> released) {
  for (size_t i = 0; i < released.size(); ++i) {
    // In time order the records lie apart: the ones to come are asked for while this one is worked on.
    if (i + kPrefetchRecords < released.size()) {
      const EventMerger::Reference& coming = released[i + kPrefetchRecords];
      const size_t bytes = std::min<size_t>(coming.size_bytes, kPrefetchBytesMax);
      for (size_t line = 0; line < bytes; line += kCacheLineBytes) {
        __builtin_prefetch(coming.data + line);
      }
    }
    const EventMerger::Reference& reference = released[i];
    parser_.Parse(Bytes(reference.data, reference.size_bytes), *sink_);
    if (reference.block == kNoBlock) continue;
    Block& block = blocks_[reference.block];
    if (--block.waiting > 0) continue;
    if (reference.block == current_block_) {
      block.used = 0;
    } else {
      free_blocks_.push_back(reference.block);
      --blocks_in_use_;
    }
  }
}

void RecordStream::DeliverNow(Bytes record) {
  CHECK(sink_ != nullptr);
  parser_.Parse(record, *sink_);
}

void RecordStream::OnRoundEnd() { Deliver(merger_.EndRound()); }

void RecordStream::Finish() {
  Deliver(merger_.ReleaseAll());
  merger_.FreeSpare();
  if (sink_ != nullptr) parser_.Finish(*sink_);
}

const std::byte* RecordStream::FirstWaiting(const std::byte* begin, const std::byte* end) const {
  // Those of one file wait in the order in which they lie there.
  for (const EventMerger::Reference& reference : merger_.waiting()) {
    if (reference.data >= begin && reference.data < end) return reference.data;
  }
  return end;
}

const LossLedger& RecordStream::losses() {
  if (merger_.late() > late_counted_) {
    // Delivered all the same, so they are no lost samples.
    parser_.mutable_losses().Lose(LossStage::kMerge, LossReason::kOutOfOrder,
                                  merger_.late() - late_counted_, LossUnit::kRecords);
    late_counted_ = merger_.late();
  }
  return parser_.losses();
}

namespace {

class LiveEventSource final : public EventSource {
 public:
  LiveEventSource(std::unique_ptr<RawRecordSource> source, int poll_timeout_ms)
      : source_(std::move(source)),
        poll_timeout_ms_(poll_timeout_ms),
        stream_(source_->description()) {}

  const RecordingDescription& description() const override { return source_->description(); }

  Result<PollOutcome> Poll(EventSink& sink) override {
    stream_.SetSink(&sink);
    // Events are opened, and threads followed, while the session runs.
    size_t known = 0;
    for (const EventDescription& event : source_->description().events)
      known += 1 + event.ids.size();
    if (std::exchange(known_, known) != known) stream_.EventsChanged();
    TRY_ASSIGN(const PollOutcome outcome, source_->Poll(stream_, poll_timeout_ms_));
    if (outcome == PollOutcome::kEnd) stream_.Finish();
    stream_.losses();
    return outcome;
  }

  const LossLedger& losses() const override { return stream_.losses(); }

 private:
  std::unique_ptr<RawRecordSource> source_;
  int poll_timeout_ms_;
  // losses() settles counts that only the stream knows.
  mutable RecordStream stream_;
  size_t known_ = 0;  // events and ids that the stream knows
};

}  // namespace

std::unique_ptr<EventSource> MakeEventSource(std::unique_ptr<RawRecordSource> source,
                                             int poll_timeout_ms) {
  return std::make_unique<LiveEventSource>(std::move(source), poll_timeout_ms);
}

}  // namespace ptarmigan
