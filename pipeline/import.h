// Import: from a file of any kind that we read to a Profile. What `convert`, `report FILE`, `push` and the
// server's ingest call.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "model/event_source.h"
#include "model/profile.h"
#include "pipeline/sample_pipeline.h"
#include "symbolize/symbolizer.h"

namespace ptarmigan {

// Called now and then with the part done (0..1, negative if unknown) and the samples so far.
using ProgressCallback = std::function<void(double fraction, uint64_t samples)>;

// Drains `source`. A source that fails half-way gives the profile of what came before, and the failure as a
// warning; an error only if nothing came.
Result<Profile> ImportRecording(EventSource& source, Symbolizer& symbolizer,
                                const PipelineOptions& options,
                                const ProgressCallback& progress = {});

struct ImportOptions {
  // The object that text without mappings is about (see PgoObject::Select); a path of a file, or empty.
  std::string binary;
  PipelineOptions pipeline;
  SymbolizerOptions symbolizer;
  ProgressCallback progress;
};

// A recording (perf.data of any dialect, a perf.data directory, "-" for pipe mode on standard input, the text of perf
// script with branch stacks) or a profile
// (pprof and its ancestors, folded stacks, perf script text, a ptarmigan archive): told apart by content.
Result<Profile> ReadProfile(const std::string& path, const ImportOptions& options);

// Whether `path` is a recording, i.e. has events to print one by one. "-" is.
Result<bool> IsRecording(const std::string& path);
// Opens what IsRecording says is one. `binary` as in ImportOptions.
Result<std::unique_ptr<EventSource>> OpenRecording(const std::string& path,
                                                   const std::string& binary = {});

}  // namespace ptarmigan
