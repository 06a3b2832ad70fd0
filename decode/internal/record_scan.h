// Record headers in foreign bytes: reading one, and finding the next one after damage.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/byte_cursor.h"

namespace ptarmigan::internal {

struct RecordHeader {
  uint32_t type = 0;
  uint16_t misc = 0;
  uint64_t size_bytes =
      0;  // the record's, header included; more than 16 bits only for simpleperf's types
};

// The header at the start of `bytes`, which hold at least kRecordHeaderBytes.
RecordHeader ReadRecordHeader(Bytes bytes, std::endian order);

// Records in a row that must look right before a place counts as found.
inline constexpr int kResyncRecords = 3;
// Distances at which records can start.
inline constexpr size_t kRecordAlignment = 8;

// The first offset > 0 (a multiple of kRecordAlignment) at which kResyncRecords plausible records follow each other,
// or fewer of them that end exactly at the end of `bytes`.
std::optional<size_t> FindRecord(Bytes bytes, std::endian order);

}  // namespace ptarmigan::internal
