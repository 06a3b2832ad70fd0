#include "decode/spe_data_source.h"

#include <gtest/gtest.h>

#include <bit>

namespace ptarmigan {
namespace {

constexpr uint64_t kNeoverseN1 = 0x413fd0c1;
constexpr uint64_t kHip12 = 0x480fd060;

uint64_t Bits(std::initializer_list<SpeEvent> events) {
  uint64_t bits = 0;
  for (const SpeEvent event : events) bits |= uint64_t{1} << static_cast<unsigned>(event);
  return bits;
}

void Set(SpeRecord* record, size_t slot, uint8_t header, uint64_t value) {
  record->headers[slot] = header;
  record->values[slot] = value;
}

SpeRecord LoadStore(bool store, uint64_t events, unsigned event_bytes = 4) {
  SpeRecord record;
  Set(&record, SpeRecord::kOperationSlot, 0x49, store ? 1 : 0);
  const auto size_bits = static_cast<unsigned>(std::countr_zero(event_bytes)) << 4;
  Set(&record, SpeRecord::kEventsSlot, static_cast<uint8_t>(0x42 | size_bits), events);
  return record;
}

SpeOrigin OriginOf(uint64_t midr) {
  SpeOrigin origin;
  origin.data_sources = &SpeDataSourcesOf(midr);
  return origin;
}

TEST(SpeDataSource, ChoosesTheTableByImplementerAndPart) {
  EXPECT_EQ(SpeDataSourcesOf(kNeoverseN1).family, "common");
  EXPECT_EQ(SpeDataSourcesOf(kNeoverseN1 ^ 0x00f0000f).family, "common");  // another revision
  EXPECT_EQ(SpeDataSourcesOf(0xc00fac40).family, "ampereone");
  EXPECT_EQ(SpeDataSourcesOf(kHip12).family, "hip12");
  EXPECT_EQ(SpeDataSourcesOf(0x610f0220).family, "");
  EXPECT_EQ(SpeDataSourcesOf(0).sources.size(), 0U);
}

TEST(SpeDataSource, ReadsMidrFromTheCpuidOfARecording) {
  EXPECT_EQ(MidrFromCpuid("0x00000000413fd0c1"), kNeoverseN1);
  EXPECT_EQ(MidrFromCpuid("GenuineIntel,6,85,4"), 0U);
  EXPECT_EQ(MidrFromCpuid(""), 0U);
}

TEST(SpeDataSource, NamesTheSourceOfLoadsThatHaveThePacket) {
  const SpeSourceTable& table = SpeDataSourcesOf(kNeoverseN1);
  SpeRecord load = LoadStore(false, 0);
  EXPECT_EQ(SpeDataSourceName(load, table), "");
  Set(&load, SpeRecord::kDataSourceSlot, 0x43, 0);
  EXPECT_EQ(SpeDataSourceName(load, table), "l1d");
  EXPECT_EQ(SpeDataSourceName(load, UnknownSpeDataSources()), "unknown");
  Set(&load, SpeRecord::kDataSourceSlot, 0x43, 3);
  EXPECT_EQ(SpeDataSourceName(load, table), "unknown");
  SpeRecord store = LoadStore(true, 0);
  Set(&store, SpeRecord::kDataSourceSlot, 0x43, 0);
  EXPECT_EQ(SpeDataSourceName(store, table), "");
}

TEST(SpeDataSource, TakesTheLevelFromEventsWhereTheSourceHasNoName) {
  using enum SpeEvent;
  SpeRecord load = LoadStore(false, Bits({kL1dAccess}));
  EXPECT_EQ(SpeLevelByEvents(load), "L1 hit");
  Set(&load, SpeRecord::kDataSourceSlot, 0x43, 14);
  EXPECT_EQ(SpeLevel(load, SpeDataSourcesOf(kNeoverseN1)), "RAM");
  EXPECT_EQ(SpeLevel(load, UnknownSpeDataSources()), "L1 hit");
}

TEST(SpeDataSource, FindsTheFirstLevelThatALoadHitElseTheFarthestMiss) {
  using enum SpeEvent;
  const auto level = [](std::initializer_list<SpeEvent> events) {
    return SpeLevelByEvents(LoadStore(false, Bits(events)));
  };
  EXPECT_EQ(level({kL1dAccess, kL1dRefill, kLineFillBuffer, kL2dAccess}), "LFB hit");
  EXPECT_EQ(level({kL1dAccess, kL1dRefill, kL2dAccess}), "L2 hit");
  EXPECT_EQ(level({kL1dAccess, kL1dRefill, kL2dAccess, kL2dMiss, kLlcAccess}), "L3 hit");
  EXPECT_EQ(level({kL1dAccess, kL1dRefill, kLlcAccess, kLlcMiss}), "L3 miss");
  EXPECT_EQ(level({kL1dAccess, kL1dRefill, kL2dAccess, kL2dMiss}), "L2 miss");
  EXPECT_EQ(level({kL1dAccess, kL1dRefill}), "L1 miss");
  EXPECT_EQ(level({kTlbAccess}), "");
}

TEST(SpeDataSource, FindsTheFarthestLevelThatAStoreMentions) {
  using enum SpeEvent;
  const auto level = [](std::initializer_list<SpeEvent> events) {
    return SpeLevelByEvents(LoadStore(true, Bits(events)));
  };
  EXPECT_EQ(level({kL1dAccess}), "L1 hit");
  EXPECT_EQ(level({kL1dAccess, kL1dRefill, kLineFillBuffer}), "L1 miss");
  EXPECT_EQ(level({kL1dAccess, kL1dRefill, kL2dAccess, kL2dMiss, kLlcAccess}), "L3 hit");
}

TEST(SpeMemSample, SaysUnknownForEventsBeyondTheirPacket) {
  MemSample sample = ToMemSample(LoadStore(false, 0, 1), OriginOf(kNeoverseN1));
  EXPECT_EQ(sample.retired, Answer::kNo);
  EXPECT_EQ(sample.remote, Answer::kUnknown);  // bit 10
  sample = ToMemSample(LoadStore(false, 0, 2), OriginOf(kNeoverseN1));
  EXPECT_EQ(sample.remote, Answer::kNo);
  EXPECT_EQ(sample.mispredicted, Answer::kUnknown);  // no branch
  EXPECT_EQ(ToMemSample(SpeRecord(), OriginOf(0)).retired, Answer::kUnknown);
}

TEST(SpeMemSample, CarriesLatenciesAndSaturation) {
  SpeRecord record = LoadStore(false, 0);
  Set(&record, SpeRecord::SlotOf(SpeCounter::kTotal), 0x98, 4095);
  Set(&record, SpeRecord::SlotOf(SpeCounter::kTranslation), 0x9a, 3);
  SpeOrigin origin = OriginOf(kNeoverseN1);
  MemSample sample = ToMemSample(record, origin);
  EXPECT_TRUE(sample.Has(MemLatency::kTotal));
  EXPECT_FALSE(sample.Has(MemLatency::kIssue));
  EXPECT_EQ(sample.latency[static_cast<size_t>(MemLatency::kTranslation)], 3U);
  EXPECT_EQ(sample.saturated, 1U << static_cast<unsigned>(MemLatency::kTotal));
  origin.counter_max = 0xffff;
  EXPECT_EQ(ToMemSample(record, origin).saturated, 0U);
}

TEST(SpeMemSample, TellsAddressesModeAndSource) {
  SpeRecord record = LoadStore(false, Bits({SpeEvent::kTlbAccess, SpeEvent::kTlbWalk}));
  Set(&record, SpeRecord::SlotOf(SpeAddress::kPc), 0xb0, 0xa0ff800000001000);  // EL1, non-secure
  Set(&record, SpeRecord::SlotOf(SpeAddress::kVirtual), 0xb2, 0x7700aaaa00000008);
  Set(&record, SpeRecord::kDataSourceSlot, 0x43, 7);
  const MemSample sample = ToMemSample(record, OriginOf(kHip12));
  EXPECT_EQ(sample.op, MemOp::kLoad);
  EXPECT_EQ(sample.cpumode, CpuMode::kKernel);
  EXPECT_EQ(sample.exception_level, 1);
  EXPECT_EQ(sample.ip.value, 0xffff800000001000U);
  EXPECT_EQ(sample.data_address.value, 0x0000aaaa00000008U);
  EXPECT_FALSE(sample.has_physical_address);
  EXPECT_EQ(sample.data_source, "remote_socket_hitm");
  EXPECT_EQ(sample.level, "remote");
  EXPECT_EQ(sample.remote, Answer::kYes);
  EXPECT_EQ(sample.snoop, "HITM");
  EXPECT_EQ(sample.tlb, "walk");
}

}  // namespace
}  // namespace ptarmigan
