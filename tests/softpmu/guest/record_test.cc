// `ptarmigan record` on the software PMU, end to end: the trace of a program is played while that program runs, and what our
// binary makes of its own recording is what the program did.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/str_format.h"
#include "tests/encoders/pt_truth.h"
#include "tests/softpmu/guest/guest_pmu.h"
#include "tests/softpmu/program_trace.h"
#include "tests/softpmu/script.h"
#include "tests/softpmu/softpmu_abi.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

using Json = nlohmann::json;

constexpr const char* kProgram = "/bin/turns";
constexpr uint64_t kRate = 4'000'000;
constexpr uint32_t kTurnsPlayed = 200;
// Many more: it ends long after its trace did.
constexpr int kTurnsRun = 100'000;

CommandResult Ptarmigan(const std::string& arguments) {
  CommandResult result = RunCommand("ptarmigan " + arguments, 30);
  EXPECT_EQ(result.exit_code, 0) << arguments << ": " << result.err;
  return result;
}

Json Report(const std::string& recording, const std::string& view) {
  return Json::parse(Ptarmigan(StrFormat("report {} --view {} --json", recording, view)).out,
                     nullptr, false);
}

// Played while turns runs user code, `times` turns, then nothing more.
std::string TurnsScript(const CallTrace& turn, uint32_t times) {
  SoftPmuScript script(SOFTPMU_PATIENT);
  script.Task("turns").Rate(kRate);
  const uint32_t begin = script.here();
  EXPECT_EQ(AppendPt(turn.packets, {.live_time = true}, &script), 0U);
  script.LoopTo({.target = begin, .times = times - 1});
  return script.bytes();
}

class RecordPt : public testing::Test {
 protected:
  void SetUp() override {
    // Stepping goes to and fro between two processes: between CPUs each step is a wake-up.
    const OnCpu on_cpu(0);
    auto turn = TraceFirstCall(kProgram, "turn");
    ASSERT_TRUE(turn.has_value()) << turn.error().message;
    turn_ = *std::move(turn);
    ASSERT_GT(turn_.addresses.size(), 300U);
  }
  uint64_t DigestOfTurns(uint32_t turns) const {
    PtDigest digest;
    for (uint32_t i = 0; i < turns; ++i) {
      for (const uint64_t address : turn_.addresses) digest.Add(address);
    }
    return digest.value();
  }

  CallTrace turn_;
};

TEST_F(RecordPt, WholeTraceIsWhatTheProgramDid) {
  ASSERT_EQ(LoadScript("intel_pt", TurnsScript(turn_, kTurnsPlayed)), 0);
  const std::string recording = TestTemporaryDirectory() + "/whole.perf.data";
  // On one CPU: each has a trace of its own.
  const OnCpu on_cpu(0);
  const CommandResult result = RunCommand(
      StrFormat("ptarmigan record --source pt -o {} -- {} {}", recording, kProgram, kTurnsRun), 30);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json flow = Report(recording, "flow");
  ASSERT_EQ(flow["threads"].size(), 1U) << flow << result.err;
  const Json& thread = flow["threads"][0];
  EXPECT_EQ(thread["instructions"], kTurnsPlayed * turn_.addresses.size()) << flow;
  EXPECT_EQ(thread["ip_digest"], StrFormat("{:016x}", DigestOfTurns(kTurnsPlayed)));
  EXPECT_EQ(thread["segments"]["bad"], 0);
  EXPECT_EQ(thread["segments"]["suspect"], 0);
  EXPECT_TRUE(thread["errors"].empty()) << thread["errors"];
  EXPECT_EQ(thread["bytes"]["decoded"], kTurnsPlayed * turn_.packets.size());
}

}  // namespace
}  // namespace ptarmigan
