// Writes a synthetic Intel PT recording: a random program, a run through it, and a perf.data file around its trace.
//
//   pt_recording DIRECTORY STEPS [SEED] [per-thread|per-cpu|snapshot|samples]
//
// DIRECTORY/perf.data; the mapped files lie below DIRECTORY, which is what --symfs and --binary-path take. Prints how many
// instructions can be seen in it.
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "bench/pt_workload.h"
#include "tests/encoders/pt_perf_data.h"

namespace ptarmigan {
namespace {

struct Wish {
  std::string directory;
  size_t steps = 0;
  uint64_t seed = kPtWorkloadSeed;
  PtPerfDataOptions::Mode mode = PtPerfDataOptions::Mode::kPerThread;
};

template <typename T>
bool ReadNumber(std::string_view text, T* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

bool ReadMode(std::string_view text, PtPerfDataOptions::Mode* mode) {
  using Mode = PtPerfDataOptions::Mode;
  constexpr std::pair<std::string_view, Mode> kModes[] = {{"per-thread", Mode::kPerThread},
                                                          {"per-cpu", Mode::kPerCpu},
                                                          {"snapshot", Mode::kSnapshot},
                                                          {"samples", Mode::kSamples}};
  for (const auto& [name, value] : kModes) {
    if (name != text) continue;
    *mode = value;
    return true;
  }
  return false;
}

void Write(const std::string& path, const std::string& content) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

void Record(const Wish& wish) {
  const PtProgram program(PtWorkloadProgram(wish.seed));
  const PtWalk walk(program, PtWorkloadWalk(wish.seed, wish.steps));
  PtPerfDataOptions options;
  options.mode = wish.mode;
  options.trace = PtWorkloadTrace();
  const PtPerfData recording = RecordPt(walk, options);
  Write(wish.directory + "/perf.data", recording.perf_data);
  for (const auto& [path, content] : recording.files) Write(wish.directory + path, content);
  size_t visible = 0;
  for (const auto& steps : recording.visible) visible += steps.size();
  std::printf("%zu instructions, %llu bytes of trace\n", visible,
              static_cast<unsigned long long>(recording.trace_bytes));
}

}  // namespace
}  // namespace ptarmigan

int main(int argc, char** argv) {
  ptarmigan::Wish wish;
  if (argc < 3 || argc > 5 || !ptarmigan::ReadNumber(argv[2], &wish.steps) ||
      (argc > 3 && !ptarmigan::ReadNumber(argv[3], &wish.seed)) ||
      (argc > 4 && !ptarmigan::ReadMode(argv[4], &wish.mode))) {
    std::fprintf(stderr, "usage: %s DIRECTORY STEPS [SEED] [per-thread|per-cpu|snapshot|samples]\n",
                 argv[0]);
    return 2;
  }
  wish.directory = argv[1];
  ptarmigan::Record(wish);
  return 0;
}
