// Live sessions on processes of our own, for tests: a sink that reads what tests ask about straight from the bytes,
// processes that burn CPU time, and loops with a time limit.
#pragma once

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/byte_cursor.h"
#include "base/check.h"
#include "hw/perf_session.h"

namespace ptarmigan {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct SeenSample {
  uint64_t id;
  int32_t pid;
  int32_t tid;
  uint64_t time_ns;
  uint32_t cpu;
  uint64_t period;
  uint64_t last_word;  // the cgroup id where there is one
};

// Reads what the tests ask about straight from the bytes; the layout is that of kSampleIdentifier | Ip | Tid | Time |
// Cpu | Period.
class Recorder : public RawRecordSink {
 public:
  void OnRecord(const RawRecord& record) override {
    ByteCursor cursor(record.bytes);
    const uint32_t type = cursor.U32();
    const uint16_t misc = cursor.U16();
    const uint16_t size = cursor.U16();
    if (size != record.bytes.size()) ++wrong_sizes;
    ++by_type[type];
    if (record.stream == 0) ++synthesized;
    switch (type) {
      case PERF_RECORD_SAMPLE:
        OnSample(cursor, record.bytes);
        break;
      case PERF_RECORD_COMM: {
        const int32_t pid = cursor.S32();
        const int32_t tid = cursor.S32();
        comms.emplace_back(pid, tid, cursor.CString(), (misc & PERF_RECORD_MISC_COMM_EXEC) != 0);
        break;
      }
      case PERF_RECORD_MMAP2: {
        const int32_t pid = cursor.S32();
        cursor.Skip(4 + 24 + 24 + 8);
        mmaps.emplace_back(pid, cursor.CString());
        if ((misc & PERF_RECORD_MISC_MMAP_BUILD_ID) != 0) ++with_build_id;
        break;
      }
      case PERF_RECORD_FORK: {
        const int32_t pid = cursor.S32();
        cursor.Skip(4);
        forks.emplace(pid, cursor.S32());
        break;
      }
      case PERF_RECORD_CGROUP: {
        const uint64_t id = cursor.U64();
        cgroups.emplace(cursor.CString(), id);
        break;
      }
      case PERF_RECORD_LOST:
        cursor.Skip(8);
        lost += cursor.U64();
        break;
      default:
        break;
    }
  }
  void OnRoundEnd() override { ++rounds; }

  bool HasMapping(int32_t pid, std::string_view ending) const {
    for (const auto& [mapped_pid, path] : mmaps) {
      if (mapped_pid == pid && path.ends_with(ending)) return true;
    }
    return false;
  }

  std::vector<SeenSample> samples;
  std::map<uint32_t, uint64_t> by_type;
  std::vector<std::tuple<int32_t, int32_t, std::string, bool>> comms;
  std::vector<std::pair<int32_t, std::string>> mmaps;
  std::set<std::pair<int32_t, int32_t>> forks;  // pid, tid
  std::map<std::string, uint64_t> cgroups;
  uint64_t with_build_id = 0;
  uint64_t synthesized = 0;
  uint64_t lost = 0;
  uint64_t rounds = 0;
  uint64_t wrong_sizes = 0;

 private:
  void OnSample(ByteCursor& cursor, Bytes record) {
    SeenSample sample = {};
    sample.id = cursor.U64();
    cursor.U64();
    sample.pid = cursor.S32();
    sample.tid = cursor.S32();
    sample.time_ns = cursor.U64();
    sample.cpu = cursor.U32();
    cursor.U32();
    sample.period = cursor.U64();
    sample.last_word = ByteCursor(record.last(8)).U64();
    if (!cursor.ok()) ++wrong_sizes;
    samples.push_back(sample);
  }
};

// A process of ours that runs `body` and exits; killed at the end of the test if need be.
class TestProcess {
 public:
  explicit TestProcess(const std::function<void()>& body) {
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::prctl(PR_SET_NAME, "ptm-busy");
      body();
      ::_exit(0);
    }
  }
  ~TestProcess() { End(); }
  TestProcess(const TestProcess&) = delete;
  TestProcess& operator=(const TestProcess&) = delete;
  pid_t pid() const { return pid_; }
  void End() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

// What a TestProcess tells the test: numbers, all 0 at first, in memory that both share.
template <size_t kCount>
class SharedNumbers {
 public:
  SharedNumbers() {
    void* const memory =
        ::mmap(nullptr, sizeof(Numbers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    numbers_ = new (memory) Numbers{};
  }
  ~SharedNumbers() { ::munmap(numbers_, sizeof(Numbers)); }
  SharedNumbers(const SharedNumbers&) = delete;
  SharedNumbers& operator=(const SharedNumbers&) = delete;
  std::array<std::atomic<pid_t>, kCount>& operator*() const { return *numbers_; }

 private:
  using Numbers = std::array<std::atomic<pid_t>, kCount>;
  Numbers* numbers_;
};

// The threads that a process has now, a sanitizer's own ones too.
inline std::set<pid_t> ThreadsOf(pid_t pid) {
  std::set<pid_t> threads;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    threads.insert(std::stoi(entry.path().filename().string()));
  }
  return threads;
}

inline void Burn(milliseconds duration) {
  const auto end = Clock::now() + duration;
  volatile uint64_t sink = 0;
  while (Clock::now() < end) {
    for (int i = 0; i < 1000; ++i) sink = sink + static_cast<uint64_t>(i);
  }
}

// CPU time that a process (all its threads, the dead ones too) has used.
inline uint64_t CpuTimeNs(pid_t pid) {
  clockid_t clock = {};
  timespec used = {};
  CHECK(::clock_getcpuclockid(pid, &clock) == 0 && ::clock_gettime(clock, &used) == 0);
  return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(used.tv_nsec);
}

inline EventSpec CpuClock() {
  auto spec = ParseEvent("cpu-clock");
  CHECK(spec.has_value());
  return *spec;
}

inline PerfSessionOptions OnPid(pid_t pid) {
  PerfSessionOptions options;
  options.target.kind = PerfTarget::Kind::kPids;
  options.target.pids = {pid};
  options.events = {CpuClock()};
  return options;
}

// Polls until `until` or the session's end; false when the time (10 s) is over first.
inline bool PollUntil(PerfSession& session, Recorder& recorder,
                      const std::function<bool()>& until) {
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  while (Clock::now() < deadline) {
    const auto outcome = session.Poll(recorder, 50);
    EXPECT_TRUE(outcome.has_value());
    if (!outcome || *outcome == PollOutcome::kEnd) return true;
    if (until()) return true;
  }
  return false;
}

inline void PollToEnd(PerfSession& session, Recorder& recorder) {
  EXPECT_TRUE(PollUntil(session, recorder, [] { return false; })) << "the session did not end";
}

inline void PollFor(PerfSession& session, Recorder& recorder, milliseconds duration) {
  const auto deadline = Clock::now() + duration;
  PollUntil(session, recorder, [deadline] { return Clock::now() >= deadline; });
}

#define OPEN_OR_SKIP(session, options)                               \
  auto session##_result = PerfSession::Open(options);                \
  if (!session##_result) {                                           \
    ASSERT_EQ(session##_result.error().code, ErrorCode::kPermission) \
        << session##_result.error().message;                         \
    GTEST_SKIP() << session##_result.error().message;                \
  }                                                                  \
  PerfSession& session = **session##_result

}  // namespace ptarmigan
