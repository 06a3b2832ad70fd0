// The archive's section for what a profile's memory samples say beyond sums (MemorySummary): docs/formats/archive.md.
#pragma once

#include <string>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "model/profile.h"

namespace ptarmigan {

// Places are named by mapping and address, since a pprof message numbers its locations anew.
std::string EncodeMemorySection(const Profile& profile);

// Sets profile->summary.memory. `profile` is what the archive's pprof message decoded to. kTruncated, or kInvalidInput
// where values are out of order or a place is not in the profile; nothing is changed then.
Status DecodeMemorySection(Bytes content, Profile* profile);

}  // namespace ptarmigan
