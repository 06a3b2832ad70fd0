#include <utility>

#include "model/loss_ledger.h"
#include "query/internal/json_parts.h"
#include "query/render.h"

namespace ptarmigan {
namespace {

using internal::DumpJson;
using internal::EventsJson;
using internal::Json;

Json SampleTypes(const Profile& profile) {
  Json types = Json::array();
  for (const auto& type : profile.sample_types) {
    types.push_back({{"type", profile.Text(type.type)}, {"unit", profile.Text(type.unit)}});
  }
  return types;
}

void AddEntity(const Entity& entity, Json* row) {
  (*row)["function"] = entity.function;
  (*row)["file"] = entity.file;
  (*row)["line"] = entity.line;
  (*row)["object"] = entity.object;
  (*row)["build_id"] = entity.build_id;
}

}  // namespace

std::string RenderTopJson(const Profile& profile, const EntityTable& entities,
                          const TopTable& top) {
  Json json;
  json["sample_types"] = SampleTypes(profile);
  json["total"] = top.total;
  json["events"] = EventsJson(profile);
  Json rows = Json::array();
  for (const TopRow& top_row : top.rows) {
    Json row;
    AddEntity(entities.entities()[top_row.entity], &row);
    row["self"] = top_row.self;
    row["total"] = top_row.total;
    rows.push_back(std::move(row));
  }
  json["rows"] = std::move(rows);
  json["rows_cut"] = top.rows_cut;
  return DumpJson(json);
}

std::string RenderTreeJson(const Profile& profile, const EntityTable& entities,
                           const CallTree& tree, size_t sample_type) {
  Json json;
  json["sample_types"] = SampleTypes(profile);
  json["sample_type"] = profile.Text(profile.sample_types[sample_type].type);
  json["total"] = profile.Totals();
  json["events"] = EventsJson(profile);
  Json nodes = Json::array();
  Entity root;
  root.function = "all";
  for (const CallTree::Node& node : tree.nodes) {
    Json row;
    row["level"] = node.level;
    AddEntity(node.entity == kNoId ? root : entities.entities()[node.entity], &row);
    row["self"] = node.self;
    row["total"] = node.total;
    if (node.children_cut > 0) {
      row["children_cut"] = node.children_cut;
      row["value_cut"] = node.value_cut;
    }
    nodes.push_back(std::move(row));
  }
  json["nodes"] = std::move(nodes);
  return DumpJson(json);
}

std::string RenderQualityJson(const Profile& profile) {
  Json json;
  json["events"] = EventsJson(profile);
  json["captured"] = profile.losses.captured();
  json["kept"] = profile.losses.kept();
  Json lost = Json::array();
  Json skipped = Json::array();
  for (const LossEntry& entry : profile.losses.Entries()) {
    Json row = {{"stage", LossStageName(entry.stage)},
                {"reason", LossReasonName(entry.reason)},
                {"count", entry.count}};
    if (entry.unit == LossUnit::kSamples) {
      lost.push_back(std::move(row));
    } else {
      row["unit"] = LossUnitName(entry.unit);
      skipped.push_back(std::move(row));
    }
  }
  json["lost"] = std::move(lost);
  json["skipped"] = std::move(skipped);
  Json cut = Json::array();
  for (const auto& [reason, count] : profile.quality.stacks_cut) {
    cut.push_back({{"reason", reason}, {"count", count}});
  }
  json["stacks"] = {{"complete", profile.quality.stacks_complete}, {"cut", std::move(cut)}};
  Json checks = Json::object();
  for (const auto& [result, count] : profile.quality.lbr_checks) checks[result] = count;
  json["lbr_checks"] = std::move(checks);
  Json unsymbolized = Json::array();
  for (const auto& [key, count] : profile.quality.frames_unsymbolized) {
    unsymbolized.push_back({{"object", key.first}, {"reason", key.second}, {"count", count}});
  }
  json["frames"] = {{"symbolized", profile.quality.frames_symbolized},
                    {"unsymbolized", std::move(unsymbolized)}};
  Json trace_bytes = {{"decoded", 0},  {"before_sync", 0}, {"after_error", 0},
                      {"overflow", 0}, {"no_image", 0},    {"padding", 0}};
  for (const auto& [fate, bytes] : profile.quality.trace_bytes) trace_bytes[fate] = bytes;
  json["trace_bytes"] = std::move(trace_bytes);
  return DumpJson(json);
}

}  // namespace ptarmigan
