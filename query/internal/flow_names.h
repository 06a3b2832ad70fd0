// What the views of calls and of time share: names.
#pragma once

#include <string>
#include <string_view>

#include "base/str_format.h"
#include "model/flow_summary.h"
#include "query/branches.h"
#include "query/internal/text_parts.h"

namespace ptarmigan::internal {

inline std::string_view EntryName(FlowSummary::Entry entry) {
  switch (entry) {
    case FlowSummary::Entry::kUnknown:
      break;
    case FlowSummary::Entry::kCall:
      return "call";
    case FlowSummary::Entry::kTailCall:
      return "jump";
    case FlowSummary::Entry::kInterrupt:
      return "interrupt";
  }
  return "unknown";
}

inline std::string_view ExitName(FlowSummary::Exit exit) {
  switch (exit) {
    case FlowSummary::Exit::kReturn:
      return "return";
    case FlowSummary::Exit::kReplaced:
      return "jump";
    case FlowSummary::Exit::kUnwound:
      return "unwound";
    case FlowSummary::Exit::kOpen:
      break;
  }
  return "open";
}

inline std::string_view MarkName(FlowSummary::Mark::Kind kind) {
  switch (kind) {
    case FlowSummary::Mark::Kind::kOverflow:
      return "overflow";
    case FlowSummary::Mark::Kind::kMissingCode:
      return "no_image";
    case FlowSummary::Mark::Kind::kError:
      return "error";
    case FlowSummary::Mark::Kind::kSuspect:
      return "suspect";
    case FlowSummary::Mark::Kind::kBad:
      break;
  }
  return "bad";
}

// "malloc", "libc.so.6+0x1234", "?"
inline std::string NameOf(const CodePlace& place) {
  if (!place.function.empty()) return std::string(place.function);
  if (!place.is_known) return "?";
  return StrFormat("{}+0x{:x}", BaseName(place.object), place.address);
}

}  // namespace ptarmigan::internal
