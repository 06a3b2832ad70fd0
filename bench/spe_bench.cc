// Arm SPE: how fast AUX bytes become records and memory samples.
//
//   spe_bench [Google Benchmark's options]
//
// Streams are made by the tests' encoder: as processors write them (a fixed order of packets, padding to 64 bytes) and
// at their worst (any order, extended headers). Counters: bytes of AUX per second, records per second, and heap
// allocations per record once everything is warm, which must be 0.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>

#include "base/byte_cursor.h"
#include "base/check.h"
#include "decode/spe_data_source.h"
#include "decode/spe_decoder.h"
#include "decode/spe_stream.h"
#include "tests/decode/allocation_counter.h"
#include "tests/encoders/spe_encoder.h"

namespace ptarmigan {
namespace {

constexpr int kRecords = 100000;
constexpr uint64_t kFragmentBytes = uint64_t{256} << 10;

enum Layout : int64_t { kRegular, kRandom };

std::string MakeStream(Layout layout) {
  SpeProgramOptions options{.dropped = false};
  if (layout == kRegular) {
    options = {.shuffle = false,
               .padding = false,
               .alignment = false,
               .extended = false,
               .newer_packets = false,
               .dropped = false};
  }
  SpeProgram program(1, options);
  for (int i = 0; i < kRecords; ++i) program.AddRecord();
  return program.bytes();
}

const std::string& StreamOf(Layout layout) {
  static const std::string regular = MakeStream(kRegular);
  static const std::string random = MakeStream(kRandom);
  return layout == kRegular ? regular : random;
}

void Report(benchmark::State& state, size_t bytes, uint64_t records, size_t allocated) {
  state.SetBytesProcessed(static_cast<int64_t>(bytes * state.iterations()));
  state.counters["records/s"] =
      benchmark::Counter(static_cast<double>(records), benchmark::Counter::kIsRate);
  state.counters["allocations_per_record"] =
      static_cast<double>(allocated) / static_cast<double>(records);
}

void BM_Decode(benchmark::State& state) {
  const std::string& bytes = StreamOf(static_cast<Layout>(state.range(0)));
  SpeDecoder decoder;
  SpeRecord record;
  const size_t before = AllocationsSoFar();
  for (auto _ : state) {
    decoder.Start(AsBytes(bytes), 0);
    while (decoder.Next(&record)) benchmark::DoNotOptimize(record);
  }
  Report(state, bytes.size(), decoder.counts().records, AllocationsSoFar() - before);
}
BENCHMARK(BM_Decode)->Arg(kRegular)->Arg(kRandom);

void BM_DecodeToMemSamples(benchmark::State& state) {
  const std::string& bytes = StreamOf(static_cast<Layout>(state.range(0)));
  SpeDecoder decoder;
  SpeRecord record;
  SpeOrigin origin;
  origin.data_sources = &SpeDataSourcesOf(0x413fd0c1);
  const size_t before = AllocationsSoFar();
  for (auto _ : state) {
    decoder.Start(AsBytes(bytes), 0);
    while (decoder.Next(&record)) {
      MemSample sample = ToMemSample(record, origin);
      benchmark::DoNotOptimize(sample);
    }
  }
  Report(state, bytes.size(), decoder.counts().records, AllocationsSoFar() - before);
}
BENCHMARK(BM_DecodeToMemSamples)->Arg(kRegular)->Arg(kRandom);

class CountingSink : public SpeRecordSink {
 public:
  void OnSpeRecord(const SpeRecord& record, const SpeOrigin& origin) override {
    benchmark::DoNotOptimize(ToMemSample(record, origin));
    ++records;
  }
  uint64_t records = 0;
};

// Fragments and chunks through SpeStream, with contexts and times.
void BM_Stream(benchmark::State& state) {
  const std::string& bytes = StreamOf(static_cast<Layout>(state.range(0)));
  const std::string info(
      "\x46\0\0\0\0\0\x20\0\x04\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0", 32);
  RecordingDescription description;
  CountingSink sink;
  SpeStream stream(description);
  stream.SetSink(&sink);
  stream.OnOther({.identity = {}, .type = 70, .bytes = AsBytes(info)});
  CHECK(stream.active());
  uint64_t offset = 0;
  size_t before = 0;
  uint64_t warm_records = 0;
  const auto run = [&] {
    for (size_t at = 0; at < bytes.size(); at += kFragmentBytes) {
      AuxChunk chunk;
      chunk.data = AsBytes(bytes).subspan(at, std::min<size_t>(kFragmentBytes, bytes.size() - at));
      chunk.cpu = 0;
      chunk.offset = offset;
      chunk.data_outlives_call = true;
      stream.OnAuxChunk(chunk);
      AuxEvent event;
      event.identity.cpu = 0;
      event.aux_offset = offset;
      event.size_bytes = chunk.data.size();
      stream.OnAux(event);
      offset += chunk.data.size();
    }
  };
  run();
  warm_records = sink.records;
  before = AllocationsSoFar();
  for (auto _ : state) run();
  Report(state, bytes.size(), sink.records - warm_records, AllocationsSoFar() - before);
}
BENCHMARK(BM_Stream)->Arg(kRegular)->Arg(kRandom);

}  // namespace
}  // namespace ptarmigan

BENCHMARK_MAIN();
