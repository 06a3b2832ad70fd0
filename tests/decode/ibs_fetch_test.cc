#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/byte_cursor.h"
#include "decode/ibs.h"
#include "tests/encoders/ibs_encoder.h"

namespace ptarmigan {
namespace {

constexpr uint32_t kBase = kIbsCapValid | kIbsCapFetch | kIbsCapOp;

IbsFetchRecord Decode(const IbsFetchFacts& facts) {
  IbsFetchRecord record;
  const std::string raw = EncodeIbsFetch(facts);
  EXPECT_EQ(DecodeIbsFetch(AsBytes(raw), std::endian::little, facts.quirks, &record),
            IbsDecodeResult::kOk);
  return record;
}

TEST(IbsFetch, DecodesWhatWasEncodedAtEveryCapabilityLevel) {
  std::mt19937_64 random(20260302);
  for (int i = 0; i < 40'000; ++i) {
    uint32_t caps = kBase;
    if (random() % 2 == 0) caps |= kIbsCapFetchExtended;
    if (random() % 2 == 0) caps |= kIbsCapExtended;
    const IbsQuirks quirks = {.void_ic_miss = random() % 2 == 0,
                              .page_sizes_with_16k = random() % 2 == 0,
                              .fetch_needs_physical = random() % 2 == 0};
    const IbsFetchFacts facts = RandomIbsFetch(random, caps, quirks);
    for (const std::endian order : {std::endian::little, std::endian::big}) {
      const std::string raw = EncodeIbsFetch(facts, order);
      IbsFetchRecord record;
      ASSERT_EQ(DecodeIbsFetch(AsBytes(raw), order, quirks, &record), IbsDecodeResult::kOk);
      ASSERT_EQ(record, TruthOf(facts)) << i;
      EXPECT_TRUE(LooksLikeIbsFetch(AsBytes(raw), order));
    }
  }
}

TEST(IbsFetch, Erratum1238VoidsTheInstructionCacheMiss) {
  IbsFetchFacts facts{.caps = kBase, .quirks = {}, .ic_miss = true};
  EXPECT_EQ(Decode(facts).ic_miss, true);
  facts.quirks.void_ic_miss = true;
  EXPECT_EQ(Decode(facts).ic_miss, std::nullopt);
}

TEST(IbsFetch, Erratum1347HasItsOwnPageSizes) {
  IbsFetchFacts facts{.caps = kBase, .quirks = {}, .physical_valid = true, .page = 1};
  EXPECT_EQ(Decode(facts).page_size, "2M");
  facts.quirks.page_sizes_with_16k = true;
  EXPECT_EQ(Decode(facts).page_size, "16K");
  facts.page = 3;
  EXPECT_EQ(Decode(facts).page_size, "1G");
  facts.quirks.page_sizes_with_16k = false;
  EXPECT_EQ(Decode(facts).page_size, "");
}

TEST(IbsFetch, StatusNeedsAPhysicalAddressOnSomeProcessors) {
  IbsFetchFacts facts{.caps = kBase | kIbsCapFetchExtended | kIbsCapExtended,
                      .quirks = {.fetch_needs_physical = true},
                      .linear = 0x1000,
                      .complete = true,
                      .l1_tlb_miss = true,
                      .latency = 9,
                      .tlb_refill_latency = 7};
  IbsFetchRecord record = Decode(facts);
  EXPECT_EQ(record.linear_address, 0x1000U);
  EXPECT_EQ(record.latency_cycles, std::nullopt);
  EXPECT_EQ(record.l1_tlb_miss, std::nullopt);
  EXPECT_EQ(record.l2_miss, std::nullopt);
  EXPECT_EQ(record.tlb_refill_cycles, std::nullopt);
  facts.physical_valid = true;
  record = Decode(facts);
  EXPECT_EQ(record.latency_cycles, 9);
  EXPECT_EQ(record.l1_tlb_miss, true);
  EXPECT_EQ(record.l2_miss, false);
  EXPECT_EQ(record.tlb_refill_cycles, 7);
}

TEST(IbsFetch, RawBytesThatEndEarlyAreShort) {
  const std::string raw =
      EncodeIbsFetch({.caps = kBase | kIbsCapFetchExtended, .quirks = {}, .tlb_refill_latency = 5});
  ASSERT_EQ(raw.size(), 4U + 4 * 8);
  for (size_t size = 0; size < raw.size(); ++size) {
    IbsFetchRecord record;
    const IbsDecodeResult result =
        DecodeIbsFetch(AsBytes(raw).first(size), std::endian::little, {}, &record);
    EXPECT_EQ(result, size < 4 + 3 * 8 ? IbsDecodeResult::kShort : IbsDecodeResult::kOk) << size;
    EXPECT_EQ(record.tlb_refill_cycles, std::nullopt);
    EXPECT_FALSE(LooksLikeIbsFetch(AsBytes(raw).first(size), std::endian::little));
  }
}

TEST(IbsFetch, RegistersWithoutAValidSampleAreRefused) {
  std::string raw = EncodeIbsFetch({.caps = kBase, .quirks = {}});
  raw[4 + 6] = static_cast<char>(raw[4 + 6] & ~0x02);
  IbsFetchRecord record;
  EXPECT_EQ(DecodeIbsFetch(AsBytes(raw), std::endian::little, {}, &record),
            IbsDecodeResult::kInvalid);
}

}  // namespace
}  // namespace ptarmigan
