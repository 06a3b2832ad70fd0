#include "export/memory_section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "export/archive.h"
#include "model/profile_builder.h"

namespace ptarmigan {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// Locations in an order that pprof changes.
Profile ProfileWithMemory() {
  ProfileBuilder builder;
  builder.SampleType("samples", "count");
  Profile::Mapping mapping;
  mapping.file = builder.String("/bin/app");
  const MappingId app = builder.Mapping(mapping);
  const LocationId high = builder.Location({.mapping = app, .address = 0x40}, {});
  const LocationId low = builder.Location({.mapping = app, .address = 0x10}, {});
  for (const LocationId location : {high, low}) {
    const int64_t one = 1;
    builder.Add({builder.Stack({&location, 1}), builder.LabelSet({})}, {&one, 1});
  }
  MemorySummary& memory = builder.profile().summary.memory;
  memory.distributions = {
      {.location = high, .which = MemLatency::kTotal, .counts = {{4, 10}, {300, 1}}},
      {.location = low, .which = MemLatency::kTranslation, .counts = {{0, 2}}}};
  memory.lines = {{.address = 0x7f0040,
                   .is_physical = true,
                   .writers = 2,
                   .readers = 3,
                   .stores = 9,
                   .loads = 5,
                   .latency_sum = 600}};
  memory.lines_not_counted = 7;
  return builder.Finish();
}

TEST(MemorySection, ComesBackFromAnArchive) {
  std::string bytes;
  StringSink sink(&bytes);
  auto writer = ArchiveWriter::Begin(&sink);
  ASSERT_TRUE(writer.has_value());
  ASSERT_TRUE(writer->AddProfile(ProfileWithMemory()).has_value());
  ASSERT_TRUE(writer->Finish().has_value());
  const auto reader = ArchiveReader::Open(AsBytes(bytes));
  ASSERT_TRUE(reader.has_value());
  const auto profile = reader->ReadProfile();
  ASSERT_TRUE(profile.has_value());
  EXPECT_EQ(profile->losses.Lost(LossUnit::kRecords), 0U);
  const MemorySummary& memory = profile->summary.memory;
  ASSERT_EQ(memory.distributions.size(), 2U);
  for (const auto& distribution : memory.distributions) {
    if (profile->locations[distribution.location].address == 0x40) {
      EXPECT_EQ(distribution.which, MemLatency::kTotal);
      EXPECT_THAT(distribution.counts, ElementsAre(Pair(4, 10), Pair(300, 1)));
    } else {
      EXPECT_EQ(profile->locations[distribution.location].address, 0x10U);
      EXPECT_EQ(distribution.which, MemLatency::kTranslation);
    }
  }
  ASSERT_EQ(memory.lines.size(), 1U);
  EXPECT_EQ(memory.lines[0].address, 0x7f0040U);
  EXPECT_TRUE(memory.lines[0].is_physical);
  EXPECT_EQ(memory.lines[0].writers, 2U);
  EXPECT_EQ(memory.lines[0].readers, 3U);
  EXPECT_EQ(memory.lines[0].latency_sum, 600U);
  EXPECT_EQ(memory.lines_not_counted, 7U);
}

TEST(MemorySection, RefusesEveryCutAndChangesNothing) {
  Profile profile = ProfileWithMemory();
  const std::string content = EncodeMemorySection(profile);
  profile.summary.memory = {};
  for (size_t size = 0; size < content.size(); ++size) {
    const std::string cut = content.substr(0, size);
    EXPECT_FALSE(DecodeMemorySection(AsBytes(cut), &profile).has_value()) << size;
    EXPECT_TRUE(profile.summary.memory.empty());
  }
  EXPECT_FALSE(DecodeMemorySection(AsBytes(content + "x"), &profile).has_value());
  EXPECT_TRUE(DecodeMemorySection(AsBytes(content), &profile).has_value());
}

TEST(MemorySection, RefusesPlacesThatTheProfileLacksAndValuesOutOfOrder) {
  Profile profile = ProfileWithMemory();
  const std::string content = EncodeMemorySection(profile);
  std::string other_place = content;
  other_place[8] = 0x77;  // the first distribution's address
  EXPECT_FALSE(DecodeMemorySection(AsBytes(other_place), &profile).has_value());
  std::string other_order = content;
  other_order[24 + 12] = 1;  // 300 becomes 1, which is below 4
  other_order[24 + 13] = 0;
  EXPECT_FALSE(DecodeMemorySection(AsBytes(other_order), &profile).has_value());
}

TEST(MemorySection, SurvivesEveryFlippedByte) {
  Profile profile = ProfileWithMemory();
  const std::string content = EncodeMemorySection(profile);
  for (size_t at = 0; at < content.size(); ++at) {
    std::string damaged = content;
    damaged[at] = static_cast<char>(~damaged[at]);
    if (DecodeMemorySection(AsBytes(damaged), &profile).has_value()) {
      EXPECT_TRUE(profile.CheckValid().has_value());
    }
  }
}

}  // namespace
}  // namespace ptarmigan
