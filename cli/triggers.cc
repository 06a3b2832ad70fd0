#include "cli/triggers.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <array>

#include "base/log.h"
#include "base/str_format.h"
#include "cli/common_options.h"
#include "elf/elf_file.h"

namespace ptarmigan::cli {
namespace {

constexpr uint8_t kSymbolIsFunction = 2;           // STT_FUNC
constexpr uint8_t kSymbolIsIndirectFunction = 10;  // STT_GNU_IFUNC

// What a handler of SIGUSR2 may touch.
std::atomic<bool> g_signalled = false;
std::atomic<PerfSession*> g_waiting = nullptr;

void NoteSignal(int) {
  g_signalled = true;
  if (PerfSession* session = g_waiting.load()) session->Wake();
}

uint64_t NowNs() {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

Error BadTrigger(std::string_view text) {
  return Error{ErrorCode::kInvalidInput,
               StrFormat("--trigger {}: one of function:OBJECT:SYMBOL>DURATION, "
                         "syscall:NAME>DURATION, sched>DURATION, signal, control:PATH",
                         text)};
}

Result<TriggerLimits> LimitsOf(const TriggerOptions& options) {
  TriggerLimits limits;
  if (!options.history.empty()) {
    TRY_ASSIGN(limits.history, ParseDuration(options.history));
  }
  if (!options.cooldown.empty()) {
    TRY_ASSIGN(limits.cooldown, ParseDuration(options.cooldown));
  }
  if (!options.disk_limit.empty()) {
    TRY_ASSIGN(limits.bytes_max, ParseSize(options.disk_limit));
  }
  limits.snapshots_per_hour = options.snapshots_per_hour;
  return limits;
}

}  // namespace

Result<TriggerText> ParseTrigger(std::string_view text) {
  TriggerText trigger;
  if (text == "signal") {
    trigger.kind = TriggerText::Kind::kSignal;
    return trigger;
  }
  constexpr std::string_view kControl = "control:";
  if (text.starts_with(kControl)) {
    trigger.kind = TriggerText::Kind::kControl;
    trigger.path = text.substr(kControl.size());
    if (trigger.path.empty()) return BadTrigger(text);
    return trigger;
  }
  // A path or a symbol of C++ may have a '>' of its own.
  const size_t greater = text.rfind('>');
  if (greater == std::string_view::npos) return BadTrigger(text);
  TRY_ASSIGN(trigger.watched.threshold, ParseDuration(text.substr(greater + 1)));
  const std::string_view what = text.substr(0, greater);
  constexpr std::string_view kFunction = "function:";
  constexpr std::string_view kSyscall = "syscall:";
  if (what == "sched") {
    trigger.watched.kind = TriggerCondition::Kind::kSched;
  } else if (what.starts_with(kSyscall) && what.size() > kSyscall.size()) {
    trigger.watched.kind = TriggerCondition::Kind::kSyscall;
    trigger.watched.syscall = what.substr(kSyscall.size());
  } else if (what.starts_with(kFunction)) {
    // Symbols may have colons, paths seldom do.
    const std::string_view rest = what.substr(kFunction.size());
    const size_t colon = rest.find(':');
    if (colon == 0 || colon == std::string_view::npos || colon + 1 == rest.size())
      return BadTrigger(text);
    trigger.watched.object = rest.substr(0, colon);
    trigger.symbol = rest.substr(colon + 1);
  } else {
    return BadTrigger(text);
  }
  return trigger;
}

Result<uint64_t> FindFunctionOffset(const std::string& object, const std::string& symbol) {
  TRY_ASSIGN(const std::unique_ptr<ElfFile> file, ElfFile::Open(object));
  std::optional<FileVaddr> found;
  bool is_indirect = false;
  for (const std::string_view table : {".symtab", ".dynsym"}) {
    file->ForEachSymbol(table, [&](const ElfSymbol& candidate) {
      const bool is_function =
          candidate.type == kSymbolIsFunction || candidate.type == kSymbolIsIndirectFunction;
      if (found || !is_function || candidate.section == 0) return;
      // "name@@VERSION" of dynamic symbols is not part of the table's names.
      if (candidate.name != symbol) return;
      is_indirect = candidate.type == kSymbolIsIndirectFunction;
      found = candidate.value;
    });
  }
  if (!found) {
    return Error{ErrorCode::kNotFound,
                 StrFormat("{} has no function \"{}\" in its symbol tables (give the name as `nm` "
                           "prints it: C++ names mangled; a stripped file has none)",
                           object, symbol)};
  }
  if (is_indirect) {
    return Error{ErrorCode::kUnsupported,
                 StrFormat("{}: {} is chosen at run time (ifunc): name the variant that is used",
                           object, symbol)};
  }
  const std::optional<FileOffset> offset = file->ToOffset(*found);
  if (!offset) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("{}: the code of {} is not in the file", object, symbol)};
  }
  return offset->value;
}

Triggers::Triggers(const TriggerLimits& limits, PerfSession* session)
    : session_(session), gate_(limits, NowNs()) {}

Triggers::~Triggers() {
  if (!owns_signal_) return;
  ::signal(SIGUSR2, SIG_DFL);
  g_waiting = nullptr;
}

Status Triggers::Add(const TriggerText& trigger, const PerfTarget& target) {
  switch (trigger.kind) {
    case TriggerText::Kind::kSignal: {
      g_waiting = session_;
      owns_signal_ = true;
      struct sigaction action = {};
      action.sa_handler = NoteSignal;
      action.sa_flags = SA_RESTART;
      ::sigaction(SIGUSR2, &action, nullptr);
      return OkStatus();
    }
    case TriggerText::Kind::kControl: {
      if (control_)
        return Error{ErrorCode::kInvalidInput, "--trigger control: one socket is enough"};
      TRY_ASSIGN(control_, ControlSocket::Listen(trigger.path));
      return session_->WakeOn(control_->wait_fd());
    }
    case TriggerText::Kind::kWatched:
      break;
  }
  TriggerWatch::Options options;
  options.condition = trigger.watched;
  options.target = target;
  if (trigger.watched.kind == TriggerCondition::Kind::kFunction) {
    TRY_ASSIGN(options.condition.file_offset,
               FindFunctionOffset(options.condition.object, trigger.symbol));
  }
  TRY_ASSIGN(std::unique_ptr<TriggerWatch> watch, TriggerWatch::Open(options));
  for (const std::string& note : watch->notes()) LogWarning(note);
  TRY(session_->WakeOn(watch->wait_fd()));
  watches_.push_back(std::move(watch));
  return OkStatus();
}

Result<std::unique_ptr<Triggers>> Triggers::Open(const TriggerOptions& options,
                                                 const PerfTarget& target, PerfSession* session) {
  TRY_ASSIGN(const TriggerLimits limits, LimitsOf(options));
  std::unique_ptr<Triggers> triggers(new Triggers(limits, session));
  for (const std::string& text : options.conditions) {
    TRY_ASSIGN(const TriggerText trigger, ParseTrigger(text));
    TRY(triggers->Add(trigger, target));
  }
  return triggers;
}

Result<TriggerVerdict> Triggers::Follow(std::string_view why, RawRecordSink& sink) {
  const TriggerVerdict verdict = gate_.Ask(NowNs(), session_->statistics().aux_areas_bytes);
  if (verdict != TriggerVerdict::kTake) return verdict;
  TRY_ASSIGN(const uint64_t bytes, session_->TakeSnapshot(sink));
  gate_.Taken(NowNs(), bytes);
  LogNotice(StrFormat("snapshot of {} KiB: {}", bytes >> 10, why));
  return verdict;
}

Status Triggers::Look(RawRecordSink& sink) {
  if (owns_signal_ && g_signalled.exchange(false)) TRY(Follow("signal", sink));
  for (const std::unique_ptr<TriggerWatch>& watch : watches_) {
    TRY_ASSIGN(const std::vector<TriggerHit> hits, watch->Poll());
    for (const TriggerHit& hit : hits) {
      TRY(Follow(StrFormat("thread {} took {:.3f} ms", hit.tid,
                           static_cast<double>(hit.duration_ns) / 1e6),
                 sink));
    }
  }
  if (!control_) return OkStatus();
  Status status = OkStatus();
  control_->Serve([&](std::string_view command) -> std::string {
    if (command == "status") return Summary();
    if (command != "snapshot") return "error: the commands are snapshot and status";
    const Result<TriggerVerdict> verdict = Follow("asked for through the socket", sink);
    if (verdict) return std::string(TriggerVerdictName(*verdict));
    status = verdict.error();
    return "error: " + verdict.error().message;
  });
  return status;
}

std::string Triggers::Summary() const {
  uint64_t refused = 0;
  std::string reasons;
  for (size_t i = 1; i < kTriggerVerdicts; ++i) {
    const auto verdict = static_cast<TriggerVerdict>(i);
    if (gate_.count(verdict) == 0) continue;
    refused += gate_.count(verdict);
    reasons += StrFormat("{}{} {}", reasons.empty() ? ": " : ", ", gate_.count(verdict),
                         TriggerVerdictName(verdict));
  }
  std::string text = StrFormat("{} snapshots; {} more conditions met{}",
                               gate_.count(TriggerVerdict::kTake), refused, reasons);
  uint64_t lost = 0;
  uint64_t unmatched = 0;
  for (const std::unique_ptr<TriggerWatch>& watch : watches_) {
    lost += watch->counts().lost_records;
    unmatched += watch->counts().unmatched;
  }
  if (lost + unmatched > 0)
    text += StrFormat("; not seen whole: {} records lost, {} ends without a beginning", lost,
                      unmatched);
  return text;
}

}  // namespace ptarmigan::cli
