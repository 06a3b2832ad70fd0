// TriggerWatch, on a scripted kernel, and with uprobes on the real one.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "hw/internal/attr_bits.h"
#include "hw/trigger.h"
#include "tests/hw/fake_root.h"
#include "tests/hw/live_session.h"
#include "tests/hw/pmu_trees.h"
#include "tests/hw/scripted_kernel.h"

namespace ptarmigan {
namespace {

constexpr uint32_t kUprobeType = 7;

std::vector<std::byte> Record(uint32_t type, uint16_t misc, const std::vector<uint64_t>& words) {
  std::vector<std::byte> record(8 + words.size() * 8);
  const auto size = static_cast<uint16_t>(record.size());
  std::memcpy(record.data(), &type, 4);
  std::memcpy(record.data() + 4, &misc, 2);
  std::memcpy(record.data() + 6, &size, 2);
  std::memcpy(record.data() + 8, words.data(), words.size() * 8);
  return record;
}

class ScriptedWatch : public testing::Test {
 protected:
  ScriptedWatch() {
    CloudMachine(&sys_);
    sys_.File("bus/event_source/devices/uprobe/type", "7\n")
        .File("bus/event_source/devices/uprobe/format/retprobe", "config:0\n")
        .File("devices/system/cpu/online", "0\n");
    options_.kernel = &kernel_;
    options_.proc_root = proc_.path();
    options_.roots = EventRoots{sys_.path(), ""};
    options_.condition.object = "/bin/prog";
    options_.condition.file_offset = 0x1234;
    options_.condition.threshold = std::chrono::nanoseconds(100);
  }
  void Open() {
    auto watch = TriggerWatch::Open(options_);
    ASSERT_TRUE(watch.has_value()) << watch.error().message;
    watch_ = *std::move(watch);
  }
  ScriptedKernel::Event* Event(uint64_t config) {
    for (ScriptedKernel::Event* event : kernel_.events()) {
      if (event->attr.type == kUprobeType && event->attr.config == config) return event;
    }
    return nullptr;
  }
  void Enter(uint32_t tid, uint64_t time_ns) { Write(Event(0), tid, time_ns); }
  void Leave(uint32_t tid, uint64_t time_ns) { Write(Event(1), tid, time_ns); }
  void Switch(uint32_t tid, uint64_t time_ns, uint16_t misc) {
    ScriptedKernel::Event* event = kernel_.events().front();
    kernel_.WriteRecord(event, Record(14, misc, {uint64_t{tid} << 32 | 1, time_ns, 0, event->id}));
  }
  std::vector<TriggerHit> Poll() {
    auto hits = watch_->Poll();
    EXPECT_TRUE(hits.has_value());
    return hits ? *hits : std::vector<TriggerHit>();
  }
  void Write(ScriptedKernel::Event* event, uint32_t tid, uint64_t time_ns) {
    ASSERT_NE(event, nullptr);
    kernel_.WriteRecord(
        event, Record(9, 2, {event->id, 0x401000, uint64_t{tid} << 32 | 1, time_ns, 0, 1}));
  }

  FakeRoot proc_;
  FakeRoot sys_;
  ScriptedKernel kernel_;
  TriggerWatch::Options options_;
  std::unique_ptr<TriggerWatch> watch_;
};

TEST_F(ScriptedWatch, AUprobePairIsOpenedAtTheFunction) {
  Open();
  for (const uint64_t config : {0U, 1U}) {
    const ScriptedKernel::Event* event = Event(config);
    ASSERT_NE(event, nullptr);
    EXPECT_EQ(event->attr.config2, 0x1234U);
    EXPECT_STREQ(reinterpret_cast<const char*>(event->attr.config1), "/bin/prog");
    EXPECT_EQ(event->attr.sample_period, 1U);
    EXPECT_TRUE(event->enabled);
  }
}

TEST_F(ScriptedWatch, OnlyWhatTookLongerIsAHitPerThread) {
  Open();
  Enter(7, 1000);
  Enter(8, 1050);
  Leave(7, 1100);  // exactly the threshold
  Leave(8, 1151);
  const std::vector<TriggerHit> hits = Poll();
  ASSERT_EQ(hits.size(), 1U);
  EXPECT_EQ(hits[0].tid, 8);
  EXPECT_EQ(hits[0].duration_ns, 101U);
  EXPECT_EQ(hits[0].end_ns, 1151U);
  EXPECT_EQ(watch_->counts().spans, 2U);
}

TEST_F(ScriptedWatch, RecursionEndsWithTheInnermost) {
  Open();
  Enter(7, 1000);
  Enter(7, 1950);
  Leave(7, 2000);
  EXPECT_TRUE(Poll().empty());
  Leave(7, 2100);
  const std::vector<TriggerHit> hits = Poll();
  ASSERT_EQ(hits.size(), 1U);
  EXPECT_EQ(hits[0].duration_ns, 1100U);
}

TEST_F(ScriptedWatch, AnEndWithoutABeginningIsCounted) {
  Open();
  Leave(7, 5000);
  EXPECT_TRUE(Poll().empty());
  EXPECT_EQ(watch_->counts().unmatched, 1U);
}

TEST_F(ScriptedWatch, AfterALossNothingIsMatchedWithTheWrongBeginning) {
  Open();
  Enter(7, 1000);
  ScriptedKernel::Event* event = Event(0);
  kernel_.WriteRecord(event, Record(2, 0, {event->id, 3, 1, 1500, 0, event->id}));
  Poll();
  Leave(7, 9000);
  EXPECT_TRUE(Poll().empty());
  EXPECT_EQ(watch_->counts().lost_records, 3U);
  EXPECT_EQ(watch_->counts().unmatched, 1U);
}

TEST_F(ScriptedWatch, DepthIsBounded) {
  Open();
  for (size_t i = 0; i < TriggerWatch::kDepthMax + 5; ++i) {
    Enter(7, 1000 + i);
    if (i % 100 == 99) Poll();
  }
  Poll();
  EXPECT_EQ(watch_->counts().refused_threads, 5U);
}

TEST_F(ScriptedWatch, ThePreemptedAreReadyAtOnceTheSleepingOnlyWhenWoken) {
  options_.condition.kind = TriggerCondition::Kind::kSched;
  Open();
  constexpr uint16_t kOut = 1 << 13;
  constexpr uint16_t kPreempted = kOut | 1 << 14;
  Switch(7, 1000, kPreempted);
  Switch(7, 1500, 0);
  Switch(8, 1000, kOut);  // sleeps; who wakes it is not seen without the tracepoint
  Switch(8, 9000, 0);
  const std::vector<TriggerHit> hits = Poll();
  ASSERT_EQ(hits.size(), 1U);
  EXPECT_EQ(hits[0].tid, 7);
  EXPECT_EQ(hits[0].duration_ns, 500U);
  ASSERT_EQ(watch_->notes().size(), 1U);
}

TEST_F(ScriptedWatch, ARefusalSaysWhy) {
  kernel_.on_open = [](const EventAttr& attr, const PerfOpenTarget&) {
    return attr.type == kUprobeType ? EACCES : 0;
  };
  const auto watch = TriggerWatch::Open(options_);
  ASSERT_FALSE(watch.has_value());
  EXPECT_EQ(watch.error().code, ErrorCode::kPermission);
}

// ---- the real kernel ----

// What is watched: long enough not to be merged with another, and never inlined.
extern "C" __attribute__((noinline)) uint64_t PtarmiganTriggerTarget(uint64_t milliseconds) {
  if (milliseconds > 0) std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  asm volatile("" ::: "memory");
  return milliseconds * 3;
}

// Where the function stands in this program's file.
uint64_t FileOffsetOf(const void* function) {
  const auto address = reinterpret_cast<uint64_t>(function);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t offset = 0;
    std::array<char, 5> rights = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s %lx", &begin, &end, rights.data(), &offset) == 4 &&
        begin <= address && address < end)
      return address - begin + offset;
  }
  return 0;
}

TEST(TriggerWatchLive, CatchesTheSlowCallsAndNoOther) {
  constexpr size_t kSlowCalls = 4;
  constexpr uint64_t kSlowMs = 300;
  const SharedNumbers<2> control;
  TestProcess process([&control] {
    while ((*control)[0] == 0) std::this_thread::yield();
    for (size_t i = 0; i < kSlowCalls * 200; ++i)
      PtarmiganTriggerTarget(i % 200 == 100 ? kSlowMs : 0);
    (*control)[1] = 1;
    std::this_thread::sleep_for(std::chrono::seconds(20));
  });
  TriggerWatch::Options options;
  options.target.kind = PerfTarget::Kind::kPids;
  options.target.pids = {process.pid()};
  options.condition.object = "/proc/self/exe";
  options.condition.file_offset =
      FileOffsetOf(reinterpret_cast<const void*>(&PtarmiganTriggerTarget));
  options.condition.threshold = std::chrono::milliseconds(250);
  ASSERT_NE(options.condition.file_offset, 0U);
  auto watch = TriggerWatch::Open(options);
  if (!watch) GTEST_SKIP() << watch.error().message;
  (*control)[0] = 1;
  std::vector<TriggerHit> hits;
  const auto deadline = Clock::now() + std::chrono::seconds(15);
  while (Clock::now() < deadline) {
    const bool ended = (*control)[1] != 0;
    pollfd wait = {(*watch)->wait_fd(), POLLIN, 0};
    ::poll(&wait, 1, 100);
    const auto more = (*watch)->Poll();
    ASSERT_TRUE(more.has_value());
    hits.insert(hits.end(), more->begin(), more->end());
    if (ended) break;
  }
  EXPECT_EQ((*watch)->counts().spans, kSlowCalls * 200);
  EXPECT_EQ((*watch)->counts().lost_records + (*watch)->counts().unmatched, 0U);
  ASSERT_EQ(hits.size(), kSlowCalls);
  for (const TriggerHit& hit : hits) {
    EXPECT_EQ(hit.tid, process.pid());
    EXPECT_GE(hit.duration_ns, kSlowMs * 1'000'000);
    EXPECT_LT(hit.duration_ns, 3 * kSlowMs * 1'000'000);
  }
}

}  // namespace
}  // namespace ptarmigan
