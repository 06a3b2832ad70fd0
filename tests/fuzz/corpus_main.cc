// Runs a fuzz target over the files of a directory: the corpus as a plain test, without libFuzzer.
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "base/file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  size_t files = 0;
  for (int i = 1; i < argc; ++i) {
    const auto names = ptarmigan::ListDirectory(argv[i]);
    if (!names) {
      std::fprintf(stderr, "%s\n", names.error().message.c_str());
      return 1;
    }
    for (const std::string& name : *names) {
      const auto content = ptarmigan::ReadFile(ptarmigan::JoinPath(argv[i], name));
      if (!content) {
        std::fprintf(stderr, "%s\n", content.error().message.c_str());
        return 1;
      }
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(content->data()), content->size());
      ++files;
    }
  }
  std::printf("%zu corpus files\n", files);
  return files > 0 ? 0 : 1;
}
