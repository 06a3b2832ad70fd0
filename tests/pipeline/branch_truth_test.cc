// Branch records of recordings whose true flow is known (lbr-synth): edges, straight-line runs and what is rejected.
#include <gtest/gtest.h>

#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/str_format.h"
#include "elf/elf_file.h"
#include "model/branch_summary.h"
#include "pipeline/import.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

// A place: object and ELF virtual address (run-time address in code without a file).
using CodeAt = std::pair<std::string, uint64_t>;

std::vector<std::vector<std::string>> ReadTable(const std::string& path) {
  std::vector<std::vector<std::string>> rows;
  const std::string text = ReadTestFile(path);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (line.starts_with('#')) continue;
    std::vector<std::string>& row = rows.emplace_back();
    for (size_t cell = 0; cell <= line.size();) {
      const size_t cell_end = std::min(line.find('\t', cell), line.size());
      row.emplace_back(line.substr(cell, cell_end - cell));
      cell = cell_end + 1;
    }
  }
  return rows;
}

uint64_t Number(const std::string& text, int base) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

// From run-time addresses to places, by the truth's own table of mappings and the ELF files.
class TrueMaps {
 public:
  TrueMaps(const std::string& table, const std::string& symfs) {
    for (const auto& row : ReadTable(table)) {
      Map map{Number(row[0], 16), Number(row[1], 16), Number(row[2], 16), row[3], nullptr};
      auto file = ElfFile::Open(symfs + row[3]);
      if (file) map.file = std::shared_ptr<const ElfFile>(std::move(*file));
      maps_.push_back(std::move(map));
    }
  }
  CodeAt Place(const std::string& hex) const {
    const uint64_t address = Number(hex, 16);
    for (const Map& map : maps_) {
      if (address < map.start || address >= map.end) continue;
      if (map.file == nullptr) return {map.path, address};
      const auto vaddr = map.file->ToVaddr({address - map.start + map.offset});
      return {map.path, vaddr ? vaddr->value : 0};
    }
    return {"", address};
  }

 private:
  struct Map {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    std::string path;
    std::shared_ptr<const ElfFile> file;
  };
  std::vector<Map> maps_;
};

class BranchTruth : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string recording = TestDataPath("lbr-synth/" + GetParam() + ".perf.data");
    const std::string symfs = TestDataPath("pt-synth/symfs");
    if (recording.empty() || symfs.empty()) GTEST_SKIP() << TestDataMissing("lbr-synth, pt-synth");
    truth_ = TestDataPath("lbr-synth/truth/" + GetParam() + ".maps.tsv.gz");
    maps_.emplace(truth_, symfs);
    truth_.resize(truth_.size() - std::string_view("maps.tsv.gz").size());
    ImportOptions options;
    options.symbolizer.binary_paths = {symfs};
    options.symbolizer.cache_directory = "-";
    auto profile = ReadProfile(recording, options);
    ASSERT_TRUE(profile.has_value()) << profile.error().message;
    ASSERT_TRUE(profile->CheckValid().has_value());
    EXPECT_TRUE(profile->losses.Balances());
    profile_ = *std::move(profile);
  }
  CodeAt Place(LocationId id) const {
    const Profile::Location& location = profile_.locations[id];
    return {std::string(profile_.Text(profile_.mappings[location.mapping].file)), location.address};
  }
  const BranchSummary& branches() const { return profile_.summary.branches; }

  std::string truth_;  // path of the tables, up to their names
  std::optional<TrueMaps> maps_;
  Profile profile_;
};

TEST_P(BranchTruth, CountsEveryEdgeThatReallyRan) {
  using Counts = std::tuple<uint64_t, uint64_t, uint64_t, uint64_t, uint64_t>;
  std::map<std::pair<CodeAt, CodeAt>, Counts> expected;
  for (const auto& row : ReadTable(truth_ + "entries.tsv.gz")) {
    expected[{maps_->Place(row[0]), maps_->Place(row[1])}] =
        Counts(Number(row[3], 10), Number(row[4], 10), Number(row[5], 10), 0, Number(row[6], 10));
  }
  std::map<std::pair<CodeAt, CodeAt>, Counts> counted;
  for (const auto& edge : branches().edges) {
    counted[{Place(edge.from), Place(edge.to)}] =
        Counts(edge.count, edge.mispredicted, edge.predicted, edge.unknown(), edge.cycles_sum);
  }
  EXPECT_EQ(counted, expected);
}

TEST_P(BranchTruth, FindsEveryStraightRunAndRejectsTheBrokenOnes) {
  std::map<std::pair<CodeAt, CodeAt>, uint64_t> expected;
  uint64_t rejected = 0;
  for (const auto& row : ReadTable(truth_ + "ranges.tsv.gz")) {
    if (row[0] == "0" && row[1] == "0") {
      rejected = Number(row[2], 10);
    } else {
      expected[{maps_->Place(row[0]), maps_->Place(row[1])}] = Number(row[2], 10);
    }
  }
  std::map<std::pair<CodeAt, CodeAt>, uint64_t> counted;
  for (const auto& block : branches().blocks) {
    counted[{Place(block.start), Place(block.end)}] = block.count;
  }
  EXPECT_EQ(counted, expected);
  EXPECT_EQ(branches().ranges_rejected, rejected);
}

TEST_P(BranchTruth, TracesHoldTheSameBranchesAndRuns) {
  std::map<std::pair<uint32_t, uint32_t>, std::pair<uint64_t, uint64_t>> edges;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> runs;
  for (const auto& trace : branches().traces) {
    auto& edge = edges[{trace.from, trace.to}];
    edge.first += trace.count;
    edge.second += trace.mispredicted;
    if (trace.end != BranchSummary::kNone) runs[{trace.to, trace.end}] += trace.count;
  }
  EXPECT_EQ(edges.size(), branches().edges.size());
  for (const auto& edge : branches().edges) {
    EXPECT_EQ(edges.at({edge.from, edge.to}), std::pair(edge.count, edge.mispredicted));
  }
  EXPECT_EQ(runs.size(), branches().blocks.size());
  for (const auto& block : branches().blocks)
    EXPECT_EQ(runs.at({block.start, block.end}), block.count);
}

TEST_P(BranchTruth, RowsOfTheProfileSumToTheEdges) {
  const auto branch_column = profile_.SampleTypeIndex("branches");
  const auto mispredict_column = profile_.SampleTypeIndex("mispredicts");
  ASSERT_TRUE(branch_column.has_value());
  ASSERT_TRUE(mispredict_column.has_value());
  std::map<std::pair<uint32_t, uint32_t>, std::pair<int64_t, int64_t>> rows;
  for (size_t i = 0; i < profile_.samples.size(); ++i) {
    const auto values = profile_.Values(i);
    if (values[*branch_column] == 0) continue;
    EXPECT_EQ(values[0], 0);
    const auto stack = profile_.Stack(profile_.samples[i].stack);
    ASSERT_EQ(stack.size(), 2U);
    rows[{stack[1], stack[0]}] = {values[*branch_column], values[*mispredict_column]};
  }
  EXPECT_EQ(rows.size(), branches().edges.size());
  for (const auto& edge : branches().edges) {
    EXPECT_EQ(rows.at({edge.from, edge.to}),
              std::pair(static_cast<int64_t>(edge.count), static_cast<int64_t>(edge.mispredicted)));
  }
}

TEST_P(BranchTruth, BlocksHaveInstructionsWhereverTheirCodeIsAtHand) {
  for (const auto& block : branches().blocks) {
    const CodeAt start = Place(block.start);
    const CodeAt end = Place(block.end);
    if (!start.first.starts_with('/') || start.first.starts_with("//")) {
      EXPECT_EQ(block.instructions, 0U);
      continue;
    }
    // At least one instruction, none shorter than a byte or longer than 15.
    EXPECT_GE(block.instructions, 1 + (end.second - start.second) / 15);
    EXPECT_LE(block.instructions, 1 + end.second - start.second);
  }
}

INSTANTIATE_TEST_SUITE_P(LbrSynth, BranchTruth,
                         ::testing::Values("shapes.any32", "shapes.any32-hwidx",
                                           "shapes.amd16-spec", "coro.any32-hwidx",
                                           "dispatch.any32-chain", "dispatch.amd16-spec",
                                           "threads.any32-hwidx", "jit.any32"),
                         [](const auto& name) {
                           std::string text = name.param;
                           for (char& c : text) c = c == '.' || c == '-' ? '_' : c;
                           return text;
                         });

}  // namespace
}  // namespace ptarmigan
