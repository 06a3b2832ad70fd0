// The `tree` and `callers` views: stacks merged from the root, or from the leaf outwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/profile.h"
#include "query/entities.h"

namespace ptarmigan {

// Nodes in preorder; node 0 is the root ("all"), which has no entity.
struct CallTree {
  struct Node {
    EntityId entity = kNoId;
    uint32_t level = 0;  // root 0
    int64_t self = 0;
    int64_t total = 0;
    size_t children_cut = 0;  // left out by the options
    int64_t value_cut = 0;    // their total
  };
  std::vector<Node> nodes;
};

struct TreeOptions {
  size_t sample_type = 0;
  bool from_leaf = false;      // `callers`: level 1 is where samples hit, below it who called
  double share_min = 0.0;      // children below this share of the root's total are cut
  size_t nodes_max = 100'000;  // the smallest nodes beyond are cut
  bool merge_inlined =
      false;  // frames of inlined functions are counted to the function they stand in
};

// Children by total, then name.
CallTree MakeCallTree(const Profile& profile, const EntityTable& entities,
                      const std::vector<bool>& selected, const TreeOptions& options);

}  // namespace ptarmigan
