// Traces for Perfetto (https://ui.perfetto.dev): the calls of control-flow traces as slices on a track per thread, in its
// protobuf format. Docs: docs/formats/timelines.md.
//
// Written as it is made: memory is that of the slices that are open and of the names of one track.
#pragma once

#include "base/result.h"
#include "export/sink.h"
#include "model/profile.h"

namespace ptarmigan {

// kInvalidInput if the profile has no FlowSummary::intervals; else the sink's errors.
Status WritePerfetto(const Profile& profile, ByteSink* sink);

}  // namespace ptarmigan
