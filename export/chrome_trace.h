// Traces in Chrome's JSON format (about:tracing, Perfetto, speedscope and others read it): the calls of control-flow traces as
// complete events ("X"), a row per thread. Docs: docs/formats/timelines.md.
//
// Written as it is made: memory is that of the slices that are open.
#pragma once

#include "base/result.h"
#include "export/sink.h"
#include "model/profile.h"

namespace ptarmigan {

// kInvalidInput if the profile has no FlowSummary::intervals; else the sink's errors.
Status WriteChromeTrace(const Profile& profile, ByteSink* sink);

}  // namespace ptarmigan
