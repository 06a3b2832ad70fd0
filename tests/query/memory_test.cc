#include "query/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/profile_builder.h"
#include "query/render.h"

namespace ptarmigan {
namespace {

using ::testing::HasSubstr;

// A profile of samples in functions of /bin/app.
class MemoryProfile {
 public:
  MemoryProfile() {
    builder_.SampleType("samples", "count");
    builder_.SampleType("latency", "cycles");
    mapping_ = builder_.Mapping({.start = {0x1000},
                                 .limit = {0x2000},
                                 .offset = {0},
                                 .file = builder_.String("/bin/app"),
                                 .build_id = builder_.String("ab01")});
  }

  // `inlined` is a function inlined into `function` at the address, or empty.
  LocationId Place(uint64_t address, std::string_view function, std::string_view inlined = {}) {
    std::vector<Profile::Line> lines;
    for (const std::string_view name : {inlined, function}) {
      if (name.empty()) continue;
      Profile::Function named;
      named.name = named.system_name = builder_.String(name);
      lines.push_back({.function = builder_.Function(named)});
    }
    return builder_.Location({.mapping = mapping_, .address = address}, lines);
  }

  void Add(LocationId place, std::string_view op, std::string_view source, int64_t samples,
           int64_t latency, bool mispredicted = false) {
    std::vector<Profile::Label> labels;
    const auto label = [&](std::string_view key, std::string_view text) {
      if (!text.empty()) {
        labels.push_back({.key = builder_.String(key), .text = builder_.String(text)});
      }
    };
    label("kind", "memory");
    label("op", op);
    label("data_source", source);
    label("mispredicted", mispredicted ? "true" : "");
    const int64_t values[] = {samples, latency};
    builder_.Add({builder_.Stack({&place, 1}), builder_.LabelSet(labels)}, values);
  }

  void AddPlain(LocationId place) {
    const int64_t values[] = {1, 0};
    builder_.Add({builder_.Stack({&place, 1}), builder_.LabelSet({})}, values);
  }

  void Distribute(LocationId place, std::vector<MemorySummary::CyclesCount> counts) {
    builder_.profile().summary.memory.distributions.push_back(
        {.location = place, .which = MemLatency::kTotal, .counts = std::move(counts)});
  }
  MemorySummary& summary() { return builder_.profile().summary.memory; }

  Profile Finish() { return builder_.Finish(); }

 private:
  ProfileBuilder builder_;
  MappingId mapping_ = kNoId;
};

MemoryTable Table(const Profile& profile, const EntityTable& entities, size_t rows_max = SIZE_MAX) {
  return MakeMemoryTable(profile, entities, std::vector<bool>(profile.samples.size(), true),
                         rows_max);
}

TEST(MemoryView, SumsPlacesOfAFunctionByOperationAndSource) {
  MemoryProfile made;
  const LocationId first = made.Place(0x1010, "f");
  const LocationId second = made.Place(0x1020, "f");
  made.Add(first, "load", "l1d", 3, 30);
  made.Add(first, "load", "dram", 1, 400);
  made.Add(second, "store", "", 2, 10);
  made.Add(second, "branch", "", 4, 8, /*mispredicted=*/true);
  made.AddPlain(second);
  const Profile profile = made.Finish();
  const EntityTable entities(profile);
  const MemoryTable table = Table(profile, entities);
  ASSERT_EQ(table.rows.size(), 1U);
  const MemoryRow& row = table.rows[0];
  EXPECT_EQ(entities.entities()[row.entity].function, "f");
  EXPECT_EQ(row.samples, 10U) << "a sample of another kind is none";
  EXPECT_EQ(row.mispredicted, 4U);
  EXPECT_EQ(row.ops[static_cast<size_t>(MemOp::kLoad)], 4U);
  EXPECT_EQ(row.ops[static_cast<size_t>(MemOp::kStore)], 2U);
  EXPECT_EQ(row.ops[static_cast<size_t>(MemOp::kBranch)], 4U);
  EXPECT_EQ(row.latencies[0].sum, 448U);
  EXPECT_EQ(row.by_source.size(), 2U);
  EXPECT_EQ(row.by_source.at("l1d"), 3U);
  EXPECT_EQ(row.by_source.at("dram"), 1U);
}

TEST(MemoryView, GivesInlinedCodeToTheFunctionThatHoldsIt) {
  MemoryProfile made;
  made.Add(made.Place(0x1010, "outer", "inner"), "load", "l1d", 1, 5);
  const Profile profile = made.Finish();
  const EntityTable entities(profile);
  const MemoryTable table = Table(profile, entities);
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_EQ(entities.entities()[table.rows[0].entity].function, "outer");
}

TEST(MemoryView, TakesQuantilesOverAllPlacesOfAFunction) {
  MemoryProfile made;
  const LocationId first = made.Place(0x1010, "f");
  const LocationId second = made.Place(0x1020, "f");
  made.Add(first, "load", "l1d", 50, 200);
  made.Add(second, "load", "dram", 50, 15000);
  made.Distribute(first, {{4, 50}});
  made.Distribute(second, {{300, 49}, {301, 1}});
  const Profile profile = made.Finish();
  const EntityTable entities(profile);
  const MemoryTable table = Table(profile, entities);
  const MemoryLatency& total = table.rows[0].latencies[0];
  EXPECT_EQ(total.count, 100U);
  EXPECT_EQ(total.p50, 4U);
  EXPECT_EQ(total.p99, 300U);
  EXPECT_DOUBLE_EQ(total.mean(), 152.0);
}

TEST(MemoryView, HasNoQuantilesOfASelection) {
  MemoryProfile made;
  const LocationId place = made.Place(0x1010, "f");
  made.Add(place, "load", "l1d", 1, 4);
  made.Add(place, "store", "", 1, 4);
  made.Distribute(place, {{4, 2}});
  const Profile profile = made.Finish();
  const EntityTable entities(profile);
  EXPECT_FALSE(MakeMemoryTable(profile, entities, {true, false}, SIZE_MAX).has_distributions);
}

TEST(MemoryView, OrdersByLatencyAndCuts) {
  MemoryProfile made;
  made.Add(made.Place(0x1010, "fast"), "load", "l1d", 90, 90);
  made.Add(made.Place(0x1020, "slow"), "load", "dram", 1, 400);
  const Profile profile = made.Finish();
  const EntityTable entities(profile);
  const MemoryTable table = Table(profile, entities, 1);
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_EQ(table.rows_cut, 1U);
  EXPECT_EQ(entities.entities()[table.rows[0].entity].function, "slow");
}

TEST(MemoryView, JsonHasTheContractsShape) {
  MemoryProfile made;
  const LocationId place = made.Place(0x1010, "f");
  made.Add(place, "load", "l1d", 2, 10);
  made.Distribute(place, {{4, 1}, {6, 1}});
  made.summary().lines.push_back({.address = 0x7f0040, .writers = 2, .stores = 5});
  const Profile profile = made.Finish();
  const EntityTable entities(profile);
  const auto json =
      nlohmann::json::parse(RenderMemoryJson(profile, entities, Table(profile, entities)));
  const auto& function = json["functions"][0];
  EXPECT_EQ(function["function"], "f");
  EXPECT_EQ(function["object"], "/bin/app");
  EXPECT_EQ(function["build_id"], "ab01");
  EXPECT_EQ(function["samples"], 2);
  EXPECT_EQ(function["latency"]["total"]["sum"], 10);
  EXPECT_EQ(function["latency"]["total"]["n"], 2);
  EXPECT_EQ(function["latency"]["total"]["mean"], 5.0);
  EXPECT_EQ(function["latency"]["total"]["p50"], 4);
  EXPECT_EQ(function["latency"]["total"]["p99"], 6);
  EXPECT_EQ(function["latency"]["issue"]["n"], 0);
  EXPECT_EQ(function["ops"]["load"], 2);
  EXPECT_EQ(function["ops"]["loadstore"], 0);
  EXPECT_EQ(function["by_source"]["l1d"], 2);
  EXPECT_EQ(json["shared_lines"][0]["address"], "0x7f0040");
  EXPECT_EQ(json["shared_lines"][0]["writers"], 2);
}

TEST(MemoryView, SaysWhatARecordingWithoutMemorySamplesNeeds) {
  MemoryProfile made;
  made.AddPlain(made.Place(0x1010, "f"));
  const Profile profile = made.Finish();
  const EntityTable entities(profile);
  EXPECT_THAT(RenderMemoryText(profile, entities, Table(profile, entities), {}),
              HasSubstr("no memory samples"));
}

}  // namespace
}  // namespace ptarmigan
