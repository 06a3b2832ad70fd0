#include "hw/internal/machine.h"

#include <sys/utsname.h>

#include <algorithm>
#include <charconv>

#include "base/file.h"
#include "base/str_format.h"
#include "hw/event_spec.h"
#include "hw/internal/pmu_events.h"

namespace ptarmigan::internal {
namespace {

// The value of "key   : value" in a text like /proc/cpuinfo; the first one.
std::string ValueOf(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    const size_t colon = line.find_first_not_of(" \t");
    if (colon == std::string_view::npos || line[colon] != ':') continue;
    line.remove_prefix(colon + 1);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    return std::string(line);
  }
  return "";
}

}  // namespace

CpuIdentity ParseCpuInfo(std::string_view cpuinfo) {
  CpuIdentity identity;
  identity.vendor = ValueOf(cpuinfo, "vendor_id");
  identity.description = ValueOf(cpuinfo, "model name");
  if (!identity.vendor.empty()) {
    identity.cpuid = StrFormat("{},{},{},{}", identity.vendor, ValueOf(cpuinfo, "cpu family"),
                               ValueOf(cpuinfo, "model"), ValueOf(cpuinfo, "stepping"));
    if (const std::string flags = ValueOf(cpuinfo, "flags"); !flags.empty())
      identity.is_virtual = (' ' + flags + ' ').find(" hypervisor ") != std::string::npos;
  } else {
    identity.vendor = ValueOf(cpuinfo, "CPU implementer");
    const std::string part = ValueOf(cpuinfo, "CPU part");
    if (!part.empty())
      identity.description = StrFormat("Arm implementer {} part {}", identity.vendor, part);
  }
  return identity;
}

std::vector<int32_t> OnlineCpus(const std::string& sysfs_root) {
  auto text = ReadFile(JoinPath(sysfs_root, "devices/system/cpu/online"));
  std::vector<int32_t> cpus = text ? ParseCpuList(*text) : std::vector<int32_t>();
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

void DescribeMachine(const std::string& proc_root, const std::string& sysfs_root,
                     RecordingDescription* description) {
  utsname names = {};
  if (::uname(&names) == 0) {
    description->hostname = names.nodename;
    description->os_release = names.release;
    description->arch_name = names.machine;
  }
  description->arch = NativeArch();
  description->is_64_bit = sizeof(void*) == 8;
  if (auto cpuinfo = ReadFile(JoinPath(proc_root, "cpuinfo"))) {
    CpuIdentity identity = ParseCpuInfo(*cpuinfo);
    description->cpu_description = std::move(identity.description);
    description->cpuid = std::move(identity.cpuid);
  }
  if (auto meminfo = ReadFile(JoinPath(proc_root, "meminfo"))) {
    const std::string total = ValueOf(*meminfo, "MemTotal");
    std::from_chars(total.data(), total.data() + total.size(), description->memory_total_kib);
  }
  description->cpus_online = static_cast<uint32_t>(OnlineCpus(sysfs_root).size());
  auto present = ReadFile(JoinPath(sysfs_root, "devices/system/cpu/present"));
  description->cpus_available =
      present ? static_cast<uint32_t>(ParseCpuList(*present).size()) : description->cpus_online;
  for (const std::string& pmu : PmuNames(EventRoots{sysfs_root, ""})) {
    auto type = ReadFile(StrFormat("{}/bus/event_source/devices/{}/type", sysfs_root, pmu));
    uint32_t number = 0;
    if (type &&
        std::from_chars(type->data(), type->data() + type->size(), number).ec == std::errc()) {
      description->pmu_names[number] = pmu;
    }
  }
}

}  // namespace ptarmigan::internal
