#include "decode/record_parser.h"

#include <algorithm>

#include "decode/internal/sample_parser.h"
#include "decode/record_types.h"

namespace ptarmigan {
namespace {

using internal::EventIndex;
using internal::EventLayout;

constexpr uint32_t kProtExec = 4;
constexpr size_t kBuildIdFieldBytes = 20;
constexpr uint16_t kKsymbolUnregister = 1;

}  // namespace

std::optional<AuxChunk> ReadAuxtrace(Bytes record, std::endian order) {
  ByteCursor cursor(record, order);
  cursor.Skip(kRecordHeaderBytes);
  AuxChunk chunk;
  chunk.size_bytes = cursor.U64();
  chunk.offset = cursor.U64();
  chunk.reference = cursor.U64();
  chunk.index = cursor.U32();
  chunk.tid = cursor.S32();
  chunk.cpu = cursor.U32();
  if (!cursor.ok()) return std::nullopt;
  return chunk;
}

RecordParser::RecordParser(const RecordingDescription& description)
    : description_(description),
      swap_(description.byte_order != std::endian::native),
      order_(description.byte_order) {
  EventsChanged();
}

void RecordParser::EventsChanged() {
  swap_ = description_.byte_order != std::endian::native;
  order_ = description_.byte_order;
  index_.Rebuild(description_);
  counts_lost_exactly_ = std::any_of(
      description_.events.begin(), description_.events.end(),
      [](const EventDescription& event) { return (event.attr.read_format & kReadLost) != 0; });
}

std::optional<uint64_t> RecordParser::PeekTime(Bytes record) const {
  if (record.size() < kRecordHeaderBytes) return std::nullopt;
  uint32_t type;
  std::memcpy(&type, record.data(), sizeof(type));
  if (swap_) type = ByteSwap(type);
  if (type >= kRecordUserFirst) return std::nullopt;
  return index_.TimeOf(record, type == kRecordSample, swap_);
}

ByteCursor RecordParser::Body(Bytes record, RecordIdentity* identity) const {
  uint32_t event = index_.EventOf(record, /*is_sample=*/false, swap_);
  if (event == EventIndex::kNoEvent) event = 0;
  const EventLayout& layout = index_.layout(event);
  *identity = internal::ParseTrailer(record, layout, order_);
  const size_t trailer_bytes = std::min(layout.trailer_bytes, record.size() - kRecordHeaderBytes);
  return ByteCursor(
      record.subspan(kRecordHeaderBytes, record.size() - kRecordHeaderBytes - trailer_bytes),
      order_);
}

void RecordParser::Parse(Bytes record, EventSink& sink) {
  ByteCursor cursor(record, order_);
  Header header = {};
  header.type = cursor.U32();
  header.misc = cursor.U16();
  if (record.size() < kRecordHeaderBytes) {
    losses_.Lose(LossStage::kParse, LossReason::kTruncated, 1, LossUnit::kRecords);
    return;
  }
  if (header.type == kRecordSample) {
    OnSample(record, sink);
    return;
  }
  if (header.type >= kRecordUserFirst) {
    OnOther(header, record, sink);
    return;
  }
  if (header.type == 0 || header.type > kRecordKernelLast) {
    losses_.Lose(LossStage::kParse, LossReason::kUnknownRecord, 1, LossUnit::kRecords);
    return;
  }
  if (index_.empty()) {
    // Without an attr nothing says where the trailer starts.
    losses_.Lose(LossStage::kParse, LossReason::kUnknownEvent, 1, LossUnit::kRecords);
    return;
  }
  if (!OnKernelRecord(header, record, sink)) {
    losses_.Lose(LossStage::kParse, LossReason::kTruncated, 1, LossUnit::kRecords);
  }
}

bool RecordParser::OnKernelRecord(Header header, Bytes record, EventSink& sink) {
  switch (header.type) {
    case kRecordMmap:
      return OnMmap(header, record, sink);
    case kRecordMmap2:
      return OnMmap2(header, record, sink);
    case kRecordComm:
      return OnComm(header, record, sink);
    case kRecordFork:
    case kRecordExit:
      return OnTask(header, record, sink);
    case kRecordLost:
    case kRecordLostSamples:
      return OnLost(header, record, sink);
    case kRecordThrottle:
    case kRecordUnthrottle: {
      ThrottleEvent throttle;
      Body(record, &throttle.identity);
      throttle.throttled = header.type == kRecordThrottle;
      sink.OnThrottle(throttle);
      return true;
    }
    case kRecordSwitch:
    case kRecordSwitchCpuWide:
      return OnSwitch(header, record, sink);
    case kRecordKsymbol:
      return OnKsymbol(record, sink);
    case kRecordTextPoke:
      return OnTextPoke(record, sink);
    case kRecordCgroup:
      return OnCgroup(record, sink);
    case kRecordAux:
      return OnAux(record, sink);
    case kRecordCallchainDeferred:
      return OnCallchainDeferred(record, sink);
    default:
      OnOther(header, record, sink);
      return true;
  }
}

// --- samples ---

void RecordParser::OnSample(Bytes record, EventSink& sink) {
  const uint32_t event = index_.EventOf(record, /*is_sample=*/true, swap_);
  if (event == EventIndex::kNoEvent) {
    losses_.Capture();
    losses_.Lose(LossStage::kParse, LossReason::kUnknownEvent);
    return;
  }
  const internal::SampleOutcome outcome =
      ParseSample(record, index_.layout(event), order_, &sample_);
  if (outcome == internal::SampleOutcome::kBroken) {
    losses_.Capture();
    losses_.Lose(LossStage::kParse, LossReason::kTruncated);
    return;
  }
  if (outcome == internal::SampleOutcome::kPartial) {
    losses_.Lose(LossStage::kParse, LossReason::kBadSize, 1, LossUnit::kRecords);
  }
  sample_.event = event;
  if (Defer(record)) {
    if (deferred_.size() > kDeferredSamplesMax) {
      const DeferredSample oldest = std::move(deferred_.front());
      deferred_.pop_front();
      DeliverDeferred(oldest, nullptr, sink);
    }
    return;
  }
  DeliverSample(sink);
}

void RecordParser::DeliverSample(EventSink& sink) {
  const uint64_t format = index_.layout(sample_.event).read_format;
  if (!sample_.read_values.empty() && (format & kReadId) != 0) {
    DeliverCounters(sink);
    return;
  }
  losses_.Capture();
  sink.OnSample(sample_);
  losses_.Keep();
}

void RecordParser::DeliverCounters(EventSink& sink) {
  bool delivered = false;
  for (const ReadValue& value : sample_.read_values) {
    const uint32_t event = index_.EventOfId(value.id);
    if (event == EventIndex::kNoEvent) {
      losses_.Capture();
      losses_.Lose(LossStage::kParse, LossReason::kUnknownEvent);
      delivered = true;
      continue;
    }
    const uint64_t moved = index_.Advance(value.id, value.value).value_or(0);
    if (moved == 0) continue;
    sample_.event = event;
    sample_.identity.id = value.id;
    sample_.period = moved;
    sample_.has_period = true;
    losses_.Capture();
    sink.OnSample(sample_);
    losses_.Keep();
    delivered = true;
  }
  if (!delivered) {
    // No counter of the group moved: the sample stands for nothing.
    losses_.Capture();
    losses_.Lose(LossStage::kParse, LossReason::kIgnored);
  }
}

bool RecordParser::Defer(Bytes record) {
  // ... user-deferred marker, cookie
  const std::vector<uint64_t>& chain = sample_.chain;
  if (chain.size() < 2 || chain[chain.size() - 2] != kContextUserDeferred) return false;
  DeferredSample waiting;
  waiting.record.assign(record.begin(), record.end());
  waiting.cookie = chain.back();
  waiting.tid = sample_.identity.tid;
  waiting.event = sample_.event;
  deferred_.push_back(std::move(waiting));
  return true;
}

void RecordParser::DeliverDeferred(const DeferredSample& waiting,
                                   const std::vector<uint64_t>* user_chain, EventSink& sink) {
  // It was parsed before, so it cannot be broken.
  ParseSample(waiting.record, index_.layout(waiting.event), order_, &sample_);
  sample_.event = waiting.event;
  if (user_chain != nullptr) {
    sample_.chain.resize(sample_.chain.size() - 2);
    sample_.chain.push_back(kContextUser);
    sample_.chain.insert(sample_.chain.end(), user_chain->begin(), user_chain->end());
  }
  DeliverSample(sink);
}

bool RecordParser::OnCallchainDeferred(Bytes record, EventSink& sink) {
  RecordIdentity identity;
  ByteCursor body = Body(record, &identity);
  const uint64_t cookie = body.U64();
  const uint64_t count = body.U64();
  if (!body.ok() || count > body.remaining() / 8) return false;
  std::vector<uint64_t> chain(static_cast<size_t>(count));
  for (uint64_t& entry : chain) entry = body.U64();
  // It may start with the marker that DeliverDeferred adds.
  if (!chain.empty() && IsContextMarker(chain.front())) chain.erase(chain.begin());
  for (auto waiting = deferred_.begin(); waiting != deferred_.end();) {
    if (waiting->cookie != cookie || waiting->tid != identity.tid) {
      ++waiting;
      continue;
    }
    const DeferredSample found = std::move(*waiting);
    waiting = deferred_.erase(waiting);
    DeliverDeferred(found, &chain, sink);
  }
  return true;
}

void RecordParser::Finish(EventSink& sink) {
  for (const DeferredSample& waiting : deferred_) DeliverDeferred(waiting, nullptr, sink);
  deferred_.clear();
  if (lost_undecided_ == 0) return;
  if (saw_lost_samples_) {
    losses_.Lose(LossStage::kKernel, LossReason::kRingFull, lost_undecided_, LossUnit::kRecords);
  } else {
    losses_.Capture(lost_undecided_);
    losses_.Lose(LossStage::kKernel, LossReason::kRingFull, lost_undecided_);
  }
  lost_undecided_ = 0;
}

// --- other records ---

// What both mapping records begin with; the rest of mmap_ is cleared.
void RecordParser::StartMmap(Header header, ByteCursor* body) {
  mmap_.cpumode = internal::CpuModeOf(header.misc);
  mmap_.pid = body->S32();
  mmap_.tid = body->S32();
  mmap_.start = VirtAddr{body->U64()};
  mmap_.length_bytes = body->U64();
  mmap_.file_offset = FileOffset{body->U64()};
  mmap_.protection = 0;
  mmap_.map_flags = 0;
  mmap_.build_id = BuildId();
  mmap_.device_major = 0;
  mmap_.device_minor = 0;
  mmap_.inode = 0;
  mmap_.inode_generation = 0;
}

bool RecordParser::OnMmap(Header header, Bytes record, EventSink& sink) {
  ByteCursor body = Body(record, &mmap_.identity);
  StartMmap(header, &body);
  if (!body.ok()) return false;
  mmap_.path = body.FixedString(body.remaining());
  mmap_.executable = (header.misc & kMiscMmapData) == 0;
  sink.OnMmap(mmap_);
  return true;
}

bool RecordParser::OnMmap2(Header header, Bytes record, EventSink& sink) {
  ByteCursor body = Body(record, &mmap_.identity);
  StartMmap(header, &body);
  if ((header.misc & kMiscMmapBuildId) != 0) {
    const size_t size = std::min<size_t>(body.U8(), kBuildIdFieldBytes);
    body.Skip(3);
    const Bytes field = body.Take(kBuildIdFieldBytes);
    if (body.ok()) mmap_.build_id = BuildId(field.first(size));
  } else {
    mmap_.device_major = body.U32();
    mmap_.device_minor = body.U32();
    mmap_.inode = body.U64();
    mmap_.inode_generation = body.U64();
  }
  mmap_.protection = body.U32();
  mmap_.map_flags = body.U32();
  if (!body.ok()) return false;
  mmap_.path = body.FixedString(body.remaining());
  mmap_.executable = (mmap_.protection & kProtExec) != 0;
  sink.OnMmap(mmap_);
  return true;
}

bool RecordParser::OnComm(Header header, Bytes record, EventSink& sink) {
  ByteCursor body = Body(record, &comm_.identity);
  comm_.pid = body.S32();
  comm_.tid = body.S32();
  if (!body.ok()) return false;
  comm_.comm = body.FixedString(body.remaining());
  comm_.is_exec = (header.misc & kMiscCommExec) != 0;
  sink.OnComm(comm_);
  return true;
}

bool RecordParser::OnTask(Header header, Bytes record, EventSink& sink) {
  ByteCursor body = Body(record, &task_.identity);
  task_.pid = body.S32();
  task_.parent_pid = body.S32();
  task_.tid = body.S32();
  task_.parent_tid = body.S32();
  if (!body.ok()) return false;
  task_.time_ns = body.U64();  // 0 where an old recorder left it out
  if (header.type == kRecordFork) {
    sink.OnFork(task_);
  } else {
    sink.OnExit(task_);
  }
  return true;
}

bool RecordParser::OnLost(Header header, Bytes record, EventSink& sink) {
  LostEvent lost;
  ByteCursor body = Body(record, &lost.identity);
  lost.samples_only = header.type == kRecordLostSamples;
  if (!lost.samples_only) body.Skip(8);  // the event's id
  lost.count = body.U64();
  if (!body.ok()) return false;
  if (lost.count > kLostPerRecordMax) {
    lost.count = kLostPerRecordMax;
    losses_.Lose(LossStage::kParse, LossReason::kBadValue, 1, LossUnit::kRecords);
  }
  if (lost.samples_only) {
    saw_lost_samples_ = saw_lost_samples_ || lost.count > 0;
    losses_.Capture(lost.count);
    const bool filtered = (header.misc & kMiscLostByBpf) != 0;
    losses_.Lose(LossStage::kKernel, filtered ? LossReason::kIgnored : LossReason::kRingFull,
                 lost.count);
  } else if (counts_lost_exactly_) {
    lost_undecided_ += lost.count;
  } else {
    losses_.Capture(lost.count);
    losses_.Lose(LossStage::kKernel, LossReason::kRingFull, lost.count);
  }
  sink.OnLost(lost);
  return true;
}

bool RecordParser::OnSwitch(Header header, Bytes record, EventSink& sink) {
  SwitchEvent event;
  ByteCursor body = Body(record, &event.identity);
  event.out = (header.misc & kMiscSwitchOut) != 0;
  event.preempted = event.out && (header.misc & kMiscSwitchPreempt) != 0;
  if (header.type == kRecordSwitchCpuWide) {
    event.other_pid = body.S32();
    event.other_tid = body.S32();
    if (!body.ok()) return false;
  }
  sink.OnSwitch(event);
  return true;
}

bool RecordParser::OnKsymbol(Bytes record, EventSink& sink) {
  ByteCursor body = Body(record, &ksymbol_.identity);
  ksymbol_.start = VirtAddr{body.U64()};
  ksymbol_.length_bytes = body.U32();
  ksymbol_.type = body.U16();
  ksymbol_.unregister = (body.U16() & kKsymbolUnregister) != 0;
  if (!body.ok()) return false;
  ksymbol_.name = body.FixedString(body.remaining());
  sink.OnKsymbol(ksymbol_);
  return true;
}

bool RecordParser::OnTextPoke(Bytes record, EventSink& sink) {
  TextPokeEvent poke;
  ByteCursor body = Body(record, &poke.identity);
  poke.address = VirtAddr{body.U64()};
  const uint16_t old_size = body.U16();
  const uint16_t new_size = body.U16();
  poke.old_bytes = body.Take(old_size);
  poke.new_bytes = body.Take(new_size);
  if (!body.ok()) return false;
  sink.OnTextPoke(poke);
  return true;
}

bool RecordParser::OnCgroup(Bytes record, EventSink& sink) {
  ByteCursor body = Body(record, &cgroup_.identity);
  cgroup_.id = body.U64();
  if (!body.ok()) return false;
  cgroup_.path = body.FixedString(body.remaining());
  sink.OnCgroup(cgroup_);
  return true;
}

bool RecordParser::OnAux(Bytes record, EventSink& sink) {
  AuxEvent aux;
  ByteCursor body = Body(record, &aux.identity);
  aux.aux_offset = body.U64();
  aux.size_bytes = body.U64();
  aux.flags = body.U64();
  if (!body.ok()) return false;
  sink.OnAux(aux);
  return true;
}

void RecordParser::OnOther(Header header, Bytes record, EventSink& sink) {
  OtherRecord other;
  if (header.type < kRecordUserFirst) Body(record, &other.identity);
  other.type = header.type;
  other.misc = header.misc;
  other.bytes = record;
  sink.OnOther(other);
}

}  // namespace ptarmigan
