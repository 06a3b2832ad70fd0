// Every field of a segment that differs is found, and ids alone are none.
#include "decode/internal/flow_difference.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace ptarmigan::internal {
namespace {

FlowGraph Graph() {
  FlowGraph graph;
  for (uint64_t start : {0x1000U, 0x2000U}) {
    CodeBlock& block = graph.blocks.emplace_back();
    block.start = {start};
    block.last = {start + 4};
    block.instructions = 2;
  }
  graph.edges.push_back({.from = 0, .to = 1, .kind = BranchKind::kCall, .taken = true});
  graph.edges.push_back({.from = 1, .to = 0, .kind = BranchKind::kReturn, .taken = true});
  return graph;
}

FlowSegment Segment() {
  FlowSegment segment;
  segment.instructions = 4;
  segment.edges = {{0, 3}, {1, 2}};
  segment.path = {0, 1};
  segment.contexts.resize(2);
  segment.contexts[0].edge = 0;
  segment.strands.resize(1);
  segment.strands[0].edge = 0;
  segment.frames.resize(1);
  segment.anchors.resize(1);
  segment.events.resize(1);
  segment.calls.resize(1);
  return segment;
}

TEST(FlowDifference, FindsEveryFieldThatDiffers) {
  const FlowGraph graph = Graph();
  const FlowSegment segment = Segment();
  ASSERT_EQ(FlowDifference({graph, segment}, {graph, segment}), "");
  const std::vector<std::function<void(FlowSegment*)>> changes = {
      [](FlowSegment* s) { ++s->number; },
      [](FlowSegment* s) { ++s->owner; },
      [](FlowSegment* s) { ++s->begin_offset; },
      [](FlowSegment* s) { ++s->end_offset; },
      [](FlowSegment* s) { s->continues = true; },
      [](FlowSegment* s) { s->stopped_at = {1}; },
      [](FlowSegment* s) { ++s->instructions; },
      [](FlowSegment* s) { s->has_time = true; },
      [](FlowSegment* s) { s->has_cycles = true; },
      [](FlowSegment* s) { ++s->begin_ticks; },
      [](FlowSegment* s) { ++s->end_ticks; },
      [](FlowSegment* s) { ++s->uncertainty_ticks; },
      [](FlowSegment* s) { s->trust = FlowTrust::kBad; },
      [](FlowSegment* s) { ++s->checks.reasons; },
      [](FlowSegment* s) { s->checks.end_checked = true; },
      [](FlowSegment* s) { ++s->checks.returns_matched; },
      [](FlowSegment* s) { ++s->checks.returns_unmatched; },
      [](FlowSegment* s) { ++s->checks.calls_to_starts; },
      [](FlowSegment* s) { ++s->checks.calls_elsewhere; },
      [](FlowSegment* s) { ++s->bytes.decoded; },
      [](FlowSegment* s) { ++s->bytes.before_sync; },
      [](FlowSegment* s) { ++s->bytes.after_error; },
      [](FlowSegment* s) { ++s->bytes.overflow; },
      [](FlowSegment* s) { ++s->bytes.no_image; },
      [](FlowSegment* s) { ++s->bytes.padding; },
      [](FlowSegment* s) { ++s->bytes.dropped; },
      [](FlowSegment* s) { ++s->calls_cut; },
      [](FlowSegment* s) { ++s->edges[1].count; },
      [](FlowSegment* s) { s->edges[1].edge = 0; },
      [](FlowSegment* s) { s->edges.pop_back(); },
      [](FlowSegment* s) { s->path[0] = 1; },
      [](FlowSegment* s) { s->path.push_back(1); },
      [](FlowSegment* s) { s->contexts[1].parent = 0; },
      [](FlowSegment* s) { s->contexts[0].edge = 1; },
      [](FlowSegment* s) { ++s->contexts[0].instructions; },
      [](FlowSegment* s) { ++s->contexts[0].ticks; },
      [](FlowSegment* s) { ++s->contexts[0].ticks_outside; },
      [](FlowSegment* s) { ++s->contexts[0].cycles; },
      [](FlowSegment* s) { ++s->contexts[0].calls; },
      [](FlowSegment* s) { s->contexts.pop_back(); },
      [](FlowSegment* s) { s->strands[0].start = FlowStrand::Start::kGap; },
      [](FlowSegment* s) { s->strands[0].edge = 1; },
      [](FlowSegment* s) { ++s->strands[0].root; },
      [](FlowSegment* s) { ++s->strands[0].frames_begin; },
      [](FlowSegment* s) { ++s->strands[0].frames_size; },
      [](FlowSegment* s) { ++s->strands[0].calls_begin; },
      [](FlowSegment* s) { ++s->strands[0].last_context; },
      [](FlowSegment* s) { ++s->strands[0].begin_instruction; },
      [](FlowSegment* s) { ++s->strands[0].begin_ticks; },
      [](FlowSegment* s) { ++s->frames[0].context; },
      [](FlowSegment* s) { s->frames[0].return_address = {1}; },
      [](FlowSegment* s) { s->frames[0].is_interrupt = true; },
      [](FlowSegment* s) { ++s->anchors[0].instruction; },
      [](FlowSegment* s) { ++s->anchors[0].ticks; },
      [](FlowSegment* s) { ++s->anchors[0].cycles; },
      [](FlowSegment* s) { s->events[0].kind = FlowEvent::Kind::kError; },
      [](FlowSegment* s) { s->events[0].address = {1}; },
      [](FlowSegment* s) { ++s->events[0].ticks; },
      [](FlowSegment* s) { ++s->events[0].instruction; },
      [](FlowSegment* s) { ++s->events[0].value; },
      [](FlowSegment* s) { s->calls[0].kind = CallEvent::Kind::kReturn; },
      [](FlowSegment* s) { ++s->calls[0].context; },
      [](FlowSegment* s) { ++s->calls[0].uncertainty_ticks; },
      [](FlowSegment* s) { ++s->calls[0].ticks; },
      [](FlowSegment* s) { ++s->calls[0].instruction; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    FlowSegment changed = segment;
    changes[i](&changed);
    EXPECT_NE(FlowDifference({graph, segment}, {graph, changed}), "") << i;
  }
}

TEST(FlowDifference, ComparesWhatIdsStandFor) {
  const FlowGraph graph = Graph();
  FlowGraph other = graph;
  std::swap(other.blocks[0], other.blocks[1]);
  std::swap(other.edges[0], other.edges[1]);
  for (FlowEdge& edge : other.edges) std::swap(edge.from, edge.to);
  FlowSegment renumbered = Segment();
  renumbered.edges = {{1, 3}, {0, 2}};
  renumbered.path = {1, 0};
  renumbered.contexts[0].edge = renumbered.strands[0].edge = 1;
  EXPECT_EQ(FlowDifference({graph, Segment()}, {other, renumbered}), "");
  EXPECT_NE(FlowDifference({graph, Segment()}, {other, Segment()}), "");
  other.blocks[0].epoch = 1;
  EXPECT_NE(FlowDifference({graph, Segment()}, {other, renumbered}), "");
}

}  // namespace
}  // namespace ptarmigan::internal
