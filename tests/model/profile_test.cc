#include "model/profile.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/profile_builder.h"

namespace ptarmigan {
namespace {

// A profile with one stack main -> `leaf` of weight `value`.
Profile OneStack(std::string_view leaf, int64_t value, std::string_view comm = "app") {
  ProfileBuilder builder;
  builder.SampleType("samples", "count");
  builder.SampleType("cpu", "nanoseconds");
  builder.profile().default_sample_type = builder.String("cpu");
  const MappingId mapping = builder.Mapping(
      {.start = {0x1000}, .limit = {0x2000}, .offset = {0}, .file = builder.String("/bin/app")});
  std::vector<LocationId> frames;
  uint64_t address = 0x1100;
  for (const std::string_view name : {leaf, std::string_view("main")}) {
    const FunctionId function = builder.Function({.name = builder.String(name)});
    const Profile::Line line{.function = function, .line = 3};
    Profile::Location location;
    location.mapping = mapping;
    location.address = address++;
    frames.push_back(builder.Location(location, std::span(&line, 1)));
  }
  const Profile::Label label{.key = builder.String("comm"), .text = builder.String(comm)};
  builder.Add({builder.Stack(frames), builder.LabelSet(std::span(&label, 1))},
              std::vector<int64_t>{1, value});
  return builder.Finish();
}

TEST(StringTable, KeepsEveryTextOnceHoweverManyAndLong) {
  StringTable table;
  EXPECT_EQ(table.Get(0), "");
  EXPECT_EQ(table.Intern(""), 0U);
  std::vector<std::string> texts;
  for (size_t i = 1; i < 5000; ++i) texts.push_back(std::to_string(i) + std::string(i % 97, 'x'));
  texts.push_back(std::string(100000, 'y'));  // more than a block
  texts.push_back(std::string("a\0b", 3));
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(table.Find(texts[i]), kNoId);
    EXPECT_EQ(table.Intern(texts[i]), i + 1);
  }
  ASSERT_EQ(table.size(), texts.size() + 1);
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(table.Intern(texts[i]), i + 1);
    EXPECT_EQ(table.Find(texts[i]), i + 1);
    EXPECT_EQ(table.Get(static_cast<StringId>(i + 1)), texts[i]);
  }
}

TEST(StringTable, CopiesStandAloneAndMovedTablesTakeTheirTextsAlong) {
  StringTable table;
  const StringId name = table.Intern("name");
  const std::string_view text = table.Get(name);
  StringTable copy = table;
  EXPECT_NE(copy.Get(name).data(), text.data());
  EXPECT_EQ(copy.Intern("other"), name + 1);
  EXPECT_EQ(table.Find("other"), kNoId);
  const StringTable moved = std::move(table);
  EXPECT_EQ(moved.Get(name).data(), text.data());
  EXPECT_EQ(moved.Find("name"), name);
  table = copy;
  EXPECT_EQ(table.Find("other"), name + 1);
}

TEST(ProfileBuilder, AddsUpEqualRows) {
  ProfileBuilder builder;
  builder.SampleType("samples", "count");
  Profile::Location location;
  location.address = 0x10;
  const LocationId a = builder.Location(location, {});
  EXPECT_EQ(builder.Location(location, {}), a);
  const std::vector<LocationId> frames = {a, a};
  const StackId stack = builder.Stack(frames);
  EXPECT_EQ(builder.Stack(frames), stack);
  const LabelSetId labels = builder.LabelSet({});
  for (int i = 0; i < 5; ++i) builder.Add({stack, labels}, std::vector<int64_t>{2});
  const Profile profile = builder.Finish();
  ASSERT_TRUE(profile.CheckValid().has_value());
  ASSERT_EQ(profile.samples.size(), 1U);
  EXPECT_EQ(profile.Totals(), std::vector<int64_t>{10});
}

TEST(ProfileBuilder, SaturatesValues) {
  ProfileBuilder builder;
  builder.SampleType("samples", "count");
  const StackId stack = builder.Stack({});
  const LabelSetId labels = builder.LabelSet({});
  builder.Add({stack, labels}, std::vector<int64_t>{INT64_MAX});
  builder.Add({stack, labels}, std::vector<int64_t>{1});
  EXPECT_EQ(builder.Finish().values, std::vector<int64_t>{INT64_MAX});
}

TEST(ProfileBuilder, PutsLabelsInOneOrder) {
  ProfileBuilder builder;
  const Profile::Label b{.key = builder.String("b"), .text = builder.String("x")};
  const Profile::Label a{.key = builder.String("a"), .number = 4};
  const std::vector<Profile::Label> one = {a, b};
  const std::vector<Profile::Label> other = {b, a};
  EXPECT_EQ(builder.LabelSet(one), builder.LabelSet(other));
}

TEST(MergeProfiles, AddsEqualStacksAndKeepsDifferentOnes) {
  const Profile a = OneStack("f", 10);
  const Profile b = OneStack("f", 5);
  const Profile c = OneStack("g", 7);
  const Profile* const all[] = {&a, &b, &c};
  const auto merged = MergeProfiles(all);
  ASSERT_TRUE(merged.has_value());
  ASSERT_TRUE(merged->CheckValid().has_value());
  EXPECT_EQ(merged->samples.size(), 2U);
  EXPECT_EQ(merged->Totals(), (std::vector<int64_t>{3, 22}));
}

TEST(MergeProfiles, RefusesDifferentTypes) {
  const Profile a = OneStack("f", 10);
  ProfileBuilder builder;
  builder.SampleType("alloc_space", "bytes");
  const Profile b = builder.Finish();
  const Profile* const both[] = {&a, &b};
  EXPECT_FALSE(MergeProfiles(both).has_value());
}

TEST(EquivalentProfiles, SeesEveryDifference) {
  EXPECT_TRUE(EquivalentProfiles(OneStack("f", 1), OneStack("f", 1)));
  EXPECT_FALSE(EquivalentProfiles(OneStack("f", 1), OneStack("f", 2)));
  EXPECT_FALSE(EquivalentProfiles(OneStack("f", 1), OneStack("g", 1)));
  EXPECT_FALSE(EquivalentProfiles(OneStack("f", 1), OneStack("f", 1, "other")));
}

TEST(Profile, NamesTheFirstFault) {
  Profile profile = OneStack("f", 1);
  profile.samples[0].stack = 99;
  const Status status = profile.CheckValid();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message, "invalid profile: stack of sample 0");
}

TEST(Profile, FindsSampleTypesByNameOrDefault) {
  const Profile profile = OneStack("f", 1);
  EXPECT_EQ(profile.SampleTypeIndex("").value(), 1U);
  EXPECT_EQ(profile.SampleTypeIndex("samples").value(), 0U);
  EXPECT_EQ(profile.SampleTypeIndex("cpu/nanoseconds").value(), 1U);
  const auto missing = profile.SampleTypeIndex("heap");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().message,
            "no sample type 'heap'; the profile has: samples/count, cpu/nanoseconds");
}

TEST(Profile, FindsSampleTypesWithoutTheEventsModifiers) {
  ProfileBuilder builder;
  builder.SampleType("samples", "count");
  builder.SampleType("cycles:u", "count");
  EXPECT_EQ(builder.Finish().SampleTypeIndex("cycles").value(), 1U);
}

TEST(Profile, CopiesItsStrings) {
  Profile copy;
  {
    const Profile original = OneStack("f", 1);
    copy = original;
  }
  EXPECT_NE(copy.strings.Find("main"), kNoId);
  EXPECT_EQ(copy.strings.Intern("main"), copy.strings.Find("main"));
}

}  // namespace
}  // namespace ptarmigan
