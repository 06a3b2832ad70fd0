// The `events` view: one line per decoded record, as tab-separated values with a header line, for comparison with
// other tools. Columns are those of docs/commands.md.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/event_source.h"

namespace ptarmigan {

enum class EventKind {
  kAny,  // branch if some event records branch stacks, else sample
  kSample,
  kBranch,
};

// Drains `source`; `write` gets pieces of the text, in order.
Status WriteEventTable(EventSource& source, EventKind kind,
                       const std::function<Status(std::string_view)>& write);

}  // namespace ptarmigan
