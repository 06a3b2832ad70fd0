#include "hw/perf_session.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <thread>

#include "base/file.h"
#include "base/str_format.h"
#include "hw/child_process.h"
#include "tests/hw/live_session.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

uint64_t PeriodSum(const Recorder& recorder, pid_t pid) {
  uint64_t sum = 0;
  for (const SeenSample& sample : recorder.samples) {
    if (sample.pid == pid) sum += sample.period;
  }
  return sum;
}

TEST(PerfSession, SamplesARunningProcess) {
  TestProcess busy([] { Burn(std::chrono::seconds(20)); });
  OPEN_OR_SKIP(session, OnPid(busy.pid()));
  Recorder recorder;
  ASSERT_TRUE(session.Poll(recorder, 0).has_value());
  // What was there before, before anything else.
  EXPECT_GT(recorder.synthesized, 0U);
  EXPECT_TRUE(recorder.HasMapping(busy.pid(), "hw_test"));
  EXPECT_TRUE(recorder.samples.empty());
  ASSERT_TRUE(session.Enable().has_value());
  PollFor(session, recorder, milliseconds(500));
  session.Stop();
  PollToEnd(session, recorder);
  EXPECT_GT(recorder.samples.size(), 20U);
  for (const SeenSample& sample : recorder.samples) EXPECT_EQ(sample.pid, busy.pid());
  EXPECT_EQ(recorder.wrong_sizes, 0U);
  EXPECT_EQ(recorder.lost, 0U);
  const PerfSessionStatistics statistics = session.statistics();
  EXPECT_EQ(statistics.samples, recorder.samples.size());
  EXPECT_EQ(statistics.corrupt_bytes, 0U);
  EXPECT_GT(statistics.polls, 0U);
  EXPECT_GT(statistics.cpu_ns, 0U);
  EXPECT_EQ(*session.Poll(recorder, 0), PollOutcome::kEnd);
}

TEST(PerfSession, PeriodsAddUpToTheCpuTimeUsed) {
  TestProcess busy([] { Burn(std::chrono::seconds(20)); });
  OPEN_OR_SKIP(session, OnPid(busy.pid()));
  Recorder recorder;
  ASSERT_TRUE(session.Poll(recorder, 0).has_value());
  const uint64_t before_ns = CpuTimeNs(busy.pid());
  ASSERT_TRUE(session.Enable().has_value());
  PollFor(session, recorder, milliseconds(1500));
  ASSERT_TRUE(session.Disable().has_value());
  const auto used_ns = static_cast<double>(CpuTimeNs(busy.pid()) - before_ns);
  session.Stop();
  PollToEnd(session, recorder);
  EXPECT_NEAR(static_cast<double>(PeriodSum(recorder, busy.pid())) / used_ns, 1.0, 0.1);
}

TEST(PerfSession, DescribesItsEventsWithTheIdsInTheRecords) {
  const SharedNumbers<1> begun;
  TestProcess busy([&begun] {
    (*begun)[0] = 1;
    Burn(std::chrono::seconds(20));
  });
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  while ((*begun)[0] == 0 && Clock::now() < deadline) std::this_thread::yield();
  PerfSessionOptions options = OnPid(busy.pid());
  auto faults = ParseEvent("page-faults");
  ASSERT_TRUE(faults.has_value());
  options.events.push_back(*faults);
  OPEN_OR_SKIP(session, options);
  const RecordingDescription& description = session.description();
  ASSERT_EQ(description.events.size(), 3U);
  EXPECT_TRUE(description.events[0].name.starts_with("cpu-clock"));
  EXPECT_TRUE(description.events[1].name.starts_with("page-faults"));
  EXPECT_TRUE(IsDummyEvent(description.events[2].attr));
  EXPECT_EQ(description.source, "live");
  EXPECT_EQ(description.arch, NativeArch());
  EXPECT_GT(description.cpus_online, 0U);
  EXPECT_FALSE(description.os_release.empty());
  // The process has one thread; ThreadSanitizer adds its own before the process begins.
  EXPECT_EQ(description.events[0].ids.size(),
            description.cpus_online * ThreadsOf(busy.pid()).size());
  Recorder recorder;
  ASSERT_TRUE(session.Poll(recorder, 0).has_value());
  ASSERT_TRUE(session.Enable().has_value());
  PollFor(session, recorder, milliseconds(300));
  session.Stop();
  PollToEnd(session, recorder);
  ASSERT_FALSE(recorder.samples.empty());
  std::set<uint64_t> known(description.events[0].ids.begin(), description.events[0].ids.end());
  known.insert(description.events[1].ids.begin(), description.events[1].ids.end());
  for (const SeenSample& sample : recorder.samples) EXPECT_EQ(known.count(sample.id), 1U);
}

TEST(PerfSession, StampsRecordsWithTheMonotonicClock) {
  TestProcess busy([] { Burn(std::chrono::seconds(20)); });
  OPEN_OR_SKIP(session, OnPid(busy.pid()));
  if (session.description().clockid != CLOCK_MONOTONIC) GTEST_SKIP() << session.notes().front();
  Recorder recorder;
  const auto now_ns = [] {
    return static_cast<uint64_t>(Clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
  };
  const uint64_t before_ns = now_ns();
  ASSERT_TRUE(session.Enable().has_value());
  PollFor(session, recorder, milliseconds(300));
  session.Stop();
  PollToEnd(session, recorder);
  const uint64_t after_ns = now_ns();
  ASSERT_FALSE(recorder.samples.empty());
  for (const SeenSample& sample : recorder.samples) {
    EXPECT_GE(sample.time_ns, before_ns);
    EXPECT_LE(sample.time_ns, after_ns);
  }
  EXPECT_LT(session.description().clock_reference_ns, before_ns);
  EXPECT_GT(session.description().clock_wall_ns, uint64_t{1'600'000'000} * 1'000'000'000);
}

TEST(PerfSession, ACommandIsSampledFromItsExecToItsEnd) {
  auto child = ChildProcess::Fork(
      {.argv = {"sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; exit 7"},
       .own_process_group = false});
  ASSERT_TRUE(child.has_value());
  PerfSessionOptions options = OnPid(child->pid());
  options.target.kind = PerfTarget::Kind::kCommand;
  OPEN_OR_SKIP(session, options);
  Recorder recorder;
  ASSERT_TRUE(session.Poll(recorder, 0).has_value());
  EXPECT_TRUE(recorder.samples.empty());
  ASSERT_TRUE(child->Start().has_value());
  PollToEnd(session, recorder);
  EXPECT_EQ(child->Wait(5000), 7);
  EXPECT_GT(recorder.samples.size(), 5U);
  bool exec_seen = false;
  for (const auto& [pid, tid, comm, is_exec] : recorder.comms) {
    exec_seen |= pid == child->pid() && comm == "sh" && is_exec;
  }
  EXPECT_TRUE(exec_seen);
  EXPECT_TRUE(recorder.HasMapping(child->pid(), "sh"));
  EXPECT_TRUE(recorder.HasMapping(child->pid(), "[vdso]"));
  EXPECT_FALSE(recorder.HasMapping(child->pid(), "hw_test"));
  EXPECT_GT(recorder.by_type[PERF_RECORD_EXIT], 0U);
}

TEST(PerfSession, EndsByItselfWhenTheProcessEnds) {
  TestProcess busy([] { Burn(milliseconds(400)); });
  OPEN_OR_SKIP(session, OnPid(busy.pid()));
  Recorder recorder;
  ASSERT_TRUE(session.Enable().has_value());
  PollToEnd(session, recorder);
  EXPECT_GT(recorder.samples.size(), 5U);
}

TEST(PerfSession, FollowsThreadsThatExistAndThatCome) {
  constexpr size_t kThreadsBefore = 2;
  constexpr size_t kThreads = 4;
  // The threads that burn tell their numbers.
  const SharedNumbers<kThreads> burning;
  TestProcess busy([&burning] {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      if (i == kThreadsBefore) std::this_thread::sleep_for(milliseconds(600));
      threads.emplace_back([&burning, i] {
        (*burning)[i] = ::gettid();
        Burn(std::chrono::seconds(20));
      });
    }
    for (auto& thread : threads) thread.join();
  });
  std::this_thread::sleep_for(milliseconds(200));
  OPEN_OR_SKIP(session, OnPid(busy.pid()));
  Recorder recorder;
  ASSERT_TRUE(session.Enable().has_value());
  const auto sampled = [&recorder] {
    std::set<pid_t> threads;
    for (const SeenSample& sample : recorder.samples) threads.insert(sample.tid);
    return threads;
  };
  EXPECT_TRUE(PollUntil(session, recorder, [&] {
    const std::set<pid_t> seen = sampled();
    return std::all_of((*burning).begin(), (*burning).end(),
                       [&seen](const auto& thread) { return seen.count(thread) != 0; });
  }));
  // Every thread but the first has one fork: ours for those from before, the kernel's for the others.
  const std::set<pid_t> threads = ThreadsOf(busy.pid());
  EXPECT_GT(threads.size(), kThreads);
  std::set<std::pair<int32_t, int32_t>> forks;
  for (const pid_t thread : threads) {
    if (thread != busy.pid()) forks.emplace(busy.pid(), thread);
  }
  EXPECT_EQ(recorder.forks, forks);
  for (const pid_t thread : sampled()) EXPECT_EQ(threads.count(thread), 1U);
}

TEST(PerfSession, FollowsChildren) {
  TestProcess busy([] {
    std::this_thread::sleep_for(milliseconds(300));
    const pid_t child = ::fork();
    if (child == 0) {
      Burn(milliseconds(500));
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
  });
  OPEN_OR_SKIP(session, OnPid(busy.pid()));
  Recorder recorder;
  ASSERT_TRUE(session.Enable().has_value());
  PollToEnd(session, recorder);
  uint64_t of_child = 0;
  for (const SeenSample& sample : recorder.samples) of_child += sample.pid != busy.pid() ? 1U : 0U;
  EXPECT_GT(of_child, 10U);
}

TEST(PerfSession, CountsThreadsThatAppearWhileOpeningExactlyOnce) {
  constexpr int kThreads = 24;
  for (int attempt = 0; attempt < 2; ++attempt) {
    TestProcess busy([] {
      // Each thread creates the next one and lives on: whoever is missed loses all that come after it.
      std::function<void(int)> spawn = [&spawn](int number) {
        if (number < kThreads) std::thread([&spawn, number] { spawn(number + 1); }).detach();
        for (int i = 0; i < 4000; ++i) {
          Burn(milliseconds(1));
          std::this_thread::sleep_for(milliseconds(kThreads / 2));
        }
      };
      spawn(1);
    });
    std::this_thread::sleep_for(milliseconds(2 * attempt));
    OPEN_OR_SKIP(session, OnPid(busy.pid()));
    Recorder recorder;
    ASSERT_TRUE(session.Poll(recorder, 0).has_value());
    const uint64_t before_ns = CpuTimeNs(busy.pid());
    ASSERT_TRUE(session.Enable().has_value());
    const auto threads_sampled = [&recorder] {
      std::set<int32_t> tids;
      for (const SeenSample& sample : recorder.samples) tids.insert(sample.tid);
      return tids.size();
    };
    PollUntil(session, recorder, [&] { return threads_sampled() == kThreads; });
    EXPECT_EQ(threads_sampled(), static_cast<size_t>(kThreads));
    ASSERT_TRUE(session.Disable().has_value());
    const auto used_ns = static_cast<double>(CpuTimeNs(busy.pid()) - before_ns);
    session.Stop();
    PollToEnd(session, recorder);
    EXPECT_LT(static_cast<double>(PeriodSum(recorder, busy.pid())) / used_ns, 1.1);
    // Under one id per CPU, but for the sample that told of a second one.
    std::map<std::pair<int32_t, uint32_t>, std::map<uint64_t, int>> ids;
    for (const SeenSample& sample : recorder.samples) ++ids[{sample.tid, sample.cpu}][sample.id];
    for (const auto& [thread_on_cpu, count_of_id] : ids) {
      EXPECT_LE(count_of_id.size(), 2U);
      int times_other = INT_MAX;
      for (const auto& [id, count] : count_of_id) times_other = std::min(times_other, count);
      if (count_of_id.size() == 2) {
        EXPECT_EQ(times_other, 1);
      }
    }
  }
}

TEST(PerfSession, SamplesEveryCpu) {
  TestProcess first([] { Burn(std::chrono::seconds(20)); });
  TestProcess second([] { Burn(std::chrono::seconds(20)); });
  PerfSessionOptions options;
  options.target.kind = PerfTarget::Kind::kAllCpus;
  options.events = {CpuClock()};
  OPEN_OR_SKIP(session, options);
  Recorder recorder;
  ASSERT_TRUE(session.Poll(recorder, 0).has_value());
  EXPECT_TRUE(recorder.HasMapping(first.pid(), "hw_test"));
  ASSERT_TRUE(session.Enable().has_value());
  EXPECT_TRUE(PollUntil(session, recorder, [&] {
    return PeriodSum(recorder, first.pid()) > 0 && PeriodSum(recorder, second.pid()) > 0;
  }));
  EXPECT_EQ(session.statistics().rings, session.description().cpus_online);
  session.Stop();
  PollToEnd(session, recorder);
}

TEST(PerfSession, SamplesAControlGroup) {
  const std::string root =
      PathExists("/sys/fs/cgroup/unified") ? "/sys/fs/cgroup/unified" : "/sys/fs/cgroup";
  const std::string name = StrFormat("ptarmigan-test-{}", ::getpid());
  const std::string path = JoinPath(root, name);
  if (::mkdir(path.c_str(), 0755) != 0)
    GTEST_SKIP() << "a control group cannot be made below " << root;
  TestProcess inside([] { Burn(std::chrono::seconds(20)); });
  TestProcess outside([] { Burn(std::chrono::seconds(20)); });
  struct Remove {
    const std::string& path;
    TestProcess& inside;
    ~Remove() {
      inside.End();
      ::rmdir(path.c_str());
    }
  } remove{path, inside};
  auto procs = OpenFile(JoinPath(path, "cgroup.procs"), O_WRONLY);
  const std::string pid = std::to_string(inside.pid());
  if (!procs || !WriteAll(procs->get(), AsBytes(pid), path)) {
    GTEST_SKIP() << "no process can be moved into " << path;
  }
  PerfSessionOptions options;
  options.target.kind = PerfTarget::Kind::kCgroup;
  options.target.cgroup_path = name;
  options.events = {CpuClock()};
  options.cgroup_ids = true;
  OPEN_OR_SKIP(session, options);
  Recorder recorder;
  ASSERT_TRUE(session.Enable().has_value());
  PollFor(session, recorder, milliseconds(700));
  session.Stop();
  PollToEnd(session, recorder);
  EXPECT_GT(recorder.samples.size(), 20U);
  for (const SeenSample& sample : recorder.samples) EXPECT_EQ(sample.pid, inside.pid());
  EXPECT_TRUE(recorder.HasMapping(inside.pid(), "hw_test"));
  if (session.description().events[0].attr.Samples(kSampleCgroup)) {
    ASSERT_EQ(recorder.cgroups.count("/" + name), 1U);
    for (const SeenSample& sample : recorder.samples) {
      EXPECT_EQ(sample.last_word, recorder.cgroups["/" + name]);
    }
  }
}

TEST(PerfSession, CountsEveryRecordThatATinyRingCannotHold) {
  TestProcess busy([] { Burn(std::chrono::seconds(20)); });
  PerfSessionOptions options = OnPid(busy.pid());
  options.frequency_hz = 5000;
  options.ring_bytes = kRingBytesMin;
  OPEN_OR_SKIP(session, options);
  EXPECT_EQ(session.statistics().ring_bytes, std::max<uint64_t>(kRingBytesMin, PageSizeBytes()));
  Recorder recorder;
  ASSERT_TRUE(session.Poll(recorder, 0).has_value());
  const uint64_t before_ns = CpuTimeNs(busy.pid());
  ASSERT_TRUE(session.Enable().has_value());
  // Nobody reads: the rings fill up within a few milliseconds, and only the kernel's own count knows the rest.
  std::this_thread::sleep_for(milliseconds(700));
  ASSERT_TRUE(session.Disable().has_value());
  const auto used_ns = static_cast<double>(CpuTimeNs(busy.pid()) - before_ns);
  session.Stop();
  PollToEnd(session, recorder);
  EXPECT_GT(recorder.lost, recorder.samples.size());
  EXPECT_EQ(recorder.lost, session.statistics().lost_records);
  const auto captured = static_cast<double>(recorder.samples.size() + recorder.lost);
  EXPECT_NEAR(captured / (used_ns * 5000 / 1e9), 1.0, 0.1);
}

TEST(PerfSession, DumpsUserStacks) {
  TestProcess busy([] {
    // The kernel copies nothing beyond the end of user space, where the stack begins under setarch -R.
    [[maybe_unused]] volatile char above[2 * kStackBytesDefault] = {};
    Burn(std::chrono::seconds(20));
  });
  PerfSessionOptions options = OnPid(busy.pid());
  options.stack_user_bytes = kStackBytesDefault;
  OPEN_OR_SKIP(session, options);
  const EventAttr& attr = session.description().events[0].attr;
  EXPECT_EQ(attr.sample_stack_user_bytes, kStackBytesDefault);
  EXPECT_TRUE(attr.Samples(kSampleRegsUser));
  class Sizes : public RawRecordSink {
   public:
    void OnRecord(const RawRecord& record) override {
      uint32_t type = 0;
      std::memcpy(&type, record.bytes.data(), sizeof(type));
      if (type != PERF_RECORD_SAMPLE) return;
      ++samples;
      if (record.bytes.size() > kStackBytesDefault) ++with_stack;
    }
    void OnRoundEnd() override {}
    uint64_t samples = 0;
    uint64_t with_stack = 0;
  } sizes;
  ASSERT_TRUE(session.Enable().has_value());
  const auto deadline = Clock::now() + milliseconds(400);
  while (Clock::now() < deadline) ASSERT_TRUE(session.Poll(sizes, 50).has_value());
  EXPECT_GT(sizes.samples, 10U);
  EXPECT_EQ(sizes.with_stack, sizes.samples);
}

// The promise of `record`: 997 Hz with stacks on every CPU busy loses nothing.
TEST(PerfSession, LosesNothingAt997HzWithEveryCpuBusy) {
  std::vector<std::unique_ptr<TestProcess>> busy;
  for (long i = 0; i < ::sysconf(_SC_NPROCESSORS_ONLN); ++i) {
    busy.push_back(std::make_unique<TestProcess>([] { Burn(std::chrono::seconds(30)); }));
  }
  PerfSessionOptions options;
  options.target.kind = PerfTarget::Kind::kAllCpus;
  options.events = {CpuClock()};
  options.stack_user_bytes = kStackBytesDefault;
  OPEN_OR_SKIP(session, options);
  Recorder recorder;
  ASSERT_TRUE(session.Poll(recorder, 0).has_value());
  ASSERT_TRUE(session.Enable().has_value());
  PollFor(session, recorder, std::chrono::seconds(3));
  session.Stop();
  PollToEnd(session, recorder);
  const PerfSessionStatistics statistics = session.statistics();
  EXPECT_EQ(statistics.lost_records, 0U);
  EXPECT_EQ(statistics.lost_samples, 0U);
  EXPECT_EQ(statistics.corrupt_bytes, 0U);
  EXPECT_GT(statistics.samples, 1000U);
  RecordProperty("samples", std::to_string(statistics.samples));
  RecordProperty("megabytes", std::to_string(statistics.bytes >> 20));
  RecordProperty("own_cpu_ms", std::to_string(statistics.cpu_ns / 1'000'000));
}

TEST(PerfSession, StopWakesAWaitingPoll) {
  TestProcess idle([] { std::this_thread::sleep_for(std::chrono::seconds(20)); });
  OPEN_OR_SKIP(session, OnPid(idle.pid()));
  Recorder recorder;
  ASSERT_TRUE(session.Poll(recorder, 0).has_value());
  const auto start = Clock::now();
  std::thread stopper([&session] {
    std::this_thread::sleep_for(milliseconds(100));
    session.Stop();
  });
  PollOutcome outcome = PollOutcome::kIdle;
  while (outcome != PollOutcome::kEnd && Clock::now() - start < std::chrono::seconds(8)) {
    auto polled = session.Poll(recorder, 10'000);
    ASSERT_TRUE(polled.has_value());
    outcome = *polled;
  }
  stopper.join();
  EXPECT_EQ(outcome, PollOutcome::kEnd);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
}

TEST(PerfSession, AsksTheCallerForBuildIdsOncePerFile) {
  TestProcess busy([] { Burn(std::chrono::seconds(20)); });
  PerfSessionOptions options = OnPid(busy.pid());
  std::map<std::string, int> asked;
  options.build_id_of = [&asked](const std::string& path) {
    ++asked[path];
    constexpr std::array<std::byte, 4> kId = {std::byte{1}, std::byte{2}, std::byte{3},
                                              std::byte{4}};
    return BuildId(kId);
  };
  OPEN_OR_SKIP(session, options);
  Recorder recorder;
  ASSERT_TRUE(session.Poll(recorder, 0).has_value());
  EXPECT_GT(recorder.with_build_id, 1U);
  EXPECT_GT(asked.size(), 1U);
  for (const auto& [path, count] : asked) EXPECT_EQ(count, 1) << path;
}

TEST(PerfSession, ExplainsWhatCannotBeOpened) {
  PerfSessionOptions options = OnPid(1);
  options.events.clear();
  EXPECT_EQ(PerfSession::Open(options).error().code, ErrorCode::kInvalidInput);

  options = OnPid(::getpid());
  options.frequency_hz = 100'000'000;
  auto too_fast = PerfSession::Open(options);
  if (!too_fast && too_fast.error().code == ErrorCode::kPermission)
    GTEST_SKIP() << too_fast.error().message;
  ASSERT_FALSE(too_fast.has_value());
  EXPECT_NE(too_fast.error().message.find("perf_event_max_sample_rate"), std::string::npos);

  options = OnPid(::getpid());
  options.period = 0;
  EXPECT_EQ(PerfSession::Open(options).error().code, ErrorCode::kInvalidInput);

  options = OnPid(::getpid());
  options.stack_user_bytes = kStackBytesMax + 1;
  EXPECT_EQ(PerfSession::Open(options).error().code, ErrorCode::kInvalidInput);

  options = OnPid(::getpid());
  options.ring_bytes = kRingBytesMin - 1;
  EXPECT_EQ(PerfSession::Open(options).error().code, ErrorCode::kInvalidInput);
  options.ring_bytes = kRingBytesMax + 1;
  EXPECT_EQ(PerfSession::Open(options).error().code, ErrorCode::kInvalidInput);

  constexpr int32_t kNobody = 0x7ffffffe;  // above pid_max
  auto nobody = PerfSession::Open(OnPid(kNobody));
  ASSERT_FALSE(nobody.has_value());
  EXPECT_EQ(nobody.error().code, ErrorCode::kNotFound);

  options = OnPid(::getpid());
  options.target.kind = PerfTarget::Kind::kCgroup;
  options.target.cgroup_path = "no/such/group";
  auto no_group = PerfSession::Open(options);
  ASSERT_FALSE(no_group.has_value());
  EXPECT_NE(no_group.error().message.find(
                no_group.error().code == ErrorCode::kPermission ? "CAP_PERFMON" : "no/such/group"),
            std::string::npos);
}

}  // namespace
}  // namespace ptarmigan
