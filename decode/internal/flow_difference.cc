#include "decode/internal/flow_difference.h"

#include <cstddef>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/str_format.h"

namespace ptarmigan::internal {
namespace {

auto Fields(const CodeBlock& block) {
  return std::tuple(block.start, block.last, block.instructions, block.ending,
                    block.last_size_bytes, block.is_64_bit, block.epoch, block.function,
                    block.knows_function);
}

bool SameBlock(const FlowGraph& first, uint32_t a, const FlowGraph& second, uint32_t b) {
  if (a == kNoFlowId || b == kNoFlowId) return a == b;
  return Fields(first.blocks[a]) == Fields(second.blocks[b]);
}

bool SameEdge(const FlowGraph& first, uint32_t a, const FlowGraph& second, uint32_t b) {
  if (a == kNoFlowId || b == kNoFlowId) return a == b;
  const FlowEdge& left = first.edges[a];
  const FlowEdge& right = second.edges[b];
  return left.kind == right.kind && left.taken == right.taken && left.step == right.step &&
         SameBlock(first, left.from, second, right.from) &&
         SameBlock(first, left.to, second, right.to);
}

auto Fields(const FlowChecks& checks) {
  return std::tuple(checks.reasons, checks.end_checked, checks.returns_matched,
                    checks.returns_unmatched, checks.calls_to_starts, checks.calls_elsewhere);
}
auto Fields(const FlowBytes& bytes) {
  return std::tuple(bytes.decoded, bytes.before_sync, bytes.after_error, bytes.overflow,
                    bytes.no_image, bytes.padding, bytes.dropped);
}
auto Fields(const FlowSegment& segment) {
  return std::tuple(segment.number, segment.owner, segment.begin_offset, segment.end_offset,
                    segment.continues, segment.stopped_at, segment.has_time, segment.has_cycles,
                    segment.begin_ticks, segment.end_ticks, segment.uncertainty_ticks,
                    segment.calls_cut);
}
auto Fields(const CallNode& node) {
  return std::tuple(node.parent, node.instructions, node.ticks, node.ticks_outside, node.cycles,
                    node.calls);
}
auto Fields(const FlowStrand& strand) {
  return std::tuple(strand.start, strand.root, strand.frames_begin, strand.frames_size,
                    strand.calls_begin, strand.last_context, strand.begin_instruction,
                    strand.begin_ticks);
}
auto Fields(const OpenFrame& frame) {
  return std::tuple(frame.context, frame.return_address, frame.is_interrupt);
}
auto Fields(const FlowAnchor& anchor) {
  return std::tuple(anchor.instruction, anchor.ticks, anchor.cycles);
}
auto Fields(const FlowEvent& event) {
  return std::tuple(event.kind, event.address, event.ticks, event.instruction, event.value);
}
auto Fields(const CallEvent& call) {
  return std::tuple(call.kind, call.context, call.uncertainty_ticks, call.ticks, call.instruction);
}

template <typename T, typename Same>
std::string ListDifference(std::string_view what, const std::vector<T>& first,
                           const std::vector<T>& second, Same same) {
  for (size_t i = 0; i < first.size() && i < second.size(); ++i) {
    if (!same(first[i], second[i])) return StrFormat("{} {} of {} differs", what, i, first.size());
  }
  if (first.size() == second.size()) return "";
  return StrFormat("{} and {} of: {}", first.size(), second.size(), what);
}

}  // namespace

std::string FlowDifference(const GraphedSegment& first, const GraphedSegment& second) {
  const FlowSegment& a = first.segment;
  const FlowSegment& b = second.segment;
  const auto same_edge = [&](uint32_t left, uint32_t right) {
    return SameEdge(first.graph, left, second.graph, right);
  };
  const auto same_fields = [](const auto& left, const auto& right) {
    return Fields(left) == Fields(right);
  };
  if (a.trust != b.trust || a.instructions != b.instructions) {
    return StrFormat("{} and {} instructions, trust {} and {}", a.instructions, b.instructions,
                     static_cast<int>(a.trust), static_cast<int>(b.trust));
  }
  if (!same_fields(a, b)) return "the ends or the times of the segment differ";
  if (!same_fields(a.checks, b.checks)) return "the checks differ";
  if (!same_fields(a.bytes, b.bytes)) return "the counts of bytes differ";
  std::string found = ListDifference("edge", a.edges, b.edges, [&](const auto& l, const auto& r) {
    return l.count == r.count && same_edge(l.edge, r.edge);
  });
  if (found.empty()) found = ListDifference("step of the path", a.path, b.path, same_edge);
  if (found.empty()) found = ListDifference("anchor", a.anchors, b.anchors, same_fields);
  if (found.empty()) found = ListDifference("event", a.events, b.events, same_fields);
  if (found.empty()) {
    found = ListDifference("context", a.contexts, b.contexts, [&](const auto& l, const auto& r) {
      return same_fields(l, r) && same_edge(l.edge, r.edge);
    });
  }
  if (found.empty()) {
    found = ListDifference("strand", a.strands, b.strands, [&](const auto& l, const auto& r) {
      return same_fields(l, r) && same_edge(l.edge, r.edge);
    });
  }
  if (found.empty()) found = ListDifference("open frame", a.frames, b.frames, same_fields);
  if (found.empty()) found = ListDifference("call", a.calls, b.calls, same_fields);
  return found;
}

}  // namespace ptarmigan::internal
