// The recording of tools/bench's part "pgo": the branches of a program that is stepped through once, sampled over and over.
//
//   step_recording SAMPLES PROGRAM RECORDING
#include <charconv>
#include <cstdio>
#include <fstream>
#include <string_view>

#include "tests/pipeline/step_recorder.h"

int main(int argc, char** argv) {
  size_t samples = 0;
  if (argc == 4) {
    const std::string_view text = argv[1];
    std::from_chars(text.data(), text.data() + text.size(), samples);
  }
  if (samples == 0) {
    std::fprintf(stderr, "usage: step_recording SAMPLES PROGRAM RECORDING\n");
    return 2;
  }
  constexpr size_t kStepsMax = 200000;
  const auto recorded = ptarmigan::RecordBySteps(argv[2], kStepsMax);
  if (!recorded.has_value()) {
    std::fprintf(stderr, "step_recording: %s\n", recorded.error().message.c_str());
    return 1;
  }
  std::ofstream(argv[3], std::ios::binary)
      << ptarmigan::PerfDataOf(*recorded, argv[2], {.samples = samples});
  std::printf("%zu samples of 32 out of %zu branches\n", samples, recorded->branches.size());
  return 0;
}
