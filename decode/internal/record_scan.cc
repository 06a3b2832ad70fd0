#include "decode/internal/record_scan.h"

#include "decode/record_types.h"

namespace ptarmigan::internal {
namespace {

bool KnownType(uint32_t type) {
  return (type >= kRecordMmap && type <= kRecordKernelLast) ||
         (type >= kRecordUserFirst && type <= kRecordUserLast);
}

bool RecordsFollow(Bytes bytes, std::endian order) {
  for (int i = 0; i < kResyncRecords; ++i) {
    if (bytes.empty()) return i > 0;
    if (bytes.size() < kRecordHeaderBytes) return false;
    const RecordHeader header = ReadRecordHeader(bytes, order);
    if (!KnownType(header.type) || header.size_bytes < kRecordHeaderBytes ||
        header.size_bytes % kRecordAlignment != 0 || header.size_bytes > bytes.size()) {
      return false;
    }
    bytes = bytes.subspan(static_cast<size_t>(header.size_bytes));
  }
  return true;
}

}  // namespace

RecordHeader ReadRecordHeader(Bytes bytes, std::endian order) {
  ByteCursor cursor(bytes, order);
  RecordHeader header;
  header.type = cursor.U32();
  header.misc = cursor.U16();
  header.size_bytes = cursor.U16();
  if (header.type >= kRecordSimpleperfFirst && header.type <= kRecordSimpleperfLast) {
    header.size_bytes |= uint64_t{header.misc} << 16;
  }
  return header;
}

std::optional<size_t> FindRecord(Bytes bytes, std::endian order) {
  for (size_t offset = kRecordAlignment; offset < bytes.size(); offset += kRecordAlignment) {
    if (RecordsFollow(bytes.subspan(offset), order)) return offset;
  }
  return std::nullopt;
}

}  // namespace ptarmigan::internal
