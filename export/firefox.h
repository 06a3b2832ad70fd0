// JSON for the Firefox Profiler: its processed format, version 48 (later versions of the page upgrade it). One
// thread per (pid, tid, comm) of the labels.
//
// The samples of a profile have no times. The page needs some: a thread's samples follow each other, each as long
// as its weight where the unit is a time, else one millisecond per unit of weight at most.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "export/sink.h"
#include "model/profile.h"

namespace ptarmigan {

struct FirefoxOptions {
  size_t sample_type = 0;  // index; the weights
  std::string title = {};
};
Status WriteFirefox(const Profile& profile, const FirefoxOptions& options, ByteSink* sink);

}  // namespace ptarmigan
