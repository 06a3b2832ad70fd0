// Walks over samples of this process: many different call paths of about 20 frames, each with 8 KiB of stack.
#include <benchmark/benchmark.h>
#include <ucontext.h>

#include <cstdint>
#include <vector>

#include "tests/support/live_process.h"

namespace ptarmigan {
namespace {

constexpr size_t kStackBytes = 8192;
constexpr int kDepth = 14;  // of our own; the rest is the benchmark's and libc's
constexpr size_t kSamples = 2000;

std::vector<ThreadSnapshot> samples;  // NOLINT: filled at the bottom of the recursion
volatile int sink = 0;

[[gnu::noinline]] void TakeSample() {
  ucontext_t context;
  getcontext(&context);
  samples.push_back(TakeSnapshot(context, kStackBytes));
}

int Descend(uint64_t path, int depth);

// Eight functions with frames of their own; which one is next is a digit of `path`.
template <int kKind>
[[gnu::noinline]] int Step(uint64_t path, int depth) {
  volatile int locals[size_t{4} + 6 * size_t{kKind}];
  locals[kKind] = depth;
  const int below = Descend(path / 8, depth - 1);
  return below + locals[kKind];
}

[[gnu::noinline]] int Descend(uint64_t path, int depth) {
  if (depth == 0) {
    TakeSample();
    return 0;
  }
  switch (path % 8) {
    case 0:
      return Step<0>(path, depth) + 1;
    case 1:
      return Step<1>(path, depth) + 2;
    case 2:
      return Step<2>(path, depth) + 3;
    case 3:
      return Step<3>(path, depth) + 4;
    case 4:
      return Step<4>(path, depth) + 5;
    case 5:
      return Step<5>(path, depth) + 6;
    case 6:
      return Step<6>(path, depth) + 7;
    default:
      return Step<7>(path, depth) + 8;
  }
}

void FillSamples() {
  uint64_t state = 88172645463325252U;
  while (samples.size() < kSamples) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    sink = Descend(state, kDepth / 2);
  }
}

// The modules of a process, sorted: what the pipeline's finder costs, without its other work.
class SortedModules : public ModuleFinder {
 public:
  explicit SortedModules(LiveProcess& process) {
    for (const FakeProcess::Mapping& mapping : process.mappings()) {
      CodeModule module;
      if (process.Find(mapping.start, &module)) modules_.push_back(module);
    }
    std::sort(modules_.begin(), modules_.end(), [](const CodeModule& one, const CodeModule& other) {
      return one.start < other.start;
    });
  }
  bool Find(VirtAddr pc, CodeModule* module) override {
    auto after =
        std::upper_bound(modules_.begin(), modules_.end(), pc,
                         [](VirtAddr value, const CodeModule& one) { return value < one.start; });
    if (after == modules_.begin() || pc >= (--after)->end) return false;
    *module = *after;
    return true;
  }

 private:
  std::vector<CodeModule> modules_;
};

void Walk(benchmark::State& state, WalkOptions::Method method) {
  LiveProcess process;
  SortedModules modules(process);
  StackWalker walker(NativeArch(), {.method = method});
  std::vector<WalkedFrame> frames;
  uint64_t frame_count = 0;
  uint64_t complete = 0;
  uint64_t walks = 0;
  const auto walk = [&](const ThreadSnapshot& sample) {
    const WalkResult result = walker.Walk(
        {.registers = sample.registers, .stack = AsBytes(sample.stack)}, modules, &frames);
    frame_count += frames.size();
    complete += result.end == StackEnd::kComplete ? 1U : 0U;
    ++walks;
  };
  for (const ThreadSnapshot& sample : samples) walk(sample);  // warm
  frame_count = complete = walks = 0;
  size_t next = 0;
  for (auto _ : state) walk(samples[next++ % samples.size()]);
  state.counters["frames_per_stack"] =
      static_cast<double>(frame_count) / static_cast<double>(walks);
  state.counters["complete_share"] = static_cast<double>(complete) / static_cast<double>(walks);
  state.counters["time_per_frame"] = benchmark::Counter(
      static_cast<double>(frame_count), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void WalkByCfi(benchmark::State& state) { Walk(state, WalkOptions::Method::kCfi); }
void WalkByFramePointer(benchmark::State& state) {
  Walk(state, WalkOptions::Method::kFramePointer);
}
BENCHMARK(WalkByCfi);
BENCHMARK(WalkByFramePointer);

// Finding and running the CFI of addresses never asked for before.
void FindRowCold(benchmark::State& state) {
  LiveProcess process;
  CodeModule module;
  process.Find(VirtAddr{reinterpret_cast<uint64_t>(&std::getenv)}, &module);
  std::vector<FileVaddr> starts;
  {
    CfiTable table(module.object->file());
    table.ForEachRange([&](const CfiRange& range) { starts.push_back(range.start); });
  }
  CfiTable table(module.object->file());
  UnwindRow row;
  size_t next = 0;
  for (auto _ : state)
    benchmark::DoNotOptimize(table.FindRow(starts[next++ % starts.size()] + 4, &row));
}
BENCHMARK(FindRowCold);

}  // namespace
}  // namespace ptarmigan

int main(int argc, char** argv) {
  ptarmigan::FillSamples();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
