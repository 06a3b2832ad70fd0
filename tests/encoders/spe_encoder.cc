#include "tests/encoders/spe_encoder.h"

#include <algorithm>
#include <bit>

namespace ptarmigan {
namespace {

constexpr uint64_t kNonSecure = uint64_t{1} << 63;
constexpr unsigned kLevelShift = 61;

unsigned SizeBits(unsigned size_bytes) {
  return static_cast<unsigned>(std::countr_zero(size_bytes)) << 4;
}

}  // namespace

SpeEncoder& SpeEncoder::Byte(unsigned value) {
  bytes_ += static_cast<char>(value);
  return *this;
}

SpeEncoder& SpeEncoder::Number(uint64_t value, unsigned size_bytes) {
  for (unsigned i = 0; i < size_bytes; ++i) Byte(static_cast<unsigned>(value >> (8 * i) & 0xff));
  return *this;
}

SpeEncoder& SpeEncoder::Raw(std::string_view bytes) {
  bytes_ += bytes;
  return *this;
}

SpeEncoder& SpeEncoder::Address(unsigned index, uint64_t raw, Form form) {
  if (form.extended || index > 7) Byte(0x20 | index >> 3);
  return Byte(0xb0 | (index & 7)).Number(raw, 8);
}

SpeEncoder& SpeEncoder::Counter(unsigned index, uint16_t cycles, Form form) {
  if (form.extended || index > 7) Byte(0x20 | index >> 3);
  return Byte(0x98 | (index & 7)).Number(cycles, 2);
}

SpeEncoder& SpeEncoder::Events(uint64_t bits, unsigned size_bytes) {
  return Byte(0x42 | SizeBits(size_bytes)).Number(bits, size_bytes);
}

SpeEncoder& SpeEncoder::DataSource(uint64_t code, unsigned size_bytes) {
  return Byte(0x43 | SizeBits(size_bytes)).Number(code, size_bytes);
}

SpeEncoder& SpeEncoder::Context(unsigned index, uint32_t id) {
  return Byte(0x64 | index).Number(id, 4);
}

SpeEncoder& SpeEncoder::Operation(unsigned operation_class, uint8_t payload) {
  return Byte(0x48 | operation_class).Byte(payload);
}

SpeEncoder& SpeEncoder::Timestamp(uint64_t ticks) { return Byte(0x71).Number(ticks, 8); }

SpeEncoder& SpeEncoder::Alignment(unsigned exponent, uint8_t junk) {
  const uint64_t unit = uint64_t{2} << exponent;
  const uint64_t next = (offset() / unit + 1) * unit;
  Byte(0x20 | exponent);
  if (offset() < next) Byte(0);
  // Where the unit ends inside the packet its second byte is read again, as padding.
  while (offset() < next) Byte(junk);
  if (offset() == next && bytes_.back() == static_cast<char>(0x20 | exponent)) Byte(0);
  return *this;
}

SpeEncoder& SpeEncoder::PadTo(uint64_t multiple) {
  return Padding(static_cast<size_t>((multiple - offset() % multiple) % multiple));
}

enum class SpeProgram::Packet : uint8_t {
  kAddress0,
  kAddress1,
  kAddress2,
  kAddress3,
  kAddress4,
  kCounter0,
  kCounter1,
  kCounter2,
  kContext1,
  kContext2,
  kEvents,
  kDataSource,
  kOperation,
  kUnassigned,
};

SpeProgram::SpeProgram(uint64_t seed, const SpeProgramOptions& options)
    : random_(seed), options_(options), encoder_(options.aux_offset), ticks_(random_() >> 20) {}

uint64_t SpeProgram::CodeAddress() {
  const uint64_t level = Chance(70) ? 0 : 1 + Random(2);
  const uint64_t address = level == 0 ? 0xaaaac0000000 : 0x00ff800008000000;
  return (address + Random(1 << 20) * 4) | level << kLevelShift | kNonSecure;
}

uint8_t SpeProgram::RandomOperation(unsigned operation_class) {
  if (options_.newer_packets) return static_cast<uint8_t>(random_());
  constexpr std::array<std::array<uint8_t, 4>, 3> kOld = {{
      {0x00, 0x01, 0x08, 0x2e},
      {0x00, 0x01, 0x04, 0x16},
      {0x00, 0x01, 0x02, 0x03},
  }};
  return kOld[operation_class][Random(4)];
}

SpeTruth SpeProgram::RandomRecord() {
  constexpr std::array<unsigned, 4> kSizes = {1, 2, 4, 8};
  constexpr uint64_t kOldEvents = 0x0fff;
  SpeTruth record;
  record.addresses[0] = CodeAddress();
  record.operation_class = static_cast<unsigned>(Random(3));
  record.operation = RandomOperation(*record.operation_class);
  if (record.operation_class == 2) {
    record.addresses[1] = CodeAddress();
    if (options_.newer_packets && Chance(50)) record.addresses[4] = CodeAddress();
  }
  if (record.operation_class == 1) {
    record.addresses[2] = random_();
    if (Chance(50)) record.addresses[3] = random_();
    if (Chance(70)) record.data_source = Random(options_.newer_packets && Chance(10) ? 65536 : 20);
    if (Chance(70)) record.counters[2] = static_cast<uint16_t>(Random(300));
  }
  record.event_bytes = options_.newer_packets ? kSizes[Random(4)] : kSizes[Random(2)];
  const uint64_t event_mask =
      record.event_bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * record.event_bytes) - 1;
  record.events = random_() & event_mask & (options_.newer_packets ? ~uint64_t{0} : kOldEvents);
  record.counters[0] = static_cast<uint16_t>(Chance(95) ? Random(500) : 4095);
  if (Chance(90)) record.counters[1] = static_cast<uint16_t>(Random(200));
  if (options_.contexts && Chance(60))
    record.contexts[Random(2)] = static_cast<uint32_t>(1000 + Random(8));
  ticks_ += 1 + Random(1000);
  if (options_.timestamps) record.timestamp = ticks_;
  if (!options_.dropped || !Chance(10)) return record;
  switch (Random(3)) {
    case 0:
      record.addresses[0].reset();
      break;
    case 1:
      *record.addresses[0] |= uint64_t{3} << kLevelShift;
      break;
    default:
      *record.addresses[0] &= ~kNonSecure;
      break;
  }
  return record;
}

std::vector<SpeProgram::Packet> SpeProgram::PacketsOf(const SpeTruth& record) {
  std::vector<Packet> packets;
  const auto add = [&packets](Packet first, size_t index) {
    packets.push_back(static_cast<Packet>(static_cast<size_t>(first) + index));
  };
  for (size_t i = 0; i < record.addresses.size(); ++i) {
    if (record.addresses[i].has_value()) add(Packet::kAddress0, i);
  }
  for (size_t i = 0; i < record.contexts.size(); ++i) {
    if (record.contexts[i].has_value()) add(Packet::kContext1, i);
  }
  if (record.operation_class.has_value()) packets.push_back(Packet::kOperation);
  if (record.events.has_value()) packets.push_back(Packet::kEvents);
  for (size_t i = 0; i < record.counters.size(); ++i) {
    if (record.counters[i].has_value()) add(Packet::kCounter0, i);
  }
  if (record.data_source.has_value()) packets.push_back(Packet::kDataSource);
  if (options_.extended && Chance(20)) packets.push_back(Packet::kUnassigned);
  if (options_.shuffle) std::shuffle(packets.begin(), packets.end(), random_);
  return packets;
}

void SpeProgram::Write(Packet packet, const SpeTruth& record) {
  const SpeEncoder::Form form = {.extended = options_.extended && Chance(15)};
  const auto value = static_cast<unsigned>(packet);
  switch (packet) {
    case Packet::kAddress0:
    case Packet::kAddress1:
    case Packet::kAddress2:
    case Packet::kAddress3:
    case Packet::kAddress4:
      encoder_.Address(value, *record.addresses[value], form);
      return;
    case Packet::kCounter0:
    case Packet::kCounter1:
    case Packet::kCounter2: {
      const unsigned index = value - static_cast<unsigned>(Packet::kCounter0);
      encoder_.Counter(index, *record.counters[index], form);
      return;
    }
    case Packet::kContext1:
    case Packet::kContext2: {
      const unsigned index = value - static_cast<unsigned>(Packet::kContext1);
      encoder_.Context(index, *record.contexts[index]);
      return;
    }
    case Packet::kEvents:
      encoder_.Events(*record.events, record.event_bytes);
      return;
    case Packet::kDataSource:
      encoder_.DataSource(*record.data_source, *record.data_source < 256 ? 1 : 2);
      return;
    case Packet::kOperation:
      encoder_.Operation(*record.operation_class, record.operation);
      return;
    case Packet::kUnassigned:
      if (Chance(50)) {
        encoder_.Address(static_cast<unsigned>(5 + Random(27)), random_());
      } else {
        encoder_.Counter(static_cast<unsigned>(3 + Random(29)), static_cast<uint16_t>(random_()));
      }
      return;
  }
}

void SpeProgram::WriteBlank() {
  if (options_.padding && Chance(30)) encoder_.Padding(static_cast<size_t>(1 + Random(9)));
  if (options_.alignment && Chance(8)) {
    encoder_.Alignment(static_cast<unsigned>(Random(4)), static_cast<uint8_t>(random_()));
  }
}

void SpeProgram::Count(const SpeTruth& record) {
  if (!record.addresses[0].has_value()) {
    ++without_pc_;
  } else if ((*record.addresses[0] >> kLevelShift & 3) == 3) {
    ++at_el3_;
  } else if ((*record.addresses[0] & kNonSecure) == 0) {
    ++secure_;
  } else {
    records_.push_back(record);
  }
}

void SpeProgram::AddRecord() {
  SpeTruth record = RandomRecord();
  encoder_.PadTo(options_.record_align);
  WriteBlank();
  record.aux_offset = encoder_.offset();
  for (const Packet packet : PacketsOf(record)) {
    Write(packet, record);
    WriteBlank();
  }
  if (record.timestamp.has_value()) {
    encoder_.Timestamp(*record.timestamp);
  } else {
    encoder_.End();
  }
  Count(record);
}

void SpeProgram::AddGarbageSlot() {
  constexpr std::array<uint8_t, 6> kBadHeaders = {0x02, 0x10, 0x4b, 0x7f, 0xc0, 0xff};
  encoder_.PadTo(64);
  SpeEncoder decoy;
  decoy.Raw(std::string(1, static_cast<char>(kBadHeaders[Random(kBadHeaders.size())])));
  decoy.Address(0, 0xaaaadeadbee0 | kNonSecure).Operation(1, 0).Events(2, 2).Counter(0, 7);
  decoy.Timestamp(1);
  while (decoy.bytes().size() < 64) decoy.Raw(std::string(1, static_cast<char>(random_())));
  encoder_.Raw(decoy.bytes());
}

void SpeProgram::AddBrokenRecord() {
  encoder_.PadTo(64);
  encoder_.Operation(1, 0).Address(0, CodeAddress());
  encoder_.Raw("\x4b");
  encoder_.Address(2, random_()).Events(2, 2).Timestamp(ticks_);
  encoder_.PadTo(64);
}

}  // namespace ptarmigan
