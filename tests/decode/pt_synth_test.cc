// PtDecoder against recordings whose instructions are known one by one.
#include "tests/decode/pt_synth.h"

#include <gtest/gtest.h>

#include <charconv>
#include <string>
#include <vector>

#include "decode/pt_decoder.h"
#include "tests/decode/flow_totals.h"
#include "tests/support/test_data.h"
#include "tests/support/truth_table.h"

namespace ptarmigan {
namespace {

uint64_t Number(std::string_view text, int base) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

FlowDigest DigestOf(const TruthTable& table, size_t row) {
  return {Number(table.Cell(row, "instructions"), 10), Number(table.Cell(row, "fnv1a64"), 16),
          Number(table.Cell(row, "first_ip"), 16), Number(table.Cell(row, "last_ip"), 16)};
}

TruthTable Truth(const std::string& name, const std::string& table) {
  return TruthTable(ReadTestFile(TestDataPath("pt-synth/truth/" + name + "." + table + ".tsv.gz")));
}

BranchKind KindOf(std::string_view text) {
  if (text == "cond") return BranchKind::kConditionalJump;
  if (text == "jump") return BranchKind::kJump;
  if (text == "ijump") return BranchKind::kIndirectJump;
  if (text == "call") return BranchKind::kCall;
  if (text == "icall") return BranchKind::kIndirectCall;
  if (text == "ret") return BranchKind::kReturn;
  return BranchKind::kNone;
}

class PtSynthRecordings : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    path_ = TestDataPath("pt-synth/" + GetParam() + ".perf.data");
    if (path_.empty()) GTEST_SKIP() << TestDataMissing("pt-synth");
    synth_ = std::make_unique<PtSynth>(path_, TestDataPath("pt-synth/symfs"));
  }
  // All traces of the recording.
  void Decode(const PtOptions& options, FlowSink* sink) {
    auto decoder = PtDecoder::Create(synth_->recording().config, options);
    if (!decoder) GTEST_SKIP() << decoder.error().message;
    for (const auto& [tid, trace] : synth_->traces()) {
      ASSERT_TRUE((*decoder)->Decode(synth_->Stream(tid, trace), *sink).has_value());
    }
    statistics_ = (*decoder)->statistics();
  }

  std::string path_;
  std::unique_ptr<PtSynth> synth_;
  FlowStatistics statistics_;
};

TEST_P(PtSynthRecordings, EveryInstructionRunsWhenItDid) {
  FlowTotals totals(synth_->image());
  PtOptions options;
  options.want_path = true;
  Decode(options, &totals);
  EXPECT_TRUE(totals.path_agrees());
  EXPECT_EQ(statistics_.bytes.Sum(), synth_->bytes());
  EXPECT_EQ(statistics_.bad, 0U);
  const TruthTable flow = Truth(GetParam(), "flow");
  for (size_t row = 0; row < flow.size(); ++row) {
    const uint32_t tid = static_cast<uint32_t>(Number(flow.Cell(row, "#tid"), 10));
    ASSERT_TRUE(totals.whole().contains(tid)) << tid;
    EXPECT_EQ(totals.whole().at(tid), DigestOf(flow, row)) << "thread " << tid;
  }
  const TruthTable edges = Truth(GetParam(), "edges");
  std::map<FlowTotals::Edge, uint64_t> truth;
  for (size_t row = 0; row < edges.size(); ++row) {
    truth[{Number(edges.Cell(row, "#from"), 16), Number(edges.Cell(row, "to"), 16),
           KindOf(edges.Cell(row, "kind"))}] += Number(edges.Cell(row, "count"), 10);
  }
  EXPECT_EQ(totals.edges().size(), truth.size());
  size_t shown = 0;
  for (const auto& [edge, count] : totals.edges()) {
    if (!truth.contains(edge) && ++shown < 10) {
      ADD_FAILURE() << std::hex << std::get<0>(edge) << " -> " << std::get<1>(edge) << std::dec
                    << " kind " << static_cast<int>(std::get<2>(edge)) << " did not run";
    }
  }
  for (const auto& [edge, count] : truth) {
    const auto found = totals.edges().find(edge);
    const uint64_t ours = found == totals.edges().end() ? 0 : found->second;
    if (ours != count && ++shown < 10) {
      ADD_FAILURE() << std::hex << std::get<0>(edge) << " -> " << std::get<1>(edge) << std::dec
                    << " kind " << static_cast<int>(std::get<2>(edge)) << ": " << ours
                    << " instead of " << count;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Whole, PtSynthRecordings,
                         testing::Values("shapes.ret-mtc-psb2k", "shapes.noret-mtc-psb4k",
                                         "shapes.ret-cyc", "shapes.tsconly", "shapes.ovf",
                                         "shapes.irq", "shapes.chunked", "shapes.ring",
                                         "dispatch.noret-cyc-psb4k", "dispatch.ret-mtc-buildidmmap",
                                         "dispatch.ovf-irq", "dispatch.notime", "coro.ret-mtc",
                                         "coro.pad-tnt64", "coro.ring", "jit.ret-mtc",
                                         "jit.noret-cyc", "threads.perthread-ret-cyc",
                                         "threads.perthread-mtc-irq", "threads.percpu-cyc"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           for (char& c : name)
                             c = isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace ptarmigan
