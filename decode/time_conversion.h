// TimeConversion: what PERF_RECORD_TIME_CONV says: ticks of the timer that traces have (Arm's generic timer) as nanoseconds of
// perf's clock (include/uapi/linux/perf_event.h, perf_event_mmap_page).
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

#include "base/byte_cursor.h"

namespace ptarmigan {

struct TimeConversion {
  uint64_t shift = 0;
  uint64_t mult = 0;
  uint64_t zero = 0;
  uint64_t cycles = 0;
  uint64_t mask = 0;
  bool extends = false;  // cap_user_time_short: the counter has fewer bits and is extended first

  uint64_t ToNanoseconds(uint64_t ticks) const;
};

// Nothing if the record is too short or says that it cannot be used.
std::optional<TimeConversion> ReadTimeConversion(Bytes record, std::endian order);

}  // namespace ptarmigan
