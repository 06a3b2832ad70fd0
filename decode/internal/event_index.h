// Which event a record belongs to, and where its fields lie: the layouts and sample ids of a recording's events,
// prepared for look-up per record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/byte_cursor.h"
#include "model/recording.h"

namespace ptarmigan::internal {

// Positions are in bytes; 0 means that the record has no such field (every real position is past the header).
struct EventLayout {
  uint64_t sample_type = 0;
  uint64_t read_format = 0;
  uint64_t branch_sample_type = 0;
  uint64_t user_regs_mask = 0;
  uint64_t intr_regs_mask = 0;
  uint64_t fixed_period = 1;
  bool sample_id_all = false;
  size_t trailer_bytes = 0;    // sample_id at the end of other records; 0 without sample_id_all
  size_t time_from_start = 0;  // in samples, from the record's start
  size_t id_from_start = 0;
  size_t time_from_end = 0;  // in other records, back from the record's end
  size_t id_from_end = 0;
};

EventLayout LayoutOf(const EventAttr& attr);

class EventIndex {
 public:
  static constexpr uint32_t kNoEvent = UINT32_MAX;

  // Takes over the events and ids of `description`; call again when they change. Values that KeepReading has
  // stored are kept.
  void Rebuild(const RecordingDescription& description);

  bool empty() const { return layouts_.empty(); }
  const EventLayout& layout(uint32_t event) const { return layouts_[event]; }
  // The event whose sample id is `id`, or kNoEvent.
  uint32_t EventOfId(uint64_t id) const;
  // The event of a record (header included); kNoEvent if its id belongs to none. Id 0 is what perf puts into
  // records that it makes up itself: the first event.
  uint32_t EventOf(Bytes record, bool is_sample, bool swap) const;
  // The time field of a record that the kernel wrote; nothing if it has none.
  std::optional<uint64_t> TimeOf(Bytes record, bool is_sample, bool swap) const;
  // Whether records other than samples carry who and when. Without that, time cannot order a recording.
  bool sample_id_all() const { return !layouts_.empty() && layouts_.front().sample_id_all; }
  // The counter value `now` of `id`: how far it has moved since the last call for this id. Nothing for unknown ids.
  std::optional<uint64_t> Advance(uint64_t id, uint64_t now);

 private:
  struct Slot {
    uint64_t id = 0;
    uint32_t event = kNoEvent;  // kNoEvent: empty
    uint64_t last_value = 0;
  };
  Slot* Find(uint64_t id);
  const Slot* Find(uint64_t id) const { return const_cast<EventIndex*>(this)->Find(id); }
  void Insert(uint64_t id, uint32_t event);

  std::vector<EventLayout> layouts_;
  std::vector<Slot> slots_;  // open addressing, size a power of two, at most half full
  bool same_time_ = false;   // all layouts have the time at the same places
};

}  // namespace ptarmigan::internal
