#include "export/internal/memory_map.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ptarmigan::internal {
namespace {

TEST(MemoryMap, ReadsLinesOfProcAndOfTheShortKind) {
  const auto ranges = ParseMemoryMap(
      "  7f0000000000-7f0000001000 r-xp 00002000 08:01 12   /lib/libc.so.6 (deleted)\n"
      "00400000-00fcb000: /usr/bin/app (@1000) abc123\n"
      "0x5000-0x6000 r-xp /opt/x\n"
      "6000-7000 rw-p 0 00:00 0 /opt/x\n"
      "not a mapping\n"
      "I0101 12:00:00.1 1 main.cc:12] 8000-9000: /logged\n");
  ASSERT_EQ(ranges.size(), 4U);
  // The program stands first, whatever the order of the text.
  EXPECT_EQ(ranges[0].file, "/usr/bin/app");
  EXPECT_EQ(ranges[0].offset, 0x1000U);
  EXPECT_EQ(ranges[0].build_id, "abc123");
  EXPECT_EQ(ranges[1].file, "/lib/libc.so.6 (deleted)");
  EXPECT_EQ(ranges[1].offset, 0x2000U);
  EXPECT_EQ(ranges[2].start, 0x5000U);
  EXPECT_EQ(ranges[3].file, "/logged");
}

TEST(MemoryMap, JoinsTheHalvesOfAMapping) {
  const auto ranges = ParseMemoryMap(
      "1000-2000 r-xp 00001000 08:01 12 /bin/a\n"
      "2000-3000 r-xp 00002000 08:01 12 /bin/a\n"
      "3000-4000 r-xp 00009000 08:01 12 /bin/a\n"
      "4000-5000 r-xp 00000000 08:01 13 /bin/b\n");
  ASSERT_EQ(ranges.size(), 3U);
  EXPECT_EQ(ranges[0].limit, 0x3000U);
  EXPECT_EQ(ranges[1].start, 0x3000U);
}

TEST(MemoryMap, FindsItsHeadline) {
  EXPECT_EQ(FindMemoryMap("samples\n"), std::string_view::npos);
  const std::string_view text = "samples\nMAPPED_LIBRARIES:\n1-2\n";
  EXPECT_EQ(text.substr(FindMemoryMap(text)), "\n1-2\n");
}

std::vector<uint32_t> Assigned(std::vector<MappedRange> ranges, std::vector<uint64_t> addresses,
                               Profile* profile) {
  for (const uint64_t address : addresses) {
    Profile::Location location;
    location.address = address;
    profile->AddLocation(location, {});
  }
  AssignMappings(std::move(ranges), profile);
  std::vector<uint32_t> mappings;
  for (const auto& location : profile->locations) mappings.push_back(location.mapping);
  return mappings;
}

TEST(MemoryMap, GivesOverlappedAddressesToTheFirstRange) {
  Profile profile;
  const std::vector<MappedRange> ranges = {
      {.start = 0x2000, .limit = 0x3000, .file = "a", .build_id = ""},
      {.start = 0x1000, .limit = 0x5000, .file = "b", .build_id = ""}};
  EXPECT_EQ(Assigned(ranges, {0x2000, 0x2fff, 0x3000, 0x1000, 0x4fff}, &profile),
            (std::vector<uint32_t>{0, 0, 1, 1, 1}));
  EXPECT_EQ(profile.mappings.size(), 2U);
}

TEST(MemoryMap, KeepsAddressesOutsideInAMappingOfEverything) {
  Profile profile;
  EXPECT_EQ(Assigned({{.start = 0x1000, .limit = 0x2000, .file = "a", .build_id = ""}},
                     {0x9000, 0, 0x1000}, &profile),
            (std::vector<uint32_t>{1, kNoId, 0}));
  EXPECT_EQ(profile.mappings[1].limit.value, UINT64_MAX);
}

TEST(MemoryMap, MovesTheStartOfAMappingWhoseFirstPartIsMissing) {
  Profile profile;
  const std::vector<MappedRange> ranges = {
      {.start = 0x9000, .limit = 0xa000, .offset = 0x3000, .file = "a", .build_id = ""}};
  EXPECT_EQ(Assigned(ranges, {0x6000, 0x8fff, 0x9000}, &profile), (std::vector<uint32_t>{0, 0, 0}));
  EXPECT_EQ(profile.mappings[0].start.value, 0x6000U);
  EXPECT_EQ(profile.mappings[0].offset.value, 0U);
}

TEST(MemoryMap, StopsAtItsBound) {
  std::string text;
  for (size_t i = 0; i < kMappingsMax + 10; ++i) {
    // Every second page, so that no two are halves of one.
    text += std::to_string(10 + i * 2) + "000-" + std::to_string(11 + i * 2) +
            "000 r-xp 0 00:01 1 /f\n";
  }
  EXPECT_EQ(ParseMemoryMap(text).size(), kMappingsMax);
}

}  // namespace
}  // namespace ptarmigan::internal
