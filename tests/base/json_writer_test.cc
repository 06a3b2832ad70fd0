#include "base/json_writer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace ptarmigan {
namespace {

std::string Quoted(std::string_view text) {
  std::string out;
  StringSink sink(&out);
  JsonWriter json(&sink);
  json.String(text);
  EXPECT_TRUE(json.Finish().has_value());
  return out;
}

TEST(JsonWriter, WritesNestedValuesWithCommasInTheRightPlaces) {
  std::string out;
  StringSink sink(&out);
  JsonWriter json(&sink);
  json.BeginObject()
      .Field("a", 1)
      .Key("b")
      .BeginArray()
      .Int(-2)
      .Null()
      .Bool(true)
      .BeginObject()
      .EndObject();
  json.BeginArray().EndArray().EndArray().Key("c").Uint(UINT64_MAX).Field("d", "x").EndObject();
  EXPECT_TRUE(json.Finish().has_value());
  EXPECT_EQ(out, R"({"a":1,"b":[-2,null,true,{},[]],"c":18446744073709551615,"d":"x"})");
}

TEST(JsonWriter, WritesNumbersThatAreReadBackAsTheyWere) {
  std::string out;
  StringSink sink(&out);
  JsonWriter json(&sink);
  json.BeginArray().Double(0.1).Double(3).Double(1e300).Double(1.0 / 0.0).Int(INT64_MIN).EndArray();
  EXPECT_TRUE(json.Finish().has_value());
  EXPECT_EQ(out, "[0.1,3,1e+300,null,-9223372036854775808]");
}

TEST(JsonWriter, BeginsOuterItemsOnLinesOfTheirOwn) {
  std::string out;
  StringSink sink(&out);
  JsonWriter json(&sink, /*line_depth=*/2);
  json.BeginObject().Field("a", 1).Key("rows").BeginArray();
  for (int row = 0; row < 2; ++row) json.BeginObject().Field("x", row).Field("y", row).EndObject();
  json.EndArray().EndObject();
  EXPECT_TRUE(json.Finish().has_value());
  EXPECT_EQ(out, "{\n\"a\":1,\n\"rows\":[\n{\"x\":0,\"y\":0},\n{\"x\":1,\"y\":1}]}");
}

TEST(JsonWriter, EscapesWhatWouldEndAStringOrAScript) {
  EXPECT_EQ(Quoted("a\"b\\c\n\x01\x7f</script>"), R"("a\"b\\c\u000a\u0001\u007f\u003c/script>")");
  EXPECT_EQ(Quoted(std::string_view("\0", 1)), R"("\u0000")");
}

TEST(JsonWriter, KeepsUtf8AndReplacesWhatIsNot) {
  EXPECT_EQ(Quoted("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
            "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(Quoted("\xff"), "\"" + bad + "\"");
  EXPECT_EQ(Quoted("\xc0\xaf"), "\"" + bad + bad + "\"");            // overlong
  EXPECT_EQ(Quoted("\xed\xa0\x80"), "\"" + bad + bad + bad + "\"");  // surrogate
  EXPECT_EQ(Quoted("\xf4\x90\x80\x80"), "\"" + bad + bad + bad + bad + "\"");
  EXPECT_EQ(Quoted("a\xe2\x82"), "\"a" + bad + bad + "\"");  // cut off
}

TEST(JsonWriter, GivesEveryByteStringAsJsonThatAParserReads) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; second += 3) {
      const std::string text = {static_cast<char>(first), static_cast<char>(second), 'x'};
      EXPECT_TRUE(nlohmann::json::accept(Quoted(text))) << first << " " << second;
    }
  }
}

TEST(JsonWriter, WritesMillisecondsExactly) {
  const auto text = [](int64_t ns) {
    std::string out;
    StringSink sink(&out);
    JsonWriter json(&sink);
    json.Milliseconds(ns);
    EXPECT_TRUE(json.Finish().has_value());
    return out;
  };
  EXPECT_EQ(text(0), "0");
  EXPECT_EQ(text(1500000), "1.5");
  EXPECT_EQ(text(-1), "-0.000001");
  EXPECT_EQ(text(10000000), "10");
  EXPECT_EQ(text(INT64_MIN), "-9223372036854.775808");
}

TEST(JsonWriter, ReportsTheFirstErrorOfItsSink) {
  class FullSink : public ByteSink {
   public:
    Status Write(std::string_view) override { return Error{ErrorCode::kIo, "full"}; }
  };
  FullSink sink;
  JsonWriter json(&sink);
  json.BeginArray();
  for (int i = 0; i < 100000; ++i) json.Int(i);
  json.EndArray();
  const Status status = json.Finish();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message, "full");
}

}  // namespace
}  // namespace ptarmigan
