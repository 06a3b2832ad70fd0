#include "decode/internal/pt_walker.h"

namespace ptarmigan::internal {

FlowSegment* PtWalkResult::NextPart() {
  if (size == parts.size()) parts.push_back(std::make_unique<FlowSegment>());
  FlowSegment& part = *parts[size++];
  part.Clear();
  return &part;
}

void PtWalkResult::Clear() {
  size = 0;
  graph.Clear();
  counts = {};
  difference.clear();
  missing.clear();
  ended_well = began_tracing = ended_tracing = false;
}

}  // namespace ptarmigan::internal
