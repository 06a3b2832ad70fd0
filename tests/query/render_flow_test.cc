// The views of control-flow traces: functions with their latencies, and the timeline.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "query/entities.h"
#include "query/flow.h"
#include "query/render.h"
#include "tests/support/flow_profile.h"

namespace ptarmigan {
namespace {

using Json = nlohmann::json;

TEST(FunctionsView, SaysHowLongCallsTookOverallAndPerCaller) {
  const Profile profile = FlowProfile();
  const FlowReport report = MakeFlowReport(profile, SIZE_MAX);
  const Json json = Json::parse(RenderFunctionsJson(profile, report));
  ASSERT_EQ(json["functions"].size(), 2U);
  EXPECT_EQ(json["unit"], "nanoseconds");
  const Json& work = json["functions"][0];
  EXPECT_EQ(work["function"], "work");
  EXPECT_EQ(work["calls"], 2);
  EXPECT_EQ(work["executions"], 2);
  EXPECT_EQ(work["unwound"], 1);
  EXPECT_EQ(work["total"]["n"], 2);
  EXPECT_EQ(work["total"]["sum"], 1500);
  EXPECT_EQ(work["total"]["mean"], 750.0);
  EXPECT_EQ(work["total"]["max"], 1000);
  EXPECT_NEAR(work["total"]["p50"].get<double>(), 500, 16);
  EXPECT_NEAR(work["total"]["p99"].get<double>(), 1000, 32);
  EXPECT_EQ(work["self"]["mean"], 700.0);
  EXPECT_EQ(work["uncertainty_mean"], 24.0);
  EXPECT_EQ(work["unbounded"], 1);
  ASSERT_EQ(work["callers"].size(), 1U);
  EXPECT_EQ(work["callers"][0]["function"], "main");
  EXPECT_EQ(work["callers"][0]["entry"], "call");
  EXPECT_EQ(work["callers"][0]["total"]["sum"], 1500);
  // Nobody was seen to call it.
  EXPECT_EQ(json["functions"][1]["function"], "main");
  EXPECT_TRUE(json["functions"][1]["total"].is_null());
}

TEST(FunctionsView, TextFitsTheTerminalAndSaysHowFarTimesAreOff) {
  const Profile profile = FlowProfile();
  const std::string text =
      RenderFunctionsText(profile, MakeFlowReport(profile, SIZE_MAX), {.width = 130});
  EXPECT_NE(text.find("750 ns"), std::string::npos) << text;
  EXPECT_NE(text.find("24 ns+"), std::string::npos) << text;
  EXPECT_NE(text.find("at most 12 ns apart"), std::string::npos) << text;
  Profile untimed = profile;
  for (FlowSummary::Calls& calls : untimed.summary.flow.calls) calls.total = calls.self = {};
  const std::string without =
      RenderFunctionsText(untimed, MakeFlowReport(untimed, SIZE_MAX), {.width = 130});
  EXPECT_NE(without.find("the trace has no time"), std::string::npos) << without;
}

TEST(FunctionsView, FocusChoosesFunctions) {
  const Profile profile = FlowProfile();
  const EntityTable entities(profile);
  const auto filter = LocationFilter::Make(profile, entities, {.focus = "^main$", .ignore = ""});
  ASSERT_TRUE(filter.has_value());
  const FlowReport report = MakeFlowReport(profile, SIZE_MAX, &*filter);
  ASSERT_EQ(report.functions.size(), 1U);
  EXPECT_EQ(report.functions[0].function, "main");
}

TEST(TimelineView, HoldsEveryIntervalByThread) {
  const Profile profile = FlowProfile();
  const TimelineReport report = MakeTimelineReport(profile, {});
  const Json json = Json::parse(RenderTimelineJson(profile, report));
  ASSERT_EQ(json["threads"].size(), 2U);
  const Json& thread = json["threads"][0];
  EXPECT_EQ(thread["tid"], 42);
  EXPECT_EQ(thread["name"], "app");
  EXPECT_EQ(thread["uncertainty_ns"], 12);
  ASSERT_EQ(thread["intervals"].size(), 6U);
  const Json& work = thread["intervals"][2];
  EXPECT_EQ(work["function"], "work");
  EXPECT_EQ(work["caller"]["function"], "main");
  EXPECT_EQ(work["caller"]["address"], "0x2010");
  EXPECT_EQ(work["entry"], "call");
  EXPECT_EQ(work["exit"], "unwound");
  EXPECT_EQ(work["begin_ns"], 6000);
  EXPECT_EQ(work["end_ns"], 7001);
  EXPECT_EQ(work["depth"], 1);
  EXPECT_EQ(work["uncertainty_ns"], 3);
  EXPECT_EQ(thread["intervals"][5]["stack"], 1);
  ASSERT_EQ(thread["marks"].size(), 2U);
  EXPECT_EQ(thread["marks"][1]["kind"], "suspect");
  // Its end lies where no time is known.
  EXPECT_TRUE(json["threads"][1]["intervals"][0]["uncertainty_ns"].is_null());
  EXPECT_EQ(json["intervals_cut"], 8);
}

TEST(TimelineView, IsCutByTimeThreadAndRows) {
  const Profile profile = FlowProfile();
  EXPECT_EQ(MakeTimelineReport(profile, {.tid = 43}).intervals.size(), 1U);
  EXPECT_EQ(MakeTimelineReport(profile, {.from_ns = 6000, .to_ns = 6600, .tid = 42}).intervals,
            (std::vector<uint32_t>{0, 1, 2, 3}));
  const TimelineReport cut = MakeTimelineReport(profile, {.rows_max = 2});
  EXPECT_EQ(cut.intervals.size(), 2U);
  EXPECT_EQ(cut.intervals_cut, 5U);
}

TEST(TimelineView, TextIndentsCallsBelowTheirCallers) {
  const Profile profile = FlowProfile();
  const std::string text =
      RenderTimelineText(profile, MakeTimelineReport(profile, {}), {.width = 120});
  for (const char* part :
       {"thread 42 app: 0.000005000 to 0.000009000, single times off by up to 12 ns",
        "main (began before) (open)", "  work (unwound)", "   ! handler", "  > rest (open)",
        "thread 42 app, stack 1", "overflow",
        "8 shorter ones were left out: --from, --to and --thread choose a part"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

}  // namespace
}  // namespace ptarmigan
