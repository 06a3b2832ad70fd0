#include "decode/coresight_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/str_format.h"
#include "tests/support/opencsd_snapshot.h"
#include "tests/support/perf_bytes.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

class Collector : public CoreSightSink {
 public:
  void OnElement(uint8_t trace_id, uint64_t offset, const CoreSightElement& element) override {
    elements.push_back({offset, trace_id, ListedText(element)});
    if (element.kind == CoreSightElement::Kind::kRange) {
      ++ranges;
      instructions += element.instructions;
    }
  }
  std::vector<ListedElement> elements;
  uint64_t ranges = 0;
  uint64_t instructions = 0;
};

// The lister names the kind of barrier that ends a range; elements here only say that it is no branch.
std::string WithoutBarriers(std::string text) {
  for (const std::string_view barrier : {" ---", " ISB", " DSB.DMB", " WFI.WFE"}) {
    if (text.ends_with(barrier)) {
      text.resize(text.size() - barrier.size());
      return text + " no branch";
    }
  }
  return text;
}

struct SnapshotCase {
  std::string folder;
  std::string ini;
  std::string golden;
};

class OpencsdGoldens : public testing::TestWithParam<SnapshotCase> {};

TEST_P(OpencsdGoldens, AreWhatTheDecoderSees) {
  const SnapshotCase& param = GetParam();
  const std::string folder = TestDataPath(param.folder);
  const std::string golden = TestDataPath(param.golden);
  if (folder.empty() || golden.empty()) GTEST_SKIP() << TestDataMissing(param.folder);
  OpencsdSnapshot snapshot(folder, param.ini.empty() ? "" : TestDataPath(param.ini));
  const std::string text = ReadTestFile(golden);
  const std::string buffer = ListedBuffer(text);
  ASSERT_FALSE(buffer.empty());
  std::vector<ListedElement> expected = ReadListedElements(text);
  for (ListedElement& element : expected) element.text = WithoutBarriers(element.text);

  Collector collector;
  auto made = CoreSightDecoder::Create(snapshot.OptionsOf(buffer), &snapshot, &collector);
  ASSERT_TRUE(made) << made.error().message;
  CoreSightDecoder* decoder = made->get();
  const std::string trace = snapshot.TraceOf(buffer);
  decoder->Decode(0, AsBytes(trace));
  decoder->Finish();

  const size_t common = std::min(expected.size(), collector.elements.size());
  for (size_t i = 0; i < common; ++i) {
    ASSERT_EQ(collector.elements[i].text, expected[i].text) << "element " << i;
    ASSERT_EQ(collector.elements[i].trace_id, expected[i].trace_id) << "element " << i;
    ASSERT_EQ(collector.elements[i].offset, expected[i].offset) << "element " << i;
  }
  EXPECT_EQ(collector.elements.size(), expected.size());
  EXPECT_EQ(decoder->counts().bytes.Sum(), trace.size());
}

INSTANTIATE_TEST_SUITE_P(
    Snapshots, OpencsdGoldens,
    testing::Values(
        SnapshotCase{"opencsd/a57_single_step", "",
                     "opencsd/a57_single_step/trc_pkt_lister.decode.txt"},
        SnapshotCase{"opencsd/ete_ip", "", "opencsd/ete_ip/trc_pkt_lister.decode.txt"},
        SnapshotCase{"opencsd/ete_spec_1", "", "opencsd/ete_spec_1/trc_pkt_lister.decode.txt"},
        SnapshotCase{"opencsd/init-short-addr", "",
                     "opencsd/init-short-addr/trc_pkt_lister.decode.txt"},
        SnapshotCase{"opencsd/juno-uname-001", "",
                     "opencsd/juno-uname-001/trc_pkt_lister.decode.txt.gz"},
        SnapshotCase{"opencsd/juno_r1_1", "", "opencsd/juno_r1_1/trc_pkt_lister.decode.txt.gz"},
        SnapshotCase{"opencsd/q_elem", "", "opencsd/q_elem/trc_pkt_lister.decode.txt"},
        SnapshotCase{"opencsd/test-file-mem-offsets", "",
                     "opencsd/test-file-mem-offsets/trc_pkt_lister.decode.txt.gz"},
        SnapshotCase{"coresight-decoder/branches",
                     "coresight-decoder/branches/opencsd-snapshot-ini",
                     "coresight-decoder/branches/trace1/trc_pkt_lister.decode.txt.gz"}),
    [](const auto& test) {
      std::string name = test.param.folder;
      std::ranges::replace_if(
          name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
      return name;
    });

// The capture of a small program that others made, with the edges of the program itself beside it.
TEST(CoreSightDecoder, FindsEveryEdgeOfTheTracedProgram) {
  const std::string folder = TestDataPath("coresight-decoder/branches");
  if (folder.empty()) GTEST_SKIP() << TestDataMissing("coresight-decoder");
  constexpr uint64_t kBase = 0xaaaaceaa0000;
  constexpr uint64_t kEnd = kBase + 0x1000;
  class Edges : public CoreSightSink {
   public:
    void OnElement(uint8_t, uint64_t, const CoreSightElement& element) override {
      if (element.kind != CoreSightElement::Kind::kRange) return;
      const uint64_t start = element.start.value;
      if (last_end_ != 0 && In(last_end_) && In(start)) {
        edges.insert(StrFormat("{:#x} [0] -> {:#x} [0]", last_start_ - kBase, start - kBase));
      }
      last_start_ = start;
      last_end_ = element.end.value;
    }
    std::set<std::string> edges;

   private:
    static bool In(uint64_t address) { return address >= kBase && address < kEnd; }
    uint64_t last_start_ = 0;
    uint64_t last_end_ = 0;
  };
  std::set<std::string> expected;
  std::istringstream lines(ReadTestFile(folder + "/expected_edge_coverage.out"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) expected.insert(line);
  }
  OpencsdSnapshot snapshot(folder, folder + "/opencsd-snapshot-ini");
  Edges edges;
  auto made = CoreSightDecoder::Create(snapshot.OptionsOf("ETB_0"), &snapshot, &edges);
  ASSERT_TRUE(made) << made.error().message;
  CoreSightDecoder* decoder = made->get();
  decoder->Decode(0, AsBytes(snapshot.TraceOf("ETB_0")));
  decoder->Finish();
  for (const std::string& edge : expected) EXPECT_TRUE(edges.edges.contains(edge)) << edge;
}

class DamagedTrace : public testing::Test {
 protected:
  // Decodes `trace` as the ETE unit of a snapshot; every byte must be in one count.
  void Decode(const std::string& trace) {
    Collector collector;
    auto made = CoreSightDecoder::Create(options_, snapshot_.get(), &collector);
    ASSERT_TRUE(made) << made.error().message;
    CoreSightDecoder* decoder = made->get();
    decoder->Decode(0, AsBytes(trace));
    decoder->Finish();
    ASSERT_EQ(decoder->counts().bytes.Sum(), trace.size());
    last_ranges_ = collector.ranges;
  }
  bool Open(const std::string& folder, const std::string& buffer) {
    const std::string path = TestDataPath(folder);
    if (path.empty()) return false;
    snapshot_ = std::make_unique<OpencsdSnapshot>(path);
    options_ = snapshot_->OptionsOf(buffer);
    trace_ = snapshot_->TraceOf(buffer);
    return true;
  }
  std::unique_ptr<OpencsdSnapshot> snapshot_;
  CoreSightOptions options_;
  std::string trace_;
  uint64_t last_ranges_ = 0;
};

TEST_F(DamagedTrace, CutAnywhereEndsWithBalancedCounters) {
  if (!Open("opencsd/ete_spec_1", "ETB_1")) GTEST_SKIP() << TestDataMissing("opencsd");
  for (size_t size = 0; size <= trace_.size(); ++size) Decode(trace_.substr(0, size));
  for (size_t begin = 0; begin <= trace_.size(); ++begin) Decode(trace_.substr(begin));
}

TEST_F(DamagedTrace, WithFlippedBitsEndsWithBalancedCounters) {
  if (!Open("opencsd/juno_r1_1", "ETB_0")) GTEST_SKIP() << TestDataMissing("opencsd");
  trace_.resize(8192);
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string damaged = trace_;
    for (int flips = 0; flips <= round % 8; ++flips) {
      damaged[random() % damaged.size()] ^= static_cast<char>(1U << random() % 8);
    }
    Decode(damaged);
  }
}

TEST(CoreSightDecoder, RefusesAStreamWithoutItsUnit) {
  Collector collector;
  class NoCode : public CoreSightCode {
    size_t Read(uint8_t, VirtAddr, std::span<std::byte>) override { return 0; }
  } code;
  EXPECT_FALSE(CoreSightDecoder::Create({}, &code, &collector));
  CoreSightOptions options;
  options.sources = {{.unit = {}, .trace_id = 0x70}};
  EXPECT_FALSE(CoreSightDecoder::Create(options, &code, &collector));
}

}  // namespace
}  // namespace ptarmigan
