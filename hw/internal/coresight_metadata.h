// What AUXTRACE_INFO says of each CPU's trace unit: the registers that a decoder needs, as the CoreSight drivers show them in
// sysfs (<pmu>/cpu<n>/{mgmt,trcidr}) or as they follow from the event's config (tools/perf/arch/arm/util/cs-etm.c and
// Documentation/trace/coresight, Linux 6.18).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hw/event_spec.h"
#include "model/event_attr.h"

namespace ptarmigan::internal {

// The private words of a record of version 1 for these CPUs; those without a trace unit are left out.
std::vector<uint64_t> CoreSightMetadata(std::string_view pmu, const EventAttr& attr,
                                        bool is_snapshot, const std::vector<int32_t>& cpus,
                                        const EventRoots& roots);

// CPUs that have a trace unit.
std::vector<int32_t> CoreSightCpus(std::string_view pmu, const std::vector<int32_t>& cpus,
                                   const EventRoots& roots);

}  // namespace ptarmigan::internal
