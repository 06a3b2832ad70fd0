#include "decode/internal/flow_merger.h"

#include <algorithm>

namespace ptarmigan::internal {

size_t FlowMerger::BlockKeyHash::operator()(const BlockKey& key) const {
  uint64_t hash = key.start * 0x9e3779b97f4a7c15U;
  hash = (hash ^ key.last) * 0xff51afd7ed558ccdU;
  hash = (hash ^ key.code ^ reinterpret_cast<uintptr_t>(key.image)) * 0xc4ceb9fe1a85ec53U;
  return static_cast<size_t>(hash ^ hash >> 32);
}

void FlowMerger::Learn(size_t worker, const RecordedGraph& graph) {
  Worker& known = workers_[worker];
  known.blocks.insert(known.blocks.end(), graph.blocks.begin(), graph.blocks.end());
  known.edges.insert(known.edges.end(), graph.edges.begin(), graph.edges.end());
  known.block_ids.resize(known.blocks.size(), kNoFlowId);
  known.edge_ids.resize(known.edges.size(), kNoFlowId);
}

uint32_t FlowMerger::BlockId(Worker* worker, uint32_t id) {
  uint32_t& merged = worker->block_ids[id];
  if (merged != kNoFlowId) return merged;
  const BlockIdentity& identity = worker->blocks[id];
  const CodeBlock& block = identity.block;
  const BlockKey key = {block.start.value, block.last.value, identity.image,
                        identity.code,     block.is_64_bit,  block.instructions == 0};
  const auto [found, is_new] =
      blocks_.try_emplace(key, static_cast<uint32_t>(graph_.blocks.size()));
  if (is_new) graph_.blocks.push_back(block);
  merged = found->second;
  return merged;
}

uint32_t FlowMerger::EdgeId(Worker* worker, uint32_t id) {
  uint32_t& merged = worker->edge_ids[id];
  if (merged != kNoFlowId) return merged;
  FlowEdge edge = worker->edges[id];
  // FlowRecorder's "none".
  edge.from = edge.from == kNoFlowId ? kNoFlowId : BlockId(worker, edge.from);
  edge.to = BlockId(worker, edge.to);
  merged = Intern(edge);
  return merged;
}

uint32_t FlowMerger::Intern(const FlowEdge& edge) {
  const CompactIndex::Key key = {
      static_cast<uint64_t>(edge.from) << 32 | edge.to,
      static_cast<uint32_t>(edge.step) << 8 | static_cast<uint32_t>(edge.kind)};
  const uint32_t next = static_cast<uint32_t>(graph_.edges.size());
  const uint32_t id = edges_.FindOrInsert(key, next);
  if (id == next) graph_.edges.push_back(edge);
  return id;
}

void FlowMerger::Merge(size_t worker, FlowSegment* segment) {
  Worker* of = &workers_[worker];
  for (EdgeCount& edge : segment->edges) edge.edge = EdgeId(of, edge.edge);
  // All others are among these.
  for (CallNode& node : segment->contexts) node.edge = of->edge_ids[node.edge];
  for (FlowStrand& strand : segment->strands) strand.edge = of->edge_ids[strand.edge];
  for (uint32_t& edge : segment->path) edge = of->edge_ids[edge];
}

void FlowMerger::Connect(uint32_t last, FlowSegment* segment) {
  if (segment->edges.empty() || last == kNoFlowId) return;
  EdgeCount& first = segment->edges.front();
  const FlowEdge begin = graph_.edges[first.edge];
  if (begin.step != FlowStep::kBegin) return;
  const uint32_t edge =
      Intern(FlowEdge::Between(last, graph_.blocks[last], begin.to, graph_.blocks[begin.to]));
  if (!segment->strands.empty()) {
    segment->strands.front().edge = edge;
    segment->contexts[segment->strands.front().root].edge = edge;
  }
  if (!segment->path.empty()) segment->path.front() = edge;
  const auto same = std::find_if(segment->edges.begin(), segment->edges.end(),
                                 [&](const EdgeCount& count) { return count.edge == edge; });
  if (same != segment->edges.end()) {
    ++same->count;
  } else if (first.count == 1) {
    first.edge = edge;
    return;
  } else {
    segment->edges.push_back({edge, 1});
  }
  if (--segment->edges.front().count == 0) segment->edges.erase(segment->edges.begin());
}

}  // namespace ptarmigan::internal
