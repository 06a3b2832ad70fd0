#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/byte_cursor.h"
#include "decode/ibs.h"
#include "tests/encoders/ibs_encoder.h"

namespace ptarmigan {
namespace {

constexpr uint32_t kBase = kIbsCapValid | kIbsCapFetch | kIbsCapOp;
// Every capability that changes the meaning of an op sample.
constexpr uint32_t kLevels[] = {kIbsCapBranchTarget, kIbsCapRipInvalid,   kIbsCapBranchFuse,
                                kIbsCapOpData4,      kIbsCapExtended,     kIbsCapStreamingStore,
                                kIbsCapTlbPageSize,  kIbsCapFetchExtended};
constexpr uint32_t kCombinations = 1U << std::size(kLevels);

uint32_t CapsOf(uint32_t combination) {
  uint32_t caps = kBase;
  for (size_t i = 0; i < std::size(kLevels); ++i) {
    if ((combination >> i & 1) != 0) caps |= kLevels[i];
  }
  return caps;
}
IbsQuirks RandomQuirks(std::mt19937_64& random) {
  return {.void_l2_after_prefetch = random() % 2 == 0,
          .void_ic_miss = random() % 2 == 0,
          .page_sizes_with_16k = random() % 2 == 0,
          .void_cache_hit_state = random() % 2 == 0,
          .fetch_needs_physical = random() % 2 == 0};
}

IbsOpRecord Decode(const IbsOpFacts& facts) {
  IbsOpRecord record;
  const std::string raw = EncodeIbsOp(facts);
  EXPECT_EQ(DecodeIbsOp(AsBytes(raw), std::endian::little, facts.quirks, &record),
            IbsDecodeResult::kOk);
  return record;
}

TEST(IbsOp, DecodesWhatWasEncodedAtEveryCapabilityLevel) {
  std::mt19937_64 random(20260301);
  for (uint32_t combination = 0; combination < kCombinations; ++combination) {
    for (int i = 0; i < 200; ++i) {
      const IbsOpFacts facts = RandomIbsOp(random, CapsOf(combination), RandomQuirks(random));
      for (const std::endian order : {std::endian::little, std::endian::big}) {
        const std::string raw = EncodeIbsOp(facts, order);
        IbsOpRecord record;
        ASSERT_EQ(DecodeIbsOp(AsBytes(raw), order, facts.quirks, &record), IbsDecodeResult::kOk);
        ASSERT_EQ(record, TruthOf(facts)) << "caps " << facts.caps << " round " << i;
        EXPECT_TRUE(LooksLikeIbsOp(AsBytes(raw), order));
      }
    }
  }
}

// The example of perf-amd-ibs(1): a store of 32 bytes, answered by another node's memory.
TEST(IbsOp, DecodesTheExampleOfPerfsManual) {
  constexpr uint64_t kCtl = 0x000002c30006186a;
  constexpr uint64_t kData = 0x0000010002550001;
  constexpr uint64_t kData2 = 0x13;
  constexpr uint64_t kData3 = 0x31960092;
  std::string raw;
  const auto put = [&raw](uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) raw.push_back(static_cast<char>(value >> 8 * i & 0xff));
  };
  put(0x3ff, 4);
  for (const uint64_t value : {kCtl, uint64_t{0xffffffff81000010}, kData, kData2, kData3,
                               uint64_t{0x1000}, uint64_t{0x2000}, uint64_t{0}}) {
    put(value, 8);
  }
  IbsOpRecord record;
  ASSERT_EQ(DecodeIbsOp(AsBytes(raw), std::endian::little, {}, &record), IbsDecodeResult::kOk);
  EXPECT_EQ(record.kind, IbsOpKind::kStore);
  EXPECT_EQ(record.completion_to_retire_cycles, 1);
  EXPECT_EQ(record.tag_to_retire_cycles, 597);
  EXPECT_TRUE(record.microcode);
  EXPECT_EQ(record.data_source_code, 3);
  EXPECT_EQ(record.data_source, "");  // a store's data comes from the program
  EXPECT_EQ(record.width_bytes, 32);
  EXPECT_EQ(record.dc_miss, true);
  EXPECT_EQ(record.l2_miss, true);
  EXPECT_EQ(record.tlb, "L1 hit");
  EXPECT_EQ(record.page_size, "2M");
  EXPECT_EQ(record.open_requests, 12);
  EXPECT_EQ(record.linear_address, 0x1000U);
  EXPECT_EQ(record.physical_address, 0x2000U);
}

IbsOpFacts MissedLoad(unsigned source) {
  return {.caps = kBase | kIbsCapExtended,
          .quirks = {},
          .load = true,
          .source = source,
          .dc_miss = true,
          .l2_miss = true,
          .dc_miss_latency = 300,
          .linear_valid = true,
          .linear = 0x7000};
}

TEST(IbsOp, Erratum1293VoidsL2AfterSoftwarePrefetchAndOpenBuffer) {
  IbsOpFacts facts = MissedLoad(1);
  facts.open_requests = 5;
  facts.quirks.void_l2_after_prefetch = true;
  EXPECT_EQ(Decode(facts).data_source, "local_l3_or_ccx");
  EXPECT_EQ(Decode(facts).open_requests, 5);
  facts.software_prefetch = true;
  EXPECT_EQ(Decode(facts).data_source_code, std::nullopt);
  EXPECT_EQ(Decode(facts).data_source, "");
  EXPECT_EQ(Decode(facts).l2_miss, std::nullopt);
  EXPECT_EQ(Decode(facts).open_requests, std::nullopt);
  EXPECT_EQ(Decode(facts).level, "");
  EXPECT_EQ(Decode(facts).snoop, "");
  EXPECT_EQ(Decode(facts).dc_miss_cycles, 300);
  facts.software_prefetch = false;
  facts.no_mab = true;
  EXPECT_EQ(Decode(facts).level, "LFB hit");
  facts.l2_miss = false;
  EXPECT_EQ(Decode(facts).level, "LFB hit");
  facts.quirks.void_l2_after_prefetch = false;
  EXPECT_EQ(Decode(facts).level, "L2 hit");
}

TEST(IbsOp, CacheHitStateIsIgnoredWhereItTellsNothing) {
  IbsOpFacts facts = MissedLoad(5);
  EXPECT_EQ(Decode(facts).snoop, "HITM");
  facts.owned = true;
  EXPECT_EQ(Decode(facts).snoop, "");
  facts.owned = false;
  facts.quirks.void_cache_hit_state = true;
  EXPECT_EQ(Decode(facts).snoop, "");
  EXPECT_EQ(Decode(facts).data_source, "far_ccx_cache");
}

TEST(IbsOp, TheCapsWordChoosesTheTable) {
  IbsOpFacts facts = MissedLoad(2);
  EXPECT_EQ(Decode(facts).data_source, "near_ccx_cache");
  EXPECT_TRUE(Decode(facts).remote);
  facts.caps = kBase;
  EXPECT_EQ(Decode(facts).data_source, "local_cache");
  EXPECT_FALSE(Decode(facts).remote);
  facts.source = 2 | 3 << 3;  // the high bits mean nothing there
  EXPECT_EQ(Decode(facts).data_source, "local_cache");
  EXPECT_EQ(Decode(facts).data_source_code, 2);
}

TEST(IbsOp, TheRemoteNodeBitCountsForMemoryOnly) {
  for (const auto& [source, level, remote] :
       {std::tuple(3U, "remote RAM", true), std::tuple(6U, "remote PMEM", true),
        std::tuple(8U, "remote CXL", true), std::tuple(1U, "L3 hit", false),
        std::tuple(7U, "IO", false), std::tuple(12U, "", false)}) {
    IbsOpFacts facts = MissedLoad(source);
    facts.remote_node = true;
    EXPECT_EQ(Decode(facts).level, level) << source;
    EXPECT_EQ(Decode(facts).remote, remote) << source;
  }
}

TEST(IbsOp, AStaleRipIsKnownOnlyWithItsCapability) {
  IbsOpFacts facts{.caps = kBase, .quirks = {}, .rip = 7, .rip_invalid = true};
  EXPECT_TRUE(Decode(facts).rip_valid);
  facts.caps |= kIbsCapRipInvalid;
  EXPECT_FALSE(Decode(facts).rip_valid);
}

TEST(IbsOp, TlbFieldsNeedAPhysicalAddressWherePageSizesAreNumbers) {
  IbsOpFacts facts = MissedLoad(1);
  facts.l1_tlb_miss = true;
  facts.page = 1;
  EXPECT_EQ(Decode(facts).tlb, "L2 hit");
  EXPECT_EQ(Decode(facts).page_size, "");
  facts.caps |= kIbsCapTlbPageSize;
  EXPECT_EQ(Decode(facts).tlb, "");
  facts.physical_valid = true;
  EXPECT_EQ(Decode(facts).tlb, "L2 hit");
  EXPECT_EQ(Decode(facts).page_size, "2M");
}

TEST(IbsOp, RawBytesThatEndEarlyAreShort) {
  std::mt19937_64 random(7);
  const IbsOpFacts facts = RandomIbsOp(random, kBase | kIbsCapBranchTarget | kIbsCapOpData4, {});
  const std::string raw = EncodeIbsOp(facts);
  ASSERT_EQ(raw.size(), 4U + 9 * 8);
  for (size_t size = 0; size < raw.size(); ++size) {
    IbsOpRecord record;
    const IbsDecodeResult result =
        DecodeIbsOp(AsBytes(raw).first(size), std::endian::little, {}, &record);
    EXPECT_EQ(result, size < 4 + 7 * 8 ? IbsDecodeResult::kShort : IbsDecodeResult::kOk) << size;
    EXPECT_EQ(record.load_resync, std::nullopt);
    if (size < 4 + 8 * 8) {
      EXPECT_EQ(record.branch_target, std::nullopt);
    }
    EXPECT_FALSE(LooksLikeIbsOp(AsBytes(raw).first(size), std::endian::little));
  }
}

TEST(IbsOp, RegistersWithoutAValidSampleAreRefused) {
  std::string raw = EncodeIbsOp({.caps = kBase, .quirks = {}});
  raw[4 + 2] = static_cast<char>(raw[4 + 2] & ~0x04);
  IbsOpRecord record;
  EXPECT_EQ(DecodeIbsOp(AsBytes(raw), std::endian::little, {}, &record), IbsDecodeResult::kInvalid);
}

TEST(IbsOp, AFlippedBitChangesNothingButItsOwnFields) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 2000; ++i) {
    const IbsOpFacts facts = RandomIbsOp(random, CapsOf(static_cast<uint32_t>(random())), {});
    std::string raw = EncodeIbsOp(facts);
    // The tag-to-retire counter: no other value depends on it.
    const size_t bit = 8 * (4 + 2 * 8 + 2) + random() % 16;
    raw[bit / 8] = static_cast<char>(raw[bit / 8] ^ (1 << bit % 8));
    IbsOpRecord record;
    ASSERT_EQ(DecodeIbsOp(AsBytes(raw), std::endian::little, facts.quirks, &record),
              IbsDecodeResult::kOk);
    IbsOpRecord truth = TruthOf(facts);
    EXPECT_NE(record.tag_to_retire_cycles, truth.tag_to_retire_cycles);
    truth.tag_to_retire_cycles = record.tag_to_retire_cycles;
    EXPECT_EQ(record, truth);
  }
}

}  // namespace
}  // namespace ptarmigan
