// What this machine is, from uname and /proc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/recording.h"

namespace ptarmigan::internal {

struct CpuIdentity {
  std::string vendor;       // "GenuineIntel", "AuthenticAMD", or Arm's implementer number ("0x41")
  std::string description;  // "model name"
  std::optional<bool> is_virtual;  // x86: CPUID says that a hypervisor is there
  std::string cpuid;               // perf's form on x86: "vendor,family,model,stepping"
};
CpuIdentity ParseCpuInfo(std::string_view cpuinfo);

// Numbers of the CPUs that are online, from <sysfs>/devices/system/cpu/online; {0} if that cannot be read.
std::vector<int32_t> OnlineCpus(const std::string& sysfs_root);

// hostname, os_release, arch, CPUs, memory, PMU names, byte order.
void DescribeMachine(const std::string& proc_root, const std::string& sysfs_root,
                     RecordingDescription* description);

}  // namespace ptarmigan::internal
