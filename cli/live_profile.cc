#include "cli/live_profile.h"

#include <algorithm>
#include <atomic>
#include <csignal>

#include "decode/record_stream.h"
#include "pipeline/sample_pipeline.h"
#include "symbolize/symbolizer.h"

namespace ptarmigan::cli {
namespace {

constexpr int kPollMilliseconds = 100;

// The session that a signal stops. Stop is async-signal-safe.
std::atomic<PerfSession*> g_session = nullptr;

void StopSession(int) {
  if (PerfSession* session = g_session.load()) session->Stop();
}

class StopOnSignal {
 public:
  explicit StopOnSignal(PerfSession* session) {
    g_session = session;
    struct sigaction action = {};
    action.sa_handler = StopSession;
    action.sa_flags = SA_RESTART;
    for (const int signal : kSignals) sigaction(signal, &action, nullptr);
  }
  ~StopOnSignal() {
    // A second Ctrl-C while the profile is being made ends the program at once.
    for (const int signal : kSignals) std::signal(signal, SIG_DFL);
    g_session = nullptr;
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM};
};

}  // namespace

Status PollUntilEnd(PerfSession& session, RawRecordSink& sink, const PollOptions& options) {
  const StopOnSignal stop_on_signal(&session);
  TRY(session.Poll(sink, 0));  // what was there before
  TRY(options.start());
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    TRY_ASSIGN(const PollOutcome outcome, session.Poll(sink, kPollMilliseconds));
    // Before the end, too: what it is for may have happened just before the target ended.
    if (options.look) TRY(options.look(sink));
    if (outcome == PollOutcome::kEnd) return OkStatus();
    const std::chrono::nanoseconds elapsed = std::chrono::steady_clock::now() - start;
    if (options.duration && elapsed >= *options.duration) session.Stop();
    if (!options.progress) continue;
    double fraction = -1;
    if (options.duration && options.duration->count() > 0) {
      fraction = std::min(1.0, static_cast<double>(elapsed.count()) /
                                   static_cast<double>(options.duration->count()));
    }
    options.progress(fraction, session.statistics().samples);
  }
}

Result<LiveProfile> CollectProfile(PerfSession& session, const ImportOptions& import,
                                   const PollOptions& options) {
  Symbolizer symbolizer(import.symbolizer);
  SamplePipeline pipeline(session.description(), symbolizer, import.pipeline);
  RecordStream stream(session.description());
  stream.SetSink(&pipeline);
  TRY(PollUntilEnd(session, stream, options));
  stream.Finish();
  const PerfSessionStatistics statistics = session.statistics();
  return LiveProfile{pipeline.Finish(stream.losses()), statistics};
}

}  // namespace ptarmigan::cli
