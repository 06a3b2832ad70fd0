// perf decodes recordings of our encoder to what was executed, instruction by instruction and branch by branch; and where
// it does not, in which way. perf's decoder shares no code with libipt, ours or the encoder.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/str_format.h"
#include "tests/encoders/pt_perf_data.h"
#include "tests/encoders/pt_truth.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

using Mode = PtPerfDataOptions::Mode;
using Addresses = std::map<int64_t, std::vector<uint64_t>>;  // by thread

constexpr int kPerfSeconds = 60;

// A recording on disk, with its files below `root`.
struct Saved {
  std::string root;
  std::string path;
};

Saved Save(const PtPerfData& recording) {
  Saved saved;
  saved.root = TestTemporaryDirectory();
  saved.path = saved.root + "/perf.data";
  std::ofstream(saved.path, std::ios::binary) << recording.perf_data;
  for (const auto& [path, content] : recording.files) {
    const std::string place = saved.root + path;
    std::filesystem::create_directories(std::filesystem::path(place).parent_path());
    std::ofstream(place, std::ios::binary) << content;
  }
  return saved;
}

CommandResult PerfScript(const Saved& saved, const std::string& options) {
  return RunCommand("perf script --symfs " + saved.root + " -i " + saved.path + " " + options,
                    kPerfSeconds);
}

// Lines "4242 instructions:u: 7f0012345678"; samples of other events are left out.
Addresses AddressesByPerf(const Saved& saved, std::string* errors) {
  const CommandResult script = PerfScript(saved, "--itrace=i1i -F tid,event,ip");
  *errors = script.err;
  Addresses addresses;
  std::istringstream lines(script.out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    int64_t tid = 0;
    std::string event;
    uint64_t ip = 0;
    if (words >> tid >> event >> std::hex >> ip && event.starts_with("instructions")) {
      addresses[tid].push_back(ip);
    }
  }
  return addresses;
}

// Lines "branches:u: 7f0012345678 => 7f0012345690"; an address that is 0 is the kernel's side.
std::map<std::pair<uint64_t, uint64_t>, uint64_t> BranchesByPerf(const Saved& saved) {
  const CommandResult script = PerfScript(saved, "--itrace=b -F event,ip,addr");
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> branches;
  std::istringstream lines(script.out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string event;
    std::string arrow;
    uint64_t from = 0;
    uint64_t to = 0;
    if (words >> event >> std::hex >> from >> arrow >> to && from != 0 && to != 0) {
      ++branches[{from, to}];
    }
  }
  return branches;
}

Addresses AddressesOf(const PtWalk& walk, const PtPerfData& recording) {
  Addresses addresses;
  for (size_t i = 0; i < recording.visible.size(); ++i) {
    if (recording.visible[i].empty()) continue;
    addresses[PtPerfData::kPid + static_cast<int64_t>(i)] = PtAddresses(walk, recording.visible[i]);
  }
  return addresses;
}

// Where two differ first.
std::string FirstDifference(const Addresses& expected, const Addresses& decoded) {
  for (const auto& [tid, truth] : expected) {
    const auto found = decoded.find(tid);
    if (found == decoded.end()) return StrFormat("nothing of thread {}", tid);
    const auto [e, d] =
        std::mismatch(truth.begin(), truth.end(), found->second.begin(), found->second.end());
    if (e == truth.end() && d == found->second.end()) continue;
    std::string text = StrFormat("thread {}: {} expected, {} decoded; they part at {}:", tid,
                                 truth.size(), found->second.size(), e - truth.begin());
    for (auto at = e; at != truth.end() && at < e + 4; ++at) text += StrFormat(" {:x}", *at);
    text += " instead of";
    for (auto at = d; at != found->second.end() && at < d + 4; ++at)
      text += StrFormat(" {:x}", *at);
    return text;
  }
  return expected.size() == decoded.size() ? "" : "perf sees more threads";
}

// perf finds code by mapping and file alone: no JIT.
PtProgramOptions ProgramOf(uint64_t seed) {
  PtProgramOptions options;
  options.seed = seed;
  options.jit_slots = 0;
  return options;
}

PtWalkOptions WalkOf(uint64_t seed) {
  PtWalkOptions options;
  options.seed = seed;
  options.steps = 6000;
  options.signals_apart = 500;
  options.interrupts_apart = 300;
  return options;
}

struct Case {
  std::string name;
  PtPerfDataOptions recording;
  PtWalkOptions walk;
  PtProgramOptions program;
};

std::ostream& operator<<(std::ostream& out, const Case& test) { return out << test.name; }

class PtPerf : public testing::TestWithParam<Case> {};

TEST_P(PtPerf, DecodesExactlyWhatWasExecuted) {
  if (!HaveProgram("perf")) GTEST_SKIP() << "perf is not installed";
  const Case& test = GetParam();
  const PtProgram program(test.program);
  const PtWalk walk(program, test.walk);
  const PtPerfData recording = RecordPt(walk, test.recording);
  std::string errors;
  const Addresses decoded = AddressesByPerf(Save(recording), &errors);
  EXPECT_EQ(FirstDifference(AddressesOf(walk, recording), decoded), "") << errors;
}

TEST(PtPerfBranches, EqualTheEdgesOfTheTruth) {
  if (!HaveProgram("perf")) GTEST_SKIP() << "perf is not installed";
  const PtProgram program(ProgramOf(21));
  PtWalkOptions options = WalkOf(22);
  options.signals_apart = 0;  // perf tells a signal's arrival as a branch into the handler
  options.interrupts_apart = 0;
  const PtWalk walk(program, options);
  const PtPerfData recording = RecordPt(walk, {});
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> truth;
  for (const auto& [edge, count] : TruthOf(walk, recording.visible[0]).edges) {
    truth[{edge.from, edge.to}] += count;
  }
  EXPECT_EQ(BranchesByPerf(Save(recording)), truth);
}

// Not a property that anyone wants: it says why perf is no oracle for such files.
TEST(PtPerfErrors, PerfLosesItsPlaceWhereABufferIsCutInsideAPacket) {
  if (!HaveProgram("perf")) GTEST_SKIP() << "perf is not installed";
  const PtProgram program(ProgramOf(31));
  const PtWalk walk(program, WalkOf(32));
  PtPerfDataOptions options;
  const PtPerfData whole = RecordPt(walk, options);
  options.chunk_bytes = 700;
  const PtPerfData cut = RecordPt(walk, options);
  EXPECT_EQ(AddressesOf(walk, whole), AddressesOf(walk, cut));
  std::string errors;
  EXPECT_NE(FirstDifference(AddressesOf(walk, cut), AddressesByPerf(Save(cut), &errors)), "");
}

TEST(PtPerfErrors, PerfFindsNoSampledTracesWithoutAnIndexOfIds) {
  if (!HaveProgram("perf")) GTEST_SKIP() << "perf is not installed";
  const PtProgram program(ProgramOf(41));
  const PtWalk walk(program, WalkOf(42));
  PtPerfDataOptions options;
  options.mode = Mode::kSamples;
  options.id_index = false;
  std::string errors;
  EXPECT_EQ(AddressesByPerf(Save(RecordPt(walk, options)), &errors), Addresses());
}

Case CaseOf(const std::string& name) {
  return {.name = name,
          .recording = {},
          .walk = WalkOf(name.size()),
          .program = ProgramOf(name.size())};
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto add = [&cases](const std::string& name) -> Case& {
    return cases.emplace_back(CaseOf(name));
  };
  add("plain");
  add("uncompressed").recording.trace.return_compression = false;
  add("cyc").recording.trace.cyc = true;
  add("no_mtc").recording.trace.mtc = false;
  add("long_tnt").recording.trace.long_tnt = true;
  add("padding").recording.trace.padding = true;
  add("ptwrite").recording.trace.ptwrite = true;
  add("transactions").recording.trace.transactions = true;
  add("paging").recording.trace.paging = true;
  add("power").recording.trace.power = true;
  add("event_trace").recording.trace.event_trace = true;
  add("frequency").recording.trace.frequency_changes = true;
  add("overflows").recording.trace.overflows_apart = 500;
  add("restarts").recording.trace.restarts_apart = 800;
  add("threads").walk.threads = 3;
  Case& cpus = add("cpus");
  cpus.walk.threads = 3;
  cpus.walk.cpus = 2;
  cpus.recording.mode = Mode::kPerCpu;
  cpus.recording.trace.cyc = true;
  Case& snapshot = add("snapshot");
  snapshot.recording.mode = Mode::kSnapshot;
  snapshot.recording.snapshot_bytes = 2000;
  snapshot.recording.trace.psb_bytes = 512;
  Case& samples = add("samples");
  samples.recording.mode = Mode::kSamples;
  samples.recording.sample_bytes_max = 1024;
  samples.recording.interrupts_per_sample = 6;
  samples.recording.trace.psb_bytes = 256;
  add("mode32").program.is_64_bit = false;
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, PtPerf, testing::ValuesIn(Cases()),
                         [](const testing::TestParamInfo<Case>& test) { return test.param.name; });

}  // namespace
}  // namespace ptarmigan
