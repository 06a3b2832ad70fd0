#include "hw/capabilities.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "base/proc_fs.h"
#include "base/str_format.h"
#include "hw/event_spec.h"
#include "hw/hardware_source.h"
#include "hw/internal/attr_bits.h"
#include "hw/internal/machine.h"
#include "hw/internal/perf_open.h"
#include "hw/internal/pmu_events.h"

namespace ptarmigan {
namespace {

using internal::SetBit;

struct CapabilityBit {
  std::string_view name;
  unsigned bit;  // include/uapi/linux/capability.h
  std::string_view cost;
};
constexpr std::array<CapabilityBit, 8> kCapabilityBits = {{
    {"CAP_PERFMON", 38,
     "other users' processes, kernel code and all CPUs can be sampled only as far as "
     "kernel.perf_event_paranoid allows"},
    {"CAP_BPF", 39,
     "no BPF programs: stacks are copied to user space instead of being walked in the kernel"},
    {"CAP_SYS_ADMIN", 21,
     "none of its own on Linux 5.8 or later, where CAP_PERFMON and CAP_BPF replace it; before, "
     "both are missing"},
    {"CAP_SYS_PTRACE", 19,
     "mappings and files of other users' processes cannot be read: their frames stay without "
     "names"},
    {"CAP_DAC_READ_SEARCH", 2, "binaries and perf maps that this user may not read give no names"},
    {"CAP_SYSLOG", 34,
     "kernel addresses are hidden if kernel.kptr_restrict is 1: kernel frames stay without names"},
    {"CAP_IPC_LOCK", 14, "rings are limited by kernel.perf_event_mlock_kb and `ulimit -l`"},
    {"CAP_SYS_RESOURCE", 24, "BPF maps are limited by `ulimit -l` before Linux 5.11"},
}};

constexpr std::string_view kNoPmuReason = "the kernel offers no hardware counters here";
constexpr std::string_view kNoPmuRemedy =
    "on a virtual machine give the guest a PMU (for example -cpu host,pmu=on); until then use "
    "cpu-clock";

class Prober {
 public:
  explicit Prober(const CapabilityProbeOptions& options)
      : options_(options), proc_(options.proc_root), roots_{options.sysfs_root, ""} {}

  Capabilities Probe();

 private:
  void ProbeKernel();
  void ProbeProcess();
  void ProbeSources();
  std::optional<int64_t> Sysctl(std::string_view name) const;
  int TryOpen(const EventAttr& attr) const;
  bool HasPmu(std::string_view prefix) const;
  bool Holds(std::string_view capability) const;

  void Add(std::string_view name, bool available, std::string_view reason, std::string_view remedy);
  void AddAvailable(std::string_view name) { Add(name, true, "", ""); }
  // Opened or refused with `error`.
  void AddTried(std::string_view name, const EventAttr& attr, int error);
  std::string LimitOf(std::string_view source) const;
  std::string WhySpeIsMissing() const;
  void AddHardware(std::string_view name);
  void AddByPmu(std::string_view name, std::string_view prefix, std::string_view wanted_arch,
                std::string_view what);
  void AddBranchRecords();
  void AddPebs();
  void AddBpfSources();

  const CapabilityProbeOptions& options_;
  ProcFs proc_;
  EventRoots roots_;
  internal::CpuIdentity cpu_;
  std::vector<std::string> pmus_;
  int cycles_error_ = 0;
  Capabilities result_;
};

std::optional<int64_t> Prober::Sysctl(std::string_view name) const {
  auto value = proc_.Integer(StrFormat("sys/{}", name));
  return value ? std::optional<int64_t>(*value) : std::nullopt;
}

int Prober::TryOpen(const EventAttr& attr) const {
  int error = 0;
  internal::TryOpen(*options_.kernel, attr, PerfOpenTarget{}, &error);
  return error;
}

bool Prober::HasPmu(std::string_view prefix) const {
  return std::any_of(pmus_.begin(), pmus_.end(),
                     [prefix](const std::string& pmu) { return pmu.starts_with(prefix); });
}

bool Prober::Holds(std::string_view capability) const {
  for (const ProcessCapability& known : result_.capabilities) {
    if (known.name == capability) return known.held;
  }
  return false;
}

void Prober::Add(std::string_view name, bool available, std::string_view reason,
                 std::string_view remedy) {
  SourceCapability source;
  source.name = name;
  source.available = available;
  source.reason = reason;
  source.remedy = remedy;
  if (available && options_.implemented.count(name) == 0) {
    source.available = false;
    source.reason =
        "this machine has it, but this version of ptarmigan does not record with it yet";
    source.remedy = "record with perf and give the file to `ptarmigan convert` or `report`";
  }
  result_.sources.push_back(std::move(source));
}

void Prober::AddTried(std::string_view name, const EventAttr& attr, int error) {
  if (error == 0) return AddAvailable(name);
  switch (error) {
    case EACCES:
    case EPERM: {
      const auto level = result_.kernel.perf_event_paranoid;
      return Add(name, false,
                 StrFormat("perf_event_open was refused (kernel.perf_event_paranoid is {})",
                           level ? std::to_string(*level) : "not readable"),
                 "`sysctl kernel.perf_event_paranoid=1`, or `setcap cap_perfmon+ep` on this "
                 "binary, or run as root; in "
                 "a container its seccomp profile must allow perf_event_open");
    }
    case ENOSYS:
      return Add(name, false, "perf_event_open is not available",
                 "a kernel with CONFIG_PERF_EVENTS, or a seccomp profile that allows it");
    case ENOENT:
    case ENODEV:
    case ENXIO:
    case EOPNOTSUPP:
      if (attr.type != kPerfTypeSoftware) return Add(name, false, kNoPmuReason, kNoPmuRemedy);
      break;
    case EBUSY:
      return Add(name, false, "another program holds the counters", "end that program");
    default:
      break;
  }
  Add(name, false, StrFormat("opening it failed: {}", std::strerror(error)), "");
}

// A source whose PMU is there: opened for a moment as recording would.
void Prober::AddHardware(std::string_view name) {
  if (!IsHardwareSource(name)) return AddAvailable(name);
  auto setup = SetUpSource({.name = std::string(name)}, roots_);
  if (!setup) return Add(name, false, setup.error().message, "");
  EventAttr attr = setup->events.front().attr;
  attr.sample_type |= kSampleIp;
  SetBit(&attr, internal::kBitDisabled);
  const int error = TryOpen(attr);
  if (error == 0 || error == EBUSY || error == EACCES || error == EPERM || error == ENOSYS)
    return error == 0 ? Add(name, true, LimitOf(name), "") : AddTried(name, attr, error);
  Add(name, false,
      StrFormat("its PMU is there, but opening it was refused ({})", std::strerror(error)),
      "see the kernel's messages (dmesg) about this PMU");
}

// What of an available source this user or machine gets less of; empty if nothing.
std::string Prober::LimitOf(std::string_view source) const {
  std::string limit;
  const auto add = [&limit](std::string_view sentence) {
    limit += StrFormat("{}{}", limit.empty() ? "" : "; ", sentence);
  };
  constexpr int64_t kAreaKib = 4096;  // what a session asks for per CPU
  const bool has_area = source == "pt" || source == "spe";
  const auto& mlock_kib = result_.kernel.mlock_kib;
  if (has_area && mlock_kib && *mlock_kib < kAreaKib && !Holds("CAP_IPC_LOCK")) {
    add(
        StrFormat("trace areas are limited to {} KiB per CPU (kernel.perf_event_mlock_kb) plus "
                  "`ulimit -l`: snapshots are short and full traces lose more",
                  *mlock_kib));
  }
  if (source == "pt" && internal::ReadPmuFile("intel_pt", "caps/psb_periods", roots_).empty()) {
    add("the driver does not say what this CPU's trace can do (intel_pt/caps): no time between "
        "time "
        "stamps, and few places where decoding can begin");
  }
  return limit;
}

// Why Arm SPE may be missing on a CPU that has it (drivers/perf/arm_spe_pmu.c, Linux 6.18).
std::string Prober::WhySpeIsMissing() const {
  if (result_.kernel.page_table_isolation.value_or(false))
    return "; page table isolation is on, with which its driver refuses to work on most CPUs";
  if (PathExists(JoinPath(options_.sysfs_root, "firmware/devicetree/base/spe-pmu")))
    return "; the firmware describes it, so the driver is missing or refused it (dmesg says why)";
  return "";
}

void Prober::AddByPmu(std::string_view name, std::string_view prefix, std::string_view wanted_arch,
                      std::string_view what) {
  if (HasPmu(prefix)) return AddHardware(name);
  const bool arm = result_.kernel.arch == "aarch64";
  const bool x86 = result_.kernel.arch == "x86_64";
  if ((wanted_arch == "arm" && !arm) || (wanted_arch != "arm" && !x86)) {
    return Add(name, false, StrFormat("{}; this machine is {}", what, result_.kernel.arch), "");
  }
  if (wanted_arch == "intel" && cpu_.vendor != "GenuineIntel") {
    return Add(name, false, StrFormat("{}; this CPU is {}", what, cpu_.vendor), "");
  }
  if (wanted_arch == "amd" && cpu_.vendor != "AuthenticAMD") {
    return Add(name, false, StrFormat("{}; this CPU is {}", what, cpu_.vendor), "");
  }
  std::string why = name == "spe" ? WhySpeIsMissing() : "";
  if (result_.kernel.virtual_machine.value_or(false)) why += "; this is a virtual machine";
  Add(name, false,
      StrFormat("{}; the kernel lists no PMU \"{}\" in {}/bus/event_source/devices{}", what, prefix,
                options_.sysfs_root, why),
      name == "spe" && result_.kernel.page_table_isolation.value_or(false)
          ? "boot with kpti=off where that is acceptable"
          : "bare metal or a guest that is given this unit, and a kernel with its driver");
}

void Prober::AddBranchRecords() {
  const bool x86 = result_.kernel.arch == "x86_64";
  EventAttr attr;
  attr.type = kPerfTypeHardware;
  attr.sample_period = 1'000'000;
  attr.sample_type = kSampleIp | kSampleBranchStack;
  constexpr uint64_t kBranchUser = 1U << 0;
  constexpr uint64_t kBranchAny = 1U << 3;
  attr.branch_sample_type = kBranchUser | kBranchAny;
  SetBit(&attr, internal::kBitExcludeKernel);
  SetBit(&attr, internal::kBitDisabled);
  const int error = cycles_error_ != 0 ? cycles_error_ : TryOpen(attr);
  const auto add = [this, &attr, error](std::string_view name) {
    if (error == 0) return AddAvailable(name);
    if (cycles_error_ != 0) return AddTried(name, attr, error);
    Add(name, false,
        StrFormat("the counters work, but branch records were refused ({})", std::strerror(error)),
        "a CPU with branch records (Intel LBR, AMD LBRv2 or BRS, Arm BRBE), passed through to a "
        "guest");
  };
  const auto elsewhere = [this](std::string_view name, std::string_view what) {
    Add(name, false, StrFormat("{}; this machine is {}", what, result_.kernel.arch), "");
  };
  if (x86)
    add("lbr");
  else
    elsewhere("lbr", "last branch records exist on x86");
  if (result_.kernel.arch == "aarch64")
    add("brbe");
  else
    elsewhere("brbe", "the branch record buffer exists on Arm");
}

void Prober::AddPebs() {
  if (internal::CpuPmuWithEvent("mem-loads", roots_)) return AddAvailable("pebs-mem");
  if (result_.kernel.arch != "x86_64") {
    return Add("pebs-mem", false,
               StrFormat("PEBS exists on Intel CPUs; this machine is {}", result_.kernel.arch), "");
  }
  if (cpu_.vendor != "GenuineIntel") {
    return Add("pebs-mem", false,
               StrFormat("PEBS exists on Intel CPUs; this CPU is {}", cpu_.vendor),
               cpu_.vendor == "AuthenticAMD" ? "use ibs" : "");
  }
  Add("pebs-mem", false, "the CPU's PMU lists no event mem-loads", kNoPmuRemedy);
}

void Prober::AddBpfSources() {
  for (const std::string_view name : {"off-cpu", "wall"}) {
    if (!result_.bpf.btf) {
      Add(name, false,
          "it needs BPF with type information, and there is no /sys/kernel/btf/vmlinux",
          "a kernel with CONFIG_DEBUG_INFO_BTF");
    } else if (!Holds("CAP_SYS_ADMIN") && (!Holds("CAP_BPF") || !Holds("CAP_PERFMON"))) {
      Add(name, false, "it needs BPF programs, which this user may not load",
          "run as root, or `setcap cap_bpf,cap_perfmon+ep` on this binary");
    } else {
      AddAvailable(name);
    }
  }
}

void Prober::ProbeSources() {
  pmus_ = internal::PmuNames(roots_);
  const auto software = [](uint64_t config) {
    EventAttr attr;
    attr.type = kPerfTypeSoftware;
    attr.config = config;
    attr.sample_period = 1'000'000;
    attr.sample_type = kSampleIp;
    SetBit(&attr, internal::kBitDisabled);
    SetBit(&attr, internal::kBitExcludeKernel);
    SetBit(&attr, internal::kBitExcludeHypervisor);
    return attr;
  };
  const EventAttr cpu_clock = software(internal::kSoftwareCpuClock);
  AddTried("cpu-clock", cpu_clock, TryOpen(cpu_clock));
  const EventAttr task_clock = software(internal::kSoftwareTaskClock);
  AddTried("task-clock", task_clock, TryOpen(task_clock));
  EventAttr cycles = cpu_clock;
  cycles.type = kPerfTypeHardware;
  cycles.config = 0;
  cycles_error_ = TryOpen(cycles);
  AddTried("cycles", cycles, cycles_error_);
  AddBranchRecords();
  AddByPmu("pt", "intel_pt", "intel", "Processor Trace exists on Intel CPUs");
  AddByPmu("spe", "arm_spe", "arm", "the Statistical Profiling Extension exists on Arm CPUs");
  AddByPmu("ibs", "ibs_op", "amd", "instruction-based sampling exists on AMD CPUs");
  AddPebs();
  AddByPmu("coresight", "cs_etm", "arm", "CoreSight trace exists on Arm CPUs");
  AddBpfSources();
}

void Prober::ProbeKernel() {
  KernelCapability& kernel = result_.kernel;
  utsname names = {};
  if (::uname(&names) == 0) {
    kernel.release = names.release;
    kernel.arch = names.machine;
  }
  // A test's own machine says so where the kernel would: /proc/sys/kernel/osrelease and arch (Linux 6.1).
  const auto text_below = [](const std::string& root, std::string_view name) -> std::string {
    auto content = ReadFile(JoinPath(root, name), 4096);
    if (!content) return "";
    content->resize(std::min(content->find('\n'), content->size()));
    return *std::move(content);
  };
  const auto text = [this, &text_below](std::string_view name) {
    return text_below(options_.proc_root, name);
  };
  if (std::string release = text("sys/kernel/osrelease"); !release.empty())
    kernel.release = std::move(release);
  if (std::string arch = text("sys/kernel/arch"); !arch.empty()) kernel.arch = std::move(arch);
  if (auto cpuinfo = ReadFile(JoinPath(options_.proc_root, "cpuinfo")))
    cpu_ = internal::ParseCpuInfo(*cpuinfo);
  kernel.cpu = cpu_.description;
  kernel.virtual_machine = cpu_.is_virtual;
  if (const std::string meltdown =
          text_below(options_.sysfs_root, "devices/system/cpu/vulnerabilities/meltdown");
      !meltdown.empty())
    kernel.page_table_isolation = meltdown.find("PTI") != std::string::npos;
  kernel.perf_event_paranoid = Sysctl("kernel/perf_event_paranoid");
  kernel.max_sample_rate_hz = Sysctl("kernel/perf_event_max_sample_rate");
  kernel.mlock_kib = Sysctl("kernel/perf_event_mlock_kb");
  kernel.max_stack_frames = Sysctl("kernel/perf_event_max_stack");
  kernel.kptr_restrict = Sysctl("kernel/kptr_restrict");
  kernel.nmi_watchdog = Sysctl("kernel/nmi_watchdog");
  result_.bpf.btf = PathExists(JoinPath(options_.sysfs_root, "kernel/btf/vmlinux"));
  result_.bpf.jit = Sysctl("net/core/bpf_jit_enable");
  result_.bpf.unprivileged_disabled = Sysctl("kernel/unprivileged_bpf_disabled");
}

void Prober::ProbeProcess() {
  uint64_t effective = 0;
  if (auto status = ReadFile(JoinPath(options_.proc_root, "self/status"), 1 << 16)) {
    constexpr std::string_view kKey = "\nCapEff:\t";
    const size_t at = status->find(kKey);
    if (at != std::string::npos) {
      const char* first = status->data() + at + kKey.size();
      std::from_chars(first, status->data() + status->size(), effective, 16);
    }
  }
  for (const CapabilityBit& known : kCapabilityBits) {
    ProcessCapability capability;
    capability.name = known.name;
    capability.held = (effective >> known.bit & 1) != 0;
    capability.cost = known.cost;
    result_.capabilities.push_back(std::move(capability));
  }
}

Capabilities Prober::Probe() {
  ProbeKernel();
  ProbeProcess();
  ProbeSources();
  return std::move(result_);
}

}  // namespace

const SourceCapability* Capabilities::Find(std::string_view source) const {
  const auto found =
      std::find_if(sources.begin(), sources.end(),
                   [source](const SourceCapability& known) { return known.name == source; });
  return found == sources.end() ? nullptr : &*found;
}

Capabilities ProbeCapabilities(const CapabilityProbeOptions& options) {
  return Prober(options).Probe();
}

}  // namespace ptarmigan
