// PerfSession on the software PMU: whole sessions as `record` runs them, with a ring and an AUX area for each CPU.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/file.h"
#include "hw/hardware_source.h"
#include "hw/internal/attr_bits.h"
#include "hw/perf_session.h"
#include "tests/softpmu/guest/guest_pmu.h"
#include "tests/softpmu/guest/noise.h"
#include "tests/softpmu/script.h"
#include "tests/softpmu/softpmu_abi.h"

namespace ptarmigan {
namespace {

constexpr uint64_t kRate = 4'000'000;
constexpr uint64_t kAuxBytes = uint64_t{128} << 10;

// The bytes of each ring's AUX area, in the order in which they came.
class AuxBytes : public RawRecordSink {
 public:
  void OnRecord(const RawRecord& record) override {
    uint32_t type = 0;
    std::memcpy(&type, record.bytes.data(), sizeof(type));
    if (type != internal::kRecordAuxtrace) return;
    std::string& bytes = bytes_[record.stream];
    for (const Bytes part : {record.payload, record.payload_rest}) {
      bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
      total_ += part.size();
    }
  }
  void OnRoundEnd() override {}

  size_t total() const { return total_; }
  const std::map<uint32_t, std::string>& streams() const { return bytes_; }

 private:
  std::map<uint32_t, std::string> bytes_;
  size_t total_ = 0;
};

// A session on this process, which polls it itself.
class Session {
 public:
  Session(const SourceRequest& request, uint64_t ring_bytes) {
    auto setup = SetUpSource(request);
    EXPECT_TRUE(setup.has_value()) << setup.error().message;
    PerfSessionOptions options;
    options.target = {.kind = PerfTarget::Kind::kPids, .pids = {::getpid()}, .cgroup_path = {}};
    options.events = std::move(setup->events);
    options.aux_mode = setup->aux_mode;
    options.aux_bytes = kAuxBytes;
    options.ring_bytes = ring_bytes;
    options.clockid = -1;
    options.context_switches = setup->needs_switches;
    auto session = PerfSession::Open(std::move(options));
    EXPECT_TRUE(session.has_value()) << session.error().message;
    if (session) session_ = *std::move(session);
  }
  bool ok() const { return session_ != nullptr; }
  void Poll() {
    const auto outcome = session_->Poll(aux_, 0);
    EXPECT_TRUE(outcome.has_value()) << outcome.error().message;
  }
  void Enable() {
    Poll();  // what was there before takes its time
    EXPECT_TRUE(session_->Enable().has_value());
  }
  void End() {
    session_->Stop();
    for (;;) {
      const auto outcome = session_->Poll(aux_, 0);
      ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
      if (*outcome == PollOutcome::kEnd) return;
    }
  }
  bool WorkUntil(size_t aux_bytes) {
    return Work([&] { return Poll(), aux_.total() >= aux_bytes; });
  }
  const AuxBytes& aux() const { return aux_; }
  PerfSessionStatistics statistics() const { return session_->statistics(); }

 private:
  std::unique_ptr<PerfSession> session_;
  AuxBytes aux_;
};

constexpr uint64_t kRingBytes = uint64_t{256} << 10;

TEST(PtSession, IsByteExactOnEveryCpuThatAThreadMovesTo) {
  const std::string trace = Noise(50'021, 1);
  ASSERT_EQ(LoadScript("intel_pt",
                       EndlessScript(trace, {.rate = kRate, .flags = SOFTPMU_PATIENT}).bytes()),
            0);
  Session session({.name = "pt"}, kRingBytes);
  ASSERT_TRUE(session.ok());
  session.Enable();
  for (int move = 1; move <= 6; ++move) {
    const OnCpu on_cpu(move % 2);
    EXPECT_TRUE(session.WorkUntil(static_cast<size_t>(move) * kAuxBytes));
  }
  session.End();
  EXPECT_EQ(session.aux().streams().size(), 2U);
  for (const auto& [stream, bytes] : session.aux().streams()) {
    EXPECT_TRUE(Repeats(bytes, trace)) << "ring " << stream;
    EXPECT_GT(bytes.size(), kAuxBytes) << "ring " << stream;
  }
  const PerfSessionStatistics statistics = session.statistics();
  EXPECT_EQ(statistics.aux_bytes, session.aux().total());
  EXPECT_EQ(statistics.aux_truncated + statistics.aux_partial + statistics.aux_overrun_bytes, 0U);
}

class PtSessionOnCpu : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Cpu, PtSessionOnCpu, testing::Values(0, 1));

TEST_P(PtSessionOnCpu, StartsAgainAfterEveryTruncation) {
  const OnCpu on_cpu(GetParam());
  SoftPmuScript script;
  script.Rate(kRate);
  std::string trace;
  constexpr int kPieces = 20;
  for (int i = 0; i < kPieces; ++i) {
    const std::string piece = Noise(100 + static_cast<size_t>(i), static_cast<uint64_t>(i));
    script.Sync().Data(piece).Gap();
    trace += piece;
  }
  ASSERT_EQ(LoadScript("intel_pt", script.bytes()), 0);
  Session session({.name = "pt"}, kRingBytes);
  ASSERT_TRUE(session.ok());
  session.Enable();
  EXPECT_TRUE(session.WorkUntil(trace.size()));
  session.End();
  ASSERT_EQ(session.aux().streams().size(), 1U);
  EXPECT_TRUE(session.aux().streams().begin()->second == trace);
  EXPECT_EQ(session.statistics().aux_truncated, kPieces);
  EXPECT_GE(session.statistics().aux_restarts, 1U);
}

TEST(PtSession, CountsWhatTheHardwareTellsOfLosses) {
  const OnCpu on_cpu(0);
  SoftPmuScript script;
  script.Rate(kRate);
  const std::string piece = Noise(60'000, 3);
  script.Flags(PERF_AUX_FLAG_PARTIAL).Data(piece);
  script.Flags(PERF_AUX_FLAG_COLLISION).Data(piece);
  ASSERT_EQ(LoadScript("intel_pt", script.bytes()), 0);
  Session session({.name = "pt"}, kRingBytes);
  ASSERT_TRUE(session.ok());
  session.Enable();
  EXPECT_TRUE(session.WorkUntil(2 * piece.size()));
  session.End();
  EXPECT_EQ(session.aux().streams().begin()->second.size(), 2 * piece.size());
  EXPECT_EQ(session.statistics().aux_partial, 1U);
  EXPECT_EQ(session.statistics().aux_collisions, 1U);
}

// Each mapping of code is a record.
void FillTheRing() {
  const Fd file(::open("/bin/busybox", O_RDONLY | O_CLOEXEC));
  for (int i = 0; i < 200; ++i) {
    void* code = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0);
    ASSERT_NE(code, MAP_FAILED);
    ::munmap(code, 4096);
  }
}

TEST(PtSession, LosesNoTraceWhereRecordsAreLost) {
  const OnCpu on_cpu(0);
  const std::string trace = Noise(50'021, 4);
  ASSERT_EQ(LoadScript("intel_pt",
                       EndlessScript(trace, {.rate = kRate, .flags = SOFTPMU_PATIENT}).bytes()),
            0);
  Session session({.name = "pt"}, 4096);
  ASSERT_TRUE(session.ok());
  session.Enable();
  for (size_t bytes = 30'000; bytes <= 90'000; bytes += 30'000) {
    FillTheRing();
    EXPECT_TRUE(session.WorkUntil(bytes));
  }
  session.End();
  EXPECT_GT(session.statistics().lost_records, 100U);
  EXPECT_TRUE(Repeats(session.aux().streams().begin()->second, trace));
}

TEST(PtSession, SnapshotIsTheEndOfTheTrace) {
  const OnCpu on_cpu(0);
  const std::string trace = Noise(kAuxBytes + 70'000, 5);
  SoftPmuScript script;
  script.Rate(kRate);
  for (size_t at = 0; at < trace.size(); at += 100) script.Sync().Data(trace.substr(at, 100));
  ASSERT_EQ(LoadScript("intel_pt", script.bytes()), 0);
  Session session({.name = "pt", .aux_mode = AuxMode::kSnapshot}, kRingBytes);
  ASSERT_TRUE(session.ok());
  const uint64_t played_before = PmuCount("aux_bytes");
  session.Enable();
  EXPECT_TRUE(
      Work([&] { return session.Poll(), PmuCount("aux_bytes") - played_before == trace.size(); }));
  session.End();
  ASSERT_EQ(session.aux().streams().size(), 1U);
  EXPECT_TRUE(session.aux().streams().begin()->second == trace.substr(70'000));
}

TEST(SpeSession, HoldsEveryRecord) {
  constexpr size_t kRecordBytes = 64;
  const OnCpu on_cpu(1);
  const std::string trace = Noise(kRecordBytes * 997, 6);
  SoftPmuScript script(SOFTPMU_PATIENT);
  const uint32_t begin = script.here();
  ASSERT_TRUE(AppendRecords(trace, kRecordBytes, &script).has_value());
  script.LoopTo({.target = begin});
  ASSERT_EQ(LoadScript("arm_spe_0", script.bytes()), 0);
  Session session({.name = "spe", .period = 102'400}, kRingBytes);
  ASSERT_TRUE(session.ok());
  session.Enable();
  EXPECT_TRUE(session.WorkUntil(kRecordBytes * 1000));
  session.End();
  EXPECT_TRUE(Repeats(session.aux().streams().begin()->second, trace));
}

TEST(PtSession, SaysWhoHasAnExclusivePmu) {
  Session first({.name = "pt"}, kRingBytes);
  ASSERT_TRUE(first.ok());
  auto setup = SetUpSource({.name = "pt"});
  ASSERT_TRUE(setup.has_value());
  PerfSessionOptions options;
  options.target = {.kind = PerfTarget::Kind::kPids, .pids = {::getpid()}, .cgroup_path = {}};
  options.events = std::move(setup->events);
  options.aux_mode = setup->aux_mode;
  options.clockid = -1;
  const auto second = PerfSession::Open(std::move(options));
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().errno_value, EBUSY) << second.error().message;
}

}  // namespace
}  // namespace ptarmigan
