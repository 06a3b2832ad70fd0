#include "decode/attr_reader.h"

#include <algorithm>

#include "base/str_format.h"

namespace ptarmigan {
namespace {

constexpr unsigned kPreciseIpBit = 15;  // two bits wide, the only field of more than one bit

uint64_t ReverseBits(uint64_t value) {
  uint64_t reversed = 0;
  for (unsigned bit = 0; bit < 64; ++bit) reversed |= (value >> bit & 1) << (63 - bit);
  return reversed;
}

// Bit fields of a big-endian machine: the first field is the most significant one.
uint64_t FlagsFromBigEndian(uint64_t value) {
  const uint64_t flags = ReverseBits(value);
  const uint64_t precise = flags >> kPreciseIpBit & 3;
  const uint64_t swapped = precise >> 1 | (precise & 1) << 1;
  return (flags & ~(uint64_t{3} << kPreciseIpBit)) | swapped << kPreciseIpBit;
}

}  // namespace

Result<EventAttr> ReadEventAttr(Bytes bytes, std::endian order) {
  if (bytes.size() < kAttrBytesMin) {
    return Error{ErrorCode::kTruncated,
                 StrFormat("an event attribute needs {} bytes but only {} are left", kAttrBytesMin,
                           bytes.size())};
  }
  ByteCursor header(bytes, order);
  EventAttr attr;
  attr.type = header.U32();
  attr.size_bytes = header.U32();
  const uint32_t size = attr.size_bytes == 0 ? kAttrBytesMin : attr.size_bytes;
  if (size < kAttrBytesMin || size > kAttrBytesMax) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("an event attribute says that it has {} bytes", size)};
  }
  // Past its end the cursor gives zeros, which is what a missing field means.
  ByteCursor cursor(bytes.first(std::min<size_t>(bytes.size(), size)), order);
  cursor.Skip(8);
  attr.config = cursor.U64();
  const uint64_t period_or_freq = cursor.U64();
  attr.sample_type = cursor.U64();
  attr.read_format = cursor.U64();
  attr.flags = cursor.U64();
  if (order == std::endian::big) attr.flags = FlagsFromBigEndian(attr.flags);
  (attr.freq() ? attr.sample_freq_hz : attr.sample_period) = period_or_freq;
  cursor.Skip(4);  // wakeup_events or wakeup_watermark
  attr.breakpoint_type = cursor.U32();
  attr.config1 = cursor.U64();
  attr.config2 = cursor.U64();
  attr.branch_sample_type = cursor.U64();
  attr.sample_regs_user = cursor.U64();
  attr.sample_stack_user_bytes = cursor.U32();
  attr.clockid = cursor.S32();
  attr.sample_regs_intr = cursor.U64();
  attr.aux_watermark_bytes = cursor.U32();
  attr.sample_max_stack = cursor.U16();
  cursor.Skip(2);
  attr.aux_sample_bytes = cursor.U32();
  cursor.Skip(4);  // aux_action
  cursor.Skip(8);  // sig_data
  attr.config3 = cursor.U64();
  return attr;
}

}  // namespace ptarmigan
