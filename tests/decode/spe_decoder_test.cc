#include "decode/spe_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/decode/allocation_counter.h"
#include "tests/encoders/spe_encoder.h"

namespace ptarmigan {
namespace {

constexpr uint64_t kNonSecure = uint64_t{1} << 63;
constexpr uint64_t kPc = 0xaaaac0001000 | kNonSecure;

// A decoded record in the encoder's words.
SpeTruth ToTruth(const SpeRecord& record) {
  SpeTruth truth;
  truth.aux_offset = record.aux_offset;
  for (unsigned i = 0; i < kSpeAddresses; ++i) {
    const auto address = static_cast<SpeAddress>(i);
    if (record.Has(address)) truth.addresses[i] = record.Raw(address);
  }
  for (unsigned i = 0; i < kSpeCounters; ++i) {
    const auto counter = static_cast<SpeCounter>(i);
    if (record.Has(counter)) truth.counters[i] = record.Counter(counter);
  }
  for (unsigned i = 0; i < 2; ++i) {
    if (record.headers[SpeRecord::kContextSlot + i] == 0) continue;
    truth.contexts[i] = static_cast<uint32_t>(record.values[SpeRecord::kContextSlot + i]);
  }
  truth.event_bytes = record.EventBytes();
  if (truth.event_bytes > 0) truth.events = record.Events();
  if (record.HasDataSource()) truth.data_source = record.DataSource();
  if (record.HasOperation()) {
    truth.operation_class = static_cast<unsigned>(record.OperationClass());
    truth.operation = record.Operation();
  }
  if (record.HasTimestamp()) truth.timestamp = record.timestamp();
  return truth;
}

struct Decoded {
  std::vector<SpeTruth> records;
  SpeDecodeCounts counts;
};

Decoded Decode(std::string_view bytes, uint64_t aux_offset = 0) {
  // In a block of its own size, so that a read beyond it is seen by the sanitizers.
  const std::vector<std::byte> copy(AsBytes(bytes).begin(), AsBytes(bytes).end());
  Decoded decoded;
  SpeDecoder decoder;
  SpeRecord record;
  decoder.Start(copy, aux_offset);
  while (decoder.Next(&record)) decoded.records.push_back(ToTruth(record));
  decoded.counts = decoder.counts();
  return decoded;
}

std::vector<uint64_t> Timestamps(const std::vector<SpeTruth>& records) {
  std::vector<uint64_t> timestamps;
  for (const SpeTruth& record : records) timestamps.push_back(record.timestamp.value_or(0));
  return timestamps;
}

TEST(SpeDecoder, DecodesWhatWasEncoded) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SpeProgram program(seed, {.timestamps = seed % 5 != 0,
                              .record_align = seed % 3 == 0 ? 1U : 64U >> seed % 4,
                              .aux_offset = seed * 64 + (seed % 7 == 0 ? seed : 0)});
    for (int i = 0; i < 60; ++i) program.AddRecord();
    const Decoded decoded = Decode(program.bytes(), seed * 64 + (seed % 7 == 0 ? seed : 0));
    ASSERT_EQ(decoded.records, program.records()) << "seed " << seed;
    EXPECT_EQ(decoded.counts.records, program.records().size());
    EXPECT_EQ(decoded.counts.no_pc, program.without_pc());
    EXPECT_EQ(decoded.counts.el3, program.at_el3());
    EXPECT_EQ(decoded.counts.secure, program.secure());
    EXPECT_EQ(decoded.counts.bad_packet_resyncs, 0U);
    EXPECT_EQ(decoded.counts.truncated_tail, 0U);
    EXPECT_EQ(decoded.counts.bytes.Sum(), program.bytes().size());
    EXPECT_EQ(decoded.counts.bytes.bad + decoded.counts.bytes.truncated, 0U);
  }
}

TEST(SpeDecoder, LosesOnlyTheRecordThatIsCutOff) {
  SpeProgram program(7, {.alignment = false, .dropped = false});
  std::vector<size_t> ends;
  for (int i = 0; i < 12; ++i) {
    program.AddRecord();
    ends.push_back(program.bytes().size());
  }
  for (size_t size = 0; size <= program.bytes().size(); ++size) {
    const Decoded decoded = Decode(std::string_view(program.bytes()).substr(0, size));
    const auto whole = std::upper_bound(ends.begin(), ends.end(), size) - ends.begin();
    const auto begin = program.records().begin();
    ASSERT_EQ(decoded.records, std::vector<SpeTruth>(begin, begin + whole)) << size;
    ASSERT_LE(decoded.counts.truncated_tail, 1U);
    ASSERT_EQ(decoded.counts.bytes.Sum(), size);
    ASSERT_EQ(decoded.counts.bad_packet_resyncs, 0U);
    // Padding in front of a record does not begin it.
    const bool inside =
        whole < std::ssize(ends) && size > program.records()[static_cast<size_t>(whole)].aux_offset;
    ASSERT_EQ(decoded.counts.truncated_tail, inside ? 1U : 0U) << size;
  }
}

TEST(SpeDecoder, FindsEveryIntactRecordAmongGarbageAndInventsNone) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SpeProgram program(seed, {.alignment = false, .dropped = false});
    uint64_t garbage = 0;
    uint64_t broken = 0;
    std::mt19937_64 random(seed);
    for (int i = 0; i < 100; ++i) {
      switch (random() % 6) {
        case 0:
          program.AddGarbageSlot();
          ++garbage;
          break;
        case 1:
          program.AddBrokenRecord();
          ++broken;
          break;
        default:
          program.AddRecord();
      }
    }
    const Decoded decoded = Decode(program.bytes());
    ASSERT_EQ(decoded.records, program.records());
    EXPECT_EQ(decoded.counts.bad_packet, broken);
    EXPECT_EQ(decoded.counts.bad_packet_resyncs, broken + garbage);
    EXPECT_EQ(decoded.counts.bytes.Sum(), program.bytes().size());
    EXPECT_GE(decoded.counts.bytes.bad, garbage * 64);
  }
}

TEST(SpeDecoder, KeepsRecordsAwayFromAFlippedBit) {
  SpeProgram program(3, {.alignment = false, .dropped = false});
  for (int i = 0; i < 24; ++i) program.AddRecord();
  const auto slot_of = [](uint64_t offset) { return offset / 64; };
  for (size_t bit = 0; bit < program.bytes().size() * 8; ++bit) {
    std::string damaged = program.bytes();
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    const Decoded decoded = Decode(damaged);
    ASSERT_EQ(decoded.counts.bytes.Sum(), damaged.size());
    // The damaged record may swallow the next one, if its end is no end any more. A record may fill three slots.
    std::vector<SpeTruth> expected;
    std::vector<SpeTruth> seen;
    const auto far = [&](const SpeTruth& record) {
      const uint64_t slot = slot_of(record.aux_offset);
      return slot + 4 <= slot_of(bit / 8) || slot > slot_of(bit / 8) + 3;
    };
    std::ranges::copy_if(program.records(), std::back_inserter(expected), far);
    std::ranges::copy_if(decoded.records, std::back_inserter(seen), far);
    ASSERT_EQ(seen, expected) << "bit " << bit;
    ASSERT_LE(decoded.records.size(), program.records().size() + 1) << "bit " << bit;
  }
}

TEST(SpeDecoder, AcceptsAnyBytes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const Decoded decoded = Decode(bytes, random() % 100);
    ASSERT_EQ(decoded.counts.bytes.Sum(), bytes.size());
    ASSERT_EQ(decoded.counts.records, decoded.records.size());
  }
}

TEST(SpeDecoder, EndsARecordAtEndOrTimestampOnly) {
  SpeEncoder bytes;
  bytes.Operation(1, 0).PadTo(64).Address(0, kPc).PadTo(64).Timestamp(5);
  bytes.Address(0, kPc).End();
  const Decoded decoded = Decode(bytes.bytes());
  ASSERT_EQ(decoded.records.size(), 2U);
  EXPECT_EQ(decoded.records[0].operation_class, 1U);
  EXPECT_EQ(decoded.records[0].timestamp, 5U);
  EXPECT_FALSE(decoded.records[1].timestamp.has_value());
  EXPECT_FALSE(decoded.records[1].operation_class.has_value());
}

TEST(SpeDecoder, SkipsToTheNextMultipleOfTheAuxOffsetAtAnAlignmentPacket) {
  // At AUX offset 10 the next multiple of 8 is 6 bytes away, at offset 8 it is 8 bytes away.
  for (const uint64_t start : {10U, 8U}) {
    SpeEncoder bytes(start);
    bytes.Alignment(2, 0xff).Address(0, kPc).Timestamp(9);
    const Decoded decoded = Decode(bytes.bytes(), start);
    ASSERT_EQ(decoded.records.size(), 1U);
    EXPECT_EQ(decoded.records[0].aux_offset, 16U);
    EXPECT_EQ(decoded.counts.bytes.alignment, 16 - start);
    EXPECT_EQ(decoded.counts.bytes.records, 18U);
  }
}

TEST(SpeDecoder, DropsARecordWithABadHeaderAndGoesOnAtTheNext64Bytes) {
  // Classes of operations end at 2; an extended header introduces addresses and counters only.
  for (const std::string& bad : {std::string("\x4b\x00", 2), std::string("\x20\x42\x02", 3),
                                 std::string("\x24\x00", 2), std::string("\x7f")}) {
    SpeEncoder bytes;
    bytes.Address(0, kPc).Raw(bad).Address(0, kPc).Timestamp(1).PadTo(64);
    bytes.Address(0, kPc).Timestamp(2);
    const Decoded decoded = Decode(bytes.bytes());
    EXPECT_EQ(Timestamps(decoded.records), std::vector<uint64_t>{2});
    EXPECT_EQ(decoded.counts.bad_packet, 1U);
    EXPECT_EQ(decoded.counts.bad_packet_resyncs, 1U);
    EXPECT_EQ(decoded.counts.bytes.bad, 64U);
  }
}

TEST(SpeDecoder, TellsARecordWithABrokenFirstHeaderFromGarbage) {
  SpeEncoder record;
  record.Address(0, kPc).Operation(1, 0).Counter(0, 5).Timestamp(1).PadTo(64);
  std::string broken = record.bytes();
  broken[0] = '\x18';
  EXPECT_EQ(Decode(broken).counts.bad_packet, 1U);
  EXPECT_EQ(Decode(broken).counts.truncated_tail, 0U);
  SpeProgram garbage(1, {});
  garbage.AddGarbageSlot();
  EXPECT_EQ(Decode(garbage.bytes()).counts.bad_packet, 0U);
  EXPECT_EQ(Decode(garbage.bytes()).counts.bad_packet_resyncs, 1U);
}

TEST(SpeDecoder, ResynchronisesByTheAuxOffsetNotByTheFragment) {
  SpeEncoder bytes(100);
  bytes.Raw("\x7f").Address(0, kPc).Timestamp(1).PadTo(64);
  bytes.Address(0, kPc).Timestamp(2);
  EXPECT_EQ(Timestamps(Decode(bytes.bytes(), 100).records), std::vector<uint64_t>{2});
}

TEST(SpeDecoder, CountsWhyRecordsAreDropped) {
  SpeEncoder bytes;
  bytes.Operation(1, 0).Timestamp(1);
  bytes.Address(0, kPc | uint64_t{3} << 61).Timestamp(2);
  bytes.Address(0, kPc & ~kNonSecure).Timestamp(3);
  bytes.Address(0, uint64_t{3} << 61).Timestamp(4);  // EL3 is always secure
  bytes.Timestamp(5);                                // a record without any other packet
  bytes.Address(0, kPc).Timestamp(6);
  bytes.Address(0, kPc);
  const Decoded decoded = Decode(bytes.bytes());
  EXPECT_EQ(Timestamps(decoded.records), std::vector<uint64_t>{6});
  EXPECT_EQ(decoded.counts.no_pc, 2U);
  EXPECT_EQ(decoded.counts.el3, 2U);
  EXPECT_EQ(decoded.counts.secure, 1U);
  EXPECT_EQ(decoded.counts.truncated_tail, 1U);
  EXPECT_EQ(decoded.counts.RecordsInStream(), 7U);
  EXPECT_EQ(decoded.counts.bytes.truncated, 9U);
}

TEST(SpeDecoder, CountsAPacketThatIsCutOffAsARecord) {
  EXPECT_EQ(Decode("\xb0").counts.truncated_tail, 1U);
  EXPECT_EQ(Decode("\x21").counts.truncated_tail, 1U);
  EXPECT_EQ(Decode(std::string("\0\0\0", 3)).counts.truncated_tail, 0U);
  EXPECT_EQ(Decode(std::string("\x20\0", 2)).counts.truncated_tail, 0U);
  EXPECT_EQ(Decode("").counts.bytes.Sum(), 0U);
}

TEST(SpeDecoder, CarriesNothingOverToTheNextFragment) {
  SpeEncoder first;
  first.Address(0, kPc).Operation(1, 0);
  SpeEncoder second(first.offset());
  second.Address(0, kPc + 4).Timestamp(1);
  SpeDecoder decoder;
  SpeRecord record;
  decoder.Start(AsBytes(first.bytes()), 0);
  EXPECT_FALSE(decoder.Next(&record));
  EXPECT_FALSE(decoder.Next(&record));
  decoder.Start(AsBytes(second.bytes()), first.offset());
  ASSERT_TRUE(decoder.Next(&record));
  EXPECT_FALSE(record.HasOperation());
  EXPECT_FALSE(decoder.Next(&record));
  EXPECT_EQ(decoder.counts().truncated_tail, 1U);
  EXPECT_EQ(decoder.counts().bytes.Sum(), first.bytes().size() + second.bytes().size());
}

TEST(SpeDecoder, IgnoresPacketsWithUnassignedIndexes) {
  SpeEncoder bytes;
  bytes.Address(5, 1).Address(31, 2).Counter(3, 3).Counter(9, 4).Raw(
      std::string("\x66\1\0\0\0", 5));
  bytes.Address(0, kPc).Timestamp(1);
  const Decoded decoded = Decode(bytes.bytes());
  ASSERT_EQ(decoded.records.size(), 1U);
  SpeTruth expected;
  expected.addresses[0] = kPc;
  expected.timestamp = 1;
  EXPECT_EQ(decoded.records[0], expected);
}

TEST(SpeDecoder, AllocatesNothing) {
  SpeProgram program(5, {});
  for (int i = 0; i < 100; ++i) program.AddRecord();
  SpeDecoder decoder;
  SpeRecord record;
  const size_t before = AllocationsSoFar();
  decoder.Start(AsBytes(program.bytes()), 0);
  while (decoder.Next(&record)) {
  }
  EXPECT_EQ(AllocationsSoFar(), before);
}

TEST(SpeRecord, RestoresTheTopByteOfKernelAddresses) {
  SpeRecord record;
  const auto set = [&record](SpeAddress address, uint64_t raw) {
    record.values[SpeRecord::SlotOf(address)] = raw;
    record.headers[SpeRecord::SlotOf(address)] = 0xb0;
  };
  set(SpeAddress::kPc, 0xc0ffba66eda1c2d0);  // EL2, non-secure
  EXPECT_EQ(record.Pc().value, 0xffffba66eda1c2d0U);
  EXPECT_EQ(record.ExceptionLevel(SpeAddress::kPc), 2U);
  set(SpeAddress::kPc, 0x80ffba66eda1c2d0);  // EL0
  EXPECT_EQ(record.Pc().value, 0x00ffba66eda1c2d0U);
  set(SpeAddress::kVirtual, 0x12f0000000001000);
  EXPECT_EQ(record.AddressOf(SpeAddress::kVirtual), 0xfff0000000001000U);
  EXPECT_EQ(record.DataAddressTag(), 0x12U);
  set(SpeAddress::kVirtual, 0x1200aaaa00001000);
  EXPECT_EQ(record.AddressOf(SpeAddress::kVirtual), 0x0000aaaa00001000U);
  set(SpeAddress::kPhysical, 0xcf00000000001000);
  EXPECT_EQ(record.AddressOf(SpeAddress::kPhysical), 0x0000000000001000U);
}

}  // namespace
}  // namespace ptarmigan
