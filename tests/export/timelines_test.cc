// Timeline formats: what is written is read back by readers of this file's own, which know of the formats what their documents
// say, and compared with the intervals.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "base/str_format.h"
#include "export/chrome_trace.h"
#include "export/formats.h"
#include "export/internal/protobuf_wire.h"
#include "export/perfetto.h"
#include "tests/export/written_text.h"
#include "tests/support/flow_profile.h"

namespace ptarmigan {
namespace {

using internal::WireField;
using internal::WireReader;
using Json = nlohmann::json;

// track, name, category, begin, end, depth on the track
using Slice = std::tuple<std::string, std::string, std::string, uint64_t, uint64_t, size_t>;

// What FlowProfile's intervals are.
std::vector<Slice> ExpectedSlices() {
  return {{"app", "main", "began before", 5000, 9000, 0},
          {"app", "work", "call", 5000, 6000, 1},
          {"app", "work", "call", 6000, 7001, 1},
          {"app", "handler \"quoted\"", "interrupt", 6500, 6500, 2},
          {"app", "rest", "jump", 6600, 7001, 2},
          {"stack 1", "rest", "began before", 7500, 8000, 0},
          {"thread 43", "handler \"quoted\"", "began before", 5100, 5900, 0}};
}

std::map<uint32_t, std::vector<WireField>> FieldsOf(Bytes message) {
  std::map<uint32_t, std::vector<WireField>> fields;
  WireReader reader(message);
  WireField field;
  while (reader.Next(&field)) fields[field.number].push_back(field);
  EXPECT_TRUE(reader.ok());
  return fields;
}

// Reads what protos/perfetto/trace/trace.proto and those that it includes describe.
class PerfettoReader {
 public:
  explicit PerfettoReader(std::string_view trace) {
    auto fields = FieldsOf(AsBytes(trace));
    for (const WireField& packet : fields[1]) Packet(packet.bytes);
    for (const auto& [track, open] : open_) EXPECT_TRUE(open.empty()) << "track " << track;
  }
  std::vector<Slice> slices;
  std::vector<std::string> instants;
  std::map<uint64_t, std::string> tracks;  // names by uuid
  std::map<uint64_t, uint64_t> parents;
  size_t packets = 0;
  size_t names_interned = 0;

 private:
  static std::string TextOf(const WireField& field) { return std::string(AsText(field.bytes)); }

  void Packet(Bytes bytes) {
    ++packets;
    auto fields = FieldsOf(bytes);
    if (fields.contains(60)) Track(fields[60][0].bytes);
    if (!fields.contains(11)) return;
    const uint64_t sequence = fields[10].at(0).value;
    ASSERT_NE(sequence, 0U);
    // The first packet of a sequence says that nothing before it counts; the others need what it says.
    const bool is_new = known_.try_emplace(sequence).second;
    EXPECT_EQ(fields[13].at(0).value, is_new ? 1U : 2U);
    Names& names = known_[sequence];
    if (fields.contains(12)) {
      auto interned = FieldsOf(fields[12][0].bytes);
      for (const WireField& name : interned[2]) {
        auto entry = FieldsOf(name.bytes);
        EXPECT_TRUE(names.events.emplace(entry[1].at(0).value, TextOf(entry[2].at(0))).second);
        ++names_interned;
      }
      for (const WireField& category : interned[1]) {
        auto entry = FieldsOf(category.bytes);
        names.categories.emplace(entry[1].at(0).value, TextOf(entry[2].at(0)));
      }
    }
    Event(fields[8].at(0).value, names, fields[11][0].bytes);
  }
  void Track(Bytes bytes) {
    auto fields = FieldsOf(bytes);
    std::string name;
    if (fields.contains(2)) name = TextOf(fields[2][0]);
    if (fields.contains(3)) {
      auto process = FieldsOf(fields[3][0].bytes);
      name = StrFormat("process {} {}", process[1].at(0).value, TextOf(process[6].at(0)));
    }
    if (fields.contains(4)) {
      auto thread = FieldsOf(fields[4][0].bytes);
      name = TextOf(thread[5].at(0));
      EXPECT_EQ(thread[1].at(0).value, 40U);
    }
    EXPECT_TRUE(tracks.emplace(fields[1].at(0).value, name).second);
    if (fields.contains(5)) parents[fields[1][0].value] = fields[5][0].value;
  }
  struct Names {
    std::map<uint64_t, std::string> events;
    std::map<uint64_t, std::string> categories;
  };
  void Event(uint64_t time, const Names& names, Bytes bytes) {
    auto fields = FieldsOf(bytes);
    const uint64_t track = fields[11].at(0).value;
    ASSERT_TRUE(tracks.contains(track)) << "an event before its track";
    ASSERT_GE(time, last_time_[track]) << "time goes back on a track";
    last_time_[track] = time;
    const auto name = [&] {
      return fields.contains(23) ? TextOf(fields[23][0]) : names.events.at(fields[10].at(0).value);
    };
    switch (fields[9].at(0).value) {
      case 1: {
        std::string category;
        if (fields.contains(3)) category = names.categories.at(fields[3][0].value);
        std::string title = tracks[track];
        if (title.find("stack 1") != std::string::npos) title = "stack 1";
        open_[track].push_back(slices.size());
        slices.emplace_back(title, name(), category, time, 0, open_[track].size() - 1);
        break;
      }
      case 2:
        ASSERT_FALSE(open_[track].empty()) << "an end without a beginning";
        std::get<4>(slices[open_[track].back()]) = time;
        open_[track].pop_back();
        break;
      case 3:
        instants.push_back(StrFormat("{} {}", time, name()));
        break;
      default:
        FAIL() << "an event of no kind";
    }
  }

  std::map<uint64_t, Names> known_;
  std::map<uint64_t, std::vector<size_t>> open_;
  std::map<uint64_t, uint64_t> last_time_;
};

TEST(Perfetto, SlicesNestAndAreTheIntervals) {
  const Profile profile = FlowProfile();
  const std::string text = Text([&](ByteSink* sink) { return WritePerfetto(profile, sink); });
  PerfettoReader reader(text);
  std::vector<Slice> expected = ExpectedSlices();
  expected.emplace_back("trust in the trace of 42", "suspect", "", 8100, 8300, 0);
  EXPECT_EQ(reader.slices, expected);
  EXPECT_EQ(reader.instants,
            (std::vector<std::string>{
                "7100 trace lost: overflow",
                "5000 8 calls are not shown: 8 were the shortest, of 0 no time is known"}));
  EXPECT_EQ(reader.names_interned, 6U);  // once per track
  for (const auto& [track, parent] : reader.parents) {
    EXPECT_TRUE(reader.tracks.contains(parent)) << reader.tracks[track];
  }
  EXPECT_EQ(text, Text([&](ByteSink* sink) { return WritePerfetto(profile, sink); }));
}

TEST(ChromeTrace, EventsAreTheIntervals) {
  const Profile profile = FlowProfile();
  const std::string text = Text([&](ByteSink* sink) { return WriteChromeTrace(profile, sink); });
  const Json json = Json::parse(text);
  std::map<int64_t, std::string> names;
  std::vector<Slice> slices;
  std::vector<std::string> instants;
  std::map<int64_t, std::vector<double>> open;
  const auto ns = [](const Json& microseconds) {
    return static_cast<uint64_t>(microseconds.get<double>() * 1000 + 0.5);
  };
  for (const Json& event : json["traceEvents"]) {
    const int64_t tid = event["tid"];
    EXPECT_EQ(event["pid"], 40);
    const std::string phase = event["ph"];
    if (phase == "M") {
      if (event["name"] == "thread_name") names[tid] = event["args"]["name"];
    } else if (phase == "X") {
      std::string track = names.at(tid);
      if (track.find("stack 1") != std::string::npos) track = "stack 1";
      const uint64_t begin = ns(event["ts"]);
      const uint64_t end = begin + ns(event["dur"]);
      std::vector<double>& ends = open[tid];
      while (!ends.empty() && ends.back() <= static_cast<double>(begin)) ends.pop_back();
      slices.emplace_back(track, event["name"], event["cat"], begin + 5000, end + 5000,
                          ends.size());
      ends.push_back(static_cast<double>(end));
    } else {
      EXPECT_EQ(phase, "i");
      instants.push_back(StrFormat("{} {}", ns(event["ts"]) + 5000, event["name"]));
    }
  }
  EXPECT_EQ(slices, ExpectedSlices());
  EXPECT_EQ(instants, (std::vector<std::string>{"7100 trace lost: overflow", "8100 suspect"}));
  EXPECT_EQ(json["otherData"]["begin_ns"], "5000");
  EXPECT_EQ(json["otherData"]["intervals_cut"], 8);
  EXPECT_EQ(text, Text([&](ByteSink* sink) { return WriteChromeTrace(profile, sink); }));
}

TEST(Timelines, OfTracesWithoutTimeAreInInstructions) {
  Profile profile = FlowProfile();
  for (FlowSummary::Interval& interval : profile.summary.flow.intervals) {
    interval.begin_ns = interval.end_ns = 0;
  }
  profile.summary.flow.marks.clear();
  PerfettoReader reader(Text([&](ByteSink* sink) { return WritePerfetto(profile, sink); }));
  ASSERT_EQ(reader.slices.size(), profile.summary.flow.intervals.size());
  EXPECT_EQ(std::get<3>(reader.slices[1]), 10U);
  EXPECT_EQ(std::get<4>(reader.slices[1]), 210U);
  const Json json =
      Json::parse(Text([&](ByteSink* sink) { return WriteChromeTrace(profile, sink); }));
  EXPECT_EQ(json["otherData"]["unit"], "instructions");
}

TEST(Timelines, WhatHasNoTimeInATraceThatHasIsCounted) {
  Profile profile = FlowProfile();
  profile.summary.flow.intervals[1].begin_ns = profile.summary.flow.intervals[1].end_ns = 0;
  PerfettoReader reader(Text([&](ByteSink* sink) { return WritePerfetto(profile, sink); }));
  EXPECT_EQ(reader.instants.back(),
            "5000 9 calls are not shown: 8 were the shortest, of 1 no time is known");
}

TEST(Timelines, OfProfilesOfSamplesAreRefusedInOneSentence) {
  Profile profile = FlowProfile();
  profile.summary = {};
  std::string text;
  StringSink sink(&text);
  for (const Format format : {Format::kPerfetto, Format::kChromeTrace}) {
    const Status status = WriteProfile(profile, format, {}, &sink);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidInput);
    EXPECT_NE(status.error().message.find("no timeline"), std::string::npos);
  }
  EXPECT_TRUE(text.empty());
}

TEST(Timelines, AMillionSlicesAreWrittenPieceByPiece) {
  Profile profile = FlowProfile();
  FlowSummary& flow = profile.summary.flow;
  const FlowSummary::Interval call = flow.intervals[1];
  flow.intervals.clear();
  constexpr uint64_t kCalls = 1 << 20;
  for (uint64_t i = 0; i < kCalls; ++i) {
    FlowSummary::Interval& interval = flow.intervals.emplace_back(call);
    interval.begin_ns = 5000 + 10 * i;
    interval.end_ns = interval.begin_ns + 7;
    interval.begin_instruction = 10 * i;
    interval.instructions = 5;
  }
  class CountingSink : public ByteSink {
   public:
    Status Write(std::string_view bytes) override {
      size += bytes.size();
      largest = std::max(largest, bytes.size());
      return OkStatus();
    }
    size_t size = 0;
    size_t largest = 0;
  };
  for (const Format format : {Format::kPerfetto, Format::kChromeTrace}) {
    CountingSink sink;
    ASSERT_TRUE(WriteProfile(profile, format, {}, &sink).has_value());
    EXPECT_GT(sink.size, kCalls * 20);
    EXPECT_LT(sink.size, kCalls * 120);
    EXPECT_LT(sink.largest, size_t{1} << 20);
  }
}

}  // namespace
}  // namespace ptarmigan
