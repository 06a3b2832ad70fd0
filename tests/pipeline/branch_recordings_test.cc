// Branch stacks of recordings made by others: what we count is what perf prints, branch by branch.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/str_format.h"
#include "decode/branch_stack.h"
#include "decode/perf_data_file.h"
#include "model/branch_summary.h"
#include "pipeline/import.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

constexpr uint64_t kRecordingBytesMax = uint64_t{16} << 20;

// (from, to) -> entries
using EdgeCounts = std::map<std::pair<uint64_t, uint64_t>, uint64_t>;

bool HasFlowStacks(const RecordingDescription& description) {
  for (const EventDescription& event : description.events) {
    if (BranchStackFormatOf(description, event).mode == BranchStackMode::kFlow) return true;
  }
  return false;
}

// Paths of the recordings with branch stacks of flow mode; compressed ones are unpacked.
std::vector<std::string> FlowRecordings() {
  std::vector<std::string> found;
  const std::string unpacked = TestTemporaryDirectory();
  for (const char* folder : {"lbr-synth", "autofdo", "perf_data_converter", "kdab-perfparser",
                             "kdab-hotspot", "linux-perf-data", "simpleperf"}) {
    const std::string root = TestDataPath(folder);
    if (root.empty()) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (!entry.is_regular_file() || entry.file_size() > kRecordingBytesMax) continue;
      std::string path = entry.path();
      const bool is_packed = path.ends_with(".gz");
      if (is_packed && path.find("perfdata") == std::string::npos) continue;
      const std::string content = ReadTestFile(path);
      if (!IsPerfData(AsBytes(content))) continue;
      if (is_packed) {
        path = StrFormat("{}/{}", unpacked, found.size());
        std::ofstream(path, std::ios::binary) << content;
      }
      const auto source = OpenPerfData(path);
      if (source && HasFlowStacks((*source)->description())) found.push_back(path);
    }
  }
  return found;
}

// 0xFROM/0xTO/...; entries without any address are none.
EdgeCounts CountedByPerf(const std::string& text) {
  EdgeCounts edges;
  for (size_t at = text.find("0x"); at != std::string::npos;) {
    size_t used = 0;
    const uint64_t from = std::stoull(text.substr(at, 20), &used, 16);
    size_t next = at + used + 1;
    const uint64_t to = std::stoull(text.substr(next, 20), &used, 16);
    next += used;
    if (from != 0 || to != 0) ++edges[{from, to}];
    at = text.find("0x", next);
  }
  return edges;
}

class CountingSink : public EventSink {
 public:
  explicit CountingSink(const RecordingDescription& description) : description_(description) {}
  void OnSample(const CapturedSample& sample) override {
    const auto format = BranchStackFormatOf(description_, description_.events[sample.event]);
    if (format.mode != BranchStackMode::kFlow) return;
    edges_.clear();
    const BranchEntryCounts counts = AppendBranchStack(sample, format, &edges_);
    EXPECT_EQ(counts.all(), sample.branches.size());
    wrong_path += counts.wrong_path;
    for (const BranchEdge& edge : edges_) ++edges[{edge.from, edge.to}];
  }
  EdgeCounts edges;
  uint64_t wrong_path = 0;

 private:
  const RecordingDescription& description_;
  std::vector<BranchEdge> edges_;
};

uint64_t Sum(const EdgeCounts& edges) {
  uint64_t sum = 0;
  for (const auto& [edge, count] : edges) sum += count;
  return sum;
}

TEST(BranchRecordings, HaveTheEdgesThatPerfPrints) {
  const std::vector<std::string> recordings = FlowRecordings();
  if (recordings.empty()) GTEST_SKIP() << TestDataMissing("recordings with branch stacks");
  size_t compared = 0;
  for (const std::string& recording : recordings) {
    SCOPED_TRACE(recording);
    const auto source = OpenPerfData(recording);
    ASSERT_TRUE(source.has_value());
    CountingSink sink((*source)->description());
    while (true) {
      const auto outcome = (*source)->Poll(sink);
      if (!outcome || *outcome == PollOutcome::kEnd) break;
    }
    // The profile has the same branches, by places.
    ImportOptions options;
    options.symbolizer.symbols = false;
    const auto profile = ReadProfile(recording, options);
    ASSERT_TRUE(profile.has_value());
    uint64_t in_profile = 0;
    for (const auto& edge : profile->summary.branches.edges) in_profile += edge.count;
    EXPECT_EQ(in_profile, Sum(sink.edges));
    EXPECT_EQ(profile->summary.branches.wrong_path, sink.wrong_path);

    if (!HaveProgram("perf")) continue;
    const CommandResult script = RunCommand(
        StrFormat("perf script --no-itrace -i '{}' -F brstack 2>/dev/null", recording), 120);
    if (script.exit_code != 0) continue;  // an event without branch stacks beside: perf refuses
    const EdgeCounts seen = CountedByPerf(script.out);
    ++compared;
    if (sink.wrong_path == 0) {
      EXPECT_TRUE(seen == sink.edges);
    }
    EXPECT_EQ(Sum(seen), Sum(sink.edges) + sink.wrong_path);
  }
  std::printf("%zu recordings, %zu compared with perf\n", recordings.size(), compared);
  EXPECT_GE(recordings.size(), 8U);
}

// The recorded binary lies beside the recording: blocks know their instructions.
TEST(BranchRecordings, PropellersSampleHasBlocksOfItsBinary) {
  const std::string packed = TestDataPath("autofdo/propeller_sample_1.perfdata1.gz");
  if (packed.empty()) GTEST_SKIP() << TestDataMissing("autofdo");
  const std::string directory = TestTemporaryDirectory();
  const std::string recording = directory + "/perf.data";
  std::ofstream(recording, std::ios::binary) << ReadTestFile(packed);
  // It was recorded under another name.
  std::filesystem::create_symlink(TestDataPath("autofdo/propeller_sample_1.bin"),
                                  directory + "/propeller_sample_1.bin.gen");
  ImportOptions options;
  options.symbolizer.binary_paths = {directory};
  options.symbolizer.cache_directory = "-";
  const auto profile = ReadProfile(recording, options);
  ASSERT_TRUE(profile.has_value());
  const BranchSummary& branches = profile->summary.branches;
  uint64_t executions = 0;
  uint64_t with_code = 0;
  uint64_t with_cycles = 0;
  for (const auto& block : branches.blocks) {
    executions += block.count;
    const auto& mapping = profile->mappings[profile->locations[block.start].mapping];
    if (profile->Text(mapping.file).find("propeller_sample") == std::string_view::npos) continue;
    with_code += block.instructions > 0 ? block.count : 0;
    with_cycles += FiguresOf(branches.Cycles(block)).executions;
  }
  std::printf("%zu blocks, %lu executions, %lu with code, %lu with cycles, %lu rejected\n",
              branches.blocks.size(), executions, with_code, with_cycles, branches.ranges_rejected);
  EXPECT_GT(with_code, executions / 2);
  EXPECT_GT(with_cycles, 0U);
  // Interrupted runs are the exception.
  EXPECT_LT(branches.ranges_rejected * 20, executions);
}

}  // namespace
}  // namespace ptarmigan
