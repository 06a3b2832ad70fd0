#include "decode/internal/pt_packet_scan.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "decode/internal/pt_index.h"

namespace ptarmigan::internal {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr unsigned kFractionBits = 16;
// Bits of the crystal's clock that TMA has.
constexpr unsigned kTmaBits = 16;
// How many times faster than the TSC cores run at most.
constexpr uint64_t kTurboMax = 4;
// The first CYC packet behind a gap may tell of cycles before it, and come behind an MTC.
constexpr unsigned kMtcsInARowMin = 2;
// In so many bytes one or two packets of a kind are strange, where there should be many or none.
constexpr size_t kStrangeAmongBytes = 256;
constexpr uint64_t kStrangeMax = 2;

uint64_t Scale(uint64_t value, uint64_t factor, uint64_t divisor) {
  if ((value | factor) <= UINT32_MAX) return value * factor / divisor;
  return static_cast<uint64_t>(static_cast<Wide>(value) * factor / divisor);
}

template <typename T>
T Little(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  if constexpr (std::endian::native == std::endian::big) value = ByteSwap(value);
  return value;
}

// What to do with a packet by its first byte.
enum Lead : uint8_t {
  kOther,
  kPad,
  kTnt,
  kEnablePacket,
  kDisablePacket,
  kAddress,
  kTscPacket,
  kMtcPacket,
  kModePacket,
  kCycPacket,
  kExtendedPacket
};

constexpr std::array<Lead, 256> MakeLeads() {
  std::array<Lead, 256> leads = {};
  for (unsigned byte = 0; byte < 256; ++byte) {
    Lead lead = kOther;
    if (byte == 0) {
      lead = kPad;
    } else if (byte == 2) {
      lead = kExtendedPacket;
    } else if ((byte & 1) == 0) {
      lead = kTnt;
    } else if ((byte & 0x1f) == 0x11) {
      lead = kEnablePacket;
    } else if ((byte & 0x1f) == 0x01) {
      lead = kDisablePacket;
    } else if ((byte & 0x1f) == 0x0d || (byte & 0x1f) == 0x1d) {
      lead = kAddress;
    } else if (byte == 0x19) {
      lead = kTscPacket;
    } else if (byte == 0x59) {
      lead = kMtcPacket;
    } else if (byte == 0x99) {
      lead = kModePacket;
    } else if ((byte & 3) == 3) {
      lead = kCycPacket;
    }
    leads[byte] = lead;
  }
  return leads;
}
constexpr std::array<Lead, 256> kLeads = MakeLeads();
constexpr uint8_t kAddressBytes[8] = {0, 2, 4, 6, 6, 0, 8, 0};

// Sizes of packets that are passed over; 0: others.
constexpr std::array<uint8_t, 256> MakePlainBytes() {
  std::array<uint8_t, 256> sizes = {};
  for (size_t byte = 0; byte < sizes.size(); ++byte) {
    if (kLeads[byte] == kTnt) sizes[byte] = 1;
    if (kLeads[byte] == kModePacket) sizes[byte] = 2;
    if (kLeads[byte] == kAddress) {
      sizes[byte] = static_cast<uint8_t>(1 + kAddressBytes[byte >> 5]);
    }
  }
  return sizes;
}
constexpr std::array<uint8_t, 256> kPlainBytes = MakePlainBytes();

}  // namespace

PtClock::PtClock(const PtConfig& config, bool want_time)
    : config_(config),
      want_time_(want_time),
      mtc_ticks_(config.crystal_ratio == 0 || config.mtc_frequency >= kTmaBits
                     ? 0
                     : CrystalToTicks(uint64_t{1} << config.mtc_frequency)) {}

void PtClock::Reset() {
  known_ = lost_ = false;
  ticks_ = base_ticks_ = 0;
  cycles_ = all_cycles_ = 0;
  has_tma_ = has_mtc_ = false;
  mtc_cycles_ = 0;
  cbr_ = cbr_max_ = 0;
  mtcs_in_a_row_ = 0;
  excess_cycles_ = 0;
  implausible_ = false;
  measured_ = 0;
}

void PtClock::Advance(uint64_t ticks) {
  base_ticks_ = ticks;
  cycles_ = 0;
  lost_ = false;
  if (!known_ || ticks > ticks_) ticks_ = ticks;
}

uint64_t PtClock::CrystalToTicks(uint64_t crystal_ticks) const {
  return Scale(crystal_ticks, config_.tsc_ratio, config_.crystal_ratio);
}

void PtClock::Tsc(uint64_t tsc) {
  Advance(tsc);
  known_ = true;
  has_tma_ = has_mtc_ = false;
}

void PtClock::Tma(uint16_t crystal, uint16_t fast) {
  if (!known_) return;
  // The fast counter holds the ticks since the crystal's clock changed.
  tma_ticks_ = base_ticks_ - std::min<uint64_t>(fast, base_ticks_);
  tma_crystal_ = crystal;
  has_tma_ = true;
  has_mtc_ = false;
}

void PtClock::Mtc(uint8_t value) {
  if (!known_ || config_.tsc_ratio == 0 || config_.crystal_ratio == 0 ||
      config_.mtc_frequency >= kTmaBits) {
    return;
  }
  if (!want_time_ && mtcs_in_a_row_ >= kMtcsInARowMin && compared_ticks_ == mtc_ticks_ &&
      cbr_max_ == compared_ratio_ && static_cast<uint8_t>(value - last_mtc_) == 1) [[likely]] {
    excess_cycles_ += mtc_cycles_;
    excess_cycles_ -= std::min(excess_cycles_, fitting_cycles_);
    last_mtc_ = value;
    mtc_cycles_ = 0;
    cbr_max_ = cbr_;
    last_mtc_ticks_ += mtc_ticks_;
    base_ticks_ = last_mtc_ticks_;
    return;
  }
  const unsigned frequency = config_.mtc_frequency;
  uint64_t ticks = base_ticks_;
  if (has_mtc_) {
    const uint64_t passed = static_cast<uint8_t>(value - last_mtc_);
    ticks = last_mtc_ticks_ + (passed == 1 ? mtc_ticks_ : CrystalToTicks(passed << frequency));
    if (mtcs_in_a_row_ >= kMtcsInARowMin && passed > 0) {
      Compare(ticks - last_mtc_ticks_);
    } else {
      excess_cycles_ = 0;
    }
    if (passed > 0 && mtc_cycles_ > 0 && passed < 3 && !KnowsRatio()) {
      measured_ = Scale(ticks - last_mtc_ticks_, uint64_t{1} << kFractionBits, mtc_cycles_);
    }
  } else if (has_tma_) {
    // TMA has the clock's lower bits, MTC eight bits from `frequency` on: what both have tells the distance.
    const unsigned common = std::min(kTmaBits - frequency, 8U);
    const uint64_t mask = (uint64_t{1} << common) - 1;
    const uint64_t then = uint64_t{tma_crystal_} >> frequency;
    const uint64_t passed = (value - then) & mask;
    const uint64_t crystal = ((then + passed) << frequency);
    ticks =
        crystal < tma_crystal_ ? tma_ticks_ : tma_ticks_ + CrystalToTicks(crystal - tma_crystal_);
  }
  has_mtc_ = true;
  last_mtc_ = value;
  last_mtc_ticks_ = ticks;
  mtc_cycles_ = 0;
  cbr_max_ = cbr_;
  ++mtcs_in_a_row_;
  Advance(ticks);
}

// So many ticks passed between two MTC packets, while CYC packets told of cycles: maybe of more than had time yet, if the MTC
// packets of the rest come late.
void PtClock::Compare(uint64_t ticks) {
  if (ticks != compared_ticks_ || cbr_max_ != compared_ratio_) {
    compared_ticks_ = ticks;
    compared_ratio_ = cbr_max_;
    const bool knows_ratio = config_.nominal_ratio != 0 && cbr_max_ != 0;
    fitting_cycles_ =
        knows_ratio ? Scale(ticks, std::max(cbr_max_, config_.nominal_ratio), config_.nominal_ratio)
                    : ticks * kTurboMax;
  }
  excess_cycles_ += mtc_cycles_;
  excess_cycles_ -= std::min(excess_cycles_, fitting_cycles_);
}

void PtClock::Pass(uint64_t cycles) {
  cycles_ += cycles;
  all_cycles_ += cycles;
  if (!known_ || lost_) return;
  uint64_t passed = 0;
  if (KnowsRatio()) {
    passed = cbr_ == config_.nominal_ratio ? cycles_ : Scale(cycles_, config_.nominal_ratio, cbr_);
  } else if (measured_ != 0) {
    passed = Scale(cycles_, measured_, uint64_t{1} << kFractionBits);
  }
  ticks_ = std::max(ticks_, base_ticks_ + passed);
}

void PtClock::Cbr(uint8_t ratio) {
  if (ratio == cbr_) return;
  // What ran before did so at the old ratio.
  base_ticks_ = std::max(base_ticks_, ticks_);
  cycles_ = 0;
  cbr_ = ratio;
  cbr_max_ = std::max(cbr_max_, ratio);
}

void PtPacketScan::AddMark(size_t offset, Mark::Kind kind) {
  marks_.push_back({offset, kind, clock_.known(), clock_.ticks(), clock_.cycles()});
  clock_.Interrupt();
}

size_t PtPacketScan::Extended(const std::byte* at, size_t left, size_t offset) {
  const size_t size = PtPacketBytes({at, left});
  if (size == 0) return 0;
  switch (std::to_integer<uint8_t>(at[1])) {
    case 0xf3:
      AddMark(offset, Mark::Kind::kOverflow);
      clock_.Overflow();
      break;
    case 0x73:
      clock_.Tma(Little<uint16_t>(at + 2), static_cast<uint16_t>(Little<uint16_t>(at + 5) & 0x1ff));
      break;
    case 0x03:
      clock_.Cbr(std::to_integer<uint8_t>(at[2]));
      break;
    default:
      break;
  }
  return size;
}

void PtPacketScan::Scan(Bytes bytes) {
  clock_.Reset();
  points_.clear();
  marks_.clear();
  padding_.clear();
  next_point_ = 0;
  next_mark_ = 0;
  bytes_ = bytes.size();
  cycs_ = mtcs_ = 0;
  size_t at = 0;
  while (at < bytes.size()) {
    const std::byte* packet = bytes.data() + at;
    const size_t left = bytes.size() - at;
    const uint8_t first = std::to_integer<uint8_t>(packet[0]);
    size_t size = kPlainBytes[first];
    if (size != 0) {
      at += size;
      continue;
    }
    size = 1;
    switch (kLeads[first]) {
      case kTnt:
      case kAddress:
      case kModePacket:
        break;
      case kPad: {
        while (size < left && packet[size] == std::byte{0}) ++size;
        padding_.push_back({at, size});
        break;
      }
      case kEnablePacket:
        AddMark(at, Mark::Kind::kEnable);
        size += kAddressBytes[first >> 5];
        break;
      case kDisablePacket:
        AddMark(at, Mark::Kind::kDisable);
        size += kAddressBytes[first >> 5];
        break;
      case kTscPacket:
        size = 8;
        if (left < size) return;
        clock_.Tsc(Little<uint64_t>(packet) >> 8);
        AddPoint(at + size);
        break;
      case kMtcPacket:
        size = 2;
        if (left < size) return;
        ++mtcs_;
        clock_.Mtc(std::to_integer<uint8_t>(packet[1]));
        AddPoint(at + size);
        break;
      case kCycPacket: {
        uint64_t cycles = first >> 3;
        bool more = (first & 4) != 0;
        for (unsigned shift = 5; more; shift += 7, ++size) {
          if (size == left || shift > 56) return;
          const uint8_t next = std::to_integer<uint8_t>(packet[size]);
          cycles |= static_cast<uint64_t>(next >> 1) << shift;
          more = (next & 1) != 0;
        }
        ++cycs_;
        clock_.Cyc(cycles);
        AddPoint(at + size);
        break;
      }
      case kExtendedPacket:
        size = Extended(packet, left, at);
        break;
      case kOther:
        size = PtPacketBytes({packet, left});
        break;
    }
    if (size == 0) return;
    at += size;
  }
}

const PtPacketScan::Mark* PtPacketScan::NextMark(Mark::Kind kind, size_t end) {
  for (size_t i = next_mark_; i < marks_.size() && marks_[i].offset < end; ++i) {
    if (marks_[i].kind != kind) continue;
    next_mark_ = i + 1;
    return &marks_[i];
  }
  return nullptr;
}

bool PtPacketScan::implausible() const {
  if (clock_.implausible()) return true;
  const auto is_strange = [this](bool asked_for, uint64_t count) {
    return !asked_for && count > 0 && count <= kStrangeMax && bytes_ > kStrangeAmongBytes;
  };
  return is_strange(clock_.config().cyc, cycs_) || is_strange(clock_.config().mtc, mtcs_);
}

void PtPacketScan::SkipMarks(size_t offset) {
  while (next_mark_ < marks_.size() && marks_[next_mark_].offset < offset) ++next_mark_;
}

uint64_t PtPacketScan::PaddingBefore(size_t end) const {
  uint64_t sum = 0;
  for (const Padding& padding : padding_) {
    if (padding.offset >= end) break;
    sum += std::min(padding.bytes, end - padding.offset);
  }
  return sum;
}

uint64_t PtPacketScan::OverflowsBefore(size_t end) const {
  return static_cast<uint64_t>(std::count_if(marks_.begin(), marks_.end(), [&](const Mark& mark) {
    return mark.kind == Mark::Kind::kOverflow && mark.offset < end;
  }));
}

}  // namespace ptarmigan::internal
