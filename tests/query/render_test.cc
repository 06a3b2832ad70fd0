#include "query/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/profile_text.h"

namespace ptarmigan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Render, ScalesValuesByTheirUnit) {
  EXPECT_EQ(FormatValue(1'234'567'890, "nanoseconds"), "1.23 s");
  EXPECT_EQ(FormatValue(45'600'000, "nanoseconds"), "45.6 ms");
  EXPECT_EQ(FormatValue(1234567, "count"), "1,234,567");
  EXPECT_EQ(FormatValue(-1536, "bytes"), "-1.50 KiB");
}

TEST(Render, TopJsonHasTheContractsShape) {
  Profile profile = ProfileFromText("main;f 10");
  profile.events = {{"cpu-clock", 1, 10}};
  const EntityTable entities(profile);
  const TopTable top = MakeTop(profile, entities, {true}, {.order_by = 1});
  const auto json = nlohmann::json::parse(RenderTopJson(profile, entities, top));
  EXPECT_EQ(json["sample_types"][1]["type"], "cpu");
  EXPECT_EQ(json["sample_types"][1]["unit"], "nanoseconds");
  EXPECT_EQ(json["total"], (std::vector<int64_t>{1, 10}));
  EXPECT_EQ(json["rows"][0]["function"], "f");
  EXPECT_EQ(json["rows"][0]["file"], "app.c");
  EXPECT_EQ(json["rows"][0]["line"], 10);
  EXPECT_EQ(json["rows"][0]["object"], "/bin/app");
  EXPECT_EQ(json["rows"][0]["build_id"], "");
  EXPECT_EQ(json["rows"][0]["self"], (std::vector<int64_t>{1, 10}));
  EXPECT_EQ(json["events"][0]["period_sum"], 10);
}

TEST(Render, JsonSurvivesNamesThatAreNotUtf8) {
  const Profile profile = ProfileFromText("ma\xff\xfein 10");
  const EntityTable entities(profile);
  const TopTable top = MakeTop(profile, entities, {true}, {.order_by = 1});
  EXPECT_FALSE(nlohmann::json::parse(RenderTopJson(profile, entities, top)).is_discarded());
}

TEST(Render, QualityJsonCountsByReason) {
  Profile profile = ProfileFromText("main 10");
  profile.losses.Capture(5);
  profile.losses.Keep(3);
  profile.losses.Lose(LossStage::kKernel, LossReason::kRingFull, 2);
  profile.quality.stacks_complete = 2;
  profile.quality.stacks_cut["user_stack_cut"] = 1;
  profile.quality.frames_unsymbolized[{"/bin/app", "file not found"}] = 4;
  profile.quality.trace_bytes = {{"decoded", 640}, {"no_aux_record", 64}};
  const auto json = nlohmann::json::parse(RenderQualityJson(profile));
  EXPECT_EQ(json["captured"], 5);
  EXPECT_EQ(json["lost"][0]["stage"], "kernel");
  EXPECT_EQ(json["lost"][0]["reason"], "ring_full");
  EXPECT_EQ(json["lost"][0]["count"], 2);
  EXPECT_EQ(json["stacks"]["cut"][0]["reason"], "user_stack_cut");
  EXPECT_EQ(json["frames"]["unsymbolized"][0]["object"], "/bin/app");
  EXPECT_EQ(json["trace_bytes"]["decoded"], 640);
  EXPECT_EQ(json["trace_bytes"]["overflow"], 0) << "the usual keys are always there";
  EXPECT_EQ(json["trace_bytes"]["no_aux_record"], 64);
  EXPECT_THAT(RenderQualityText(profile, {}), HasSubstr("640  decoded"));
}

TEST(Render, TextUsesColourOnlyWhenAsked) {
  const Profile profile = ProfileFromText("main;f 10");
  const EntityTable entities(profile);
  const TopTable top = MakeTop(profile, entities, {true}, {.order_by = 1});
  EXPECT_THAT(RenderTopText(profile, entities, top, {.sample_type = 1}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(RenderTopText(profile, entities, top, {.sample_type = 1, .colour = true}),
              HasSubstr("\x1b[1m"));
}

TEST(Render, TextCutsLongNamesToTheWidth) {
  const std::string name(300, 'x');
  const Profile profile = ProfileFromText(name + " 10");
  const EntityTable entities(profile);
  const TopTable top = MakeTop(profile, entities, {true}, {.order_by = 1});
  const std::string text = RenderTopText(profile, entities, top, {.sample_type = 1, .width = 100});
  size_t longest = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    longest = std::max(longest, end - at);
    at = end + 1;
  }
  EXPECT_LE(longest, 100U);
}

TEST(Render, SaysWhenNothingMatches) {
  const Profile profile = ProfileFromText("main 10");
  const EntityTable entities(profile);
  const TopTable top = MakeTop(profile, entities, {false}, {.order_by = 1});
  EXPECT_THAT(RenderTopText(profile, entities, top, {.sample_type = 1}),
              HasSubstr("no samples match"));
}

}  // namespace
}  // namespace ptarmigan
