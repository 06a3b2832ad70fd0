// The input is an Intel PT trace and the code it ran through:
//
//   u8 choice   how to decode: bit 0 paths and calls, bit 1 two threads, bit 2 no times, bit 3 a break, bit 4 two owners
//   u8 regions  then for each: u64 address, u16 size, bytes
//   the rest    the trace
//
// Every byte of the trace must be in one count and every id must exist; decoding must come to an end, and say the same for
// any number of threads, and by both walkers if neither finds anything bad. Seeds of the corpus are programs of tests/encoders with their traces.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_cursor.h"
#include "base/check.h"
#include "decode/call_stack_builder.h"
#include "decode/pt_decoder.h"

namespace ptarmigan {
namespace {

class CheckingSink : public FlowSink {
 public:
  void OnFlowSegment(const FlowGraph& graph, const FlowSegment& segment) override {
    for (const EdgeCount& count : segment.edges) CHECK(count.edge < graph.edges.size());
    for (const uint32_t edge : segment.path) CHECK(edge < graph.edges.size());
    for (const FlowStrand& strand : segment.strands) {
      CHECK(strand.frames_begin + strand.frames_size <= segment.frames.size());
    }
    stacks_.Add(graph, segment);
    instructions += segment.instructions;
    verified += segment.trust == FlowTrust::kVerified ? 1 : 0;
  }
  uint64_t instructions = 0;
  uint64_t verified = 0;

 private:
  CallStackBuilder stacks_;
};

PtConfig Config() {
  PtConfig config;
  config.cpu_is_intel = true;
  config.cpu_family = 6;
  config.cpu_model = 143;
  config.tsc_ratio = 250;
  config.crystal_ratio = 2;
  config.mtc_frequency = 3;
  config.mtc = true;
  config.cyc = true;
  config.nominal_ratio = 30;
  config.time_shift = 31;
  config.time_mult = 715827883;
  return config;
}

struct Totals {
  uint64_t instructions = 0;
  uint64_t verified = 0;
  uint64_t bad = 0;
};

Totals RunBy(PtWalkerKind walker, const PtStream& stream, PtOptions options, size_t threads_max) {
  options.walker = walker;
  Totals totals;
  for (size_t threads = 1; threads <= threads_max; ++threads) {
    options.threads = threads;
    const auto decoder = PtDecoder::Create(Config(), options);
    if (!decoder) return {};  // built without libipt
    CheckingSink sink;
    CHECK((*decoder)->Decode(stream, sink).has_value());
    CHECK((*decoder)->statistics().bytes.Sum() == stream.bytes.size());
    CHECK(threads == 1 ||
          (sink.instructions == totals.instructions && sink.verified == totals.verified));
    totals = {sink.instructions, sink.verified, (*decoder)->statistics().bad};
  }
  return totals;
}

void Run(Bytes input) {
  ByteCursor cursor(input);
  const uint8_t choice = cursor.U8();
  const uint8_t regions = cursor.U8();
  ArrayCodeImage image;
  for (unsigned i = 0; i < regions && cursor.ok(); ++i) {
    const uint64_t address = cursor.U64();
    const Bytes code = cursor.Take(cursor.U16());
    if (address + code.size() < address) continue;
    image.AddRegion({.start = {address}, .bytes = code, .content = i + 1U});
  }
  if (!cursor.ok()) return;
  PtStream stream;
  stream.bytes = cursor.Rest();
  stream.occupants = {{.image = &image}};
  if ((choice & 8) != 0) stream.breaks = {stream.bytes.size() / 2};
  if ((choice & 16) != 0) {
    stream.occupants.push_back({.since_ticks = uint64_t{1} << 40, .owner = 1, .image = &image});
  }
  PtOptions options;
  options.want_path = options.want_calls = (choice & 1) != 0;
  options.want_time = (choice & 4) == 0;
  const Totals ours = RunBy(PtWalkerKind::kFast, stream, options, (choice & 2) != 0 ? 2 : 1);
  const Totals theirs = RunBy(PtWalkerKind::kLibipt, stream, options, (choice & 2) != 0 ? 2 : 1);
  CHECK(ours.bad > 0 || theirs.bad > 0 ||
        (ours.instructions == theirs.instructions && ours.verified == theirs.verified));
}

}  // namespace
}  // namespace ptarmigan

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kInputBytesMax = size_t{1} << 16;
  ptarmigan::Run(std::as_bytes(std::span(data, std::min(size, kInputBytesMax))));
  return 0;
}
