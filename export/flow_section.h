// The archive's section for what control-flow traces say beyond sums (FlowSummary): docs/formats/archive.md.
#pragma once

#include <string>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "model/profile.h"

namespace ptarmigan {

// Places are named by mapping and address, since a pprof message numbers its locations anew.
std::string EncodeFlowSection(const Profile& profile);

// Sets profile->summary.flow. `profile` is what the archive's pprof message decoded to. kTruncated, or kInvalidInput where
// the section contradicts itself or a place is not in the profile; nothing is changed then.
Status DecodeFlowSection(Bytes content, Profile* profile);

}  // namespace ptarmigan
