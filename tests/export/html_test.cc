#include "export/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/export/profile_samples.h"
#include "tests/export/written_text.h"

namespace ptarmigan {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// Checks the rules of docs/formats/html-data.md and gives "all;...;leaf" -> self of a type.
std::map<std::string, int64_t> TreeLines(const Json& json, const Json& values, size_t type) {
  const Json& nodes = json["nodes"];
  const size_t size = nodes["level"].size();
  for (const char* column : {"name", "file", "line", "object", "inlined"})
    EXPECT_EQ(nodes[column].size(), size);
  EXPECT_EQ(values["total"][type].size(), size);
  EXPECT_EQ(values["self"][type].size(), size);
  EXPECT_EQ(nodes["level"][0], 0);
  EXPECT_EQ(json["names"].at(nodes["name"][0].get<size_t>()), "all");
  std::map<std::string, int64_t> lines;
  std::vector<std::string> path;
  std::vector<size_t> open;
  std::vector<int64_t> rest(size);
  for (size_t i = 0; i < size; ++i) {
    const size_t level = nodes["level"][i];
    if (i > 0) {
      EXPECT_GE(level, 1U);
      EXPECT_LE(level, nodes["level"][i - 1].get<size_t>() + 1);
    }
    path.resize(level);
    open.resize(level);
    path.push_back(WithColons(json["names"].at(nodes["name"][i].get<size_t>())));
    const int64_t self = values["self"][type][i];
    rest[i] = values["total"][type][i].get<int64_t>() - self;
    if (!open.empty()) rest[open.back()] -= values["total"][type][i].get<int64_t>();
    open.push_back(i);
    std::string key;
    for (size_t j = 1; j < path.size(); ++j) key += (j > 1 ? ";" : "") + path[j];
    if (self > 0) lines[key] += self;
  }
  for (const int64_t left : rest) EXPECT_EQ(left, 0);
  return lines;
}

TEST(Html, HoldsTheCallTree) {
  for (const Profile& profile : {RichProfile(), RandomProfile({.samples = 300}, 3)}) {
    const Json json = Json::parse(Text([&](ByteSink* sink) {
      return WriteHtmlJson(profile, {.sample_type = 1, .title = "x"}, sink);
    }));
    EXPECT_EQ(json["version"], 1);
    EXPECT_EQ(json["default_type"], 1);
    EXPECT_EQ(json["sample_types"][1]["unit"], "nanoseconds");
    EXPECT_FALSE(json.contains("pruned"));
    for (size_t type = 0; type < 2; ++type) {
      EXPECT_EQ(TreeLines(json, json["nodes"], type), FoldedLines(profile, type));
      EXPECT_EQ(json["nodes"]["total"][type][0], profile.Totals()[type]);
    }
  }
}

TEST(Html, TellsFilesObjectsInlinesAndQuality) {
  const Json json = Json::parse(
      Text([&](ByteSink* sink) { return WriteHtmlJson(RichProfile(), {.sample_type = 0}, sink); }));
  const auto names = json["names"].get<std::vector<std::string>>();
  const auto hot = static_cast<int64_t>(
      std::ranges::find(names, "ns::(anonymous namespace)::Hot()") - names.begin());
  for (size_t i = 0; i < json["nodes"]["name"].size(); ++i) {
    if (json["nodes"]["name"][i] != hot) continue;
    EXPECT_EQ(json["nodes"]["inlined"][i], 1);
    EXPECT_EQ(json["nodes"]["line"][i], 70);
    EXPECT_EQ(json["files"].at(json["nodes"]["file"][i].get<size_t>()), "/src/app.cc");
    EXPECT_EQ(json["objects"].at(json["nodes"]["object"][i].get<size_t>()), "/opt/app \"quoted\"");
  }
  EXPECT_EQ(json["quality"]["captured"], 21);
  EXPECT_EQ(json["quality"]["lost"][0]["reason"], "ring_full");
  EXPECT_EQ(json["quality"]["stacks"]["complete"], 15);
  EXPECT_EQ(json["quality"]["frames"]["unsymbolized"][0]["count"], 4);
  const Json plain = Json::parse(
      Text([&](ByteSink* sink) { return WriteHtmlJson(RandomProfile({}, 1), {}, sink); }));
  EXPECT_FALSE(plain.contains("quality"));
}

TEST(Html, PutsBothSidesOfADiffOnOneTree) {
  const Profile before = RandomProfile({.samples = 200}, 5);
  const Profile after = RandomProfile({.samples = 300}, 5);
  const Json json = Json::parse(Text([&](ByteSink* sink) {
    return WriteHtmlJson(
        after, {.sample_type = 0, .title = "new", .other = &before, .other_title = "old"}, sink);
  }));
  EXPECT_EQ(json["other"]["title"], "old");
  EXPECT_EQ(json["sample_types"].size(), 2U);
  EXPECT_EQ(TreeLines(json, json["nodes"], 1), FoldedLines(after, 1));
  EXPECT_EQ(TreeLines(json, json["other"], 1), FoldedLines(before, 1));
  std::string ignored;
  StringSink sink(&ignored);
  Profile odd = before;
  odd.sample_types[1].unit = odd.strings.Intern("bytes");
  EXPECT_FALSE(WriteHtmlJson(after, {.other = &odd}, &sink).has_value());
}

TEST(Html, LeavesOutSmallBoxesAndSaysSo) {
  const Profile profile = RandomProfile({.samples = 3000, .locations = 3000}, 5);
  const Json whole =
      Json::parse(Text([&](ByteSink* sink) { return WriteHtmlJson(profile, {}, sink); }));
  const Json cut = Json::parse(
      Text([&](ByteSink* sink) { return WriteHtmlJson(profile, {.nodes_max = 500}, sink); }));
  const size_t kept = cut["nodes"]["level"].size();
  EXPECT_LE(kept, 500U);
  EXPECT_EQ(cut["pruned"]["nodes"].get<size_t>() + kept, whole["nodes"]["level"].size());
  int64_t selves = 0;
  for (const int64_t self : cut["nodes"]["self"][0]) selves += self;
  EXPECT_EQ(selves + cut["pruned"]["total"][0].get<int64_t>(), profile.Totals()[0]);
}

TEST(Html, FillsTheTemplateAndNothingInANameCanLeaveTheScript) {
  Profile profile = RichProfile();
  profile.functions[0].name = profile.strings.Intern("</script><script>alert(1)</script><!--\xff");
  const std::string page = Text([&](ByteSink* sink) {
    return WriteHtml(
        profile, {.page = "<a><script>/*PTARMIGAN_PROFILE*/</script></a>", .title = "</script>"},
        sink);
  });
  ASSERT_TRUE(page.starts_with("<a><script>{"));
  ASSERT_TRUE(page.ends_with("}</script></a>"));
  const std::string inner = page.substr(11, page.size() - 11 - 13);
  EXPECT_EQ(inner.find('<'), std::string::npos);
  EXPECT_EQ(Json::parse(inner)["title"], "</script>");
  std::string ignored;
  StringSink sink(&ignored);
  const Status status = WriteHtml(profile, {.page = "<html></html>"}, &sink);
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message, HasSubstr("not built"));
}

}  // namespace
}  // namespace ptarmigan
