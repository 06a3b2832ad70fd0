#include "decode/internal/return_check.h"

#include <algorithm>
#include <bit>

namespace ptarmigan::internal {

bool ReturnCheck::Misses(const FlowGraph& graph, const FlowSegment& segment) {
  std::vector<uint64_t>& stack = stacks_[segment.owner];
  bool misses = false;
  for (const FlowStrand& strand : segment.strands) {
    if (strand.start == FlowStrand::Start::kReturn) {
      const uint64_t landing = graph.blocks[graph.edges[strand.edge].to].start.value;
      const auto end =
          stack.rbegin() + static_cast<ptrdiff_t>(std::min(stack.size(), kSearchedMax));
      const auto frame = std::find(stack.rbegin(), end, landing);
      if (frame != end) {
        stack.erase(std::prev(frame.base()), stack.end());
      } else {
        misses = misses || (!stack.empty() && std::has_single_bit(stack.back() ^ landing));
        stack.clear();
      }
    } else if (strand.start != FlowStrand::Start::kSegment) {
      stack.clear();
    }
    if (stack.size() + strand.frames_size > kFramesMax) stack.clear();
    for (uint32_t i = 0; i < strand.frames_size; ++i) {
      stack.push_back(segment.frames[strand.frames_begin + i].return_address.value);
    }
  }
  return misses;
}

}  // namespace ptarmigan::internal
