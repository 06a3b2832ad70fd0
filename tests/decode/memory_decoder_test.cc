#include "decode/memory_decoder.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/str_format.h"
#include "decode/perf_data_file.h"
#include "tests/support/test_data.h"
#include "tests/support/truth_table.h"

namespace ptarmigan {
namespace {

class DecodingSink : public EventSink {
 public:
  using OnMemory = std::function<void(const CapturedSample&, const MemSample&, MemoryDecoder&)>;
  DecodingSink(const RecordingDescription& description, OnMemory on_memory)
      : decoder_(description), on_memory_(std::move(on_memory)) {}

  void OnSample(const CapturedSample& sample) override {
    ++samples_;
    MemSample memory;
    if (decoder_.Decode(sample, &memory) == MemoryDecoder::Outcome::kDecoded) {
      on_memory_(sample, memory, decoder_);
    }
  }
  size_t samples() const { return samples_; }
  MemoryDecoder& decoder() { return decoder_; }

 private:
  MemoryDecoder decoder_;
  OnMemory on_memory_;
  size_t samples_ = 0;
};

void Drain(EventSource& source, EventSink& sink) {
  for (;;) {
    const auto outcome = source.Poll(sink);
    ASSERT_TRUE(outcome.has_value()) << outcome.error().message;
    if (*outcome == PollOutcome::kEnd) return;
  }
}

std::string Hex(bool has, uint64_t value) { return has ? StrFormat("0x{:x}", value) : ""; }
std::string Latency(const MemSample& memory, MemLatency which) {
  return memory.Has(which) ? StrFormat("{}", memory.latency[static_cast<size_t>(which)]) : "";
}

// The columns of the truth that a MemSample carries, by name.
std::vector<std::pair<std::string, std::string>> CellsOf(const MemSample& memory) {
  const bool ibs = memory.source != MemSample::Source::kPebs;
  std::vector<std::pair<std::string, std::string>> cells = {
      {"ip", Hex(memory.has_ip, memory.ip.value)},
      {"pid", StrFormat("{}", memory.identity.pid)},
      {"time_ns", StrFormat("{}", memory.identity.time_ns)},
      {"phys", Hex(memory.has_physical_address, memory.physical_address)},
      {"level", std::string(memory.level)},
      {"snoop", std::string(memory.snoop)},
      {ibs ? "ds" : "level", std::string(memory.data_source)},
      {ibs ? "dc_miss_lat" : "weight", Latency(memory, MemLatency::kTotal)}};
  if (ibs) {
    cells.emplace_back("br_misp", memory.mispredicted == Answer::kUnknown ? ""
                                  : memory.mispredicted == Answer::kYes   ? "1"
                                                                          : "0");
    cells.emplace_back("remote", memory.remote == Answer::kYes ? "1" : "");
  } else {
    cells.emplace_back("remote", memory.remote == Answer::kYes ? "1" : "0");
    cells.emplace_back("ins_lat", Latency(memory, MemLatency::kInstruction));
    cells.emplace_back("tlb", std::string(memory.tlb));
  }
  if (memory.source == MemSample::Source::kIbsOp) {
    cells.emplace_back("tlb_refill_lat", Latency(memory, MemLatency::kTranslation));
    cells.emplace_back("lin", Hex(memory.has_data_address, memory.data_address.value));
    cells.emplace_back("tlb", std::string(memory.tlb));
  }
  return cells;
}

std::string_view OpOf(std::string_view truth) {
  if (truth == "load+store") return "loadstore";
  if (truth == "fetch" || truth == "prefetch") return "other";
  return truth;
}

class MemSynth : public testing::TestWithParam<std::string_view> {};

TEST_P(MemSynth, MemSamplesEqualTheTruth) {
  const std::string name(GetParam());
  const std::string path = TestDataPath("mem-synth/" + name + ".perf.data");
  if (path.empty()) GTEST_SKIP() << TestDataMissing("mem-synth");
  const TruthTable truth(ReadTestFile(TestDataPath("mem-synth/" + name + ".truth.tsv.gz")));
  const std::string bytes = ReadTestFile(path);
  auto source = OpenPerfDataBytes(AsBytes(bytes), path);
  ASSERT_TRUE(source.has_value());
  size_t row = 0;
  DecodingSink sink((*source)->description(),
                    [&](const CapturedSample&, const MemSample& memory, MemoryDecoder&) {
                      ASSERT_LT(row, truth.size());
                      EXPECT_EQ(MemOpName(memory.op), OpOf(truth.Cell(row, "op"))) << row;
                      for (const auto& [column, cell] : CellsOf(memory)) {
                        // The kernel's zero for an address that it does not know is no address.
                        const std::string_view expected = truth.Cell(row, column);
                        if (column == "phys" && expected == "0x0" && cell.empty()) continue;
                        EXPECT_EQ(cell, expected) << "row " << row << " column " << column;
                      }
                      ++row;
                    });
  Drain(**source, sink);
  EXPECT_EQ(row, truth.size());
  EXPECT_GT(row, 0U);
  EXPECT_TRUE(sink.decoder().AnyMemoryEvent());
  EXPECT_EQ(sink.decoder().losses().Lost(), sink.samples() - row);
}

INSTANTIATE_TEST_SUITE_P(All, MemSynth,
                         testing::Values("ibs-op-zen2-raw", "ibs-op-zen3-errata", "ibs-op-zen4",
                                         "ibs-fetch-zen3", "ibs-fetch-zen4", "pebs-skylake",
                                         "pebs-icelake-pages", "pebs-spr-wstruct",
                                         "pebs-adl-hybrid"),
                         [](const testing::TestParamInfo<std::string_view>& tested) {
                           std::string name;
                           for (const char c : tested.param) {
                             if (c != '-') name += c;
                           }
                           return name;
                         });

}  // namespace
}  // namespace ptarmigan
