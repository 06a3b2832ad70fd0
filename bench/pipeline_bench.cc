// Recordings on their way into a profile, without the start of a process, the reading of a disk and the writing of
// output.
//
//   pipeline_bench [Google Benchmark's options] RECORDING...
//
// Of each recording (perf.data, read into memory first):
//   Import     events to the finished profile, names left out, as `--no-symbols` does
//   SpeSteady  of Arm SPE: AUX bytes to aggregated samples, once every kind of record has been seen: the recording's AUX
//              bytes come again and again as the next ones of their streams
// Times are CPU time of all threads; `wall_MB/s` is what a user waits for. SpeSteady counts heap allocations per record,
// which must be 0.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "base/heap.h"
#include "decode/perf_data_file.h"
#include "pipeline/import.h"
#include "pipeline/sample_pipeline.h"
#include "tests/decode/allocation_counter.h"

namespace ptarmigan {
namespace {

std::unique_ptr<EventSource> Open(const std::string& bytes, const std::string& name) {
  auto source = OpenPerfDataBytes(AsBytes(bytes), name);
  CHECK(source.has_value());
  return std::move(*source);
}

SymbolizerOptions NoSymbols() {
  SymbolizerOptions options;
  options.symbols = false;
  options.cache_directory = "-";
  return options;
}

// Bytes per second of what the clock on the wall saw.
class WallRate {
 public:
  explicit WallRate(benchmark::State* state) : state_(*state) {}
  void Report(size_t bytes) {
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start_;
    const auto all = static_cast<double>(bytes * state_.iterations());
    state_.SetBytesProcessed(static_cast<int64_t>(all));
    state_.counters["wall_MB/s"] = all / 1e6 / wall.count();
  }

 private:
  benchmark::State& state_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void Import(benchmark::State& state, const std::string& bytes, const std::string& name) {
  PipelineOptions options;
  options.memory_details = false;
  WallRate rate(&state);
  for (auto _ : state) {
    const auto source = Open(bytes, name);
    Symbolizer symbolizer(NoSymbols());
    const auto profile = ImportRecording(*source, symbolizer, options);
    CHECK(profile.has_value());
    benchmark::DoNotOptimize(profile->samples.size());
  }
  rate.Report(bytes.size());
}

// Hands all events on and keeps those of AUX areas, whose bytes lie in the recording.
class AuxKeeper : public EventSink {
 public:
  explicit AuxKeeper(EventSink* next) : next_(*next) {}

  void OnSample(const CapturedSample& event) override { next_.OnSample(event); }
  void OnMmap(const MmapEvent& event) override { next_.OnMmap(event); }
  void OnComm(const CommEvent& event) override { next_.OnComm(event); }
  void OnFork(const TaskEvent& event) override { next_.OnFork(event); }
  void OnExit(const TaskEvent& event) override { next_.OnExit(event); }
  void OnSwitch(const SwitchEvent& event) override { next_.OnSwitch(event); }
  void OnOther(const OtherRecord& record) override { next_.OnOther(record); }
  void OnAux(const AuxEvent& event) override {
    pieces_.push_back({.event = event, .is_chunk = false});
    next_.OnAux(event);
  }
  void OnAuxChunk(const AuxChunk& chunk) override {
    pieces_.push_back({.chunk = chunk, .is_chunk = true});
    stream_bytes_[chunk.cpu] += chunk.data.size();
    bytes_ += chunk.data.size();
    next_.OnAuxChunk(chunk);
  }

  // The same bytes as the next ones of their streams.
  void PlayAgain() {
    for (Piece& piece : pieces_) {
      if (piece.is_chunk) {
        piece.chunk.offset += stream_bytes_[piece.chunk.cpu];
        next_.OnAuxChunk(piece.chunk);
      } else {
        piece.event.aux_offset += stream_bytes_[piece.event.identity.cpu];
        next_.OnAux(piece.event);
      }
    }
  }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Piece {
    AuxEvent event = {};
    AuxChunk chunk = {};
    bool is_chunk = false;
  };
  EventSink& next_;
  std::vector<Piece> pieces_;
  std::map<uint32_t, uint64_t> stream_bytes_;  // by CPU
  uint64_t bytes_ = 0;
};

void SpeSteady(benchmark::State& state, const std::string& bytes, const std::string& name) {
  const auto source = Open(bytes, name);
  Symbolizer symbolizer(NoSymbols());
  PipelineOptions options;
  options.memory_details = false;
  SamplePipeline pipeline(source->description(), symbolizer, options);
  AuxKeeper keeper(&pipeline);
  for (;;) {
    const auto outcome = source->Poll(keeper);
    CHECK(outcome.has_value());
    if (*outcome == PollOutcome::kEnd) break;
  }
  if (keeper.bytes() == 0) {
    state.SkipWithError("no AUX area");
    return;
  }
  keeper.PlayAgain();
  const size_t allocated = AllocationsSoFar();
  WallRate rate(&state);
  for (auto _ : state) keeper.PlayAgain();
  rate.Report(keeper.bytes());
  const size_t allocations = AllocationsSoFar() - allocated;
  const Profile profile = pipeline.Finish(source->losses());
  const auto records = static_cast<double>(profile.losses.captured());
  const auto rounds = static_cast<double>(state.iterations());
  state.counters["records"] = records / (rounds + 2);
  state.counters["allocations_per_record"] =
      static_cast<double>(allocations) / (records / (rounds + 2) * rounds);
}

int Run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc < 2) {
    std::fprintf(stderr, "usage: pipeline_bench [Google Benchmark's options] RECORDING...\n");
    return 2;
  }
  std::deque<std::string> recordings;
  for (int i = 1; i < argc; ++i) {
    const std::string path = argv[i];
    const auto file = MappedFile::Open(path);
    if (!file) {
      std::fprintf(stderr, "%s\n", file.error().message.c_str());
      return 2;
    }
    const std::string& bytes = recordings.emplace_back(AsText(file->bytes()));
    const std::string name = path.substr(path.rfind('/') + 1);
    const auto add = [&](const std::string& what, auto function) {
      benchmark::RegisterBenchmark(
          (what + "/" + name).c_str(),
          [function, &bytes, name](benchmark::State& state) { function(state, bytes, name); })
          ->MeasureProcessCPUTime()
          ->Unit(benchmark::kMillisecond);
    };
    add("Import", Import);
    if (name.starts_with("spe")) add("SpeSteady", SpeSteady);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace ptarmigan

int main(int argc, char** argv) {
  ptarmigan::UseLargePagesForHeap();
  return ptarmigan::Run(argc, argv);
}
