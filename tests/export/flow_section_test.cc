#include "export/flow_section.h"

#include <gtest/gtest.h>

#include <string>

#include "base/str_format.h"
#include "export/archive.h"
#include "tests/support/flow_profile.h"

namespace ptarmigan {
namespace {

std::string Describe(const Profile& profile, uint32_t location) {
  if (location == kNoId) return "none";
  const Profile::Location& at = profile.locations[location];
  return StrFormat("{:x} {}", at.address,
                   profile.Text(profile.functions[profile.Lines(at).back().function].name));
}

void ExpectEqual(const Profile& left, const Profile& right) {
  const FlowSummary& a = left.summary.flow;
  const FlowSummary& b = right.summary.flow;
  EXPECT_EQ(a.source, b.source);
  ASSERT_EQ(a.threads.size(), b.threads.size());
  for (size_t i = 0; i < a.threads.size(); ++i) {
    const auto fields = [](const FlowSummary::Thread& thread) {
      return std::tuple(thread.pid, thread.tid, thread.name, thread.cpu, thread.instructions,
                        thread.blocks, thread.branches, thread.calls, thread.returns,
                        thread.ip_digest, thread.verified, thread.suspect, thread.bad,
                        thread.bytes.Sum(), thread.bytes.overflow, thread.gaps,
                        thread.errors.size(), thread.errors_cut, thread.begin_ns, thread.end_ns,
                        thread.uncertainty_ns);
    };
    EXPECT_EQ(fields(a.threads[i]), fields(b.threads[i]));
    EXPECT_EQ(a.threads[i].errors[0].code, b.threads[i].errors[0].code);
    EXPECT_EQ(a.threads[i].errors[0].reason, b.threads[i].errors[0].reason);
  }
  ASSERT_EQ(a.functions.size(), b.functions.size());
  for (size_t i = 0; i < a.functions.size(); ++i) {
    EXPECT_EQ(Describe(left, a.functions[i].location), Describe(right, b.functions[i].location));
    EXPECT_EQ(a.functions[i].interrupts, b.functions[i].interrupts);
  }
  ASSERT_EQ(a.calls.size(), b.calls.size());
  for (size_t i = 0; i < a.calls.size(); ++i) {
    EXPECT_EQ(Describe(left, a.calls[i].callee), Describe(right, b.calls[i].callee));
    EXPECT_EQ(Describe(left, a.calls[i].caller), Describe(right, b.calls[i].caller));
    EXPECT_TRUE(a.calls[i].total == b.calls[i].total && a.calls[i].self == b.calls[i].self);
    EXPECT_EQ(a.calls[i].unbounded, b.calls[i].unbounded);
    EXPECT_EQ(a.calls[i].entry, b.calls[i].entry);
  }
  ASSERT_EQ(a.intervals.size(), b.intervals.size());
  for (size_t i = 0; i < a.intervals.size(); ++i) {
    const auto fields = [](const FlowSummary::Interval& interval) {
      return std::tuple(interval.thread, interval.stack, interval.depth, interval.entry,
                        interval.exit, interval.uncertainty_ns, interval.begin_ns, interval.end_ns,
                        interval.begin_instruction, interval.instructions);
    };
    EXPECT_EQ(fields(a.intervals[i]), fields(b.intervals[i]));
    EXPECT_EQ(Describe(left, a.intervals[i].function), Describe(right, b.intervals[i].function));
    EXPECT_EQ(Describe(left, a.intervals[i].caller), Describe(right, b.intervals[i].caller));
  }
  ASSERT_EQ(a.marks.size(), b.marks.size());
  EXPECT_EQ(a.marks[1].kind, b.marks[1].kind);
  EXPECT_EQ(a.marks[1].end_ns, b.marks[1].end_ns);
  EXPECT_EQ(a.intervals_cut, b.intervals_cut);
  EXPECT_EQ(a.marks_cut, b.marks_cut);
  EXPECT_EQ(a.missing_code, b.missing_code);
}

TEST(FlowSection, ComesBackFromAnArchive) {
  const Profile before = FlowProfile();
  std::string bytes;
  StringSink sink(&bytes);
  auto writer = ArchiveWriter::Begin(&sink);
  ASSERT_TRUE(writer.has_value());
  ASSERT_TRUE(writer->AddProfile(before).has_value());
  ASSERT_TRUE(writer->Finish().has_value());
  const auto reader = ArchiveReader::Open(AsBytes(bytes));
  ASSERT_TRUE(reader.has_value());
  const auto after = reader->ReadProfile();
  ASSERT_TRUE(after.has_value());
  EXPECT_EQ(after->losses.Lost(LossUnit::kRecords), 0U);
  ExpectEqual(before, *after);
}

TEST(FlowSection, RefusesEveryCutAndChangesNothing) {
  Profile profile = FlowProfile();
  const std::string content = EncodeFlowSection(profile);
  profile.summary.flow = {};
  for (size_t size = 0; size < content.size(); ++size) {
    EXPECT_FALSE(
        DecodeFlowSection(AsBytes(std::string_view(content).substr(0, size)), &profile).has_value())
        << size;
    EXPECT_TRUE(profile.summary.flow.empty());
  }
  EXPECT_TRUE(DecodeFlowSection(AsBytes(content), &profile).has_value());
  EXPECT_FALSE(profile.summary.flow.empty());
}

TEST(FlowSection, NoChangedByteMakesNumbersThatReportsCannotTake) {
  Profile profile = FlowProfile();
  const std::string content = EncodeFlowSection(profile);
  for (size_t at = 0; at < content.size(); ++at) {
    for (const char byte : {'\x00', '\x01', '\x7f', '\xff'}) {
      std::string changed = content;
      changed[at] = byte;
      if (!DecodeFlowSection(AsBytes(changed), &profile)) continue;
      const FlowSummary& flow = profile.summary.flow;
      for (const FlowSummary::Interval& interval : flow.intervals) {
        ASSERT_LT(interval.thread, flow.threads.size());
        ASSERT_TRUE(interval.function == kNoId || interval.function < profile.locations.size());
        ASSERT_LE(interval.begin_ns, interval.end_ns);
      }
      for (const FlowSummary::Calls& calls : flow.calls) {
        ASSERT_LE(calls.unbounded, calls.total.count());
      }
      for (const FlowSummary::Mark& mark : flow.marks) ASSERT_LT(mark.thread, flow.threads.size());
    }
  }
}

}  // namespace
}  // namespace ptarmigan
