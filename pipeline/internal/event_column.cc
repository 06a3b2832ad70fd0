#include "pipeline/internal/event_column.h"

#include <string_view>

#include "base/str_format.h"

namespace ptarmigan::internal {
namespace {

// drivers/perf/arm_spe_pmu.c, Linux 7.2: filters by kind of operation and their masks, by event, by latency, by absence
// of events, by data source.
bool SpeFilters(const EventAttr& attr) {
  constexpr uint64_t kKindFilters = uint64_t{0x1f7} << 32;  // config 32-34 and 36-40
  constexpr uint64_t kMinimumLatency = 0xfff;
  return (attr.config & kKindFilters) != 0 || attr.config1 != 0 ||
         (attr.config2 & kMinimumLatency) != 0 || attr.config3 != 0;
}

// arch/x86/events/amd/ibs.c, Linux 7.2
constexpr uint64_t kIbsOpCountsOps = uint64_t{1} << 19;        // cnt_ctl
constexpr uint64_t kIbsOpOnlyL3Misses = uint64_t{1} << 16;     // l3missonly
constexpr uint64_t kIbsFetchOnlyL3Misses = uint64_t{1} << 59;  // l3missonly

void DescribeWeight(std::string_view pmu, const EventAttr& attr, EventColumn* column) {
  if (pmu.starts_with("arm_spe")) {
    column->type = "ops";
    column->has_weight = !SpeFilters(attr);
  } else if (pmu == "ibs_op") {
    column->type = (attr.config & kIbsOpCountsOps) != 0 ? "ops" : "cycles";
    column->has_weight = (attr.config & kIbsOpOnlyL3Misses) == 0;
  } else if (pmu == "ibs_fetch") {
    column->type = "fetches";
    column->has_weight = (attr.config & kIbsFetchOnlyL3Misses) == 0;
  }
}

}  // namespace

EventColumn MakeEventColumn(const RecordingDescription& description, size_t event) {
  EventColumn column;
  if (event >= description.events.size()) {
    column.total.name = column.type = StrFormat("event_{}", event);
    return column;
  }
  const EventDescription& described = description.events[event];
  column.total.name = column.type = described.name;
  column.is_clock = IsClockEvent(described.attr);
  column.is_dummy = IsDummyEvent(described.attr);
  const auto pmu = description.pmu_names.find(described.attr.type);
  if (pmu != description.pmu_names.end()) DescribeWeight(pmu->second, described.attr, &column);
  return column;
}

}  // namespace ptarmigan::internal
