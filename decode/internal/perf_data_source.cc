#include "decode/internal/perf_data_source.h"

#include <algorithm>
#include <utility>

#include "decode/record_types.h"

namespace ptarmigan::internal {
namespace {

// One Poll reads about this much.
constexpr uint64_t kPollBytes = uint64_t{1} << 20;
// How often a mapping's consumed part is given back.
constexpr uint64_t kDropBytes = uint64_t{8} << 20;
constexpr size_t kResyncWindowBytes = size_t{256} << 10;

// Headers are read long before bodies, each a cache miss of its own: those of a few records ahead are asked for. Where they
// stand is a guess: records that follow each other are mostly of one size.
constexpr size_t kPrefetchDistanceBytes = 2048;
constexpr size_t kPrefetchRecords = 16;
constexpr size_t kPrefetchBytes = 256;
constexpr size_t kPrefetchHeaderBytes = 128;  // of large records: with the time of a sample
constexpr size_t kCacheLineBytes = 64;

// (always_inline: calls of a function that does nothing else are dropped.)
[[gnu::always_inline]] inline void Prefetch(Bytes window, uint64_t record_bytes) {
  const size_t distance =
      std::max(kPrefetchDistanceBytes, static_cast<size_t>(record_bytes) * kPrefetchRecords);
  if (window.size() < distance + kPrefetchBytes) return;
  const size_t bytes = record_bytes < kPrefetchBytes ? kPrefetchBytes : kPrefetchHeaderBytes;
  for (size_t line = 0; line < bytes; line += kCacheLineBytes) {
    __builtin_prefetch(window.data() + distance + line);
  }
}

constexpr size_t kTracingDataHeaderBytes = 12;
constexpr size_t kEventTypeNameBytes = 64;

}  // namespace

PerfDataSource::PerfDataSource()
    : stream_(description_), features_(&description_, &stream_.mutable_losses()) {}

void PerfDataSource::AddFeed(std::unique_ptr<ByteFeed> feed, Bytes data, int file) {
  description_.records_bytes += data.size();
  Reader reader;
  reader.feed = std::move(feed);
  reader.data = data;
  reader.file = file;
  readers_.push_back(std::move(reader));
}

double PerfDataSource::Progress() const {
  uint64_t done = 0;
  uint64_t all = 0;
  for (const Reader& reader : readers_) {
    if (reader.data.empty()) return finished_ ? 1.0 : -1.0;
    done += reader.feed->position();
    all += reader.data.size();
  }
  return all == 0 || finished_ ? 1.0 : static_cast<double>(done) / static_cast<double>(all);
}

Result<PollOutcome> PerfDataSource::Poll(EventSink& sink) {
  if (finished_) return PollOutcome::kEnd;
  stream_.SetSink(&sink);
  if (!sent_build_ids_) {
    sent_build_ids_ = true;
    for (const BuildIdEvent& build_id : description_.build_ids) sink.OnBuildId(build_id);
  }
  Reader* reader = NextReader();
  if (reader == nullptr) {
    mutable_losses()->Lose(LossStage::kParse, LossReason::kTruncated, split_.size(),
                           LossUnit::kBytes);
    stream_.Finish();
    finished_ = true;
    return PollOutcome::kEnd;
  }
  const uint64_t start = reader->feed->position();
  const uint64_t stop = start + kPollBytes;
  if (reader->file >= 0 && start < reader->data.size()) {
    // (The last record may reach beyond, and costs its page faults.)
    const Bytes rest = reader->data.subspan(static_cast<size_t>(start));
    MappedFile::Populate(rest.first(std::min<size_t>(rest.size(), kPollBytes)));
  }
  while (reader->feed->position() < stop) {
    if (ReadRecord(reader, sink)) continue;
    reader->ended = true;
    if (reader->decompressor != nullptr && reader->decompressor->pending_bytes() > 0) {
      mutable_losses()->Lose(LossStage::kParse, LossReason::kTruncated,
                             reader->decompressor->pending_bytes(), LossUnit::kBytes);
    }
    break;
  }
  reader->newest_ns = std::max(reader->newest_ns, stream_.last_time_ns());
  if (!reader->feed->status()) {
    stream_.Finish();
    finished_ = true;
    return reader->feed->status().error();
  }
  DropConsumed(reader);
  return PollOutcome::kMore;
}

PerfDataSource::Reader* PerfDataSource::NextReader() {
  // The files of a directory are read side by side, so that little has to wait for its time.
  Reader* next = nullptr;
  for (Reader& reader : readers_) {
    if (!reader.ended && (next == nullptr || reader.newest_ns < next->newest_ns)) next = &reader;
  }
  return next;
}

void PerfDataSource::DropConsumed(Reader* reader) {
  if (reader->file < 0 || reader->feed->position() - reader->dropped_bytes < kDropBytes) return;
  const MappedFile& file = files_[static_cast<size_t>(reader->file)];
  const std::byte* now = reader->data.data() + reader->feed->position();
  const std::byte* needed = stream_.FirstWaiting(reader->data.data(), now);
  file.DropPrefix(static_cast<size_t>(needed - file.bytes().data()));
  reader->dropped_bytes = reader->feed->position();
}

bool PerfDataSource::ReadRecord(Reader* reader, EventSink& sink) {
  ByteFeed& feed = *reader->feed;
  Bytes window = feed.Window(kRecordHeaderBytes);
  if (window.empty()) return false;
  if (window.size() < kRecordHeaderBytes) {
    EndInsideRecord(RecordHeader(), window.size());
    feed.Consume(window.size());
    return false;
  }
  const RecordHeader header = ReadRecordHeader(window, description_.byte_order);
  Prefetch(window, header.size_bytes);
  if (header.size_bytes < kRecordHeaderBytes) {
    Resynchronise(reader, header);
    return true;
  }
  if (header.size_bytes > kSplitBytesMax && !feed.stable()) {
    // Only simpleperf's types can say so, and none of them is that large.
    Resynchronise(reader, header);
    return true;
  }
  const size_t size = static_cast<size_t>(header.size_bytes);
  window = feed.Window(size);
  if (window.size() < size) {
    EndInsideRecord(header, window.size());
    feed.Consume(window.size());
    return false;
  }
  const Bytes record = window.first(size);
  if (header.type == kRecordAuxtrace) {
    HandleAuxtrace(record, reader, sink);
  } else if (header.type == kRecordHeaderTracingData) {
    HandleTracingData(record, reader);
  } else {
    HandleRecord(header, record, reader, sink);
    feed.Consume(size);
  }
  return true;
}

void PerfDataSource::EndInsideRecord(const RecordHeader& header, size_t bytes_left) {
  LossLedger& losses = *mutable_losses();
  description_.cut_short = true;
  if (header.type == kRecordSample) {
    losses.Capture();
    losses.Lose(LossStage::kRead, LossReason::kTruncated);
  } else {
    losses.Lose(LossStage::kRead, LossReason::kTruncated, 1, LossUnit::kRecords);
  }
  losses.Lose(LossStage::kRead, LossReason::kTruncated, bytes_left, LossUnit::kBytes);
}

void PerfDataSource::Resynchronise(Reader* reader, const RecordHeader& header) {
  const LossReason reason = header.size_bytes == 0 ? LossReason::kZeroSize : LossReason::kBadSize;
  LossLedger& losses = *mutable_losses();
  if (header.type == kRecordSample) {
    losses.Capture();
    losses.Lose(LossStage::kRead, reason);
  } else {
    losses.Lose(LossStage::kRead, reason, 1, LossUnit::kRecords);
  }
  ByteFeed& feed = *reader->feed;
  uint64_t skipped = 0;
  for (;;) {
    const Bytes window = feed.Window(kResyncWindowBytes);
    const auto found = FindRecord(window, description_.byte_order);
    // The last records of a window are looked at again with what follows them.
    const bool at_end = window.size() < kResyncWindowBytes || feed.stable();
    const size_t step = found.has_value() ? *found
                        : at_end          ? window.size()
                                          : window.size() / 2 / kRecordAlignment * kRecordAlignment;
    feed.Consume(step);
    skipped += step;
    if (found.has_value() || at_end) break;
  }
  losses.Lose(LossStage::kRead, reason, skipped, LossUnit::kBytes);
}

void PerfDataSource::HandleRecord(const RecordHeader& header, Bytes record, Reader* reader,
                                  EventSink& sink) {
  switch (header.type) {
    case kRecordFinishedRound:
      // Rounds say something about one row of records only.
      if (readers_.size() == 1) stream_.OnRoundEnd();
      return;
    case kRecordCompressed:
    case kRecordCompressed2:
      HandleCompressed(header, record, reader, sink);
      return;
    case kRecordSimpleperfSplit:
    case kRecordSimpleperfSplitEnd:
      HandleSplit(header, record, sink);
      return;
    default:
      break;
  }
  if (header.type < kRecordUserFirst) {
    if (description_.events.empty() && features_.AdoptDescribedEvents()) EventsChanged();
    if (reader != nullptr && reader->feed->stable()) {
      stream_.OnBorrowedRecord(record);
    } else {
      stream_.OnRecord({record, 0});
    }
    return;
  }
  if (HandleDescription(header, record, reader, sink)) return;
  const bool known = header.type <= kRecordUserLast ||
                     (header.type > kRecordSimpleperfFirst && header.type <= kRecordSimpleperfLast);
  if (known) {
    stream_.DeliverNow(record);
  } else {
    mutable_losses()->Lose(LossStage::kParse, LossReason::kUnknownRecord, 1, LossUnit::kRecords);
  }
}

bool PerfDataSource::HandleDescription(const RecordHeader& header, Bytes record, Reader* reader,
                                       EventSink& sink) {
  const Bytes body = record.subspan(kRecordHeaderBytes);
  switch (header.type) {
    case kRecordHeaderAttr:
      if (!HasKnownId(body) && features_.ReadHeaderAttr(body)) EventsChanged();
      return true;
    case kRecordHeaderEventType: {
      ByteCursor cursor(body, description_.byte_order);
      const uint64_t config = cursor.U64();
      features_.NameByConfig(config,
                             cursor.FixedString(std::min(cursor.remaining(), kEventTypeNameBytes)));
      return true;
    }
    case kRecordHeaderBuildId: {
      BuildIdEvent build_id;
      if (!features_.ReadBuildId(record, &build_id)) {
        mutable_losses()->Lose(LossStage::kParse, LossReason::kTruncated, 1, LossUnit::kRecords);
        return true;
      }
      sink.OnBuildId(build_id);
      if (description_.build_ids.size() < kListEntriesMax)
        description_.build_ids.push_back(std::move(build_id));
      return true;
    }
    case kRecordIdIndex:
      if (features_.ReadIdIndex(body)) EventsChanged();
      return true;
    case kRecordEventUpdate:
      if (features_.ReadEventUpdate(body)) EventsChanged();
      return true;
    case kRecordHeaderFeature: {
      ByteCursor cursor(body, description_.byte_order);
      const uint64_t feature = cursor.U64();
      if (feature < kFeatureBits)
        features_.ReadFeature(static_cast<unsigned>(feature), cursor.Rest());
      EventsChanged();
      return true;
    }
    case kRecordHeaderTracingData:
      // Inside a compressed record; where it stands by itself, ReadRecord sees to it.
      HandleTracingData(record, reader);
      return true;
    case kRecordAuxtrace:
      mutable_losses()->Lose(LossStage::kParse, LossReason::kUnsupported, 1, LossUnit::kRecords);
      return true;
    case kRecordSimpleperfEventId:
      if (features_.ReadSimpleperfEventIds(body)) EventsChanged();
      return true;
    case kRecordSimpleperfTracingData: {
      ByteCursor cursor(body, description_.byte_order);
      const uint32_t size = cursor.U32();
      features_.ReadTracingData(cursor.Take(std::min<size_t>(size, cursor.remaining())));
      EventsChanged();
      return true;
    }
    default:
      return false;
  }
}

bool PerfDataSource::HasKnownId(Bytes attr_body) const {
  // A file that names its attrs in its header may repeat them as records.
  ByteCursor cursor(attr_body, description_.byte_order);
  cursor.Skip(4);
  const uint32_t attr_bytes = cursor.U32();
  if (attr_bytes + size_t{8} > attr_body.size()) return false;
  ByteCursor ids(attr_body.subspan(attr_bytes), description_.byte_order);
  const uint64_t id = ids.U64();
  for (const EventDescription& event : description_.events) {
    if (std::find(event.ids.begin(), event.ids.end(), id) != event.ids.end()) return true;
  }
  return false;
}

void PerfDataSource::EventsChanged() {
  features_.DeduceArch();
  features_.NameEvents();
  stream_.EventsChanged();
}

void PerfDataSource::HandleTracingData(Bytes record, Reader* reader) {
  ByteCursor cursor(record, description_.byte_order);
  cursor.Skip(kRecordHeaderBytes);
  const uint32_t size = cursor.U32();
  if (record.size() >= kTracingDataHeaderBytes && size <= record.size() - kTracingDataHeaderBytes) {
    // simpleperf puts the data inside.
    features_.ReadTracingData(record.subspan(kTracingDataHeaderBytes, size));
    if (reader != nullptr) reader->feed->Consume(record.size());
  } else if (reader != nullptr) {
    ByteFeed& feed = *reader->feed;
    feed.Consume(record.size());
    const uint64_t padded = (uint64_t{size} + 7) / 8 * 8;
    if (padded > kTracingBytesMax) {
      // Its end cannot be trusted; look for the next record instead.
      mutable_losses()->Lose(LossStage::kRead, LossReason::kLimit, 1, LossUnit::kRecords);
      return;
    }
    const Bytes window = feed.Window(static_cast<size_t>(padded));
    if (window.size() < padded) {
      EndInsideRecord(RecordHeader(), window.size());
      feed.Consume(window.size());
      return;
    }
    features_.ReadTracingData(window.first(size));
    feed.Consume(static_cast<size_t>(padded));
  }
  EventsChanged();
}

void PerfDataSource::HandleAuxtrace(Bytes record, Reader* reader, EventSink& sink) {
  ByteFeed& feed = *reader->feed;
  const std::optional<AuxChunk> read = ReadAuxtrace(record, description_.byte_order);
  feed.Consume(record.size());
  if (!read) {
    mutable_losses()->Lose(LossStage::kParse, LossReason::kTruncated, 1, LossUnit::kRecords);
    return;
  }
  AuxChunk chunk = *read;
  chunk.data_outlives_call = feed.stable();
  uint64_t left = chunk.size_bytes;
  while (left > 0) {
    const uint64_t piece = feed.stable() ? left : std::min<uint64_t>(left, kAuxPieceBytes);
    const Bytes window = feed.Window(static_cast<size_t>(std::min<uint64_t>(piece, SIZE_MAX)));
    chunk.data = window.first(static_cast<size_t>(std::min<uint64_t>(piece, window.size())));
    chunk.size_bytes = chunk.data.size();
    if (!chunk.data.empty()) sink.OnAuxChunk(chunk);
    feed.Consume(chunk.data.size());
    chunk.offset += chunk.data.size();
    left -= chunk.data.size();
    if (chunk.data.size() < piece) {
      description_.cut_short = true;
      mutable_losses()->Lose(LossStage::kRead, LossReason::kTruncated, left, LossUnit::kBytes);
      return;
    }
  }
}

void PerfDataSource::HandleCompressed(const RecordHeader& header, Bytes record, Reader* reader,
                                      EventSink& sink) {
  LossLedger& losses = *mutable_losses();
  if (reader == nullptr) {
    // Compressed records inside compressed records: nobody writes these.
    losses.Lose(LossStage::kParse, LossReason::kBadCompression, 1, LossUnit::kRecords);
    return;
  }
  Bytes payload = record.subspan(kRecordHeaderBytes);
  if (header.type == kRecordCompressed2) {
    ByteCursor cursor(payload, description_.byte_order);
    const uint64_t size = cursor.U64();
    if (!cursor.ok() || size > cursor.remaining()) {
      losses.Lose(LossStage::kParse, LossReason::kBadSize, 1, LossUnit::kRecords);
    }
    payload = cursor.Take(std::min<uint64_t>(size, cursor.remaining()));
  }
  if (reader->decompressor == nullptr)
    reader->decompressor = std::make_unique<RecordDecompressor>();
  const bool inflated = reader->decompressor->Inflate(
      payload, [&](Bytes bytes) { return HandleInflated(bytes, reader, sink); });
  if (inflated) return;
  losses.Lose(LossStage::kParse, LossReason::kBadCompression, 1, LossUnit::kRecords);
  losses.Lose(LossStage::kParse, LossReason::kBadCompression,
              payload.size() + reader->decompressor->pending_bytes(), LossUnit::kBytes);
  reader->decompressor->DropPending();
}

size_t PerfDataSource::HandleInflated(Bytes bytes, Reader* reader, EventSink& sink) {
  static_cast<void>(reader);
  size_t offset = 0;
  while (bytes.size() - offset >= kRecordHeaderBytes) {
    const Bytes rest = bytes.subspan(offset);
    const RecordHeader header = ReadRecordHeader(rest, description_.byte_order);
    if (header.size_bytes < kRecordHeaderBytes || header.size_bytes > kSplitBytesMax) {
      const size_t skip = FindRecord(rest, description_.byte_order).value_or(rest.size());
      const LossReason reason =
          header.size_bytes == 0 ? LossReason::kZeroSize : LossReason::kBadSize;
      mutable_losses()->Lose(LossStage::kRead, reason, 1, LossUnit::kRecords);
      mutable_losses()->Lose(LossStage::kRead, reason, skip, LossUnit::kBytes);
      offset += skip;
      continue;
    }
    if (header.size_bytes > rest.size()) break;
    HandleRecord(header, rest.first(static_cast<size_t>(header.size_bytes)), nullptr, sink);
    offset += static_cast<size_t>(header.size_bytes);
  }
  return offset;
}

void PerfDataSource::HandleSplit(const RecordHeader& header, Bytes record, EventSink& sink) {
  const Bytes body = record.subspan(kRecordHeaderBytes);
  if (header.type == kRecordSimpleperfSplit) {
    if (split_.size() + body.size() > kSplitBytesMax) {
      mutable_losses()->Lose(LossStage::kRead, LossReason::kLimit, split_.size() + body.size(),
                             LossUnit::kBytes);
      split_.clear();
      return;
    }
    split_.insert(split_.end(), body.begin(), body.end());
    return;
  }
  const std::vector<std::byte> whole = std::exchange(split_, {});
  if (whole.size() < kRecordHeaderBytes) {
    mutable_losses()->Lose(LossStage::kParse, LossReason::kTruncated, 1, LossUnit::kRecords);
    return;
  }
  RecordHeader joined = ReadRecordHeader(whole, description_.byte_order);
  joined.size_bytes = whole.size();
  if (joined.type == kRecordSimpleperfSplit || joined.type == kRecordSimpleperfSplitEnd) {
    mutable_losses()->Lose(LossStage::kParse, LossReason::kBadLayout, 1, LossUnit::kRecords);
    return;
  }
  HandleRecord(joined, whole, nullptr, sink);
}

}  // namespace ptarmigan::internal
