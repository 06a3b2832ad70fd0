#include "export/legacy_profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/str_format.h"
#include "export/formats.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

using ::testing::HasSubstr;

Profile Read(std::string_view bytes) {
  auto profile = ReadLegacyProfile(AsBytes(bytes));
  EXPECT_TRUE(profile.has_value()) << profile.error().message;
  return profile ? *std::move(profile) : Profile{};
}

// Go prints a duration as "4h35m2.83s"; the dumps keep four characters.
std::string DurationHead(int64_t nanoseconds) {
  const int64_t seconds = nanoseconds / 1'000'000'000;
  return StrFormat("{}h{}m{}s", seconds / 3600, seconds / 60 % 60, seconds % 60).substr(0, 4);
}

std::string LocationText(const Profile& profile, LocationId id) {
  const auto& location = profile.locations[id];
  std::string head = StrFormat("{:6}: {:#x} ", id + 1, location.address);
  if (location.mapping != kNoId) head += StrFormat("M={} ", location.mapping + 1);
  if (location.lines_count == 0) return head + "\n";
  std::string text;
  for (const auto& line : profile.Lines(location)) {
    const auto& function = profile.functions[line.function];
    text += StrFormat("{}{} {}:{}:{} s={}\n", head, profile.Text(function.name),
                      profile.Text(function.file), line.line, line.column, function.start_line);
    head = "             ";
  }
  return text;
}

// The text that pprof's Profile.String() prints, the oracle beside the data.
std::string Dump(const Profile& profile) {
  std::string text =
      StrFormat("PeriodType: {} {}\nPeriod: {}\n", profile.Text(profile.period_type.type),
                profile.Text(profile.period_type.unit), profile.period);
  if (profile.duration_ns != 0)
    text += StrFormat("Duration: {}\n", DurationHead(profile.duration_ns));
  text += "Samples:\n";
  for (size_t t = 0; t < profile.sample_types.size(); ++t) {
    text += StrFormat("{}{}/{}", t > 0 ? " " : "", profile.Text(profile.sample_types[t].type),
                      profile.Text(profile.sample_types[t].unit));
  }
  text += "\n";
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    for (const int64_t value : profile.Values(i)) text += StrFormat(" {:10}", value);
    text += ": ";
    for (const LocationId id : profile.Stack(profile.samples[i].stack))
      text += StrFormat("{} ", id + 1);
    text += "\n";
    for (const auto& label : profile.Labels(profile.samples[i].labels)) {
      text += StrFormat("                {}:[{}]\n", profile.Text(label.key), label.number);
    }
  }
  text += "Locations\n";
  for (LocationId id = 0; id < profile.locations.size(); ++id) text += LocationText(profile, id);
  text += "Mappings\n";
  for (size_t i = 0; i < profile.mappings.size(); ++i) {
    const auto& mapping = profile.mappings[i];
    text +=
        StrFormat("{}: {:#x}/{:#x}/{:#x} {} {} \n", i + 1, mapping.start.value, mapping.limit.value,
                  mapping.offset.value, profile.Text(mapping.file), profile.Text(mapping.build_id));
  }
  return text;
}

TEST(LegacyProfiles, EqualPprofsOwnDumps) {
  if (TestDataPath("pprof-google").empty()) GTEST_SKIP() << TestDataMissing("pprof-google");
  for (const char* name : {"cppbench.contention", "cppbench.cpu", "cppbench.heap",
                           "cppbench.thread", "cppbench.thread.all", "cppbench.thread.none",
                           "go.crc32.cpu", "go.godoc.thread", "java.contention", "java.cpu"}) {
    const std::string path = TestDataPath(StrFormat("pprof-google/{}", name));
    const Profile profile = Read(ReadTestFile(path));
    EXPECT_EQ(Dump(profile), ReadTestFile(path + ".string")) << name;
    EXPECT_EQ(profile.losses.Sentence(), "") << name;
    const auto encoded = EncodePprof(profile);
    ASSERT_TRUE(encoded.has_value()) << name;
    const auto back = DecodePprof(AsBytes(*encoded));
    ASSERT_TRUE(back.has_value()) << name;
    EXPECT_TRUE(EquivalentProfiles(profile, *back)) << name;
  }
}

// A gperftools profile in words of `Word`, written in `order`.
template <typename Word>
std::string CpuProfile(std::endian order, const std::vector<uint64_t>& words,
                       std::string_view text) {
  std::string bytes;
  for (const uint64_t word : words) {
    Word value = static_cast<Word>(word);
    if (order != std::endian::native) value = ByteSwap(value);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return bytes + std::string(text);
}

const std::vector<uint64_t>& CpuWords() {
  static const std::vector<uint64_t> words = {
      0, 3,        0,       10000, 0, 5,        3,        0x401000, 0x402001, 0x403001, 2,
      2, 0x401500, 0x70001, 1,     2, 0x402002, 0x402002, 0,        1,        0};
  return words;
}
constexpr std::string_view kMaps =
    "build=/opt/app\n"
    "00400000-00404000 r-xp 00000000 08:01 123  $build/bin with blank\n"
    "00404000-00405000 rw-p 00004000 08:01 123  $build/bin with blank\n"
    "00070000-00080000 r-xp 00001000 08:01 124  /lib/libx.so.1\n";

TEST(LegacyProfiles, ReadsBinaryCpuProfilesOfEveryMachine) {
  const std::vector<std::string> files = {
      CpuProfile<uint32_t>(std::endian::little, CpuWords(), kMaps),
      CpuProfile<uint32_t>(std::endian::big, CpuWords(), kMaps),
      CpuProfile<uint64_t>(std::endian::little, CpuWords(), kMaps),
      CpuProfile<uint64_t>(std::endian::big, CpuWords(), kMaps),
  };
  const std::string expected =
      "PeriodType: cpu nanoseconds\nPeriod: 10000000\nSamples:\nsamples/count cpu/nanoseconds\n"
      "          5   50000000: 1 2 3 \n"
      "          2   20000000: 4 5 \n"
      "          1   10000000: 6 \n"  // the leaf stood there twice
      "Locations\n"
      "     1: 0x401000 M=1 \n"
      "     2: 0x402000 M=1 \n"
      "     3: 0x403000 M=1 \n"
      "     4: 0x401500 M=1 \n"
      "     5: 0x70000 M=2 \n"
      "     6: 0x402002 M=1 \n"
      "Mappings\n"
      "1: 0x400000/0x404000/0x0 /opt/app/bin with blank  \n"
      "2: 0x70000/0x80000/0x1000 /lib/libx.so.1  \n";
  for (const std::string& file : files) {
    EXPECT_EQ(Dump(Read(file)), expected);
    EXPECT_EQ(*SniffFormat(AsBytes(file).first(64)), Format::kLegacyProfile);
  }
}

TEST(LegacyProfiles, SaysThatACpuProfileIsCut) {
  const std::string whole = CpuProfile<uint64_t>(std::endian::little, CpuWords(), "");
  const auto cut = ReadLegacyProfile(AsBytes(whole).first(5 * 8 + 3 * 8));
  ASSERT_FALSE(cut.has_value());
  EXPECT_EQ(cut.error().code, ErrorCode::kTruncated);
  // Without the end mark everything is there.
  EXPECT_TRUE(ReadLegacyProfile(AsBytes(whole).first((CpuWords().size() - 3) * 8)).has_value());
}

TEST(LegacyProfiles, StripsTheFrameOfTheSignalHandler) {
  std::vector<uint64_t> words = {0, 3, 0, 10000, 0};
  for (uint64_t i = 0; i < 40; ++i) words.insert(words.end(), {1, 3, 0x1000 + i, 0x9001, 0x2001});
  words.insert(words.end(), {0, 1, 0});
  const Profile profile = Read(CpuProfile<uint64_t>(std::endian::little, words, ""));
  ASSERT_EQ(profile.samples.size(), 40U);
  // Both rounds find a frame that all samples share.
  EXPECT_EQ(profile.Stack(profile.samples[0].stack).size(), 1U);
}

TEST(LegacyProfiles, ReadsHeapKinds) {
  const Profile plain = Read(
      "heap profile: 3: 300 [ 5: 500] @ heapprofile\n"
      "  3: 300 [ 5: 500] @ 0x11 0x21\n"
      "MAPPED_LIBRARIES:\n"
      "10-20 r-xp 0 00:01 7 /bin/a\n");
  EXPECT_EQ(plain.Totals(), (std::vector<int64_t>{5, 500, 3, 300}));
  EXPECT_EQ(plain.Text(plain.sample_types[0].type), "alloc_objects");
  EXPECT_EQ(plain.period, 1);
  // 1 - exp(-100 / 100) of the blocks are seen.
  const Profile sampled =
      Read("heap profile: 3: 300 [ 3: 300] @ heap_v2/100\n  3: 300 [ 3: 300] @ 0x11 0x21\n");
  EXPECT_EQ(sampled.Totals(), (std::vector<int64_t>{4, 474}));
  EXPECT_EQ(sampled.period, 100);
  const Profile old =
      Read("heap profile: 3: 300 [ 3: 300] @ heap/200\n  3: 300 [ 3: 300] @ 0x11 0x21\n");
  EXPECT_EQ(old.Totals(), sampled.Totals());
  const Profile growth =
      Read("heap profile: 3: 300 [ 3: 300] @ growthz\n  3: 300 [ 3: 300] @ 0x11 0x21\n");
  EXPECT_EQ(growth.Totals(), (std::vector<int64_t>{3, 300}));
  EXPECT_EQ(growth.Text(growth.sample_types[1].type), "space");
}

TEST(LegacyProfiles, CountsLinesThatItCannotRead) {
  const Profile profile = Read(
      "heap profile: 3: 300 [ 3: 300] @ heapprofile\n"
      "  3: 300 [ 3: 300] @ 0x11 0x21\n"
      "  0: 300 [ 0: 300] @ 0x11\n"
      "  3: 3\n");
  EXPECT_EQ(profile.samples.size(), 1U);
  EXPECT_EQ(profile.losses.Lost(LossStage::kParse, LossReason::kMissingText, LossUnit::kRecords),
            2U);
  EXPECT_FALSE(
      ReadLegacyProfile(AsBytes("heap profile: 3: 300 [ 3: 300] @ heapprofile\nx\n")).has_value());
  EXPECT_FALSE(ReadLegacyProfile(AsBytes("heap profile: what\n")).has_value());
  EXPECT_FALSE(ReadLegacyProfile(AsBytes("nothing of the kind\n")).has_value());
}

TEST(LegacyProfiles, ReadsGosMutexProfile) {
  const Profile profile = Read(
      "--- mutex:\n"
      "cycles/second=2000000000\n"
      "sampling period=10\n"
      "4000 2 @ 0x11 0x21\n"
      "#\t0x10\tmain.f+0x1\t/src/f.go:12\n");
  EXPECT_EQ(profile.Totals(), (std::vector<int64_t>{20, 20000}));
  EXPECT_EQ(profile.period, 10);
}

TEST(LegacyProfiles, ReadsJavasHeap) {
  const Profile profile = Read(
      "--- heapz 1 ---\n"
      "format = java\n"
      "resolution = bytes\n"
      "  1048576     2 @ 0x00000003 0x00000004\n"
      "\n"
      " 0x00000003 com.example.f (source.java:03)\n"
      " 0x00000004 native (/usr/lib/libjvm.so)\n");
  // 1 - exp(-1) of blocks of the size of the rate are seen.
  EXPECT_EQ(profile.Totals(), (std::vector<int64_t>{3, 1658822}));
  EXPECT_EQ(profile.Text(profile.functions[0].file), "source.java");
  EXPECT_EQ(profile.Text(profile.functions[1].file), "libjvm.so");
  EXPECT_EQ(profile.lines[0].line, 3);
}

TEST(LegacyProfiles, BoundsSamples) {
  std::string text = "heap profile: 1: 1 [ 1: 1] @ heapprofile\n";
  for (int i = 0; i < 4; ++i) text += "  1: 1 [ 1: 1] @ 0x11\n";
  EXPECT_TRUE(ReadLegacyProfile(AsBytes(text), {.entries_max = 4}).has_value());
  EXPECT_EQ(ReadLegacyProfile(AsBytes(text), {.entries_max = 3}).error().code,
            ErrorCode::kResourceLimit);
}

}  // namespace
}  // namespace ptarmigan
