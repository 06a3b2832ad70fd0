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
  struct Block {
    std::vector<uint64_t> addresses;  // of its instructions
    uint64_t runs = 0;                // by the counts of the edges that lead to it
  };
  std::vector<Segment> segments;
  std::vector<Block> blocks;  // of the graph
  FlowStatistics statistics;

  std::vector<uint64_t> Addresses() const;
};

// One trace on one image, with paths. kUnsupported without libipt.
Result<PtDecoding> DecodePt(const PtConfig& config, const PtStream& stream, const CodeImage& image,
                            size_t threads = 1, PtWalkerKind walker = PtOptions().walker);

// The code of a walk, by time, and how its traces were set up.
class PtWalkImage {
 public:
  // Keeps references to the walk's code.
  PtWalkImage(const PtWalk& walk, const PtTraceSettings& settings);

  const PtConfig& config() const { return config_; }
  const ArrayCodeImage& image() const { return image_; }
  Result<PtDecoding> Decode(std::string_view trace, size_t threads = 1,
                            PtWalkerKind walker = PtOptions().walker) const;

 private:
  PtConfig config_;
  ArrayCodeImage image_;
};

}  // namespace ptarmigan
