// The input is a CoreSight stream, led by a byte that says of which unit and whether in frames, and who is to decode it.
//   bit 4 clear: CoreSightDecoder; the code that it runs through is the input again
//   bit 4 set: CoreSightFlow; two bytes say how much of what follows is code, which lies at kBase
// Every byte must be in one count, and decoding must come to an end.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/check.h"
#include "decode/call_stack_builder.h"
#include "decode/coresight_decoder.h"
#include "decode/coresight_flow.h"
#include "decode/coresight_setup.h"

namespace ptarmigan {
namespace {

constexpr uint8_t kTraceId = 0x10;

EtmUnit UnitOf(uint8_t choice) {
  switch (choice % 4) {
    case 0:
      return {.protocol = EtmProtocol::kEtm4,
              .config = 0xc1,
              .idr0 = 0x28000ea1,
              .idr1 = 0x4100f403,
              .idr2 = 0x488};
    case 1:
      return {.protocol = EtmProtocol::kEte,
              .config = 0x1,
              .idr0 = 0x2801cea1,
              .idr1 = 0x4100fff0,
              .idr2 = 0xd0001088,
              .idr8 = 0xff,
              .devarch = 0x47705a13};
    case 2:
      return {.protocol = EtmProtocol::kPtm,
              .config = 0x10001000,
              .idr0 = 0x411cf301,
              .ccer = 0x34c01ac2};
    default:
      return {.protocol = EtmProtocol::kEtm3,
              .config = 0x10001000,
              .idr0 = 0x4114f250,
              .ccer = 0x34c01ac2};
  }
}

class OwnCode : public CoreSightCode {
 public:
  explicit OwnCode(Bytes bytes) : bytes_(bytes) {}
  size_t Read(uint8_t, VirtAddr address, std::span<std::byte> to) override {
    if (bytes_.empty() || address.value % 7 == 0) return 0;
    for (size_t i = 0; i < to.size(); ++i) to[i] = bytes_[(address.value + i) % bytes_.size()];
    return to.size();
  }

 private:
  Bytes bytes_;
};

class CheckingSink : public CoreSightSink {
 public:
  void OnElement(uint8_t, uint64_t, const CoreSightElement& element) override {
    CHECK(!CoreSightElementName(element.kind).empty());
  }
};

class CountingSink : public FlowSink {
 public:
  void OnFlowSegment(const FlowGraph& graph, const FlowSegment& segment) override {
    CHECK(segment.begin_offset <= segment.end_offset);
    CHECK(segment.edges.empty() || segment.edges.back().edge < graph.edges.size());
    bytes += segment.bytes;
    builder.Add(graph, segment);
  }
  FlowBytes bytes;
  CallStackBuilder builder;
};

void DecodeFlow(uint8_t choice, Bytes input) {
  constexpr uint64_t kBase = 0x400000;
  constexpr uint64_t kFunctionBytes = 64;
  if (input.size() < 2) return;
  const size_t said = std::to_integer<size_t>(input[0]) | std::to_integer<size_t>(input[1]) << 8;
  input = input.subspan(2);
  const Bytes code = input.first(std::min(said, input.size()));
  const Bytes trace = input.subspan(code.size());
  ArrayCodeImage image;
  image.AddRegion({.start = {kBase}, .bytes = code});
  for (uint64_t at = 0; at + kFunctionBytes <= code.size(); at += kFunctionBytes) {
    image.AddFunction({.start = {kBase + at}, .end = {kBase + at + kFunctionBytes}});
  }
  CoreSightSetup setup;
  setup.units.push_back(UnitOf(choice));
  auto flow = CoreSightFlow::Create(
      setup, {{0, kTraceId}},
      {.want_path = true, .want_calls = true, .time = TimeConversion{.mult = 1}});
  CHECK(flow);
  const bool is_formatted = (choice & 4) != 0;
  const uint64_t cut = trace.size() / 2;
  const TracePiece pieces[] = {
      {.begin = 0, .end = cut, .is_lossy = (choice & 8) != 0, .is_formatted = is_formatted},
      {.begin = cut, .end = trace.size(), .is_formatted = is_formatted}};
  CoreSightStream stream;
  stream.bytes = trace;
  stream.pieces = pieces;
  stream.occupants = {{.image = &image}};
  CountingSink sink;
  if (!(*flow)->Decode(stream, sink)) return;  // built without OpenCSD
  CHECK(sink.bytes.Sum() == trace.size());
}

void Decode(Bytes input) {
  const auto choice = std::to_integer<uint8_t>(input.front());
  const Bytes bytes = input.subspan(1);
  if ((choice & 16) != 0) {
    DecodeFlow(choice, bytes);
    return;
  }
  OwnCode code(bytes);
  CheckingSink sink;
  const bool is_formatted = (choice & 4) != 0;
  auto decoder = CoreSightDecoder::Create(
      {.sources = {{.unit = UnitOf(choice), .trace_id = kTraceId}}, .is_formatted = is_formatted},
      &code, &sink);
  if (!decoder) return;  // built without OpenCSD
  const size_t cut =
      bytes.size() / 2 / CoreSightDecoder::kFrameBytes * CoreSightDecoder::kFrameBytes;
  (*decoder)->Decode(0, bytes.first(cut));
  if ((choice & 8) != 0) (*decoder)->Restart();
  (*decoder)->Decode(cut, bytes.subspan(cut));
  (*decoder)->Finish();
  CHECK((*decoder)->counts().bytes.Sum() == bytes.size());
}

}  // namespace
}  // namespace ptarmigan

// OpenCSD 1.3.3 forgets 32 bytes of each decode tree (ocsd_dt_set_gen_elem_outfn).
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libopencsd"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kInputBytesMax = size_t{1} << 16;
  if (size > 0) {
    ptarmigan::Decode(std::as_bytes(std::span(data, std::min(size, kInputBytesMax))));
  }
  return 0;
}
