#include "export/speedscope.h"

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

using Json = nlohmann::json;

TEST(Speedscope, HoldsEveryStackOfEverySampleType) {
  for (const Profile& profile : {RichProfile(), RandomProfile({.samples = 300}, 3)}) {
    const std::string text = Text([&](ByteSink* sink) {
      return WriteSpeedscope(profile, {.sample_type = 1, .title = "a \"title\""}, sink);
    });
    const Json json = Json::parse(text);
    EXPECT_EQ(json["$schema"], "https://www.speedscope.app/file-format-schema.json");
    EXPECT_EQ(json["name"], "a \"title\"");
    EXPECT_EQ(json["activeProfileIndex"], 1);
    ASSERT_EQ(json["profiles"].size(), 2U);
    EXPECT_EQ(json["profiles"][0]["unit"], "none");
    EXPECT_EQ(json["profiles"][1]["unit"], "nanoseconds");
    for (size_t type = 0; type < 2; ++type) {
      const Json& sampled = json["profiles"][type];
      ASSERT_EQ(sampled["samples"].size(), sampled["weights"].size());
      std::map<std::string, int64_t> lines;
      int64_t sum = 0;
      for (size_t i = 0; i < sampled["samples"].size(); ++i) {
        std::string key;
        for (const size_t frame : sampled["samples"][i]) {
          key += (key.empty() ? "" : ";") + WithColons(json["shared"]["frames"].at(frame)["name"]);
        }
        lines[key] += sampled["weights"][i].get<int64_t>();
        sum += sampled["weights"][i].get<int64_t>();
      }
      EXPECT_EQ(lines, FoldedLines(profile, type));
      EXPECT_EQ(sampled["endValue"], sum);
    }
    EXPECT_EQ(text, Text([&](ByteSink* sink) {
                return WriteSpeedscope(profile, {.sample_type = 1, .title = "a \"title\""}, sink);
              }));
  }
}

}  // namespace
}  // namespace ptarmigan
