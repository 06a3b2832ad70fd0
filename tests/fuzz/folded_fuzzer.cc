// The two text formats of stacks: folded and perf script.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/check.h"
#include "export/folded.h"
#include "export/perf_script_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ptarmigan::Bytes bytes = std::as_bytes(std::span(data, size));
  for (const auto& profile : {ptarmigan::ReadFolded(bytes), ptarmigan::ReadPerfScript(bytes)}) {
    if (!profile) {
      CHECK(!profile.error().message.empty());
      continue;
    }
    CHECK(profile->CheckValid().has_value());
    std::string text;
    ptarmigan::StringSink sink(&text);
    CHECK(ptarmigan::WriteFolded(*profile, {.comm_root = true}, &sink).has_value());
  }
  return 0;
}
