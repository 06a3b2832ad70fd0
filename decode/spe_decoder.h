// SpeDecoder: the bytes of one PERF_RECORD_AUX fragment in, records out. Nothing is carried over to the next fragment,
// nothing is allocated.
//
//   decoder.Start(bytes, aux_offset);
//   while (decoder.Next(&record)) use(record);
//
// Rules, where tools differ:
//  - a record ends at END or TIMESTAMP, and nowhere else; its packets come in any order;
//  - padding and alignment packets may stand anywhere; an alignment packet leads to the next multiple of the AUX
//    offset, whatever lies between;
//  - a bad header drops the record under construction, and decoding goes on at the next multiple of 64 of the AUX
//    offset: stepping byte by byte would make records of payload bytes;
//  - what stands at the end without END or TIMESTAMP is lost;
//  - records without PC, of EL3 and of the secure state are dropped.
// Each of these is counted, and each byte is in exactly one count of SpeByteCounts.
//
// One thread at a time; `bytes` must stay until the fragment is decoded.
#pragma once

#include <array>
#include <cstdint>

#include "base/byte_cursor.h"
#include "decode/spe_record.h"

namespace ptarmigan {

struct SpeByteCounts {
  uint64_t records = 0;    // packets of delivered records
  uint64_t dropped = 0;    // packets of whole records that were dropped: no PC, EL3, secure
  uint64_t padding = 0;    // zeros, wherever they stand
  uint64_t alignment = 0;  // alignment packets and what they skip
  uint64_t bad = 0;        // packets of records with a bad header, and what was skipped after it
  uint64_t truncated = 0;  // packets of records that have no end

  uint64_t Sum() const { return records + dropped + padding + alignment + bad + truncated; }
  bool operator==(const SpeByteCounts&) const = default;
};

struct SpeDecodeCounts {
  uint64_t records = 0;  // delivered
  uint64_t no_pc = 0;
  uint64_t el3 = 0;
  uint64_t secure = 0;
  uint64_t bad_packet = 0;          // records that a bad header broke, be it their first
  uint64_t bad_packet_resyncs = 0;  // bad headers, in a record or not
  uint64_t truncated_tail = 0;
  SpeByteCounts bytes;

  // Records that began, whatever became of them.
  uint64_t RecordsInStream() const {
    return records + no_pc + el3 + secure + bad_packet + truncated_tail;
  }
  bool operator==(const SpeDecodeCounts&) const = default;
};

class SpeDecoder {
 public:
  static constexpr uint64_t kResyncBytes = 64;

  // Begins a fragment. What was left of the one before is not decoded any more (nor counted).
  void Start(Bytes bytes, uint64_t aux_offset);
  // The next record that is not dropped. False at the end of the fragment; `record` is undefined then.
  bool Next(SpeRecord* record);

  // Of all fragments so far.
  const SpeDecodeCounts& counts() const { return counts_; }

 private:
  enum class Outcome : uint8_t { kGoOn, kRecordEnd, kBadPacket, kTruncated, kTail, kEnd };
  // The last bytes of a fragment are decoded from a copy with zeros behind it, so that no packet is read beyond its
  // bytes and no read needs a check before.
  static constexpr size_t kTailBytes = 24;

  template <bool kInTail>
  Outcome Run(SpeRecord* record);
  Outcome RunRare(uint8_t header, SpeRecord* record);
  void EnterTail();
  bool CloseRecord(const SpeRecord& record);
  void CountPackets(uint64_t* bytes);
  void Resynchronise();
  void EndFragment(bool inside_packet);
  uint64_t Offset() const { return base_offset_ + static_cast<uint64_t>(at_ - base_); }

  const std::byte* at_ = nullptr;
  const std::byte* end_ = nullptr;  // of the fragment or of its tail
  const std::byte* base_ = nullptr;
  uint64_t base_offset_ = 0;  // AUX offset of base_
  uint64_t mark_offset_ = 0;  // up to here every byte is counted
  uint64_t blank_bytes_ = 0;  // padding and alignment since then, counted already
  bool in_tail_ = false;
  bool open_ = false;  // a record has begun
  SpeDecodeCounts counts_;
  std::array<std::byte, 2 * kTailBytes> tail_ = {};
};

}  // namespace ptarmigan
