// What we would open on the machines whose recordings are at hand, beside what perf opened there. What differs is said here,
// with the reason.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "decode/perf_data_file.h"
#include "hw/hardware_source.h"
#include "hw/internal/attr_bits.h"
#include "hw/perf_session.h"
#include "tests/hw/fake_root.h"
#include "tests/hw/pmu_trees.h"
#include "tests/hw/scripted_kernel.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

// Every session of ours: a reader is woken by bytes, not by records; the kernel says how many records it lost; every record
// names its event and CPU.
constexpr uint64_t kOurFlags = uint64_t{1} << internal::kBitWatermark;
constexpr uint64_t kOurReadFormat = kReadLost;
constexpr uint64_t kOurSampleType = kSampleIdentifier | kSampleCpu;
// Side-band that perf lets its first event carry stands in an event of its own here.
constexpr uint64_t kSideBandFlags =
    uint64_t{1} << internal::kBitMmap | uint64_t{1} << internal::kBitMmap2 |
    uint64_t{1} << internal::kBitComm | uint64_t{1} << internal::kBitCommExec |
    uint64_t{1} << internal::kBitTask | uint64_t{1} << internal::kBitKsymbol |
    uint64_t{1} << internal::kBitBpfEvent;

class RecordedAttrs : public testing::Test {
 protected:
  // The attr of the recording's first event that `wanted` accepts.
  static EventAttr Recorded(const std::string& path,
                            const std::function<bool(const EventAttr&)>& wanted) {
    const auto source = OpenPerfData(path);
    EXPECT_TRUE(source.has_value()) << (source ? "" : source.error().message);
    if (!source) return {};
    for (const EventDescription& event : (*source)->description().events) {
      if (wanted(event.attr)) return event.attr;
    }
    ADD_FAILURE() << "no such event";
    return {};
  }
  // The attr that a session of ours opens for a command.
  EventAttr Ours(const SourceRequest& request, uint32_t type,
                 const std::function<void(PerfSessionOptions*)>& change = {}) {
    auto setup = SetUpSource(request, EventRoots{sys_.path(), ""});
    EXPECT_TRUE(setup.has_value()) << (setup ? "" : setup.error().message);
    if (!setup) return {};
    PerfSessionOptions options;
    options.target.kind = PerfTarget::Kind::kCommand;
    options.target.pids = {4711};
    options.kernel = &kernel_;
    options.proc_root = proc_.path();
    options.sysfs_root = sys_.path();
    options.call_chain = CallChainMode::kNone;
    options.frequency_hz = 4000;
    UseSource(*setup, &options);
    options.clockid = -1;
    if (change) change(&options);
    proc_.File("4711/task/4711/stat", "4711 (x) R 1\n");
    const auto session = PerfSession::Open(options);
    EXPECT_TRUE(session.has_value()) << (session ? "" : session.error().message);
    const ScriptedKernel::Event* event = kernel_.Find(type);
    EXPECT_NE(event, nullptr);
    return event != nullptr ? event->attr : EventAttr();
  }
  static void ExpectSame(const EventAttr& ours, const EventAttr& recorded) {
    EXPECT_EQ(ours.type, recorded.type);
    EXPECT_EQ(ours.config, recorded.config);
    EXPECT_EQ(ours.config1, recorded.config1);
    EXPECT_EQ(ours.config2, recorded.config2);
    EXPECT_EQ(ours.sample_period, recorded.sample_period);
    EXPECT_EQ(ours.sample_freq_hz, recorded.sample_freq_hz);
    EXPECT_EQ(ours.sample_type | kOurSampleType, recorded.sample_type | kOurSampleType);
    EXPECT_EQ(ours.read_format & ~kOurReadFormat, recorded.read_format);
    EXPECT_EQ(ours.branch_sample_type, recorded.branch_sample_type);
    EXPECT_EQ(ours.flags & ~kOurFlags, recorded.flags & ~kSideBandFlags);
  }

  FakeRoot sys_;
  FakeRoot proc_;
  ScriptedKernel kernel_;
};

TEST_F(RecordedAttrs, IntelPtOfSkylake) {
  const std::string path = TestDataPath("perf_data_converter/perf.data.intel_pt-4.14");
  if (path.empty()) GTEST_SKIP() << TestDataMissing("perf_data_converter/perf.data.intel_pt-4.14");
  IceLake(&sys_);  // the same terms and capabilities, under another number
  sys_.File("bus/event_source/devices/intel_pt/type", "6\n");
  const EventAttr recorded = Recorded(path, [](const EventAttr& attr) { return attr.type == 6; });
  // perf asks for a PSB every 16 KiB, we for one every 2 KiB.
  ExpectSame(Ours({.name = "pt", .terms = "psb_period=3", .kernel = true}, 6), recorded);
  EXPECT_EQ(recorded.config & ~Ours({.name = "pt", .kernel = true}, 6).config, uint64_t{3} << 24);
}

TEST_F(RecordedAttrs, BranchRecordsOfSkylake) {
  const std::string path = TestDataPath("perf_data_converter/perf.data.branch-4.14");
  if (path.empty()) GTEST_SKIP() << TestDataMissing("perf_data_converter/perf.data.branch-4.14");
  IceLake(&sys_);
  const EventAttr recorded =
      Recorded(path, [](const EventAttr& attr) { return attr.Samples(kSampleBranchStack); });
  EventAttr ours = Ours({.name = "lbr", .kernel = true}, kPerfTypeHardware);
  // This perf did not ask for the counters' ids.
  ours.read_format &= ~uint64_t{kReadId};
  ExpectSame(ours, recorded);
}

TEST_F(RecordedAttrs, CallStacksOfBranchRecords) {
  const std::string path = TestDataPath("kdab-perfparser/vector_static_gcc.perf.lbr.data");
  if (path.empty())
    GTEST_SKIP() << TestDataMissing("kdab-perfparser/vector_static_gcc.perf.lbr.data");
  IceLake(&sys_);
  const EventAttr recorded =
      Recorded(path, [](const EventAttr& attr) { return attr.Samples(kSampleBranchStack); });
  const auto chains = [](PerfSessionOptions* options) {
    options->call_chain = CallChainMode::kFramePointers;
    AddCallStacksOfBranchRecords(&options->events.front());
  };
  // The same event without branch records of its own: call stacks are what is added.
  const auto plain = [&chains](PerfSessionOptions* options) {
    auto cycles = ParseEvent("cycles:P", EventRoots{options->sysfs_root, ""});
    ASSERT_TRUE(cycles.has_value());
    options->events = {*cycles};
    chains(options);
  };
  ExpectSame(Ours({.name = "lbr", .kernel = true}, kPerfTypeHardware, plain), recorded);
}

}  // namespace
}  // namespace ptarmigan
