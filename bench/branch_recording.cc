// The recording of tools/bench's part "branches": a random program's branch stacks, as Intel's hardware records them.
//
//   branch_recording SAMPLES ELF-FILE RECORDING
#include <charconv>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/encoders/branch_encoder.h"

int main(int argc, char** argv) {
  size_t samples = 0;
  if (argc == 4) {
    const std::string_view text = argv[1];
    std::from_chars(text.data(), text.data() + text.size(), samples);
  }
  if (samples == 0) {
    std::fprintf(stderr, "usage: branch_recording SAMPLES ELF-FILE RECORDING\n");
    return 2;
  }
  ptarmigan::BranchProgram program({.functions = 2000, .samples = samples});
  std::ofstream(argv[2], std::ios::binary) << program.Elf();
  std::ofstream(argv[3], std::ios::binary) << program.Record(argv[2]);
  std::printf("%llu entries, %zu edges, %zu blocks\n",
              static_cast<unsigned long long>(program.truth().entries),
              program.truth().edges.size(), program.truth().blocks.size());
  return 0;
}
