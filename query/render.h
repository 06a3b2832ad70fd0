// Views as text for people and as JSON for programs. The JSON shapes are those of docs/commands.md.
#pragma once

#include <cstddef>
#include <string>

#include "model/profile.h"
#include "query/branches.h"
#include "query/entities.h"
#include "query/flow.h"
#include "query/memory.h"
#include "query/top.h"
#include "query/tree.h"

namespace ptarmigan {

struct RenderOptions {
  size_t sample_type = 0;
  bool colour = false;
  size_t width = 120;  // columns of the terminal; longer names are cut in the middle
};

std::string RenderTopText(const Profile& profile, const EntityTable& entities, const TopTable& top,
                          const RenderOptions& options);
std::string RenderTopJson(const Profile& profile, const EntityTable& entities, const TopTable& top);

std::string RenderTreeText(const Profile& profile, const EntityTable& entities,
                           const CallTree& tree, const RenderOptions& options);
// {"sample_types", "total", "events", "nodes": [{"level", "function", "file", "object", "build_id", "self",
// "total"}]}: preorder; self and total are of the chosen sample type, named in "sample_type".
std::string RenderTreeJson(const Profile& profile, const EntityTable& entities,
                           const CallTree& tree, size_t sample_type);

std::string RenderBranchesText(const Profile& profile, const BranchReport& report,
                               const RenderOptions& options);
std::string RenderBranchesJson(const Profile& profile, const BranchReport& report);
std::string RenderMemoryText(const Profile& profile, const EntityTable& entities,
                             const MemoryTable& memory, const RenderOptions& options);
std::string RenderMemoryJson(const Profile& profile, const EntityTable& entities,
                             const MemoryTable& memory);

std::string RenderFlowText(const Profile& profile, const RenderOptions& options);
std::string RenderFlowJson(const Profile& profile);
std::string RenderFunctionsText(const Profile& profile, const FlowReport& report,
                                const RenderOptions& options);
std::string RenderFunctionsJson(const Profile& profile, const FlowReport& report);
std::string RenderTimelineText(const Profile& profile, const TimelineReport& report,
                               const RenderOptions& options);
std::string RenderTimelineJson(const Profile& profile, const TimelineReport& report);

std::string RenderQualityText(const Profile& profile, const RenderOptions& options);
std::string RenderQualityJson(const Profile& profile);

// "1.23 s", "450 ms", "12,345": a value in its unit, short.
std::string FormatValue(int64_t value, std::string_view unit);

}  // namespace ptarmigan
