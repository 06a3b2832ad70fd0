#include "query/memory.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "model/memory_summary.h"

namespace ptarmigan {
namespace {

constexpr std::string_view kLatencyTypes[kMemLatencies] = {
    "latency", "issue_latency", "translation_latency", "instruction_latency"};

// What one label set says of a memory sample.
struct MemoryLabels {
  bool is_memory = false;
  bool mispredicted = false;
  size_t op = static_cast<size_t>(MemOp::kOther);
  std::string_view source;
  std::string_view tlb;
  std::string_view snoop;
};

MemoryLabels ReadLabels(const Profile& profile, LabelSetId set) {
  MemoryLabels labels;
  for (const Profile::Label& label : profile.Labels(set)) {
    const std::string_view key = profile.Text(label.key);
    const std::string_view text = profile.Text(label.text);
    if (key == "kind") labels.is_memory = text == "memory";
    if (key == "mispredicted") labels.mispredicted = text == "true";
    if (key == "data_source") labels.source = text;
    if (key == "tlb") labels.tlb = text;
    if (key == "snoop") labels.snoop = text;
    if (key != "op") continue;
    for (size_t op = 0; op < kMemOps; ++op) {
      if (MemOpName(static_cast<MemOp>(op)) == text) labels.op = op;
    }
  }
  return labels;
}

void AddTo(std::string_view name, uint64_t samples,
           std::map<std::string, uint64_t, std::less<>>* counts) {
  if (name.empty()) return;
  const auto known = counts->find(name);
  if (known != counts->end()) {
    known->second += samples;
  } else {
    counts->emplace(name, samples);
  }
}

class Collector {
 public:
  Collector(const Profile& profile, const EntityTable& entities, MemoryTable* table)
      : profile_(profile), entities_(entities), table_(*table) {
    for (size_t i = 0; i < kMemLatencies; ++i) {
      for (size_t type = 0; type < profile.sample_types.size(); ++type) {
        if (profile.Text(profile.sample_types[type].type) == kLatencyTypes[i]) types_[i] = type;
      }
    }
    for (LabelSetId set = 0; set < profile.label_sets.size(); ++set) {
      labels_.push_back(ReadLabels(profile, set));
    }
  }

  void AddSample(size_t sample) {
    const MemoryLabels& labels = labels_[profile_.samples[sample].labels];
    const auto stack = profile_.Stack(profile_.samples[sample].stack);
    if (!labels.is_memory || stack.empty()) return;
    const auto values = profile_.Values(sample);
    const auto samples = static_cast<uint64_t>(values[0]);
    MemoryRow& row = RowOf(stack.front());
    table_.samples += samples;
    row.samples += samples;
    row.ops[labels.op] += samples;
    if (labels.mispredicted) row.mispredicted += samples;
    AddTo(labels.source, samples, &row.by_source);
    AddTo(labels.tlb, samples, &row.by_tlb);
    AddTo(labels.snoop, samples, &row.by_snoop);
    for (size_t i = 0; i < kMemLatencies; ++i) {
      if (types_[i] != kNoType) row.latencies[i].sum += static_cast<uint64_t>(values[types_[i]]);
    }
  }

  void AddDistributions() {
    using Counts = std::vector<MemorySummary::CyclesCount>;
    std::vector<std::array<Counts, kMemLatencies>> counts(table_.rows.size());
    for (const auto& distribution : profile_.summary.memory.distributions) {
      const auto row = row_of_.find(entities_.OfLocation(distribution.location).back());
      if (row == row_of_.end()) continue;
      AddCounts(distribution.counts, &counts[row->second][static_cast<size_t>(distribution.which)]);
    }
    for (size_t row = 0; row < counts.size(); ++row) {
      for (size_t i = 0; i < kMemLatencies; ++i) {
        MemoryLatency& latency = table_.rows[row].latencies[i];
        for (const auto& [cycles, samples] : counts[row][i]) latency.count += samples;
        latency.p50 = QuantileOf(counts[row][i], 0.50);
        latency.p99 = QuantileOf(counts[row][i], 0.99);
      }
    }
  }

 private:
  static constexpr size_t kNoType = SIZE_MAX;

  MemoryRow& RowOf(LocationId location) {
    const EntityId entity = entities_.OfLocation(location).back();
    const auto [known, is_new] = row_of_.try_emplace(entity, table_.rows.size());
    if (is_new) table_.rows.emplace_back().entity = entity;
    return table_.rows[known->second];
  }

  const Profile& profile_;
  const EntityTable& entities_;
  MemoryTable& table_;
  std::array<size_t, kMemLatencies> types_ = {kNoType, kNoType, kNoType, kNoType};
  std::vector<MemoryLabels> labels_;  // by label set
  std::unordered_map<EntityId, size_t> row_of_;
};

}  // namespace

MemoryTable MakeMemoryTable(const Profile& profile, const EntityTable& entities,
                            const std::vector<bool>& selected, size_t rows_max) {
  MemoryTable table;
  Collector collector(profile, entities, &table);
  bool all = true;
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    all = all && selected[i];
    if (selected[i]) collector.AddSample(i);
  }
  // The distributions are of all samples: they say nothing about a selection.
  table.has_distributions = all && !profile.summary.memory.distributions.empty();
  if (table.has_distributions) collector.AddDistributions();
  std::ranges::sort(table.rows, [&](const MemoryRow& a, const MemoryRow& b) {
    if (a.latencies[0].sum != b.latencies[0].sum) return a.latencies[0].sum > b.latencies[0].sum;
    if (a.samples != b.samples) return a.samples > b.samples;
    const Entity& left = entities.entities()[a.entity];
    const Entity& right = entities.entities()[b.entity];
    return std::tie(left.function, left.object) < std::tie(right.function, right.object);
  });
  if (table.rows.size() > rows_max) {
    table.rows_cut = table.rows.size() - rows_max;
    table.rows.resize(rows_max);
  }
  return table;
}

}  // namespace ptarmigan
