#include "decode/pt_decoder.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/str_format.h"
#include "decode/internal/flow_merger.h"
#include "decode/internal/pt_index.h"
#include "decode/internal/pt_walker.h"
#include "decode/internal/return_check.h"

namespace ptarmigan {
namespace {

using internal::FlowMerger;
using internal::PtSegmentTask;
using internal::PtSyncPoint;
using internal::PtWalker;
using internal::PtWalkerFactory;
using internal::PtWalkResult;

// Results that may wait for their turn, for each worker: enough that a slow segment does not stop the others.
constexpr size_t kWaitingPerWorker = 16;

// A stream, cut into segments.
class Segments {
 public:
  Segments(const PtStream& stream, uint64_t bytes_max, FlowBytes* bytes)
      : stream_(stream), points_(internal::IndexPt(stream.bytes)) {
    const uint64_t size = stream.bytes.size();
    // Nothing can be entered before the first PSB, nor between a break and the next one.
    if (points_.empty()) {
      bytes->before_sync += size;
      return;
    }
    bytes->before_sync += points_.front().offset;
    // Bounded: whole segments are left out from the oldest on.
    while (first_ + 1 < points_.size() && size - points_[first_].offset > bytes_max) ++first_;
    bytes->dropped += points_[first_].offset - points_.front().offset;
    for (size_t i = first_; i < points_.size(); ++i) {
      bytes->before_sync += EndOf(i, false) - EndOf(i, true);
    }
  }

  size_t size() const { return points_.size() - first_; }
  PtSegmentTask Task(size_t index) const {
    const size_t i = first_ + index;
    PtSegmentTask task;
    task.number = i;
    task.begin = points_[i];
    task.offset = stream_.begin_offset + points_[i].offset;
    const uint64_t begin = points_[i].offset;
    const uint64_t end = EndOf(i, true);
    task.bytes = Part(begin, end);
    task.bytes_and_header = task.bytes;
    task.occupants = stream_.occupants;
    if (i + 1 < points_.size() && end == points_[i + 1].offset) {
      task.next = &points_[i + 1];
      if (task.next->header_end > 0 && task.next->has_address &&
          BreakBetween(end, task.next->header_end) == 0) {
        task.bytes_and_header = Part(begin, task.next->header_end);
      }
    }
    return task;
  }

 private:
  Bytes Part(uint64_t begin, uint64_t end) const {
    return stream_.bytes.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }
  // The first break in (begin, end), 0 if there is none.
  uint64_t BreakBetween(uint64_t begin, uint64_t end) const {
    const auto found = std::upper_bound(stream_.breaks.begin(), stream_.breaks.end(), begin);
    return found != stream_.breaks.end() && *found < end ? *found : 0;
  }
  // Where segment i ends: at the next PSB, or (`at_break`) at a break before it.
  uint64_t EndOf(size_t i, bool at_break) const {
    const uint64_t end =
        i + 1 < points_.size() ? points_[i + 1].offset : uint64_t{stream_.bytes.size()};
    const uint64_t cut = at_break ? BreakBetween(points_[i].offset, end) : 0;
    return cut == 0 ? end : cut;
  }

  const PtStream& stream_;
  std::vector<PtSyncPoint> points_;
  size_t first_ = 0;
};

class Decoder : public PtDecoder {
 public:
  Decoder(const PtOptions& options, std::unique_ptr<PtWalkerFactory> factory,
          std::vector<std::unique_ptr<PtWalker>> walkers)
      : options_(options),
        factory_(std::move(factory)),
        walkers_(std::move(walkers)),
        merger_(walkers_.size()) {
    statistics_.unknown_cpu = !factory_->knows_cpu();
  }

  Status Decode(const PtStream& stream, FlowSink& sink) override {
    Segments segments(stream, options_.bytes_max, &statistics_.bytes);
    ended_well_ = false;
    last_block_ = kNoFlowId;
    sink_ = &sink;
    stream_ = &stream;
    if (walkers_.size() == 1 || segments.size() < 2) {
      PtWalkResult& result = Spare(0);
      for (size_t i = 0; i < segments.size(); ++i) {
        walkers_[0]->Walk(segments.Task(i), &result);
        Deliver(0, segments.Task(i), &result);
      }
    } else {
      DecodeInParallel(segments);
    }
    SortMissing();
    return OkStatus();
  }
  const FlowStatistics& statistics() const override { return statistics_; }

 private:
  struct Slot {
    PtWalkResult result;
    size_t worker = 0;
    bool done = false;
  };

  PtWalkResult& Spare(size_t index) {
    while (slots_.size() <= index) slots_.emplace_back();
    return slots_[index].result;
  }
  void DecodeInParallel(const Segments& segments);
  void Deliver(size_t worker, const PtSegmentTask& task, PtWalkResult* result);
  void SortMissing();

  PtOptions options_;
  std::unique_ptr<PtWalkerFactory> factory_;
  std::vector<std::unique_ptr<PtWalker>> walkers_;
  FlowMerger merger_;
  internal::ReturnCheck returns_;
  std::deque<Slot> slots_;
  FlowSink* sink_ = nullptr;
  const PtStream* stream_ = nullptr;
  bool ended_well_ = false;          // the last segment
  uint32_t last_block_ = kNoFlowId;  // that ran in it, if tracing goes on from there
  std::map<std::string, FlowStatistics::MissingObject, std::less<>> missing_;
  FlowStatistics statistics_;
};

// Workers take segments in order and put results into a ring; this thread hands them out in order, several at a time: a
// segment is walked in less time than it takes to wake a thread.
void Decoder::DecodeInParallel(const Segments& segments) {
  const size_t count = segments.size();
  const size_t workers = std::min(walkers_.size(), count);
  const size_t ring = workers * kWaitingPerWorker;
  const size_t batch = ring / 2;
  Spare(ring - 1);
  for (Slot& slot : slots_) slot.done = false;
  std::mutex mutex;
  std::condition_variable room;
  std::condition_variable ready;
  size_t next = 0;       // segment that nobody has taken yet
  size_t walked = 0;     // segments before this one are done
  size_t delivered = 0;  // segments handed out
  size_t wanted = 0;     // what this thread waits for `walked` to be
  const auto work = [&](size_t worker) {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      room.wait(lock, [&] { return next >= count || next < delivered + ring; });
      if (next >= count) return;
      const size_t mine = next++;
      lock.unlock();
      Slot& slot = slots_[mine % ring];
      slot.worker = worker;
      walkers_[worker]->Walk(segments.Task(mine), &slot.result);
      lock.lock();
      slot.done = true;
      const size_t before = walked;
      while (walked < next && slots_[walked % ring].done) slots_[walked++ % ring].done = false;
      if (before < wanted && walked >= wanted) ready.notify_one();
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < workers; ++i) threads.emplace_back(work, i);
  std::unique_lock<std::mutex> lock(mutex);
  while (delivered < count) {
    wanted = std::min(delivered + batch, count);
    ready.wait(lock, [&] { return walked >= wanted; });
    const size_t end = walked;
    lock.unlock();
    for (size_t i = delivered; i < end; ++i) {
      Slot& slot = slots_[i % ring];
      Deliver(slot.worker, segments.Task(i), &slot.result);
    }
    lock.lock();
    delivered = end;
    room.notify_all();
  }
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
}

void Decoder::Deliver(size_t worker, const PtSegmentTask& task, PtWalkResult* result) {
  merger_.Learn(worker, result->graph);
  ++statistics_.segments;
  statistics_.overflows += result->counts.overflows;
  statistics_.unknown_packets += result->counts.unknown_packets;
  statistics_.segments_by_libipt += result->counts.by_libipt ? 1 : 0;
  if (statistics_.first_difference.empty() && !result->difference.empty()) {
    statistics_.first_difference =
        StrFormat("the segment at offset {:#x}: {}", task.offset, result->difference);
  }
  bool continues = ended_well_;
  bool failed = false;
  if (!continues) returns_.Forget();
  bool misses = false;
  for (size_t i = 0; i < result->size; ++i) {
    FlowSegment& part = *result->parts[i];
    merger_.Merge(worker, &part);
    part.continues = continues;
    if (i == 0 && continues && last_block_ != kNoFlowId && result->began_tracing) {
      merger_.Connect(last_block_, &part);
    }
    continues = true;
    misses = returns_.Misses(merger_.graph(), part) || misses;
  }
  for (size_t i = 0; i < result->size; ++i) {
    FlowSegment& part = *result->parts[i];
    if (misses) {
      part.checks.reasons |= FlowChecks::kReturnMismatch;
      part.trust = std::max(part.trust, FlowTrust::kSuspect);
    }
    statistics_.instructions += part.instructions;
    statistics_.bytes += part.bytes;
    failed = failed || part.trust == FlowTrust::kBad;
    if (part.end_offset > stream_->report_from) {
      sink_->OnFlowSegment(merger_.graph(), part);
    }
  }
  if (result->size > 0) {
    switch (result->parts[0]->trust) {
      case FlowTrust::kVerified:
        ++statistics_.verified;
        break;
      case FlowTrust::kSuspect:
        ++statistics_.suspect;
        break;
      case FlowTrust::kBad:
        ++statistics_.bad;
        break;
    }
  }
  if (failed) ++statistics_.errors;
  for (const internal::PtMissingCode& code : result->missing) {
    FlowStatistics::MissingObject& object = missing_[std::string(code.object)];
    if (object.segments++ == 0) object.first_address = code.address;
    object.bytes += code.bytes;
  }
  // Nothing is made of calls that a doubtful segment left open.
  if (result->size > 0 && result->parts[0]->trust != FlowTrust::kVerified) returns_.Forget();
  ended_well_ = result->ended_well && task.next != nullptr;
  last_block_ = kNoFlowId;
  if (ended_well_ && result->ended_tracing) {
    last_block_ = merger_.MergedBlock(worker, result->graph.last_block);
  }
}

void Decoder::SortMissing() {
  statistics_.missing.clear();
  for (const auto& [name, object] : missing_) {
    statistics_.missing.push_back(object);
    statistics_.missing.back().name = name;
  }
}

}  // namespace

std::string_view PtUnsupportedSentence() {
  return "this program was built without libipt, so the Intel PT part of the recording was left "
         "out";
}

#ifdef PTARMIGAN_WITH_LIBIPT
Result<std::unique_ptr<PtDecoder>> PtDecoder::Create(const PtConfig& config,
                                                     const PtOptions& options) {
  std::unique_ptr<PtWalkerFactory> factory = internal::MakePtWalkers(config, options);
  std::vector<std::unique_ptr<PtWalker>> walkers;
  for (size_t i = 0; i < std::max<size_t>(options.threads, 1); ++i) {
    TRY_ASSIGN(std::unique_ptr<PtWalker> walker, factory->Make());
    walkers.push_back(std::move(walker));
  }
  return std::unique_ptr<PtDecoder>(
      std::make_unique<Decoder>(options, std::move(factory), std::move(walkers)));
}
#else
Result<std::unique_ptr<PtDecoder>> PtDecoder::Create(const PtConfig&, const PtOptions&) {
  return Error{ErrorCode::kUnsupported, std::string(PtUnsupportedSentence())};
}
#endif

}  // namespace ptarmigan
