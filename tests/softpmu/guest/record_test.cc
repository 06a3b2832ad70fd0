// `ptarmigan record` on the software PMU, end to end: the trace of a program is played while that program runs, and what our
// binary makes of its own recording is what the program did.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

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
    static const Result<CallTrace> turn = TraceFirstCall(kProgram, "turn");
    ASSERT_TRUE(turn.has_value()) << turn.error().message;
    turn_ = *turn;
    ASSERT_GT(turn_.addresses.size(), 300U);
  }
  uint64_t DigestOfTurns(uint64_t turns) const {
    PtDigest digest;
    for (uint64_t i = 0; i < turns; ++i) {
      for (const uint64_t address : turn_.addresses) digest.Add(address);
    }
    return digest.value();
  }

  void ExpectWholeTurns(const std::string& recording, uint64_t turns) const {
    const Json flow = Report(recording, "flow");
    // Of the whole machine, all others ran without a trace.
    Json traced;
    for (const Json& thread : flow["threads"]) {
      if (thread["bytes"]["decoded"] != 0) traced.push_back(thread);
    }
    ASSERT_EQ(traced.size(), 1U) << flow;
    const Json& thread = traced[0];
    EXPECT_EQ(thread["instructions"], turns * turn_.addresses.size()) << flow;
    EXPECT_EQ(thread["ip_digest"], StrFormat("{:016x}", DigestOfTurns(turns)));
    EXPECT_EQ(thread["bytes"]["decoded"], turns * turn_.packets.size());
    ExpectNoFault(thread);
  }
  static void ExpectNoFault(const Json& thread) {
    EXPECT_EQ(thread["segments"]["bad"], 0);
    EXPECT_EQ(thread["segments"]["suspect"], 0);
    EXPECT_TRUE(thread["errors"].empty()) << thread["errors"];
  }
  // Every edge of the recording is one of the program's.
  void ExpectEdgesOfTurn(const std::string& recording) const {
    const std::set<CallTrace::Branch> truth(turn_.branches.begin(), turn_.branches.end());
    const Json edges = Report(recording, "branches")["edges"];
    EXPECT_GT(edges.size(), truth.size() / 2);
    for (const Json& edge : edges) {
      const CallTrace::Branch branch = {Address(edge["from"]), Address(edge["to"])};
      EXPECT_TRUE(truth.contains(branch)) << edge;
    }
  }

  CallTrace turn_;

 private:
  static uint64_t Address(const Json& place) {
    return std::stoull(place["address"].get<std::string>(), nullptr, 0);
  }
};

// On one CPU: each has a trace of its own.
void Record(const std::string& options, const std::string& recording) {
  const OnCpu on_cpu(0);
  Ptarmigan(StrFormat("record {} -o {} -- {} {}", options, recording, kProgram, kTurnsRun));
}

TEST_F(RecordPt, WholeTraceIsWhatTheProgramDid) {
  ASSERT_EQ(LoadScript("intel_pt", TurnsScript(turn_, kTurnsPlayed)), 0);
  // perf reads it on the host, and compares with how often which addresses ran.
  const std::string recording = "/results/turns.perf.data";
  Record("--source pt", recording);
  ExpectWholeTurns(recording, kTurnsPlayed);
  ExpectEdgesOfTurn(recording);
  std::ofstream truth("/results/turns.truth");
  truth << kTurnsPlayed << "\n";
  for (const uint64_t address : turn_.addresses) truth << StrFormat("{:x}\n", address);
}

// The program runs before, during and after the recording.
std::string RecordWhileItRuns(const std::string& options) {
  std::string recording = TestTemporaryDirectory() + "/running.perf.data";
  const OnCpu on_cpu(0);
  const CommandResult result = RunCommand(
      StrFormat("{} 1000000000 & ptarmigan record --source pt {} --duration 1s -o {}; code=$?; "
                "kill $!; exit $code",
                kProgram, options, recording),
      30);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return recording;
}

TEST_F(RecordPt, ARunningProcessIsTracedFromWhereItIs) {
  ASSERT_EQ(LoadScript("intel_pt", TurnsScript(turn_, kTurnsPlayed)), 0);
  ExpectWholeTurns(RecordWhileItRuns("-p $!"), kTurnsPlayed);
}

TEST_F(RecordPt, TheWholeMachineIsTracedByCpu) {
  ASSERT_EQ(LoadScript("intel_pt", TurnsScript(turn_, kTurnsPlayed)), 0);
  ExpectWholeTurns(RecordWhileItRuns("-a"), kTurnsPlayed);
}

TEST_F(RecordPt, SnapshotIsTheLastTurns) {
  // Where the newest bytes begin inside a turn, that turn is left out.
  constexpr uint64_t kAuxBytes = 16384;
  ASSERT_EQ(LoadScript("intel_pt", TurnsScript(turn_, kTurnsPlayed)), 0);
  const std::string recording = TestTemporaryDirectory() + "/snapshot.perf.data";
  Record("--source pt --snapshot --aux 16k", recording);
  ExpectWholeTurns(recording, kAuxBytes / turn_.packets.size());
}

TEST_F(RecordPt, WindowsHoldWhatRanBeforeTheirSamples) {
  ASSERT_EQ(LoadScript("intel_pt", TurnsScript(turn_, 20 * kTurnsPlayed)), 0);
  const std::string recording = TestTemporaryDirectory() + "/windows.perf.data";
  Record("--source pt --window 2k -c 5000000", recording);
  const Json flow = Report(recording, "flow");
  ASSERT_EQ(flow["threads"].size(), 1U) << flow;
  EXPECT_GT(flow["threads"][0]["instructions"], 10 * turn_.addresses.size()) << flow;
  ExpectNoFault(flow["threads"][0]);
  ExpectEdgesOfTurn(recording);
}

// How long the calls took that led to snapshots: "snapshot of 16 KiB: thread 152 took 250.936 ms".
std::vector<double> MillisecondsCaught(const std::string& messages) {
  constexpr std::string_view kBefore = " took ";
  std::vector<double> caught;
  for (size_t at = 0; (at = messages.find(kBefore, at)) != std::string::npos;) {
    at += kBefore.size();
    caught.push_back(std::stod(messages.substr(at)));
  }
  return caught;
}

TEST_F(RecordPt, EverySlowCallIsCaughtWithItsHistoryAndNoOtherOne) {
  constexpr int kSlowCalls = 20;
  constexpr uint64_t kAuxBytes = 16384;
  ASSERT_EQ(LoadScript("intel_pt", TurnsScript(turn_, UINT32_MAX)), 0);
  const std::string recording = TestTemporaryDirectory() + "/slow.perf.data";
  const OnCpu on_cpu(0);
  // A call takes less than a millisecond, a slow one a quarter of a second.
  const CommandResult result =
      Ptarmigan(StrFormat("record --source pt --aux 16k --trigger 'function:{}:serve>200ms' "
                          "--history 0s --cooldown 0s -o {} -- {} 500000 {}",
                          kProgram, recording, kProgram, kSlowCalls));
  const std::vector<double> caught = MillisecondsCaught(result.err);
  EXPECT_THAT(caught, testing::Each(testing::Gt(200)));
  // No fewer; more where the machine stood still for that long, which makes any call a slow one.
  EXPECT_GE(std::ranges::count_if(caught, [](double ms) { return ms >= 250; }), kSlowCalls);
  EXPECT_THAT(result.err, testing::HasSubstr(StrFormat("{} snapshots; 0 more", caught.size())));
  const Json flow = Report(recording, "flow");
  ASSERT_EQ(flow["threads"].size(), 1U) << flow;
  // All of it but a turn that begins before a snapshot.
  EXPECT_GT(flow["threads"][0]["bytes"]["decoded"],
            kSlowCalls * (kAuxBytes - turn_.packets.size()));
  ExpectNoFault(flow["threads"][0]);
  ExpectEdgesOfTurn(recording);
}

TEST_F(RecordPt, BranchRecordsAreTheProgramsBranches) {
  constexpr size_t kDepth = 32;
  SoftPmuScript script;
  const uint32_t begin = script.here();
  for (size_t end = kDepth; end <= turn_.branches.size(); end += 7) {
    std::vector<softpmu_branch> stack;
    for (size_t i = 0; i < kDepth; ++i) {
      const CallTrace::Branch& branch = turn_.branches[end - 1 - i];
      stack.push_back({branch.from, branch.to, 2});  // predicted
    }
    script.Data({reinterpret_cast<const char*>(stack.data()), kDepth * sizeof(softpmu_branch)});
  }
  script.LoopTo({.target = begin});
  ASSERT_EQ(LoadScript("lbr", script.bytes()), 0);
  const std::string recording = TestTemporaryDirectory() + "/lbr.perf.data";
  Record("--source lbr -c 1000000", recording);
  ExpectEdgesOfTurn(recording);
  EXPECT_EQ(LoadScript("lbr", SoftPmuScript().bytes()), 0);
}

}  // namespace
}  // namespace ptarmigan
