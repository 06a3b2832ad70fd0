// ReturnCheck: returns to a place that is one bit away from where the innermost call was to come back, over the segments of
// a stream: the calls that earlier ones left open count, too. A walker sees this only of calls of its own segment.
//
// Whatever the check does not understand (longjmp, exceptions, switches of stacks) makes it forget the stack, so it errs
// on the side of silence. Segments must come in order. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "model/control_flow.h"

namespace ptarmigan::internal {

class ReturnCheck {
 public:
  // `segment` is merged: its edges are those of `graph`. Whether one of its returns misses its call by one bit.
  bool Misses(const FlowGraph& graph, const FlowSegment& segment);
  // What comes next is not connected with what was.
  void Forget() { stacks_.clear(); }

 private:
  static constexpr size_t kFramesMax = size_t{1} << 16;
  static constexpr size_t kSearchedMax = 4096;

  std::map<uint32_t, std::vector<uint64_t>> stacks_;  // return addresses of open calls, by owner
};

}  // namespace ptarmigan::internal
