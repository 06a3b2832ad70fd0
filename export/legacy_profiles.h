// Profiles from before the protobuf: what gperftools, tcmalloc, Go's text profiles and Google's Java agents
// write. Read as pprof reads them, values included.
//
//   binary     cpu profiles of gperftools (words of 32 or 64 bits, either byte order), and javaprof's
//   text       heap, growth, fragmentation, contention/mutex, thread, goroutine/threadcreate counts; Java heap
//              and contention
//
// Sampled heaps and contentions are scaled up to what was not sampled. Addresses of callers are moved into the
// call (- 1). A memory map behind the samples gives the mappings.
#pragma once

#include "base/byte_cursor.h"
#include "base/result.h"
#include "export/pprof.h"
#include "model/profile.h"

namespace ptarmigan {

// By the first bytes.
bool LooksLikeLegacyProfile(Bytes prefix);

// Uses limits.entries_max. kInvalidInput with one sentence if it is none of these formats, or a line of it cannot
// be read.
Result<Profile> ReadLegacyProfile(Bytes bytes, const DecodeLimits& limits = {});

}  // namespace ptarmigan
