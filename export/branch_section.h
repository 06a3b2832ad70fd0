// The archive's section for what a profile's branch records say beyond sums (BranchSummary): docs/formats/archive.md.
#pragma once

#include <string>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "model/profile.h"

namespace ptarmigan {

// Places are named by mapping and address, since a pprof message numbers its locations anew.
std::string EncodeBranchSection(const Profile& profile);

// Sets profile->summary.branches. `profile` is what the archive's pprof message decoded to. kTruncated, or kInvalidInput
// where counts contradict each other or a place is not in the profile; nothing is changed then.
Status DecodeBranchSection(Bytes content, Profile* profile);

}  // namespace ptarmigan
