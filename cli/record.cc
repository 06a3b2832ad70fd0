#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "base/str_format.h"
#include "base/thread_pool.h"
#include "cli/common_options.h"
#include "cli/live_profile.h"
#include "cli/triggers.h"
#include "decode/perf_data_writer.h"
#include "elf/elf_file.h"
#include "export/formats.h"
#include "hw/branch_self_test.h"
#include "hw/capabilities.h"
#include "hw/child_process.h"
#include "hw/event_spec.h"
#include "hw/hardware_source.h"
#include "hw/perf_session.h"
#include "web/embedded.h"

namespace ptarmigan::cli {
namespace {

struct RecordOptions {
  std::vector<std::string> pids;
  bool all_cpus = false;
  std::string cgroup;
  uint64_t frequency_hz = 0;
  uint64_t period = 0;
  std::vector<std::string> events;
  std::string duration;
  std::string source = "auto";
  std::string terms;
  bool kernel = false;
  bool snapshot = false;
  std::string window_bytes;
  std::string filter;
  TriggerOptions triggers;
  std::string aux_bytes;
  std::string unwind = "auto";
  std::string stack_bytes;
  std::string ring_bytes;
  std::string output = "ptarmigan.pb.gz";
  std::string format;
  TrailingWords command;
  CommonOptions common;
};

constexpr uint64_t kFrequencyDefaultHz = 997;
// Beyond what any kernel allows (kernel.perf_event_max_sample_rate); and what perf_event_attr's 64 bits hold as the
// kernel reads them.
constexpr uint64_t kFrequencyMaxHz = 1'000'000;
constexpr uint64_t kPeriodMax = INT64_MAX;
constexpr int kEndCommandMilliseconds = 2000;
Result<std::vector<int32_t>> ParsePids(const std::vector<std::string>& texts) {
  std::vector<int32_t> pids;
  for (const std::string& text : texts) {
    std::string_view rest = text;
    while (!rest.empty()) {
      const std::string_view word = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(word.size() + 1, rest.size()));
      int32_t pid = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), pid);
      if (error != std::errc() || end != word.data() + word.size() || pid <= 0) {
        return Error{ErrorCode::kInvalidInput, StrFormat("-p {}: not a process id", text)};
      }
      pids.push_back(pid);
    }
  }
  return pids;
}

Result<SourceSetup> SetUpHardware(const RecordOptions& options, const std::string& name) {
  SourceRequest request;
  request.name = name;
  request.terms = options.terms;
  request.kernel = options.kernel;
  request.period = options.period;
  if ((options.snapshot || options.triggers.any()) && !options.window_bytes.empty()) {
    return Error{
        ErrorCode::kInvalidInput,
        "--snapshot and --trigger keep one trace, --window a short one per sample: say one"};
  }
  if (options.snapshot || options.triggers.any()) request.aux_mode = AuxMode::kSnapshot;
  if (!options.window_bytes.empty()) {
    request.aux_mode = AuxMode::kSamples;
    TRY_ASSIGN(const uint64_t bytes, ParseSize(options.window_bytes));
    request.window_bytes = static_cast<uint32_t>(std::min<uint64_t>(bytes, UINT32_MAX));
  }
  return SetUpSource(request);
}

// Options that only some sources have a use for are not passed over in silence.
Status CheckSourceOptions(const RecordOptions& options, std::string_view name) {
  const bool is_hardware = options.events.empty() && IsHardwareSource(name);
  const bool has_area = is_hardware && (name == "pt" || name == "spe" || name == "coresight");
  const bool is_pt = has_area && name == "pt";
  const auto unused = [](std::string_view option, std::string_view sources) {
    return Error{ErrorCode::kInvalidInput, StrFormat("{} is for --source {}", option, sources)};
  };
  if (!options.terms.empty() && !is_hardware) return unused("--terms", "pt, spe and the like");
  if (options.kernel && !is_hardware) return unused("--kernel", "pt, spe and the like");
  if (options.snapshot && !has_area) return unused("--snapshot", "pt, spe or coresight");
  if (!options.aux_bytes.empty() && !has_area) return unused("--aux", "pt, spe or coresight");
  if (!options.window_bytes.empty() && !is_pt) return unused("--window", "pt");
  if (!options.filter.empty() && !is_pt) return unused("--filter", "pt");
  return OkStatus();
}

// The events of -e or --source, which must be one that this host has.
Result<SourceSetup> SetUpEvents(const RecordOptions& options) {
  SourceSetup setup;
  TRY(CheckSourceOptions(options, options.source));
  if (!options.events.empty()) {
    for (const std::string& text : options.events) {
      TRY_ASSIGN(std::vector<EventSpec> more, ParseEventList(text));
      std::ranges::move(more, std::back_inserter(setup.events));
    }
    return setup;
  }
  const Capabilities capabilities = ProbeCapabilities();
  std::string name = options.source;
  if (name == "auto") {
    const SourceCapability* cycles = capabilities.Find("cycles");
    name = cycles != nullptr && cycles->available ? "cycles" : "cpu-clock";
    if (cycles != nullptr && !cycles->available)
      setup.notes.push_back(StrFormat("--source auto samples {}: {}", name, cycles->reason));
  }
  const SourceCapability* source = capabilities.Find(name);
  if (source == nullptr) {
    return Error{ErrorCode::kInvalidInput, StrFormat("--source {}: no such source", name)};
  }
  if (!source->available) {
    return Error{ErrorCode::kUnavailable,
                 StrFormat("--source {}: {}{}{}", name, source->reason,
                           source->remedy.empty() ? "" : "; ", source->remedy)};
  }
  TRY_ASSIGN(SourceSetup chosen, SetUpHardware(options, name));
  if (name == "lbr" || name == "brbe") TRY(CheckBranchRecords(chosen.events.front()));
  std::ranges::move(setup.notes, std::back_inserter(chosen.notes));
  return chosen;
}

BuildId ReadBuildId(const std::string& path) {
  const auto file = ElfFile::Open(path);
  return file ? (*file)->build_id() : BuildId();
}

Status SetTarget(const RecordOptions& options, const std::optional<ChildProcess>& child,
                 PerfTarget* target) {
  const int given = (options.pids.empty() ? 0 : 1) + (options.all_cpus ? 1 : 0) +
                    (options.cgroup.empty() ? 0 : 1) + (options.command.empty() ? 0 : 1);
  if (given != 1) {
    return Error{ErrorCode::kInvalidInput,
                 "say what to record with exactly one of: -p PID, -a, --cgroup PATH, -- COMMAND"};
  }
  if (options.all_cpus) target->kind = PerfTarget::Kind::kAllCpus;
  if (!options.cgroup.empty()) {
    target->kind = PerfTarget::Kind::kCgroup;
    target->cgroup_path = options.cgroup;
  }
  if (!options.pids.empty()) {
    target->kind = PerfTarget::Kind::kPids;
    TRY_ASSIGN(target->pids, ParsePids(options.pids));
  }
  if (child) {
    target->kind = PerfTarget::Kind::kCommand;
    target->pids = {child->pid()};
  }
  return OkStatus();
}

// Call-stack mode for every event that samples.
Status AddCallStacks(std::vector<EventSpec>* events) {
  for (EventSpec& event : *events) {
    if (event.fills_aux) continue;
    if (event.attr.Samples(kSampleBranchStack)) {
      return Error{ErrorCode::kUnsupported,
                   "--source lbr records every branch and --unwind lbr calls only: one at a time"};
    }
    AddCallStacksOfBranchRecords(&event);
  }
  return OkStatus();
}

Result<PerfSessionOptions> MakeSessionOptions(const RecordOptions& options,
                                              const std::optional<ChildProcess>& child) {
  PerfSessionOptions session;
  TRY(SetTarget(options, child, &session.target));
  TRY_ASSIGN(SourceSetup setup, SetUpEvents(options));
  for (const std::string& note : setup.notes) LogNotice(note);
  UseSource(setup, &session);
  session.aux_filter = options.filter;
  session.snapshot_at_end = !options.triggers.any();
  if (options.triggers.any() && session.aux_mode != AuxMode::kSnapshot) {
    return Error{ErrorCode::kInvalidInput,
                 "--trigger takes snapshots of a trace: --source pt (or spe) keeps one"};
  }
  if (options.period > 0) session.period = options.period;
  session.frequency_hz = options.frequency_hz > 0 ? options.frequency_hz : kFrequencyDefaultHz;
  if (options.unwind == "lbr") {
    TRY(AddCallStacks(&session.events));
    session.call_chain = CallChainMode::kFramePointers;  // below the deepest record
  } else if (options.unwind == "fp") {
    session.call_chain = CallChainMode::kFramePointers;
  } else {
    session.call_chain = CallChainMode::kKernel;
    session.stack_user_bytes = kStackBytesDefault;
    if (!options.stack_bytes.empty()) {
      TRY_ASSIGN(const uint64_t bytes, ParseSize(options.stack_bytes));
      if (bytes == 0 || bytes > kStackBytesMax) {
        return Error{ErrorCode::kInvalidInput, StrFormat("--stack-bytes: 1 to {}", kStackBytesMax)};
      }
      session.stack_user_bytes = static_cast<uint32_t>(bytes);
    }
  }
  if (!options.ring_bytes.empty()) {
    TRY_ASSIGN(session.ring_bytes, ParseSize(options.ring_bytes));
  }
  if (!options.aux_bytes.empty()) {
    TRY_ASSIGN(session.aux_bytes, ParseSize(options.aux_bytes));
  }
  session.cgroup_ids = true;  // for the label
  session.build_id_of = ReadBuildId;
  return session;
}

void PrintSummary(const PerfSessionStatistics& statistics, const LossLedger* losses,
                  const std::string& output) {
  const uint64_t kept = losses != nullptr ? losses->kept() : statistics.samples;
  const uint64_t lost =
      losses != nullptr ? losses->Lost() : statistics.lost_records + statistics.lost_samples;
  const double processors = static_cast<double>(UsableProcessors());
  const double overhead = statistics.elapsed_ns == 0
                              ? 0
                              : 100.0 * static_cast<double>(statistics.cpu_ns) /
                                    static_cast<double>(statistics.elapsed_ns) / processors;
  std::string trace;
  if (statistics.aux_bytes > 0) {
    trace = StrFormat(
        ", {} bytes of trace ({} times the area was full, {} times with gaps, {} with "
        "collisions)",
        statistics.aux_bytes, statistics.aux_truncated, statistics.aux_partial,
        statistics.aux_collisions);
  }
  std::string reasons;
  if (losses != nullptr && lost > 0) reasons = StrFormat(" ({})", losses->Sentence());
  LogNotice(
      StrFormat("{}: {} samples kept, {} lost{}, {} throttled{}; overhead {:.2f} % of {:.0f} CPUs "
                "(this process, without the kernel's part)",
                output, kept, lost, reasons, statistics.throttles, trace, overhead, processors));
}

struct Recording {
  const RecordOptions& options;
  PerfSession& session;
  PollOptions poll;
};

Status RecordRaw(Recording& recording) {
  const std::string& output = recording.options.output;
  PerfDataWriterOptions writer_options;
  TRY_ASSIGN(const std::unique_ptr<PerfDataWriter> writer,
             PerfDataWriter::Create(output, recording.session.description(), writer_options));
  PollOptions poll = recording.poll;
  if (!recording.options.triggers.any() && !recording.options.triggers.disk_limit.empty()) {
    TRY_ASSIGN(const uint64_t bytes_max, ParseSize(recording.options.triggers.disk_limit));
    poll.look = [&writer, &recording, bytes_max, told = false](RawRecordSink&) mutable {
      if (writer->data_bytes() < bytes_max || std::exchange(told, true)) return OkStatus();
      LogWarning(
          StrFormat("{}: --disk-limit is reached, recording ends", recording.options.output));
      recording.session.Stop();
      return OkStatus();
    };
  }
  TRY(PollUntilEnd(recording.session, *writer, poll));
  TRY(writer->Finish(recording.session.description()));
  PrintSummary(recording.session.statistics(), nullptr, output);
  return OkStatus();
}

Status RecordProfile(Recording& recording, Format format) {
  const RecordOptions& options = recording.options;
  TRY_ASSIGN(ImportOptions import, MakeImportOptions(options.common));
  import.symbolizer.live = true;
  import.pipeline.live = true;
  if (options.unwind == "cfi") import.pipeline.unwind = UnwindMode::kCfi;
  TRY_ASSIGN(const LiveProfile live, CollectProfile(recording.session, import, recording.poll));
  const Profile& profile = live.profile;
  if (profile.samples.empty()) {
    PrintLosses(profile.losses);
    return Error{ErrorCode::kUnavailable,
                 "no samples were taken: the target used no CPU time while it was watched"};
  }
  WriteOptions write;
  write.sample_type = options.common.sample_type;
  write.html_template = ReportHtmlTemplate();
  TRY_ASSIGN(OutputFile out, OutputFile::Create(options.output));
  FileSink sink(&out);
  TRY(WriteProfile(profile, format, write, &sink));
  TRY(out.Commit());
  PrintSummary(live.statistics, &profile.losses, options.output);
  return OkStatus();
}

Status Record(const RecordOptions& options) {
  TRY_ASSIGN(const Format format, options.format.empty() ? FormatFromPath(options.output)
                                                         : FormatFromName(options.format));
  PollOptions poll;
  if (!options.duration.empty()) {
    TRY_ASSIGN(poll.duration, ParseDuration(options.duration));
  }
  std::optional<ChildProcess> child;
  if (!options.command.empty()) {
    TRY_ASSIGN(ChildProcess forked, ChildProcess::Fork({.argv = options.command}));
    child.emplace(std::move(forked));
  }
  TRY_ASSIGN(PerfSessionOptions session_options, MakeSessionOptions(options, child));
  const PerfTarget target = session_options.target;
  TRY_ASSIGN(const std::unique_ptr<PerfSession> session,
             PerfSession::Open(std::move(session_options)));
  for (const std::string& note : session->notes()) LogWarning(note);
  std::unique_ptr<Triggers> triggers;
  if (options.triggers.any()) {
    TRY_ASSIGN(triggers, Triggers::Open(options.triggers, target, session.get()));
    poll.look = [&triggers](RawRecordSink& sink) { return triggers->Look(sink); };
  }
  poll.start = [&] { return child ? child->Start() : session->Enable(); };
  Status status;
  {
    ProgressBar bar("recording");
    poll.progress = [&bar](double fraction, uint64_t samples) { bar.Update(fraction, samples); };
    Recording recording{options, *session, poll};
    status = format == Format::kPerfData ? RecordRaw(recording) : RecordProfile(recording, format);
  }
  if (triggers) LogNotice(triggers->Summary());
  // The command outlives a --duration: it is ours to end, politely.
  if (child && child->started() && !child->TryWait()) {
    child->Signal(SIGTERM);
    child->Wait(kEndCommandMilliseconds);
  }
  return status;
}

}  // namespace

void AddRecord(CLI::App* app, const TrailingWords& trailing, VerbFunction* chosen) {
  auto options = std::make_shared<RecordOptions>();
  CLI::App* verb = app->add_subcommand("record", "Sample and write a profile");
  verb->add_option("-p,--pid", options->pids, "These processes, with their threads and children")
      ->type_name("PID");
  verb->add_flag("-a,--all-cpus", options->all_cpus, "The whole machine");
  verb->add_option("--cgroup", options->cgroup, "The processes of a control group")
      ->type_name("PATH");
  verb->add_option("-F,--frequency", options->frequency_hz,
                   "Samples per second and CPU (default 997)")
      ->type_name("HZ")
      ->check(CLI::Range(uint64_t{1}, kFrequencyMaxHz));
  verb->add_option("-c,--period", options->period, "One sample per so many events")
      ->type_name("PERIOD")
      ->check(CLI::Range(uint64_t{1}, kPeriodMax));
  verb->add_option("-e,--event", options->events, "What to count, as perf names it")
      ->type_name("EVENT");
  verb->add_option("--duration", options->duration,
                   "How long, e.g. 30s; without it until Ctrl-C or the end of the target")
      ->type_name("TIME");
  verb->add_option("--source", options->source, "auto, or one that `doctor` lists")
      ->capture_default_str();
  verb->add_option("--terms", options->terms,
                   "More terms for the source's PMU, as in sysfs: cyc,noretcomp or min_latency=30")
      ->type_name("TERM=VALUE,...");
  verb->add_flag("--kernel", options->kernel, "Hardware sources: kernel code, too");
  verb->add_option(
          "--filter", options->filter,
          "pt: trace only this code, as perf record takes it: 'filter 0x1400/0x80@/bin/prog'")
      ->type_name("FILTER");
  verb->add_flag("--snapshot", options->snapshot,
                 "pt, spe: keep only the newest trace and read it at the end");
  verb->add_option(
          "--trigger", options->triggers.conditions,
          "pt: take a snapshot when function:OBJECT:SYMBOL>DURATION, syscall:NAME>DURATION, "
          "sched>DURATION, signal (SIGUSR2) or control:PATH; may be repeated")
      ->type_name("CONDITION")
      ->allow_extra_args(false);
  verb->add_option(
          "--history", options->triggers.history,
          "Triggers: not before the trace has run so long since it began or the last snapshot")
      ->type_name("TIME");
  verb->add_option("--cooldown", options->triggers.cooldown,
                   "Triggers: at least so long between snapshots")
      ->type_name("TIME");
  verb->add_option("--max-snapshots", options->triggers.snapshots_per_hour,
                   "Triggers: at most so many snapshots in any hour")
      ->type_name("N");
  verb->add_option(
          "--disk-limit", options->triggers.disk_limit,
          "At most so many bytes: of all snapshots, or of a .perf.data file, which then ends the "
          "recording")
      ->type_name("SIZE");
  verb->add_option("--window", options->window_bytes,
                   "pt: not the whole trace, but the last bytes before each sample")
      ->type_name("SIZE");
  verb->add_option("--aux", options->aux_bytes, "pt, spe: size of each CPU's trace area")
      ->type_name("SIZE");
  verb->add_option("--unwind", options->unwind, "auto, fp, cfi or lbr")
      ->check(CLI::IsMember({"auto", "fp", "cfi", "lbr"}))
      ->capture_default_str();
  verb->add_option("--stack-bytes", options->stack_bytes,
                   "Stack copied per sample for unwinding by cfi (default 16k)")
      ->type_name("SIZE");
  verb->add_option("--ring", options->ring_bytes, "Size of each CPU's ring")->type_name("SIZE");
  verb->add_option("-o,--output", options->output, "Where to write; the suffix chooses the format")
      ->capture_default_str()
      ->type_name("FILE");
  verb->add_option("--to", options->format, "The format, whatever the suffix");
  AddCommonOptions(verb, &options->common);
  verb->callback([options, &trailing, chosen] {
    options->command = trailing;
    *chosen = [options] {
      const Status status = Record(*options);
      return status ? kExitDone : Fail(status.error());
    };
  });
}

}  // namespace ptarmigan::cli
