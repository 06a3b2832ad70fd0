// FlowMerger: turns the ids of several workers into those of one graph. Segments must be merged in their order; then ids
// come out the same for any number of workers, since a new block or edge gets its id when the first segment that ran it is
// merged. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/compact_index.h"
#include "decode/internal/flow_recorder.h"
#include "model/control_flow.h"

namespace ptarmigan::internal {

class FlowMerger {
 public:
  explicit FlowMerger(size_t workers) : workers_(workers) {}

  // What the worker created since its last segment, before the segment that came with it.
  void Learn(size_t worker, const RecordedGraph& graph);
  void Merge(size_t worker, FlowSegment* segment);
  // The segment, which is merged, goes on where code had come to the end of block `last` of the merged graph: its first
  // edge leads from there.
  void Connect(uint32_t last, FlowSegment* segment);
  // The merged id of a worker's block that ran; kNoFlowId for 0.
  uint32_t MergedBlock(size_t worker, uint32_t id) const { return workers_[worker].block_ids[id]; }
  const FlowGraph& graph() const { return graph_; }

 private:
  struct BlockKey {
    uint64_t start;
    uint64_t last;
    const CodeImage* image;
    uint64_t code;
    bool is_64_bit;
    bool is_empty;
    bool operator==(const BlockKey&) const = default;
  };
  struct BlockKeyHash {
    size_t operator()(const BlockKey& key) const;
  };
  struct Worker {
    std::vector<BlockIdentity> blocks{1};  // by the worker's ids; 0 is none
    std::vector<FlowEdge> edges{1};
    std::vector<uint32_t> block_ids{kNoFlowId};
    std::vector<uint32_t> edge_ids{kNoFlowId};
  };

  uint32_t BlockId(Worker* worker, uint32_t id);
  uint32_t EdgeId(Worker* worker, uint32_t id);
  uint32_t Intern(const FlowEdge& edge);

  std::vector<Worker> workers_;
  FlowGraph graph_;
  std::unordered_map<BlockKey, uint32_t, BlockKeyHash> blocks_;
  CompactIndex edges_;
};

}  // namespace ptarmigan::internal
