// Capabilities: what this host offers for sampling, and for each thing that is missing one sentence why and one what
// to do about it. `doctor` prints it; tests that skip quote it.
//
// Found by trying (opening an event for a moment) and by reading /proc and /sys, never from version numbers. Files are
// read below roots and events opened through a kernel that tests replace. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "hw/perf_kernel.h"

namespace ptarmigan {

struct SourceCapability {
  std::string name;  // as --source takes it: "cpu-clock", "lbr", "pt", ...
  bool available = false;
  std::string reason;  // why not (or what limits it); empty if there is nothing to say
  std::string remedy;  // what to do; empty if nothing can be done or need be
};

struct KernelCapability {
  std::string release;
  std::string arch;
  std::string cpu;
  std::optional<bool> virtual_machine;  // x86: the CPU says so
  std::optional<bool>
      page_table_isolation;  // against Meltdown: Arm SPE's driver may refuse to work with it
  // Sysctls; absent where they cannot be read.
  std::optional<int64_t> perf_event_paranoid;
  std::optional<int64_t> max_sample_rate_hz;
  std::optional<int64_t> mlock_kib;
  std::optional<int64_t> max_stack_frames;
  std::optional<int64_t> kptr_restrict;
  std::optional<int64_t> nmi_watchdog;
};

struct BpfCapability {
  bool btf = false;                              // /sys/kernel/btf/vmlinux
  std::optional<int64_t> jit;                    // net.core.bpf_jit_enable
  std::optional<int64_t> unprivileged_disabled;  // kernel.unprivileged_bpf_disabled
};

// One of the process's capabilities(7) that matter here.
struct ProcessCapability {
  std::string name;  // "CAP_PERFMON"
  bool held = false;
  std::string cost;  // what is not possible without it
};

struct Capabilities {
  std::vector<SourceCapability> sources;
  KernelCapability kernel;
  BpfCapability bpf;
  std::vector<ProcessCapability> capabilities;

  // The source of that name; nothing if there is none.
  const SourceCapability* Find(std::string_view source) const;
};

struct CapabilityProbeOptions {
  std::string proc_root = "/proc";
  std::string sysfs_root = "/sys";
  // Sources that this program can record with; others that the machine has are reported as not available for that
  // reason.
  std::set<std::string, std::less<>> implemented = {"cpu-clock", "task-clock", "cycles", "lbr",
                                                    "brbe",      "pt",         "spe",    "ibs",
                                                    "pebs-mem",  "coresight"};
  PerfKernel* kernel = &HostKernel();
};

Capabilities ProbeCapabilities(const CapabilityProbeOptions& options = {});

}  // namespace ptarmigan
