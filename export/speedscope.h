// JSON for speedscope (https://www.speedscope.app/file-format-schema.json): one sampled profile per sample type,
// all over one list of frames. Frames that say the same (name, file) are one. speedscope knows no negative
// weights: samples whose value is not above 0 are left out.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "export/sink.h"
#include "model/profile.h"

namespace ptarmigan {

struct SpeedscopeOptions {
  size_t sample_type = 0;  // index of the one shown first
  std::string title = {};
};
Status WriteSpeedscope(const Profile& profile, const SpeedscopeOptions& options, ByteSink* sink);

}  // namespace ptarmigan
