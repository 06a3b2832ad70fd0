#include "query/entities.h"

#include <re2/re2.h>

#include <map>
#include <tuple>

#include "base/str_format.h"

namespace ptarmigan {
namespace {

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// The entities whose name `pattern` finds.
Result<std::vector<bool>> MatchEntities(const EntityTable& entities, const std::string& pattern) {
  const RE2 expression(pattern, RE2::Quiet);
  if (!expression.ok()) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("'{}' is not a regular expression: {}", pattern, expression.error())};
  }
  std::vector<bool> matches;
  matches.reserve(entities.entities().size());
  for (const Entity& entity : entities.entities()) {
    matches.push_back(RE2::PartialMatch(entity.function, expression));
  }
  return matches;
}

}  // namespace

bool IsKernelObject(std::string_view mapping_file) {
  if (mapping_file.starts_with("[vdso") || mapping_file.starts_with("[heap") ||
      mapping_file.starts_with("[stack") || mapping_file.starts_with("[unknown") ||
      mapping_file.starts_with("[vsyscall") || mapping_file.starts_with("[anon")) {
    return false;
  }
  return mapping_file.starts_with("[") || mapping_file.ends_with(".ko") ||
         mapping_file.find(".ko.") != std::string_view::npos;
}

EntityTable::EntityTable(const Profile& profile) {
  std::map<std::tuple<StringId, StringId, StringId, StringId>, EntityId> index;
  const auto intern = [&](const Profile::Function* function, MappingId mapping_id) {
    const Profile::Mapping none;
    const Profile::Mapping& mapping = mapping_id != kNoId ? profile.mappings[mapping_id] : none;
    const std::tuple key(function != nullptr ? function->name : 0,
                         function != nullptr ? function->file : 0, mapping.file, mapping.build_id);
    const auto [found, is_new] = index.try_emplace(key, static_cast<EntityId>(entities_.size()));
    if (!is_new) return found->second;
    Entity& entity = entities_.emplace_back();
    entity.object = profile.Text(mapping.file);
    entity.build_id = profile.Text(mapping.build_id);
    entity.is_kernel = IsKernelObject(entity.object);
    if (function != nullptr && function->name != 0) {
      entity.function = profile.Text(function->name);
      entity.file = profile.Text(function->file);
      entity.line = function->start_line;
      entity.is_symbolized = true;
    } else {
      const std::string_view name = BaseName(entity.object);
      entity.function = name.empty()            ? "[unknown]"
                        : name.starts_with('[') ? std::string(name)
                                                : StrFormat("[{}]", name);
    }
    return found->second;
  };

  begin_.reserve(profile.locations.size() + 1);
  for (const Profile::Location& location : profile.locations) {
    begin_.push_back(of_locations_.size());
    for (const Profile::Line& line : profile.Lines(location)) {
      const Profile::Function* function =
          line.function != kNoId ? &profile.functions[line.function] : nullptr;
      of_locations_.push_back(intern(function, location.mapping));
    }
    if (location.lines_count == 0) of_locations_.push_back(intern(nullptr, location.mapping));
  }
  begin_.push_back(of_locations_.size());
}

Result<LocationFilter> LocationFilter::Make(const Profile& profile, const EntityTable& entities,
                                            const SampleFilter& filter) {
  const auto match = [&](const std::string& pattern) -> Result<std::vector<bool>> {
    std::vector<bool> matches(profile.locations.size());
    if (pattern.empty()) return matches;
    TRY_ASSIGN(const std::vector<bool> of_entities, MatchEntities(entities, pattern));
    for (LocationId location = 0; location < matches.size(); ++location) {
      for (const EntityId entity : entities.OfLocation(location)) {
        if (of_entities[entity]) matches[location] = true;
      }
    }
    return matches;
  };
  LocationFilter made;
  made.has_focus_ = !filter.focus.empty();
  TRY_ASSIGN(made.is_focused_, match(filter.focus));
  TRY_ASSIGN(made.is_ignored_, match(filter.ignore));
  return made;
}

bool LocationFilter::Keeps(std::span<const LocationId> locations) const {
  bool any_focused = !has_focus_;
  for (const LocationId location : locations) {
    if (location == kNoId) continue;
    if (is_ignored_[location]) return false;
    any_focused = any_focused || is_focused_[location];
  }
  return any_focused;
}

Result<std::vector<bool>> SelectSamples(const Profile& profile, const EntityTable& entities,
                                        const SampleFilter& filter) {
  TRY_ASSIGN(const LocationFilter locations, LocationFilter::Make(profile, entities, filter));
  // Decided once per stack.
  std::vector<bool> keep_stack(profile.stacks.size());
  for (StackId stack = 0; stack < profile.stacks.size(); ++stack) {
    keep_stack[stack] = locations.Keeps(profile.Stack(stack));
  }
  std::vector<bool> keep(profile.samples.size());
  for (size_t i = 0; i < keep.size(); ++i) keep[i] = keep_stack[profile.samples[i].stack];
  return keep;
}

}  // namespace ptarmigan
