// What merging profiles needs of a FlowSummary.
#pragma once

#include <cstdint>
#include <span>

#include "model/flow_summary.h"

namespace ptarmigan {

// Adds what `source` says to `into`; source's location i is locations[i] there. Threads stay apart, whatever their numbers.
void AddFlowSummary(const FlowSummary& source, std::span<const uint32_t> locations,
                    FlowSummary* into);

}  // namespace ptarmigan
