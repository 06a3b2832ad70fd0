// A whole perf.data file of any content: no crash, no hang, bounded memory, and every sample accounted for.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/check.h"
#include "decode/perf_data_file.h"
#include "model/event_source.h"

namespace ptarmigan {
namespace {

// Reads everything that an event lends, so that a sanitizer sees spans that reach too far.
class TouchingSink : public EventSink {
 public:
  void OnSample(const CapturedSample& sample) override {
    ++samples;
    Touch(sample.user_stack);
    Touch(sample.raw);
    Touch(sample.aux);
    for (const uint64_t entry : sample.chain) sum += entry;
    for (const BranchRecord& branch : sample.branches) sum += branch.from + branch.to;
    for (const ReadValue& value : sample.read_values) sum += value.value;
  }
  void OnMmap(const MmapEvent& event) override { sum += event.path.size(); }
  void OnComm(const CommEvent& event) override { sum += event.comm.size(); }
  void OnKsymbol(const KsymbolEvent& event) override { sum += event.name.size(); }
  void OnCgroup(const CgroupEvent& event) override { sum += event.path.size(); }
  void OnTextPoke(const TextPokeEvent& event) override {
    Touch(event.old_bytes);
    Touch(event.new_bytes);
  }
  void OnAuxChunk(const AuxChunk& chunk) override {
    CHECK(chunk.size_bytes == chunk.data.size());
    Touch(chunk.data);
  }
  void OnOther(const OtherRecord& record) override { Touch(record.bytes); }

  uint64_t samples = 0;
  uint64_t sum = 0;

 private:
  void Touch(Bytes bytes) {
    for (const std::byte byte : bytes) sum += std::to_integer<uint64_t>(byte);
  }
};

}  // namespace
}  // namespace ptarmigan

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ptarmigan;
  const Bytes bytes = std::as_bytes(std::span(data, size));
  auto source = OpenPerfDataBytes(bytes, "input");
  if (!source) {
    CHECK(!source.error().message.empty());
    return 0;
  }
  TouchingSink sink;
  // Every poll but the last reads at least one byte.
  for (size_t polls = 0; polls <= size + 2; ++polls) {
    const auto outcome = (*source)->Poll(sink);
    CHECK(outcome.has_value());
    if (*outcome == PollOutcome::kEnd) {
      CHECK((*source)->losses().Balances());
      CHECK((*source)->losses().kept() == sink.samples);
      for (const EventDescription& event : (*source)->description().events)
        CHECK(!event.name.empty());
      return 0;
    }
  }
  CHECK(false);
}
