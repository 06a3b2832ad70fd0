#include "decode/internal/event_index.h"

#include <algorithm>
#include <bit>

#include "decode/record_types.h"

namespace ptarmigan::internal {
namespace {

constexpr size_t kSlotsMin = 16;

uint64_t LoadU64(const std::byte* at, bool swap) {
  uint64_t value;
  std::memcpy(&value, at, sizeof(value));
  return swap ? ByteSwap(value) : value;
}

size_t Words(uint64_t bits) { return 8 * static_cast<size_t>(std::popcount(bits)); }

}  // namespace

EventLayout LayoutOf(const EventAttr& attr) {
  EventLayout layout;
  const uint64_t type = attr.sample_type;
  layout.sample_type = type;
  layout.read_format = attr.read_format;
  layout.branch_sample_type = attr.branch_sample_type;
  layout.user_regs_mask = attr.sample_regs_user;
  layout.intr_regs_mask = attr.sample_regs_intr;
  layout.fixed_period = !attr.freq() && attr.sample_period > 0 ? attr.sample_period : 1;
  layout.sample_id_all = attr.sample_id_all();

  // Samples: IDENTIFIER IP TID TIME ADDR ID ...
  const uint64_t before_time = kSampleIdentifier | kSampleIp | kSampleTid;
  if ((type & kSampleTime) != 0)
    layout.time_from_start = kRecordHeaderBytes + Words(type & before_time);
  if ((type & kSampleIdentifier) != 0) {
    layout.id_from_start = kRecordHeaderBytes;
  } else if ((type & (kSampleId | kSampleStreamId)) != 0) {
    layout.id_from_start =
        kRecordHeaderBytes + Words(type & (before_time | kSampleTime | kSampleAddr));
  }

  // Others end with TID TIME ID STREAM_ID CPU IDENTIFIER.
  if (!layout.sample_id_all) return layout;
  const uint64_t after_id = kSampleStreamId | kSampleCpu | kSampleIdentifier;
  layout.trailer_bytes = Words(type & (kSampleTid | kSampleTime | kSampleId | after_id));
  if ((type & kSampleTime) != 0) {
    layout.time_from_end = Words(type & (kSampleTime | kSampleId | after_id));
  }
  if ((type & kSampleIdentifier) != 0) {
    layout.id_from_end = 8;
  } else if ((type & kSampleId) != 0) {
    layout.id_from_end = Words(type & (kSampleId | after_id));
  } else if ((type & kSampleStreamId) != 0) {
    layout.id_from_end = Words(type & after_id);
  }
  return layout;
}

void EventIndex::Rebuild(const RecordingDescription& description) {
  std::vector<Slot> old = std::move(slots_);
  layouts_.clear();
  size_t ids = 0;
  for (const EventDescription& event : description.events) {
    layouts_.push_back(LayoutOf(event.attr));
    ids += event.ids.size();
  }
  slots_.assign(std::bit_ceil(std::max(kSlotsMin, 2 * ids)), Slot());
  for (size_t i = 0; i < description.events.size(); ++i) {
    for (const uint64_t id : description.events[i].ids) Insert(id, static_cast<uint32_t>(i));
  }
  for (const Slot& slot : old) {
    if (slot.event == kNoEvent) continue;
    if (Slot* now = Find(slot.id); now != nullptr) now->last_value = slot.last_value;
  }
  same_time_ = std::all_of(layouts_.begin(), layouts_.end(), [&](const EventLayout& layout) {
    return layout.time_from_start == layouts_.front().time_from_start &&
           layout.time_from_end == layouts_.front().time_from_end &&
           layout.sample_id_all == layouts_.front().sample_id_all;
  });
}

EventIndex::Slot* EventIndex::Find(uint64_t id) {
  const size_t mask = slots_.size() - 1;
  // Fibonacci hashing: ids are small consecutive numbers.
  for (size_t i = (id * 0x9e3779b97f4a7c15U) >> 32 & mask;; i = (i + 1) & mask) {
    if (slots_[i].event == kNoEvent) return nullptr;
    if (slots_[i].id == id) return &slots_[i];
  }
}

void EventIndex::Insert(uint64_t id, uint32_t event) {
  const size_t mask = slots_.size() - 1;
  size_t i = (id * 0x9e3779b97f4a7c15U) >> 32 & mask;
  while (slots_[i].event != kNoEvent) {
    if (slots_[i].id == id) return;  // the first one wins
    i = (i + 1) & mask;
  }
  slots_[i].id = id;
  slots_[i].event = event;
}

uint32_t EventIndex::EventOfId(uint64_t id) const {
  if (slots_.empty()) return kNoEvent;
  const Slot* slot = Find(id);
  return slot == nullptr ? kNoEvent : slot->event;
}

uint32_t EventIndex::EventOf(Bytes record, bool is_sample, bool swap) const {
  if (layouts_.empty()) return kNoEvent;
  if (layouts_.size() == 1) return 0;
  const EventLayout& first = layouts_.front();
  if (!is_sample && !first.sample_id_all) return 0;
  // Events of one recording have the id at one place: the tools see to that.
  const size_t position = is_sample ? first.id_from_start : first.id_from_end;
  if (position == 0) return 0;
  if (record.size() < kRecordHeaderBytes + 8 || position > record.size() - 8 + (is_sample ? 0 : 8))
    return kNoEvent;
  const size_t offset = is_sample ? position : record.size() - position;
  const uint64_t id = LoadU64(record.data() + offset, swap);
  if (id == 0) return 0;
  return EventOfId(id);
}

std::optional<uint64_t> EventIndex::TimeOf(Bytes record, bool is_sample, bool swap) const {
  if (layouts_.empty()) return std::nullopt;
  uint32_t event = 0;
  if (!same_time_) {
    event = EventOf(record, is_sample, swap);
    if (event == kNoEvent) event = 0;
  }
  const EventLayout& layout = layouts_[event];
  size_t offset = layout.time_from_start;
  if (!is_sample) {
    if (layout.time_from_end == 0 || record.size() < kRecordHeaderBytes + layout.trailer_bytes)
      return std::nullopt;
    offset = record.size() - layout.time_from_end;
  }
  if (offset == 0 || offset + 8 > record.size()) return std::nullopt;
  return LoadU64(record.data() + offset, swap);
}

std::optional<uint64_t> EventIndex::Advance(uint64_t id, uint64_t now) {
  if (slots_.empty()) return std::nullopt;
  Slot* slot = Find(id);
  if (slot == nullptr) return std::nullopt;
  const uint64_t moved = now >= slot->last_value ? now - slot->last_value : now;
  slot->last_value = now;
  return moved;
}

}  // namespace ptarmigan::internal
