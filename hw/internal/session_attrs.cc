#include "hw/internal/session_attrs.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "base/proc_fs.h"
#include "base/str_format.h"
#include "hw/internal/attr_bits.h"
#include "hw/internal/perf_open.h"

namespace ptarmigan::internal {
namespace {

// In every record, so that a reader finds the event and the order of any of them.
constexpr uint64_t kCommonSampleType = kSampleIdentifier | kSampleTid | kSampleTime | kSampleCpu;

class AttrPlanner {
 public:
  AttrPlanner(const PerfSessionOptions& options, int32_t cpu) : options_(options) {
    const bool of_tasks = options.target.kind == PerfTarget::Kind::kPids ||
                          options.target.kind == PerfTarget::Kind::kCommand;
    // Features do not depend on whom is sampled, permissions do.
    probe_target_ = of_tasks ? PerfOpenTarget{0, -1, false} : PerfOpenTarget{-1, cpu, false};
    of_tasks_ = of_tasks;
  }

  Result<SessionAttrs> Plan();

 private:
  Status PlanTracking();
  Status PlanEvent(const EventSpec& spec);
  Status SetRate(const EventSpec& spec, EventAttr* attr) const;
  Status SetStacks(const EventSpec& spec, EventAttr* attr) const;
  // Opens the event for a moment, giving up what it can do without; the refusal otherwise.
  Status SettleEvent(const EventSpec& spec, EventDescription* event);
  // 0, or the errno of opening the event for a moment; `in_group`: behind the leader that was planned last.
  int TryOpening(const EventAttr& attr, bool in_group = false) const;
  bool Accepts(const EventAttr& attr) const { return TryOpening(attr) == 0; }
  void SetCommon(EventAttr* attr) const;

  const PerfSessionOptions& options_;
  PerfOpenTarget probe_target_;
  bool of_tasks_ = false;
  SessionAttrs plan_;
  EventAttr tracking_;
};

int AttrPlanner::TryOpening(const EventAttr& attr, bool in_group) const {
  int error = 0;
  PerfOpenTarget target = probe_target_;
  Fd leader;
  if (in_group) {
    const EventAttr& of_leader = plan_.events[plan_.events.back().group_leader].attr;
    leader = Fd(options_.kernel->Open(of_leader, target, {}));
    if (!leader.valid()) return -leader.get();
    target.group_fd = leader.get();
  }
  TryOpen(*options_.kernel, attr, target, &error);
  return error;
}

void AttrPlanner::SetCommon(EventAttr* attr) const {
  attr->sample_type |= kCommonSampleType;
  attr->read_format |= kReadId;
  if (plan_.lost_accepted) attr->read_format |= kReadLost;
  SetBit(attr, kBitSampleIdAll);
  SetBit(attr, kBitWatermark);
  SetBit(attr, kBitInherit, of_tasks_);
  if (plan_.clock_accepted) {
    SetBit(attr, kBitUseClockid);
    attr->clockid = options_.clockid;
  }
}

Status AttrPlanner::PlanTracking() {
  EventAttr attr;
  attr.type = kPerfTypeSoftware;
  attr.config = kSoftwareDummy;
  attr.sample_period = 1;
  attr.sample_type = kCommonSampleType;
  attr.read_format = kReadId;
  for (const AttrBit bit :
       {kBitExcludeKernel, kBitExcludeHypervisor, kBitMmap, kBitComm, kBitTask, kBitSampleIdAll}) {
    SetBit(&attr, bit);
  }
  if (const int error = TryOpening(attr); error != 0) {
    return ExplainOpenError(options_.events.front().name, attr, probe_target_, error,
                            options_.proc_root);
  }
  struct Feature {
    AttrBit bit;
    bool wanted;
    std::string_view missing;  // the note; empty: not worth one
  };
  const Feature features[] = {
      {kBitMmap2, true, "this kernel's mapping records have no file identity"},
      {kBitCommExec, true, "this kernel does not mark exec in its records"},
      {kBitKsymbol, true, ""},
      {kBitBpfEvent, true, ""},
      {kBitBuildId, true, "this kernel does not put build ids into mapping records"},
      {kBitTextPoke, options_.text_poke, "this kernel does not record changes of its code"},
      {kBitCgroup, options_.cgroup_ids, "this kernel does not record control groups"},
      {kBitContextSwitch, options_.context_switches,
       "this kernel does not record context switches"},
  };
  for (const Feature& feature : features) {
    if (!feature.wanted) continue;
    EventAttr attempt = attr;
    SetBit(&attempt, feature.bit);
    if (Accepts(attempt))
      attr = attempt;
    else if (!feature.missing.empty())
      plan_.notes.emplace_back(feature.missing);
  }
  if (options_.clockid >= 0) {
    EventAttr attempt = attr;
    SetBit(&attempt, kBitUseClockid);
    attempt.clockid = options_.clockid;
    plan_.clock_accepted = Accepts(attempt);
    if (!plan_.clock_accepted) {
      plan_.notes.push_back(
          StrFormat("this kernel cannot stamp records with clock {}: perf's own clock is used",
                    options_.clockid));
    }
  }
  EventAttr attempt = attr;
  attempt.read_format |= kReadLost;
  plan_.lost_accepted = Accepts(attempt);
  SetCommon(&attr);
  tracking_ = attr;
  return OkStatus();
}

Status AttrPlanner::SetRate(const EventSpec& spec, EventAttr* attr) const {
  if (spec.period_given) return OkStatus();
  if (options_.period || (!options_.frequency_hz && attr->type == kPerfTypeTracepoint)) {
    attr->sample_period = options_.period.value_or(1);
    SetBit(attr, kBitFreq, false);
    if (attr->sample_period == 0)
      return Error{ErrorCode::kInvalidInput, "a period of 0 never samples"};
    return OkStatus();
  }
  const uint64_t frequency_hz = options_.frequency_hz.value_or(kFrequencyHzDefault);
  if (frequency_hz == 0)
    return Error{ErrorCode::kInvalidInput, "a frequency of 0 Hz never samples"};
  const auto rate_max = ProcFs(options_.proc_root).Integer("sys/kernel/perf_event_max_sample_rate");
  if (rate_max && frequency_hz > static_cast<uint64_t>(*rate_max)) {
    return Error{ErrorCode::kResourceLimit,
                 StrFormat("{} Hz is above kernel.perf_event_max_sample_rate ({}): use a lower -F "
                           "or raise the sysctl",
                           frequency_hz, *rate_max)};
  }
  attr->sample_freq_hz = frequency_hz;
  SetBit(attr, kBitFreq);
  return OkStatus();
}

Status AttrPlanner::SetStacks(const EventSpec& spec, EventAttr* attr) const {
  if (spec.fills_aux) return OkStatus();
  if (options_.call_chain != CallChainMode::kNone) {
    attr->sample_type |= kSampleCallchain;
    SetBit(attr, kBitExcludeCallchainUser, options_.call_chain == CallChainMode::kKernel);
  }
  if (options_.stack_user_bytes == 0) return OkStatus();
  if (options_.stack_user_bytes > kStackBytesMax) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("{} bytes of stack per sample: at most {} are possible",
                           options_.stack_user_bytes, kStackBytesMax)};
  }
  if (UserRegisterMask() == 0) {
    return Error{ErrorCode::kUnsupported,
                 "stacks of user code cannot be dumped on this architecture"};
  }
  attr->sample_type |= kSampleRegsUser | kSampleStackUser;
  attr->sample_regs_user = UserRegisterMask();
  attr->sample_stack_user_bytes = (options_.stack_user_bytes + 7) & ~uint32_t{7};
  return OkStatus();
}

Status AttrPlanner::SettleEvent(const EventSpec& spec, EventDescription* event) {
  EventAttr& attr = event->attr;
  int error = 0;
  const auto opens = [this, &attr, &error, &spec] {
    error = TryOpening(attr, spec.in_group);
    return error == 0;
  };
  if (spec.precise_max) {
    for (unsigned level = 3; level > 0; --level) {
      SetPreciseIp(&attr, level);
      if (opens()) return OkStatus();
    }
    SetPreciseIp(&attr, 0);
  }
  if (opens()) return OkStatus();
  if ((error == EACCES || error == EPERM) && !spec.modes_given && !attr.exclude_kernel()) {
    SetBit(&attr, kBitExcludeKernel);
    SetBit(&attr, kBitExcludeHypervisor);
    if (opens()) {
      event->name += event->name.ends_with('/') ? "u" : ":u";
      plan_.notes.push_back(
          StrFormat("{}: kernel code is not sampled, this user may not (kernel.perf_event_paranoid "
                    "<= 1 or CAP_PERFMON allows it)",
                    event->name));
      return OkStatus();
    }
  }
  // Older kernels and some PMUs know no guests.
  if (error == EINVAL && attr.exclude_guest() && spec.attr.exclude_guest() == false) {
    SetBit(&attr, kBitExcludeGuest, false);
    if (opens()) return OkStatus();
  }
  return ExplainOpenError(event->name, attr, probe_target_, error, options_.proc_root);
}

Status AttrPlanner::PlanEvent(const EventSpec& spec) {
  EventDescription event;
  event.attr = spec.attr;
  event.name = spec.name;
  event.unit = spec.unit;
  event.scale = spec.scale;
  event.group_leader = static_cast<uint32_t>(plan_.events.size());
  if (spec.in_group) {
    if (plan_.events.empty())
      return Error{ErrorCode::kInvalidInput, "the first event cannot be a member of a group"};
    event.group_leader = plan_.events.back().group_leader;
  }
  EventAttr& attr = event.attr;
  attr.sample_type |= kSampleIp;
  if (!spec.fills_aux) attr.sample_type |= kSamplePeriod;
  if (attr.type == kPerfTypeTracepoint) attr.sample_type |= kSampleRaw;
  if (options_.cgroup_ids && tracking_.Flag(kBitCgroup)) attr.sample_type |= kSampleCgroup;
  SetCommon(&attr);
  TRY(SetRate(spec, &attr));
  TRY(SetStacks(spec, &attr));
  // Guests' code cannot be unwound or named here: count it only when asked.
  const bool hardware = attr.type != kPerfTypeSoftware && attr.type != kPerfTypeTracepoint;
  if (hardware && !attr.exclude_guest() && !attr.exclude_host()) SetBit(&attr, kBitExcludeGuest);
  SetBit(&attr, kBitDisabled);
  SetBit(&attr, kBitEnableOnExec, options_.target.kind == PerfTarget::Kind::kCommand);
  TRY(SettleEvent(spec, &event));
  plan_.events.push_back(std::move(event));
  plan_.cpus.push_back(spec.cpus);
  plan_.fills_aux.push_back(spec.fills_aux);
  return OkStatus();
}

Result<SessionAttrs> AttrPlanner::Plan() {
  TRY(PlanTracking());
  for (const EventSpec& spec : options_.events) TRY(PlanEvent(spec));
  EventDescription tracking;
  tracking.attr = tracking_;
  tracking.name = "dummy:u";
  tracking.group_leader = static_cast<uint32_t>(plan_.events.size());
  plan_.events.push_back(std::move(tracking));
  plan_.cpus.emplace_back();
  plan_.fills_aux.push_back(false);
  return std::move(plan_);
}

}  // namespace

uint64_t UserRegisterMask() {
#if defined(__x86_64__)
  // AX..IP, FLAGS, CS, SS, R8..R15; not DS, ES, FS, GS, which the kernel refuses (arch/x86/kernel/perf_regs.c).
  return 0xff0fff;
#elif defined(__aarch64__)
  return (uint64_t{1} << 33) - 1;  // X0..X29, LR, SP, PC
#else
  return 0;
#endif
}

Result<SessionAttrs> PlanSessionAttrs(const PerfSessionOptions& options, int32_t cpu) {
  return AttrPlanner(options, cpu).Plan();
}

}  // namespace ptarmigan::internal
