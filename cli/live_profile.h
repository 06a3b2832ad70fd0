// The wiring of a live session: perf events -> records in order -> pipeline -> profile. `record` and
// `doctor --verify` share it.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "base/result.h"
#include "hw/perf_session.h"
#include "model/profile.h"
#include "pipeline/import.h"

namespace ptarmigan::cli {

struct PollOptions {
  // Called once the session has read what was there before: starts the target or enables the events.
  std::function<Status()> start;
  std::optional<std::chrono::nanoseconds> duration;
  // Called after every poll with the part of `duration` done (negative without one) and the samples so far.
  ProgressCallback progress;
  // Called after every poll, the last one included, with the sink of its records.
  std::function<Status(RawRecordSink&)> look;
};

// Polls until the target ended, the time is over, or SIGINT or SIGTERM came (a second one ends the program).
Status PollUntilEnd(PerfSession& session, RawRecordSink& sink, const PollOptions& options);

// The same into a profile. `statistics` are of the time of sampling, before symbols are loaded.
struct LiveProfile {
  Profile profile;
  PerfSessionStatistics statistics;
};
Result<LiveProfile> CollectProfile(PerfSession& session, const ImportOptions& import,
                                   const PollOptions& options);

}  // namespace ptarmigan::cli
