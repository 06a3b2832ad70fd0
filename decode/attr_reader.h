// Reads struct perf_event_attr as recordings hold it: any size (PERF_ATTR_SIZE_VER0 = 64 up to what
// kernels to come may write), either byte order. Source: include/uapi/linux/perf_event.h,
// Linux 6.18.
#pragma once

#include <bit>
#include <cstdint>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "model/event_attr.h"

namespace ptarmigan {

// The first published size; nothing shorter can be an attr.
inline constexpr uint32_t kAttrBytesMin = 64;
// Larger is not a perf_event_attr (the kernel itself takes at most a page).
inline constexpr uint32_t kAttrBytesMax = 4096;

// Parses the attr at the start of `bytes`. Only the first `attr.size` bytes belong to it (0 means
// kAttrBytesMin); fields beyond that size, or beyond the end of `bytes`, are 0. An unknown tail is
// ignored. Error: fewer than kAttrBytesMin bytes, or a size outside [kAttrBytesMin, kAttrBytesMax].
//
// On a big-endian machine the compiler fills bit fields from the other end; `flags` is brought to
// the little-endian order, so that bit 0 is `disabled` whatever the recording's order.
Result<EventAttr> ReadEventAttr(Bytes bytes, std::endian order);

}  // namespace ptarmigan
