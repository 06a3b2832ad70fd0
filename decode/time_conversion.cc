#include "decode/time_conversion.h"

#include "decode/record_types.h"

namespace ptarmigan {
namespace {

constexpr uint64_t kTimeShiftMax = 63;

}  // namespace

uint64_t TimeConversion::ToNanoseconds(uint64_t ticks) const {
  if (extends) ticks = cycles + ((ticks - cycles) & mask);
  const uint64_t whole = ticks >> shift;
  const uint64_t rest = ticks & ((uint64_t{1} << shift) - 1);
  return zero + whole * mult + ((rest * mult) >> shift);
}

std::optional<TimeConversion> ReadTimeConversion(Bytes record, std::endian order) {
  ByteCursor cursor(record, order);
  cursor.Skip(kRecordHeaderBytes);
  TimeConversion conversion;
  conversion.shift = cursor.U64();
  conversion.mult = cursor.U64();
  conversion.zero = cursor.U64();
  if (!cursor.ok() || conversion.shift > kTimeShiftMax) return {};
  // perf before 5.10 wrote no more.
  if (cursor.AtEnd()) return conversion;
  conversion.cycles = cursor.U64();
  conversion.mask = cursor.U64();
  const bool has_zero = cursor.U8() != 0;
  conversion.extends = cursor.U8() != 0;
  if (!cursor.ok() || !has_zero) return {};
  return conversion;
}

}  // namespace ptarmigan
