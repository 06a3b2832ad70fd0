// What our decoder makes of a trace of our encoder, and what is true of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "decode/pt_decoder.h"
#include "model/code_image.h"
#include "model/control_flow.h"
#include "tests/encoders/pt_trace.h"

namespace ptarmigan {

struct PtDecoding {
  struct Segment {
    uint64_t begin_offset = 0;
    uint64_t end_offset = 0;
    FlowTrust trust = FlowTrust::kVerified;
    uint32_t reasons = 0;
    std::vector<uint64_t> addresses;
    bool operator==(const Segment&) const = default;
  };
  std::vector<Segment> segments;
  PtStatistics statistics;

  std::vector<uint64_t> Addresses() const;
};

// Decodes traces of one walk.
class PtWalkDecoder {
 public:
  PtWalkDecoder(const PtWalk& walk, const PtTraceSettings& settings, size_t threads = 1);

  // kUnsupported without libipt.
  Result<PtDecoding> Decode(std::string_view trace) const;

 private:
  const PtWalk& walk_;
  PtConfig config_;
  size_t threads_;
  ArrayCodeImage image_;
};

// The truth between two offsets at which PSBs stand (or the trace begins or ends): the steps' addresses. Empty, and
// `known` false, if there is no PSB at `begin`.
struct PtSegmentTruth {
  bool known = false;
  std::vector<uint64_t> addresses;
};
struct PtSegmentRange {
  uint64_t begin_offset = 0;
  uint64_t end_offset = 0;
};
PtSegmentTruth TruthOfSegment(const PtWalk& walk, const PtTrace& trace,
                              const PtSegmentRange& range);

}  // namespace ptarmigan
