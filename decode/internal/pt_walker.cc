#include "decode/internal/pt_walker.h"

namespace ptarmigan::internal {

FlowSegment* PtWalkResult::NextPart() {
  if (size == parts.size()) parts.push_back(std::make_unique<FlowSegment>());
  FlowSegment& part = *parts[size++];
  part.continues = false;
  part.stopped_at = {};
  part.instructions = 0;
  part.has_time = false;
  part.begin_ticks = part.end_ticks = part.uncertainty_ticks = 0;
  part.trust = FlowTrust::kVerified;
  part.checks = {};
  part.bytes = {};
  part.edges.clear();
  part.contexts.clear();
  part.strands.clear();
  part.frames.clear();
  part.anchors.clear();
  part.events.clear();
  part.calls.clear();
  part.path.clear();
  return &part;
}

void PtWalkResult::Clear() {
  size = 0;
  graph.Clear();
  counts = {};
  missing.clear();
  ended_well = began_tracing = ended_tracing = false;
}

}  // namespace ptarmigan::internal
