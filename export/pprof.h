// pprof in and out: the format of `go tool pprof` and of every store of profiles. docs/formats/pprof.md says
// which labels and comments are ours.
//
// Written: gzip, no time in its header, string 0 is "", one message per distinct thing; equal profiles give equal
// bytes. Samples are put in an order that compresses well; what no sample uses is left out, except mappings.
// Losses (Profile::losses) become comments and come back from them.
//
// Read: gzip (any number of members), zstd or plain; ids in any order and of any size; unknown fields. What is
// wrong with a part of the file is counted in the profile's losses; what makes the rest doubtful is an error.
#pragma once

#include <cstdint>
#include <string>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "export/sink.h"
#include "model/profile.h"

namespace ptarmigan {

struct PprofOptions {
  bool gzip = true;
  // 1 to 9; 0: 4 for profiles of long stacks, 5 for others (docs/formats/pprof.md).
  int gzip_level = 0;
  bool all_locations = false;  // those, too, that no sample has
};

// kInvalidInput if Profile::CheckValid refuses the profile.
Result<std::string> EncodePprof(const Profile& profile, const PprofOptions& options = {});
Status WritePprof(const Profile& profile, ByteSink* sink, const PprofOptions& options = {});

struct DecodeLimits {
  // Of the message after inflating: a bomb of 1 MB can become 1 GB.
  uint64_t plain_bytes_max = uint64_t{1} << 30;
  // Each of: samples, locations, lines, functions, mappings, strings, comments, labels of different sets.
  uint64_t entries_max = uint64_t{1} << 24;
  // Of all different stacks together; below 2^32.
  uint64_t frames_max = uint64_t{1} << 28;
};

// kInvalidInput with one sentence if it is no profile (it says what it is instead, where known) or contradicts
// itself; kTruncated; kResourceLimit.
Result<Profile> DecodePprof(Bytes bytes, const DecodeLimits& limits = {});

}  // namespace ptarmigan
