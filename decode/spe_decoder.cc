#include "decode/spe_decoder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "decode/internal/spe_header_table.h"

namespace ptarmigan {
namespace {

using internal::kSpeHeaders;
using internal::SpeHeader;

// A packet with the zeros before it that one step skips, and what a read of its payload touches beyond it.
constexpr size_t kStepBytesMax = 7 + 2 + 8;

constexpr std::array<uint64_t, 4> kPayloadMasks = {0xff, 0xffff, 0xffffffff, UINT64_MAX};

inline uint64_t LoadWord(const std::byte* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  if constexpr (std::endian::native == std::endian::big) word = ByteSwap(word);
  return word;
}

inline void Store(SpeRecord* record, uint8_t slot, uint8_t header, const std::byte* payload) {
  record->values[slot] = LoadWord(payload) & kPayloadMasks[header >> 4 & 3];
  record->headers[slot] = header;
}

// Whether bytes that begin with a bad header are a record whose first header is broken, and not garbage: behind a packet
// of some size there are others up to the record's end, and nothing but padding after it.
bool HoldsBrokenRecord(Bytes bytes) {
  constexpr std::array<size_t, 5> kPacketBytes = {2, 3, 5, 9, 10};
  const auto reads_on = [bytes](size_t at) {
    while (at < bytes.size()) {
      const SpePacket packet = ReadSpePacket(bytes.subspan(at));
      at += packet.size_bytes;
      switch (packet.kind) {
        case SpePacketKind::kBad:
        case SpePacketKind::kTruncated:
        case SpePacketKind::kAlignment:
          return false;
        case SpePacketKind::kEnd:
        case SpePacketKind::kTimestamp:
          return std::ranges::all_of(bytes.subspan(at),
                                     [](std::byte byte) { return byte == std::byte{0}; });
        default:
          break;
      }
    }
    return false;
  };
  return std::ranges::any_of(kPacketBytes, reads_on);
}

}  // namespace

void SpeDecoder::Start(Bytes bytes, uint64_t aux_offset) {
  at_ = base_ = bytes.data();
  end_ = at_ + bytes.size();
  base_offset_ = mark_offset_ = aux_offset;
  blank_bytes_ = 0;
  in_tail_ = open_ = false;
  if (bytes.size() < kTailBytes) EnterTail();
}

void SpeDecoder::EnterTail() {
  base_offset_ = Offset();
  const auto size = static_cast<size_t>(end_ - at_);
  tail_.fill(std::byte{0});
  std::copy(at_, end_, tail_.begin());
  at_ = base_ = tail_.data();
  end_ = at_ + size;
  in_tail_ = true;
}

bool SpeDecoder::Next(SpeRecord* record) {
  if (at_ == nullptr) return false;
  record->headers.fill(0);
  for (;;) {
    switch (in_tail_ ? Run<true>(record) : Run<false>(record)) {
      case Outcome::kRecordEnd:
        if (CloseRecord(*record)) return true;
        record->headers.fill(0);
        break;
      case Outcome::kBadPacket:
        Resynchronise();
        record->headers.fill(0);
        break;
      case Outcome::kTail:
        EnterTail();
        break;
      case Outcome::kGoOn:
        break;
      case Outcome::kTruncated:
        EndFragment(/*inside_packet=*/true);
        return false;
      case Outcome::kEnd:
        EndFragment(/*inside_packet=*/false);
        return false;
    }
  }
}

// Decodes up to the end of a record, or to something out of the ordinary. At kBadPacket and kTruncated at_ is the
// packet's start.
template <bool kInTail>
SpeDecoder::Outcome SpeDecoder::Run(SpeRecord* record) {
  static_assert(kTailBytes >= kStepBytesMax);
  const std::byte* at = at_;
  const std::byte* const limit = kInTail ? end_ : end_ - kTailBytes;
  uint64_t padding = 0;
  bool open = open_;
  Outcome outcome = kInTail ? Outcome::kEnd : Outcome::kTail;
  while (at < limit) {
    // Padding and the packet behind it in one step: how much padding there is is as good as random.
    const uint64_t word = LoadWord(at);
    if (word == 0) {
      at += sizeof(word);
      padding += sizeof(word);
      continue;
    }
    const auto zeros = static_cast<unsigned>(std::countr_zero(word)) / 8;
    at += zeros;
    padding += zeros;
    const auto header = static_cast<uint8_t>(word >> (8 * zeros));
    const SpeHeader form = kSpeHeaders[header];
    if (form.action > SpeHeader::Action::kTimestamp) [[unlikely]] {
      at_ = at;
      open_ = open;
      outcome = RunRare(header, record);
      at = at_;
      open = open_;
      if (outcome != Outcome::kGoOn) break;
      outcome = kInTail ? Outcome::kEnd : Outcome::kTail;
      continue;
    }
    const unsigned size = 1 + internal::SpePayloadBytes(header);
    if (kInTail && at + size > limit) {
      outcome = Outcome::kTruncated;
      break;
    }
    if (!open) record->aux_offset = base_offset_ + static_cast<uint64_t>(at - base_);
    open = true;
    Store(record, form.slot, header, at + 1);
    at += size;
    if (form.action == SpeHeader::Action::kTimestamp) {
      outcome = Outcome::kRecordEnd;
      break;
    }
  }
  if (kInTail && at > limit) {  // zeros of the copy, not of the fragment
    padding -= static_cast<uint64_t>(at - limit);
    at = limit;
  }
  at_ = at;
  open_ = open;
  counts_.bytes.padding += padding;
  blank_bytes_ += padding;
  return outcome;
}

// END, extended headers, alignment and what is no packet at all, at at_.
SpeDecoder::Outcome SpeDecoder::RunRare(uint8_t header, SpeRecord* record) {
  const SpeHeader::Action action = kSpeHeaders[header].action;
  const auto left = static_cast<uint64_t>(end_ - at_);
  if (action == SpeHeader::Action::kBad) return Outcome::kBadPacket;
  if (action == SpeHeader::Action::kEnd) {
    if (!open_) record->aux_offset = Offset();
    open_ = true;
    ++at_;
    return Outcome::kRecordEnd;
  }
  if (left < 2) return Outcome::kTruncated;
  const auto second = std::to_integer<uint8_t>(at_[1]);
  if (second == 0) {
    // Alignment: on to the next multiple, strictly behind the packet's start.
    const uint64_t offset = Offset();
    const uint64_t unit_mask = (uint64_t{2} << (header & 0xf)) - 1;
    const uint64_t skip = std::min((offset | unit_mask) + 1 - offset, left);
    at_ += skip;
    counts_.bytes.alignment += skip;
    blank_bytes_ += skip;
    return Outcome::kGoOn;
  }
  if (!internal::IsSpeAddressHeader(second) && !internal::IsSpeCounterHeader(second)) {
    return Outcome::kBadPacket;
  }
  const uint64_t size = 2 + internal::SpePayloadBytes(second);
  if (size > left) return Outcome::kTruncated;
  if (!open_) record->aux_offset = Offset();
  open_ = true;
  Store(record, internal::ExtendedSpeSlot(header, second), second, at_ + 2);
  at_ += size;
  return Outcome::kGoOn;
}

// Counts the packets since mark_offset_ as `*bytes`; what lay between them is counted already.
void SpeDecoder::CountPackets(uint64_t* bytes) {
  const uint64_t offset = Offset();
  *bytes += offset - mark_offset_ - blank_bytes_;
  mark_offset_ = offset;
  blank_bytes_ = 0;
  open_ = false;
}

bool SpeDecoder::CloseRecord(const SpeRecord& record) {
  constexpr unsigned kMonitorLevel = 3;
  uint64_t* dropped = nullptr;
  if (!record.Has(SpeAddress::kPc)) {
    dropped = &counts_.no_pc;
  } else if (record.ExceptionLevel(SpeAddress::kPc) == kMonitorLevel) {
    dropped = &counts_.el3;
  } else if (!record.NonSecure(SpeAddress::kPc)) {
    dropped = &counts_.secure;
  }
  CountPackets(dropped == nullptr ? &counts_.bytes.records : &counts_.bytes.dropped);
  ++(dropped == nullptr ? counts_.records : *dropped);
  return dropped == nullptr;
}

void SpeDecoder::Resynchronise() {
  const uint64_t offset = Offset();
  const uint64_t next = (offset | (kResyncBytes - 1)) + 1;
  const auto skip = static_cast<size_t>(std::min(next - offset, static_cast<uint64_t>(end_ - at_)));
  ++counts_.bad_packet_resyncs;
  if (open_ || HoldsBrokenRecord(Bytes(at_, skip))) ++counts_.bad_packet;
  at_ += skip;
  CountPackets(&counts_.bytes.bad);
}

void SpeDecoder::EndFragment(bool inside_packet) {
  if (open_ || inside_packet) ++counts_.truncated_tail;
  at_ = end_;
  CountPackets(&counts_.bytes.truncated);
  at_ = nullptr;
}

}  // namespace ptarmigan
