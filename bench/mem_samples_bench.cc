// Memory samples per second: perf.data bytes in memory through reading, parsing, ordering and decoding to MemSample, and
// decoding alone. `allocations_per_sample` is what was allocated between the first and the last sample.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "decode/memory_decoder.h"
#include "decode/perf_data_file.h"
#include "decode/record_types.h"
#include "tests/decode/allocation_counter.h"
#include "tests/encoders/ibs_encoder.h"
#include "tests/encoders/pebs_encoder.h"
#include "tests/encoders/sample_encoder.h"
#include "tests/support/perf_bytes.h"

namespace ptarmigan {
namespace {

constexpr size_t kSamples = 100'000;
constexpr size_t kSamplesPerRound = 1000;
constexpr uint32_t kPmuType = 11;
constexpr uint32_t kZen4Caps = 0xbff;
constexpr uint64_t kWho = kSampleIdentifier | kSampleIp | kSampleTid | kSampleTime | kSampleCpu |
                          kSamplePeriod | kSampleAddr;

struct Kind {
  std::string pmu;
  uint64_t sample_type;
  uint64_t seed;
};
const Kind kIbsOp = {"ibs_op", kWho | kSampleRaw | kSampleDataSrc | kSampleWeight, 1};
const Kind kIbsFetch = {"ibs_fetch", kWho | kSampleRaw, 2};
const Kind kPebs = {"cpu", kWho | kSampleDataSrc | kSampleWeightStruct | kSamplePhysAddr, 3};

std::string Recording(const Kind& kind) {
  std::mt19937_64 random(kind.seed);
  PerfFileBuilder file;
  file.AddAttr({.type = kPmuType, .sample_type = kind.sample_type, .size_bytes = 128, .ids = {7}});
  for (size_t i = 0; i < kSamples; ++i) {
    CapturedSample sample = RandomPebs(random).sample;
    while (!DescribesMemoryAccess(sample.data_src)) sample = RandomPebs(random).sample;
    sample.identity = {.pid = 7,
                       .tid = 7,
                       .time_ns = 1000 + i,
                       .id = 7,
                       .stream_id = 0,
                       .cpu = static_cast<uint32_t>(i % 4),
                       .has_time = true};
    sample.ip = {0x401000 + i % 4096};
    std::string raw;
    if (kind.pmu == "ibs_op") raw = EncodeIbsOp(RandomIbsOp(random, kZen4Caps, {}));
    if (kind.pmu == "ibs_fetch") raw = EncodeIbsFetch(RandomIbsFetch(random, kZen4Caps, {}));
    sample.raw = AsBytes(raw);
    file.AddBytes(EncodeSample(sample, kind.sample_type));
    if (i % kSamplesPerRound == kSamplesPerRound - 1) file.AddFinishedRound();
  }
  file.AddFeature(kFeatureCpuid, HeaderString("AuthenticAMD,25,17,1"));
  file.AddFeature(kFeaturePmuMappings,
                  file.Writer().U32(1).U32(kPmuType).Text(HeaderString(kind.pmu)).bytes());
  return file.File();
}

class CountingSink : public EventSink {
 public:
  explicit CountingSink(const RecordingDescription& description) : decoder_(description) {}
  void OnSample(const CapturedSample& sample) override {
    MemSample memory;
    if (decoder_.Decode(sample, &memory) == MemoryDecoder::Outcome::kDecoded) ++decoded;
    benchmark::DoNotOptimize(memory);
    last_allocations = AllocationsSoFar();
    if (first_allocations == 0) first_allocations = last_allocations;
  }
  uint64_t decoded = 0;
  size_t first_allocations = 0;
  size_t last_allocations = 0;

 private:
  MemoryDecoder decoder_;
};

void ReadAndDecode(benchmark::State& state, const Kind& kind) {
  const std::string bytes = Recording(kind);
  double allocations = 0;
  for (auto _ : state) {
    auto source = OpenPerfDataBytes(AsBytes(bytes), "bench");
    CHECK(source.has_value());
    CountingSink sink((*source)->description());
    for (;;) {
      const auto outcome = (*source)->Poll(sink);
      CHECK(outcome.has_value());
      if (*outcome == PollOutcome::kEnd) break;
    }
    CHECK(sink.decoded == kSamples);
    allocations = static_cast<double>(sink.last_allocations - sink.first_allocations) /
                  static_cast<double>(kSamples);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kSamples));
  state.counters["allocations_per_sample"] = allocations;
}
BENCHMARK_CAPTURE(ReadAndDecode, ibs_op, kIbsOp)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ReadAndDecode, ibs_fetch, kIbsFetch)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ReadAndDecode, pebs, kPebs)->Unit(benchmark::kMillisecond);

void DecodeAlone(benchmark::State& state) {
  constexpr size_t kDifferent = 4096;
  std::mt19937_64 random(4);
  std::vector<std::string> raws;
  for (size_t i = 0; i < kDifferent; ++i) {
    raws.push_back(EncodeIbsOp(RandomIbsOp(random, kZen4Caps, {})));
  }
  IbsOpRecord record;
  size_t next = 0;
  for (auto _ : state) {
    DecodeIbsOp(AsBytes(raws[next++ % kDifferent]), std::endian::little, {}, &record);
    benchmark::DoNotOptimize(record);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(DecodeAlone);

}  // namespace
}  // namespace ptarmigan

BENCHMARK_MAIN();
