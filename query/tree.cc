#include "query/tree.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <unordered_map>

namespace ptarmigan {
namespace {

struct Building {
  struct Node {
    EntityId entity = kNoId;
    int64_t self = 0;
    int64_t total = 0;
    std::vector<uint32_t> children;
  };
  std::vector<Node> nodes;
  std::unordered_map<uint64_t, uint32_t> child_index;  // (parent, entity) -> node

  uint32_t Child(uint32_t parent, EntityId entity) {
    const uint64_t key = uint64_t{parent} << 32 | entity;
    const auto [found, is_new] = child_index.try_emplace(key, static_cast<uint32_t>(nodes.size()));
    if (is_new) {
      nodes.push_back({.entity = entity, .self = 0, .total = 0, .children = {}});
      nodes[parent].children.push_back(found->second);
    }
    return found->second;
  }
};

// The entities of a stack, leaf first.
void ExpandStack(const Profile& profile, const EntityTable& entities, StackId stack,
                 bool merge_inlined, std::vector<EntityId>* out) {
  out->clear();
  for (const LocationId location : profile.Stack(stack)) {
    const auto of_location = entities.OfLocation(location);
    if (merge_inlined) {
      out->push_back(of_location.back());
    } else {
      out->insert(out->end(), of_location.begin(), of_location.end());
    }
  }
}

// The least total that a node needs so that at most `nodes_max` remain.
int64_t SmallestKept(const Building& building, const TreeOptions& options) {
  const double share = options.share_min * static_cast<double>(std::abs(building.nodes[0].total));
  auto least = static_cast<int64_t>(std::ceil(share));
  if (building.nodes.size() > options.nodes_max) {
    std::vector<int64_t> totals;
    totals.reserve(building.nodes.size());
    for (const auto& node : building.nodes) totals.push_back(std::abs(node.total));
    const auto nth = totals.begin() + static_cast<std::ptrdiff_t>(options.nodes_max);
    std::ranges::nth_element(totals, nth, std::greater<>());
    least = std::max(least, *nth + 1);
  }
  return least;
}

}  // namespace

CallTree MakeCallTree(const Profile& profile, const EntityTable& entities,
                      const std::vector<bool>& selected, const TreeOptions& options) {
  Building building;
  building.nodes.emplace_back();
  std::vector<EntityId> stack;
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    if (!selected[i]) continue;
    const int64_t value = profile.Values(i)[options.sample_type];
    ExpandStack(profile, entities, profile.samples[i].stack, options.merge_inlined, &stack);
    if (!options.from_leaf) std::ranges::reverse(stack);
    uint32_t node = 0;
    building.nodes[0].total += value;
    for (size_t depth = 0; depth < stack.size(); ++depth) {
      node = building.Child(node, stack[depth]);
      building.nodes[node].total += value;
      if (options.from_leaf && depth == 0) building.nodes[node].self += value;
    }
    if (!options.from_leaf) building.nodes[node].self += value;
  }

  const auto before = [&](uint32_t a, uint32_t b) {
    const auto& left = building.nodes[a];
    const auto& right = building.nodes[b];
    if (left.total != right.total) return left.total > right.total;
    return entities.entities()[left.entity].function < entities.entities()[right.entity].function;
  };
  const int64_t least = SmallestKept(building, options);
  CallTree tree;
  struct Pending {
    uint32_t node;
    uint32_t level;
  };
  std::vector<Pending> pending = {{0, 0}};
  while (!pending.empty()) {
    const auto [index, level] = pending.back();
    pending.pop_back();
    auto& from = building.nodes[index];
    CallTree::Node to{
        .entity = from.entity, .level = level, .self = from.self, .total = from.total};
    std::ranges::sort(from.children, before);
    // The last pushed is visited first.
    for (auto child = from.children.rbegin(); child != from.children.rend(); ++child) {
      const int64_t total = building.nodes[*child].total;
      if (std::abs(total) < least) {
        ++to.children_cut;
        to.value_cut += total;
      } else {
        pending.push_back({*child, level + 1});
      }
    }
    tree.nodes.push_back(to);
  }
  return tree;
}

}  // namespace ptarmigan
