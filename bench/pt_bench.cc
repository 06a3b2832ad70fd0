// Intel PT: how fast traces become edges and call stacks, beside what libipt alone needs to walk the same blocks.
//
//   pt_bench [--steps=N] [Google Benchmark's options]
//
// The trace is that of `pt_recording DIRECTORY N` (2,000,000 instructions by default), decoded from memory. Counters:
// instructions per second, bytes of trace per second; peak_mb is the process's largest resident set so far.
#include <benchmark/benchmark.h>
#include <intel-pt.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <charconv>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/file.h"
#include "base/str_format.h"
#include "bench/pt_workload.h"
#include "decode/call_stack_builder.h"
#include "decode/internal/pt_index.h"
#include "decode/pt_decoder.h"
#include "tests/encoders/pt_decoding.h"

namespace ptarmigan {
namespace {

size_t g_steps = 2'000'000;

struct Workload {
  Workload()
      : program(PtWorkloadProgram(kPtWorkloadSeed)),
        walk(program, PtWorkloadWalk(kPtWorkloadSeed, g_steps)),
        image(walk, PtWorkloadTrace()) {
    const PtTraceSettings settings = PtWorkloadTrace();
    for (unsigned thread = 0; thread < walk.threads(); ++thread) {
      traces.push_back(EncodePt(walk, walk.StepsOfThread(thread), settings).bytes);
      bytes += traces.back().size();
    }
  }
  PtProgram program;
  PtWalk walk;
  PtWalkImage image;
  std::vector<std::string> traces;  // of each thread
  uint64_t bytes = 0;
};

const Workload& TheWorkload() {
  static const Workload workload;
  return workload;
}

void Report(benchmark::State& state, uint64_t instructions) {
  const auto rounds = static_cast<double>(state.iterations());
  state.counters["instructions/s"] =
      benchmark::Counter(static_cast<double>(instructions) * rounds, benchmark::Counter::kIsRate);
  state.SetBytesProcessed(static_cast<int64_t>(TheWorkload().bytes * state.iterations()));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_mb"] = static_cast<double>(usage.ru_maxrss) / 1024;
}

// The least that libipt asks for: an image, a decoder per trace, blocks that end on calls and jumps.
class BareLoop {
 public:
  BareLoop()
      : cache_(pt_iscache_alloc(nullptr), pt_iscache_free),
        image_(pt_image_alloc(nullptr), pt_image_free) {
    const CodeImage& code = TheWorkload().image.image();
    for (const CodeRegion& region : code.Regions(code.Epochs() - 1)) {
      files_.emplace_back(memfd_create("code", MFD_CLOEXEC));
      CHECK(WriteAll(files_.back().get(), region.bytes, "code").has_value());
      const std::string name = StrFormat("/proc/self/fd/{}", files_.back().get());
      const int section = pt_iscache_add_file(cache_.get(), name.c_str(), 0, region.bytes.size(),
                                              region.start.value);
      CHECK(section > 0);
      CHECK(pt_image_add_cached(image_.get(), cache_.get(), section, nullptr) >= 0);
    }
  }
  uint64_t Walk(std::string_view trace) {
    pt_config config;
    pt_config_init(&config);
    config.begin = const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(trace.data()));
    config.end = config.begin + trace.size();
    config.flags.variant.block.end_on_call = 1;
    config.flags.variant.block.end_on_jump = 1;
    const std::unique_ptr<pt_block_decoder, void (*)(pt_block_decoder*)> decoder(
        pt_blk_alloc_decoder(&config), pt_blk_free_decoder);
    pt_blk_set_image(decoder.get(), image_.get());
    uint64_t instructions = 0;
    while (pt_blk_sync_forward(decoder.get()) >= 0) {
      for (int status = 0; status >= 0;) {
        pt_event event;
        pt_block block;
        while ((status & pts_event_pending) != 0) {
          status = pt_blk_event(decoder.get(), &event, sizeof(event));
          if (status < 0) break;
        }
        if (status < 0 || (status & pts_eos) != 0) break;
        status = pt_blk_next(decoder.get(), &block, sizeof(block));
        instructions += block.ninsn;
      }
    }
    return instructions;
  }

 private:
  std::unique_ptr<pt_image_section_cache, void (*)(pt_image_section_cache*)> cache_;
  std::unique_ptr<pt_image, void (*)(pt_image*)> image_;
  std::vector<Fd> files_;
};

void BM_BareLibiptBlocks(benchmark::State& state) {
  BareLoop loop;
  uint64_t instructions = 0;
  for (auto _ : state) {
    instructions = 0;
    for (const std::string& trace : TheWorkload().traces) instructions += loop.Walk(trace);
  }
  Report(state, instructions);
}
BENCHMARK(BM_BareLibiptBlocks)->Unit(benchmark::kMillisecond);

class StackSink : public FlowSink {
 public:
  void Begin() { stacks_ = std::make_unique<CallStackBuilder>(); }
  void OnFlowSegment(const FlowGraph& graph, const FlowSegment& segment) override {
    if (stacks_) stacks_->Add(graph, segment);
    edges += segment.edges.size();
  }
  uint64_t edges = 0;

 private:
  std::unique_ptr<CallStackBuilder> stacks_;
};

void Decode(benchmark::State& state, const PtOptions& options) {
  auto decoder = PtDecoder::Create(TheWorkload().image.config(), options);
  CHECK(decoder.has_value());
  StackSink sink;
  uint64_t instructions = 0;
  for (auto _ : state) {
    instructions = (*decoder)->statistics().instructions;
    for (const std::string& trace : TheWorkload().traces) {
      PtStream stream;
      stream.bytes = AsBytes(trace);
      stream.occupants = {{.image = &TheWorkload().image.image()}};
      if (options.want_contexts) sink.Begin();
      CHECK((*decoder)->Decode(stream, sink).has_value());
    }
    instructions = (*decoder)->statistics().instructions - instructions;
  }
  CHECK((*decoder)->statistics().bad == 0);
  benchmark::DoNotOptimize(sink.edges);
  Report(state, instructions);
}

void BM_EdgesAndCounts(benchmark::State& state) {
  PtOptions options;
  options.want_contexts = false;
  options.want_time = false;
  Decode(state, options);
}
BENCHMARK(BM_EdgesAndCounts)->Unit(benchmark::kMillisecond);

void BM_StacksAndTime(benchmark::State& state) {
  PtOptions options;
  options.threads = static_cast<size_t>(state.range(0));
  Decode(state, options);
}
BENCHMARK(BM_StacksAndTime)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

void BM_StacksAndTimeByLibipt(benchmark::State& state) {
  PtOptions options;
  options.walker = PtWalkerKind::kLibipt;
  Decode(state, options);
}
BENCHMARK(BM_StacksAndTimeByLibipt)->Unit(benchmark::kMillisecond);

void BM_PacketIndex(benchmark::State& state) {
  size_t points = 0;
  for (auto _ : state) {
    for (const std::string& trace : TheWorkload().traces) {
      points += internal::IndexPt(AsBytes(trace)).size();
    }
  }
  benchmark::DoNotOptimize(points);
  Report(state, 0);
}
BENCHMARK(BM_PacketIndex)->Unit(benchmark::kMillisecond);

void BM_BareLibiptPackets(benchmark::State& state) {
  uint64_t packets = 0;
  for (auto _ : state) {
    for (const std::string& trace : TheWorkload().traces) {
      pt_config config;
      pt_config_init(&config);
      config.begin = const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(trace.data()));
      config.end = config.begin + trace.size();
      const std::unique_ptr<pt_packet_decoder, void (*)(pt_packet_decoder*)> decoder(
          pt_pkt_alloc_decoder(&config), pt_pkt_free_decoder);
      pt_pkt_sync_forward(decoder.get());
      pt_packet packet;
      while (pt_pkt_next(decoder.get(), &packet, sizeof(packet)) >= 0) ++packets;
    }
  }
  benchmark::DoNotOptimize(packets);
  Report(state, 0);
}
BENCHMARK(BM_BareLibiptPackets)->Unit(benchmark::kMillisecond);

}  // namespace

// Takes what is ours out of the arguments.
void ReadSteps(int* argc, char** argv) {
  constexpr std::string_view kSteps = "--steps=";
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(kSteps)) {
      std::from_chars(argument.data() + kSteps.size(), argument.data() + argument.size(), g_steps);
    } else {
      argv[kept++] = argv[i];
    }
  }
  *argc = kept;
}

}  // namespace ptarmigan

int main(int argc, char** argv) {
  ptarmigan::ReadSteps(&argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
