// Text of any content as perf script with branch stacks: no crash, no hang, bounded memory, every sample accounted for.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "decode/perf_script_source.h"

namespace ptarmigan {
namespace {

class CheckingSink : public EventSink {
 public:
  void OnSample(const CapturedSample& sample) override {
    ++samples;
    CHECK(sample.branches.size() <= kScriptBranchesMax && sample.chain.size() <= kScriptChainMax);
    CHECK(sample.has_branches == !sample.branches.empty() || sample.has_chain);
  }
  void OnMmap(const MmapEvent& event) override { CHECK(!event.path.empty()); }

  uint64_t samples = 0;
};

}  // namespace
}  // namespace ptarmigan

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ptarmigan;
  const Bytes bytes = std::as_bytes(std::span(data, size));
  PerfScriptOptions options;
  options.assumed_mappings.resize(1);
  options.assumed_mappings[0].path = "/bin/a";
  auto source = OpenPerfScriptBytes(bytes, "input", options);
  CHECK(source.has_value() == HasBranchStackText(bytes) ||
        AsText(bytes).find('\0') != std::string_view::npos);
  if (!source) {
    CHECK(!source.error().message.empty());
    return 0;
  }
  CheckingSink sink;
  for (size_t polls = 0; polls <= size + 2; ++polls) {
    const auto outcome = (*source)->Poll(sink);
    CHECK(outcome.has_value());
    if (*outcome == PollOutcome::kEnd) {
      CHECK((*source)->losses().Balances());
      CHECK((*source)->losses().kept() == sink.samples);
      return 0;
    }
  }
  CHECK(false);
}
