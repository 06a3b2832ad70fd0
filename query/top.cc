#include "query/top.h"

#include <algorithm>

namespace ptarmigan {

TopTable MakeTop(const Profile& profile, const EntityTable& entities,
                 const std::vector<bool>& selected, const TopOptions& options) {
  const size_t types = profile.sample_types.size();
  const size_t count = entities.entities().size();
  std::vector<int64_t> self(count * types, 0);
  std::vector<int64_t> total(count * types, 0);
  std::vector<size_t> seen_in(count, SIZE_MAX);
  TopTable table;
  table.total.assign(types, 0);
  const auto add = [types](std::span<const int64_t> values, size_t row,
                           std::vector<int64_t>* sums) {
    for (size_t t = 0; t < types; ++t) (*sums)[row * types + t] += values[t];
  };
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    if (!selected[i]) continue;
    const auto values = profile.Values(i);
    for (size_t t = 0; t < types; ++t) table.total[t] += values[t];
    bool leaf = true;
    for (const LocationId location : profile.Stack(profile.samples[i].stack)) {
      for (const EntityId entity : entities.OfLocation(location)) {
        if (leaf) add(values, entity, &self);
        leaf = false;
        if (seen_in[entity] == i) continue;
        seen_in[entity] = i;
        add(values, entity, &total);
      }
    }
  }
  for (EntityId entity = 0; entity < count; ++entity) {
    if (seen_in[entity] == SIZE_MAX) continue;
    const auto begin = static_cast<std::ptrdiff_t>(entity * types);
    const auto end = begin + static_cast<std::ptrdiff_t>(types);
    table.rows.push_back({.entity = entity,
                          .self = {self.begin() + begin, self.begin() + end},
                          .total = {total.begin() + begin, total.begin() + end}});
  }
  const auto before = [&](const TopRow& a, const TopRow& b) {
    const size_t t = options.order_by;
    if (a.self[t] != b.self[t]) return a.self[t] > b.self[t];
    if (a.total[t] != b.total[t]) return a.total[t] > b.total[t];
    const Entity& left = entities.entities()[a.entity];
    const Entity& right = entities.entities()[b.entity];
    if (left.function != right.function) return left.function < right.function;
    return a.entity < b.entity;
  };
  std::ranges::sort(table.rows, before);
  if (table.rows.size() > options.rows_max) {
    table.rows_cut = table.rows.size() - options.rows_max;
    table.rows.resize(options.rows_max);
  }
  return table;
}

}  // namespace ptarmigan
