// FlowDifference: what two decoders say differently of the same segment. Ids of blocks and edges are the decoders' own, so
// what they stand for is compared.
#pragma once

#include <string>

#include "model/control_flow.h"

namespace ptarmigan::internal {

struct GraphedSegment {
  const FlowGraph& graph;  // that the segment's ids are of
  const FlowSegment& segment;
};

// The first difference in one sentence; empty if there is none.
std::string FlowDifference(const GraphedSegment& first, const GraphedSegment& second);

}  // namespace ptarmigan::internal
