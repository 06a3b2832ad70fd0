#include "hw/hardware_source.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "base/str_format.h"
#include "hw/internal/attr_bits.h"
#include "hw/internal/coresight_metadata.h"
#include "hw/internal/machine.h"
#include "hw/internal/pmu_events.h"

namespace ptarmigan {
namespace {

using internal::SetBit;

constexpr std::array<std::string_view, 8> kSources = {"pt",        "spe",      "coresight", "ibs",
                                                      "ibs-fetch", "pebs-mem", "lbr",       "brbe"};

constexpr uint64_t kPsbHeaderBytes = 256;  // at most, of what follows a PSB

Error Missing(std::string_view source, std::string_view what, std::string_view remedy) {
  return Error{ErrorCode::kUnavailable, StrFormat("--source {}: {}; {}", source, what, remedy)};
}

class Setter {
 public:
  Setter(const SourceRequest& request, const EventRoots& roots)
      : request_(request), roots_(roots) {}

  Result<SourceSetup> IntelPt();
  Result<SourceSetup> ArmSpe();
  Result<SourceSetup> CoreSight();
  Result<SourceSetup> AmdIbs(std::string_view pmu);
  Result<SourceSetup> PebsMemory();
  Result<SourceSetup> BranchRecords();

 private:
  bool Has(std::string_view pmu, std::string_view file) const {
    return !internal::ReadPmuFile(pmu, file, roots_).empty();
  }
  bool HasTerm(std::string_view pmu, std::string_view term) const {
    return Has(pmu, StrFormat("format/{}", term));
  }
  // A capability of intel_pt, which are hexadecimal without a prefix; 0 if there is none.
  uint64_t PtCap(std::string_view name) const;
  // The event of a PMU with our terms, as far as it has them, and the request's.
  Result<EventSpec> PmuEvent(std::string_view pmu, const std::vector<std::string>& terms) const;
  void SetModes(EventSpec* spec) const {
    spec->modes_given = true;
    SetBit(&spec->attr, internal::kBitExcludeKernel, !request_.kernel);
    SetBit(&spec->attr, internal::kBitExcludeHypervisor, !request_.kernel);
    if (!request_.kernel) spec->name += 'u';
  }
  std::vector<std::string> PtTerms() const;
  // As many PSBs as this CPU can write; without the capability it decides itself.
  unsigned PsbPeriod() const {
    constexpr unsigned kFixedPeriod = 3;  // of CPUs that cannot change it, as perf assumes
    const uint64_t periods = PtCap("psb_periods");
    const bool settable = PtCap("psb_cyc") != 0 && periods != 0;
    return settable ? static_cast<unsigned>(std::countr_zero(periods)) : kFixedPeriod;
  }

  const SourceRequest& request_;
  const EventRoots& roots_;
};

uint64_t Setter::PtCap(std::string_view name) const {
  const std::string text = internal::ReadPmuFile("intel_pt", StrFormat("caps/{}", name), roots_);
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

Result<EventSpec> Setter::PmuEvent(std::string_view pmu,
                                   const std::vector<std::string>& terms) const {
  std::string text;
  for (const std::string& term : terms) {
    if (!HasTerm(pmu, term.substr(0, term.find('=')))) continue;
    if (!text.empty()) text += ',';
    text += term;
  }
  if (!request_.terms.empty()) {
    if (!text.empty()) text += ',';
    text += request_.terms;
  }
  return internal::ParsePmuEvent(pmu, text, roots_);
}

// The highest bit of `allowed` that is not above `wanted`; the lowest one if all are.
uint64_t NearestAllowed(uint64_t allowed, uint64_t wanted) {
  const uint64_t lower = allowed & ((uint64_t{2} << wanted) - 1);
  if (lower != 0) return static_cast<uint64_t>(std::bit_width(lower)) - 1;
  return static_cast<uint64_t>(std::countr_zero(allowed));
}

// A time stamp at each PSB, MTC packets at about perf's rate, and as many PSBs as there can be: decoding starts at one, goes
// on in parallel at each, and takes up again at the next after damage. RET compression stays on.
std::vector<std::string> Setter::PtTerms() const {
  constexpr uint64_t kMtcPeriodWanted = 3;
  std::vector<std::string> terms = {"pt", "branch", "tsc"};
  const uint64_t mtc_periods = PtCap("mtc_periods");
  if (PtCap("mtc") != 0 && mtc_periods != 0) {
    terms.emplace_back("mtc");
    terms.push_back(StrFormat("mtc_period={}", NearestAllowed(mtc_periods, kMtcPeriodWanted)));
  }
  if (PtCap("psb_cyc") != 0 && PtCap("psb_periods") != 0) {
    terms.push_back(StrFormat("psb_period={}", PsbPeriod()));
  }
  return terms;
}

Result<SourceSetup> Setter::IntelPt() {
  constexpr std::string_view kPmu = "intel_pt";
  if (!Has(kPmu, "type")) {
    return Missing(
        "pt", "the kernel lists no PMU \"intel_pt\" (Intel CPUs since Broadwell have it)",
        "bare metal or a guest that is given it, and a kernel with CONFIG_CPU_SUP_INTEL");
  }
  SourceSetup setup;
  TRY_ASSIGN(EventSpec pt, PmuEvent(kPmu, PtTerms()));
  pt.fills_aux = true;
  pt.period_given = true;
  pt.attr.sample_period = 1;
  SetModes(&pt);
  setup.events.push_back(std::move(pt));
  setup.aux_mode = request_.aux_mode;
  setup.needs_perf_clock = true;
  setup.needs_switches = true;
  if (request_.aux_mode != AuxMode::kSamples) return setup;
  if (request_.window_bytes == 0 || request_.window_bytes > kWindowBytesMax ||
      request_.window_bytes % 8 != 0) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("a window of {} bytes: possible are multiples of 8 up to {}",
                           request_.window_bytes, kWindowBytesMax)};
  }
  // Decoding begins at a PSB: one must lie in each window.
  const uint64_t psb_bytes = uint64_t{2048} << PsbPeriod();
  if (request_.window_bytes <= psb_bytes + kPsbHeaderBytes) {
    setup.notes.push_back(StrFormat(
        "windows of {} bytes often hold no place where decoding can begin: this CPU sets one "
        "every {} bytes",
        request_.window_bytes, psb_bytes));
  }
  auto sampler = ParseEvent("cycles", roots_);
  if (!sampler) return std::move(sampler).error();
  sampler->in_group = true;
  sampler->attr.sample_type |= kSampleAux;
  sampler->attr.aux_sample_bytes = request_.window_bytes;
  SetModes(&*sampler);
  sampler->name = request_.kernel ? "cycles" : "cycles:u";
  setup.events.push_back(*std::move(sampler));
  return setup;
}

Result<SourceSetup> Setter::ArmSpe() {
  SourceSetup setup;
  for (const std::string& pmu : internal::PmuNames(roots_)) {
    if (!pmu.starts_with("arm_spe_")) continue;
    // min_latency and filters change which operations are counted: only on request.
    TRY_ASSIGN(EventSpec spe, PmuEvent(pmu, {"ts_enable=1", "jitter=1"}));
    spe.fills_aux = true;
    if (!spe.period_given) {
      constexpr uint64_t kStep = 256;  // PMSIRR_EL1.INTERVAL has the bits above
      constexpr uint64_t kPeriodDefault = 65536;
      const auto least =
          internal::ParseNumber(internal::ReadPmuFile(pmu, "caps/min_interval", roots_));
      const uint64_t wanted = request_.period != 0 ? request_.period : kPeriodDefault;
      const uint64_t period =
          std::max((wanted + kStep / 2) / kStep * kStep, std::max(least.value_or(kStep), kStep));
      if (request_.period != 0 && period != request_.period) {
        setup.notes.push_back(
            StrFormat("{}: one sample per {} operations instead of {}: the unit counts in steps of "
                      "{} and recommends at least {}",
                      pmu, period, request_.period, kStep, least.value_or(kStep)));
      }
      spe.attr.sample_period = period;
      spe.period_given = true;
    }
    spe.cpus = internal::ParseCpuList(internal::ReadPmuFile(pmu, "cpumask", roots_));
    SetModes(&spe);
    setup.events.push_back(std::move(spe));
  }
  if (setup.events.empty()) {
    return Missing("spe", "the kernel lists no PMU \"arm_spe_0\" (Armv8.2 CPUs may have it)",
                   "bare metal whose firmware describes its interrupt, a kernel with "
                   "CONFIG_ARM_SPE_PMU, and kpti=off where that driver says so");
  }
  setup.aux_mode = request_.aux_mode == AuxMode::kSnapshot ? AuxMode::kSnapshot : AuxMode::kFull;
  setup.needs_perf_clock = true;
  setup.needs_switches = true;
  return setup;
}

// The kernel chooses the sink that is nearest to each unit. Contexts tell whose instructions they are, time stamps when.
Result<SourceSetup> Setter::CoreSight() {
  constexpr std::string_view kPmu = "cs_etm";
  const std::vector<int32_t> cpus =
      Has(kPmu, "type") ? internal::CoreSightCpus(kPmu, internal::OnlineCpus(roots_.sysfs), roots_)
                        : std::vector<int32_t>();
  if (cpus.empty()) {
    return Missing("coresight", "the kernel lists no PMU \"cs_etm\" with a trace unit of a CPU",
                   "an Arm board whose firmware describes its trace units, and a kernel with "
                   "CONFIG_CORESIGHT and CONFIG_CORESIGHT_SOURCE_ETM4X");
  }
  SourceSetup setup;
  TRY_ASSIGN(EventSpec trace, PmuEvent(kPmu, {"contextid=1", "timestamp=1"}));
  trace.fills_aux = true;
  trace.period_given = true;
  trace.attr.sample_period = 1;
  trace.cpus = cpus;
  SetModes(&trace);
  setup.events.push_back(std::move(trace));
  setup.aux_mode = request_.aux_mode == AuxMode::kSnapshot ? AuxMode::kSnapshot : AuxMode::kFull;
  setup.needs_perf_clock = true;
  setup.needs_switches = true;
  return setup;
}

Result<SourceSetup> Setter::AmdIbs(std::string_view pmu) {
  if (!Has(pmu, "type")) {
    return Missing(request_.name, StrFormat("the kernel lists no PMU \"{}\"", pmu),
                   "an AMD CPU whose BIOS does not hide instruction-based sampling");
  }
  SourceSetup setup;
  // Micro-operations are counted, not cycles: a cycle counter never samples what shares its cycle with another.
  const bool is_op = pmu == "ibs_op";
  TRY_ASSIGN(EventSpec ibs, PmuEvent(pmu, is_op ? std::vector<std::string>{"cnt_ctl=1"}
                                                : std::vector<std::string>{"rand_en=1"}));
  ibs.attr.sample_type |= kSampleRaw;
  if (is_op) ibs.attr.sample_type |= kSampleAddr | kSampleDataSrc | kSampleWeight;
  // The hardware cannot tell the kernel from user code before Zen 6; where the driver can, it drops samples (swfilt).
  if (!request_.kernel && HasTerm(pmu, "swfilt")) {
    TRY_ASSIGN(const EventSpec filter, internal::ParsePmuEvent(pmu, "swfilt=1", roots_));
    ibs.attr.config |= filter.attr.config;
    ibs.attr.config2 |= filter.attr.config2;
    SetModes(&ibs);
  } else {
    ibs.modes_given = true;
    if (!request_.kernel) {
      setup.notes.push_back(StrFormat(
          "{}: this kernel cannot leave out kernel code while recording; it is in the profile",
          pmu));
    }
  }
  setup.events.push_back(std::move(ibs));
  return setup;
}

Result<SourceSetup> Setter::PebsMemory() {
  SourceSetup setup;
  for (const std::string_view event : {"mem-loads", "mem-stores"}) {
    for (const std::string& pmu : internal::PmuNames(roots_)) {
      if (pmu != "cpu" && !pmu.starts_with("cpu_")) continue;
      if (!Has(pmu, StrFormat("events/{}", event))) continue;
      const bool needs_leader = event == "mem-loads" && Has(pmu, "events/mem-loads-aux");
      if (needs_leader) {
        // Golden Cove and later count a load only together with this event.
        TRY_ASSIGN(EventSpec leader, internal::ParsePmuEvent(pmu, "mem-loads-aux", roots_));
        SetModes(&leader);
        leader.period_given = true;
        leader.attr.sample_period = 0;
        setup.events.push_back(std::move(leader));
      }
      TRY_ASSIGN(EventSpec memory, internal::ParsePmuEvent(pmu, event, roots_));
      memory.name = StrFormat("{}/{}/P", pmu, event);
      memory.in_group = needs_leader;
      memory.precise_max = true;
      memory.attr.sample_type |= kSampleAddr | kSampleDataSrc | kSampleWeight;
      SetModes(&memory);
      setup.events.push_back(std::move(memory));
    }
  }
  if (setup.events.empty()) {
    return Missing(
        "pebs-mem", "the CPU's PMU lists no event mem-loads",
        "an Intel CPU, on bare metal or with its PMU given to the guest; on AMD use ibs");
  }
  return setup;
}

Result<SourceSetup> Setter::BranchRecords() {
  SourceSetup setup;
  TRY_ASSIGN(EventSpec cycles, ParseEvent("cycles", roots_));
  cycles.precise_max = true;
  cycles.attr.sample_type |= kSampleBranchStack;
  // Without PERF_SAMPLE_BRANCH_USER or _KERNEL the kernel takes the modes of the event.
  cycles.attr.branch_sample_type = kBranchAny;
  SetModes(&cycles);
  cycles.name = request_.kernel ? "cycles" : "cycles:u";
  setup.events.push_back(std::move(cycles));
  return setup;
}

}  // namespace

bool IsHardwareSource(std::string_view name) {
  return std::ranges::find(kSources, name) != kSources.end();
}

Result<SourceSetup> SetUpSource(const SourceRequest& request, const EventRoots& roots) {
  Setter setter(request, roots);
  if (request.name == "pt") return setter.IntelPt();
  if (request.name == "spe") return setter.ArmSpe();
  if (request.name == "coresight") return setter.CoreSight();
  if (request.name == "ibs") return setter.AmdIbs("ibs_op");
  if (request.name == "ibs-fetch") return setter.AmdIbs("ibs_fetch");
  if (request.name == "pebs-mem") return setter.PebsMemory();
  if (request.name == "lbr" || request.name == "brbe") return setter.BranchRecords();
  SourceSetup setup;
  TRY_ASSIGN(setup.events, ParseEventList(request.name, roots));
  return setup;
}

void AddCallStacksOfBranchRecords(EventSpec* event) {
  constexpr uint64_t kBranchUser = 1U << 0;  // PERF_SAMPLE_BRANCH_USER
  event->attr.sample_type |= kSampleBranchStack;
  event->attr.branch_sample_type =
      kBranchUser | kBranchCallStack | kBranchNoFlags | kBranchNoCycles;
}

void UseSource(const SourceSetup& setup, PerfSessionOptions* options) {
  options->events = setup.events;
  options->aux_mode = setup.aux_mode;
  options->context_switches = setup.needs_switches;
  if (setup.needs_perf_clock) options->clockid = -1;
}

}  // namespace ptarmigan
