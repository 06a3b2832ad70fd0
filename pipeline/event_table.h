// The `events` view: one line per decoded record, as tab-separated values with a header line, for comparison with
// other tools. Columns are those of docs/commands.md.
#pragma once

#include <functional>
#include <string_view>

#include "base/result.h"
#include "model/event_source.h"
#include "symbolize/symbolizer.h"

namespace ptarmigan {

enum class EventKind {
  kAny,  // memory if the recording has memory records, else branch if some event records branch stacks, else sample
  kSample,
  kBranch,
  kMemory,
};

struct EventTableOptions {
  EventKind kind = EventKind::kAny;
  SymbolizerOptions symbolizer = {};  // for names in memory records
};

// Drains `source`; `write` gets pieces of the text, in order. What was lost, by the source and by decoding.
Result<LossLedger> WriteEventTable(EventSource& source, const EventTableOptions& options,
                                   const std::function<Status(std::string_view)>& write);

}  // namespace ptarmigan
