#include "query/branches.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "query/internal/code_places.h"

namespace ptarmigan {
namespace {

// Two-sided 95 % of the normal distribution.
constexpr double kNormalQuantile = 1.959963984540054;

// Locations by what they are and not by their numbers: object, build id, address.
class PlaceOrder {
 public:
  using Key = std::pair<uint32_t, uint64_t>;

  explicit PlaceOrder(const Profile& profile) : profile_(profile) {
    using Name = std::pair<std::string_view, std::string_view>;
    const auto name_of = [&profile](const Profile::Mapping& mapping) {
      return Name(profile.Text(mapping.file), profile.Text(mapping.build_id));
    };
    std::vector<Name> names = {Name()};  // of what has no mapping, and of what is not known
    for (const Profile::Mapping& mapping : profile.mappings) names.push_back(name_of(mapping));
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    const auto rank_of = [&names](const Name& name) {
      return static_cast<uint32_t>(std::ranges::lower_bound(names, name) - names.begin());
    };
    rank_of_none_ = rank_of(Name());
    for (const Profile::Mapping& mapping : profile.mappings)
      ranks_.push_back(rank_of(name_of(mapping)));
  }

  Key Of(LocationId id) const {
    if (id == BranchSummary::kNone) return {rank_of_none_, 0};
    const Profile::Location& location = profile_.locations[id];
    return {location.mapping == kNoId ? rank_of_none_ : ranks_[location.mapping], location.address};
  }

 private:
  const Profile& profile_;
  std::vector<uint32_t> ranks_;  // by mapping
  uint32_t rank_of_none_ = 0;
};

// The first `rows_max` of `chosen`, by count and, where that is equal, by `key_of`. They come by count.
template <typename Value, typename KeyOf>
std::vector<const Value*> FirstRows(const std::vector<const Value*>& chosen, const KeyOf& key_of,
                                    size_t rows_max) {
  struct Row {
    decltype(key_of(*chosen[0])) key;
    const Value* value;
  };
  std::vector<const Value*> rows;
  rows.reserve(std::min(chosen.size(), rows_max));
  std::vector<Row> equals;
  for (size_t begin = 0; begin < chosen.size() && rows.size() < rows_max;) {
    equals.clear();
    for (; begin < chosen.size() &&
           (equals.empty() || chosen[begin]->count == equals[0].value->count);
         ++begin) {
      equals.push_back({key_of(*chosen[begin]), chosen[begin]});
    }
    std::ranges::sort(equals, {}, &Row::key);
    for (const Row& row : equals) {
      if (rows.size() < rows_max) rows.push_back(row.value);
    }
  }
  return rows;
}

}  // namespace

Interval WilsonInterval(uint64_t hits, uint64_t trials) {
  if (trials == 0) return {};
  const auto n = static_cast<double>(trials);
  const double rate = static_cast<double>(std::min(hits, trials)) / n;
  const double z2 = kNormalQuantile * kNormalQuantile;
  const double centre = (rate + z2 / (2 * n)) / (1 + z2 / n);
  const double half =
      kNormalQuantile / (1 + z2 / n) * std::sqrt(rate * (1 - rate) / n + z2 / (4 * n * n));
  return {std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

BranchReport MakeBranchReport(const Profile& profile, size_t rows_max,
                              const LocationFilter* filter) {
  const BranchSummary& summary = profile.summary.branches;
  const internal::CodePlaces places(profile);
  const auto is_chosen = [&](LocationId first, LocationId second) {
    return filter == nullptr || filter->Keeps(std::array{first, second});
  };
  const PlaceOrder order(profile);
  BranchReport report;
  std::vector<const BranchSummary::Edge*> edges;
  edges.reserve(summary.edges.size());
  for (const BranchSummary::Edge& edge : summary.edges) {
    if (!is_chosen(edge.from, edge.to)) continue;
    report.branches += edge.count;
    report.mispredicted += edge.mispredicted;
    report.predicted += edge.predicted;
    edges.push_back(&edge);
  }
  std::vector<const BranchSummary::Block*> blocks;
  blocks.reserve(summary.blocks.size());
  for (const BranchSummary::Block& block : summary.blocks) {
    if (is_chosen(block.start, block.end)) blocks.push_back(&block);
  }
  report.edges_cut = edges.size() - std::min(edges.size(), rows_max);
  report.blocks_cut = blocks.size() - std::min(blocks.size(), rows_max);
  edges = FirstRows(
      edges,
      [&order](const BranchSummary::Edge& edge) {
        return std::pair(order.Of(edge.from), order.Of(edge.to));
      },
      rows_max);
  blocks = FirstRows(
      blocks,
      [&order](const BranchSummary::Block& block) {
        return std::pair(order.Of(block.start), order.Of(block.end));
      },
      rows_max);

  report.edges.reserve(edges.size());
  for (const BranchSummary::Edge* edge : edges) {
    report.edges.push_back({.from = places.Of(edge->from),
                            .to = places.Of(edge->to),
                            .edge = *edge,
                            .mispredict_rate = WilsonInterval(
                                edge->mispredicted, edge->mispredicted + edge->predicted)});
  }
  report.blocks.reserve(blocks.size());
  for (const BranchSummary::Block* block : blocks) {
    BlockRow& row = report.blocks.emplace_back();
    row.start = places.Of(block->start);
    row.end = places.Of(block->end);
    row.block = *block;
    row.cycles = FiguresOf(summary.Cycles(*block));
    if (block->instructions > 0 && row.cycles.median > 0) {
      row.instructions_per_cycle = block->instructions / row.cycles.median;
    }
  }
  return report;
}

}  // namespace ptarmigan
