#include "export/firefox.h"

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

TEST(Firefox, HoldsEverySampleInItsThread) {
  for (const Profile& profile : {RichProfile(), RandomProfile({.samples = 300}, 3)}) {
    const Json json = Json::parse(Text([&](ByteSink* sink) {
      return WriteFirefox(profile, {.sample_type = 1, .title = "t"}, sink);
    }));
    EXPECT_EQ(json["meta"]["preprocessedProfileVersion"], 48);
    std::map<std::string, int64_t> lines;
    size_t samples = 0;
    for (const Json& thread : json["threads"]) {
      EXPECT_TRUE(thread["pid"].is_string());
      EXPECT_EQ(thread["samples"]["weightType"], "tracing-ms");
      for (const char* table : {"samples", "stackTable", "frameTable", "funcTable", "resourceTable",
                                "markers", "nativeSymbols"}) {
        for (const auto& [key, column] : thread[table].items()) {
          if (!column.is_array()) continue;
          EXPECT_EQ(column.size(), thread[table]["length"].get<size_t>()) << table << "." << key;
        }
      }
      for (size_t i = 0; i < thread["samples"]["length"].get<size_t>(); ++i, ++samples) {
        std::string key;
        for (Json stack = thread["samples"]["stack"][i]; !stack.is_null();
             stack = thread["stackTable"]["prefix"].at(stack.get<size_t>())) {
          const size_t frame = thread["stackTable"]["frame"].at(stack.get<size_t>());
          const size_t func = thread["frameTable"]["func"].at(frame);
          key = WithColons(
                    thread["stringArray"].at(thread["funcTable"]["name"].at(func).get<size_t>())) +
                (key.empty() ? "" : ";") + key;
        }
        const double value = thread["samples"]["weight"][i].get<double>() * 1e6;
        if (value > 0) lines[key] += std::llround(value);
      }
    }
    EXPECT_EQ(lines, FoldedLines(profile, 1));
    EXPECT_EQ(samples, profile.samples.size());
  }
}

TEST(Firefox, NamesThreadsAndMarksKernelFrames) {
  const Json json = Json::parse(
      Text([&](ByteSink* sink) { return WriteFirefox(RichProfile(), {.sample_type = 0}, sink); }));
  ASSERT_EQ(json["threads"].size(), 3U);  // without labels, app, worker
  EXPECT_EQ(json["threads"][1]["name"], "app");
  EXPECT_EQ(json["threads"][1]["pid"], "100");
  EXPECT_EQ(json["threads"][2]["samples"]["weightType"], "samples");
  const Json& categories = json["threads"][1]["frameTable"]["category"];
  EXPECT_EQ(std::count(categories.begin(), categories.end(), 1), 1);
}

}  // namespace
}  // namespace ptarmigan
