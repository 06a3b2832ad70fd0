#include "pipeline/event_table.h"

#include <gtest/gtest.h>

#include "tests/fakes/scripted_event_source.h"

namespace ptarmigan {
namespace {

std::string Table(EventSource& source, EventKind kind) {
  std::string text;
  const auto losses = WriteEventTable(source, {.kind = kind}, [&text](std::string_view piece) {
    text += piece;
    return OkStatus();
  });
  EXPECT_TRUE(losses.has_value());
  return text;
}

TEST(EventTable, PrintsSamplesWithEmptyCellsForWhatIsNotRecorded) {
  ScriptedEventSource source;
  source.AddEvent("cpu-clock", kPerfTypeSoftware, 0);
  source.Play([](EventSink& sink) {
    CapturedSample sample;
    sample.period = 5;
    sink.OnSample(sample);
    sample.identity = {
        .pid = 7, .tid = 8, .time_ns = 99, .id = 0, .stream_id = 0, .cpu = 3, .has_time = true};
    sample.ip = {0xAbC};
    sample.has_ip = true;
    sample.chain = {kContextUser, 0xabc};
    sink.OnSample(sample);
  });
  EXPECT_EQ(Table(source, EventKind::kAny),
            "event\tcpu\tpid\ttid\ttime_ns\tip\tperiod\tchain\n"
            "cpu-clock\t\t\t\t\t\t5\t\n"
            "cpu-clock\t3\t7\t8\t99\t0xabc\t5\tfffffffffffffe00,abc\n");
}

TEST(EventTable, PrintsOneLinePerBranchNewestFirst) {
  ScriptedEventSource source;
  source.AddEvent("cycles", kPerfTypeHardware, 0);
  source.mutable_description().events[0].attr.sample_type = kSampleBranchStack;
  source.Play([](EventSink& sink) {
    CapturedSample sample;
    sample.identity.cpu = 1;
    sample.ip = {0x10};
    sample.has_ip = true;
    sample.branches = {
        {.from = 0x1, .to = 0x2, .mispredicted = true, .cycles = 9, .type = 4, .spec = 2},
        {.from = 0x3, .to = 0x4, .predicted = true},
        {.from = 0x5, .to = 0x6}};
    sink.OnSample(sample);
  });
  EXPECT_EQ(
      Table(source, EventKind::kAny),
      "cpu\tpid\ttid\ttime_"
      "ns\tip\tidx\tfrom\tto\tmispredicted\tpredicted\tcycles\ttype\tspec\tabort\tin_tx\tcounters\n"
      "1\t\t\t\t0x10\t0\t0x1\t0x2\t1\t0\t9\tCALL\t2\t0\t0\t\n"
      "1\t\t\t\t0x10\t1\t0x3\t0x4\t0\t1\t\t\t\t0\t0\t\n"
      "1\t\t\t\t0x10\t2\t0x5\t0x6\t\t\t\t\t\t0\t0\t\n");
}

// Two counters of four bits: caps/branch_counter_nr and _width.
TEST(EventTable, PrintsBranchCountersOneByOneWhereTheirLayoutIsRecorded) {
  const auto counters_of = [](bool has_layout) {
    ScriptedEventSource source;
    source.AddEvent("cycles", kPerfTypeHardware, 0);
    RecordingDescription& description = source.mutable_description();
    description.events[0].attr.sample_type = kSampleBranchStack;
    description.events[0].attr.branch_sample_type = kBranchAny | kBranchCounters;
    if (has_layout) {
      description.pmu_caps["cpu"] = {{"branch_counter_nr", "2"}, {"branch_counter_width", "4"}};
    }
    source.Play([](EventSink& sink) {
      CapturedSample sample;
      sample.branches = {{.from = 0x1, .to = 0x2}, {.from = 0x3, .to = 0x4}};
      sample.branch_counters = {0xf3, 0x0e};
      sink.OnSample(sample);
    });
    std::string cells;
    const std::string table = Table(source, EventKind::kBranch);
    for (size_t at = table.find('\n') + 1; at < table.size(); at = table.find('\n', at) + 1) {
      const size_t end = table.find('\n', at);
      const size_t begin = table.rfind('\t', end) + 1;
      cells += table.substr(begin, end - begin) + " ";
    }
    return cells;
  };
  EXPECT_EQ(counters_of(true), "3,15+ 14,0 ");
  EXPECT_EQ(counters_of(false), "0xf3 0xe ");
}

TEST(EventTable, StopsWhenTheOutputFails) {
  ScriptedEventSource source;
  source.AddEvent("cpu-clock", kPerfTypeSoftware, 0);
  const auto losses = WriteEventTable(source, {.kind = EventKind::kSample}, [](std::string_view) {
    return Status(Error{ErrorCode::kIo, "full"});
  });
  ASSERT_FALSE(losses.has_value());
  EXPECT_EQ(losses.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace ptarmigan
