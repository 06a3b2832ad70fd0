#include "decode/branch_stack.h"

#include <charconv>
#include <string>

#include "base/check.h"

namespace ptarmigan {
namespace {

// Bits that choose kinds of branches. None of them set means all (the kernel then records any).
constexpr uint64_t kKindBits = kBranchAnyCall | kBranchAnyReturn | kBranchIndirectCall |
                               kBranchAbortTx | kBranchInTx | kBranchNoTx | kBranchConditional |
                               kBranchCallStack | kBranchIndirectJump | kBranchCall;
constexpr uint64_t kTransactionBits = kBranchAbortTx | kBranchInTx | kBranchNoTx;

// PERF_BR_SPEC_WRONG_PATH
constexpr uint8_t kSpecWrongPath = 1;

// perf makes branch stacks from CoreSight traces with every entry marked as predicted (tools/perf/util/cs-etm.c), though
// the trace does not tell. Its events choose no kind of branch, which BRBE's cannot do without choosing ANY.
bool IsMadeFromCoresight(const RecordingDescription& description, const EventAttr& attr) {
  const bool is_arm = description.arch == Arch::kArm64 || description.arch == Arch::kArm;
  return is_arm && (attr.branch_sample_type & (kBranchAny | kKindBits)) == 0;
}

// What the PMU of an event says under `name`; 0 where it says nothing.
uint64_t CapabilityOf(const RecordingDescription& description, const EventAttr& attr,
                      const std::string& name) {
  // Where processors differ, generic events carry their PMU's type in the upper half (PERF_PMU_TYPE_SHIFT).
  const bool is_generic = attr.type == kPerfTypeHardware || attr.type == kPerfTypeHwCache;
  const uint32_t type = is_generic ? static_cast<uint32_t>(attr.config >> 32) : attr.type;
  const auto pmu = description.pmu_names.find(type);
  const auto value_of = [&](const std::string& pmu_name) -> uint64_t {
    const auto caps = description.pmu_caps.find(pmu_name);
    if (caps == description.pmu_caps.end()) return 0;
    const auto found = caps->second.find(name);
    if (found == caps->second.end()) return 0;
    uint64_t value = 0;
    const char* end = found->second.data() + found->second.size();
    const auto [rest, error] = std::from_chars(found->second.data(), end, value);
    return error == std::errc() && rest == end ? value : 0;
  };
  if (pmu != description.pmu_names.end() && description.pmu_caps.contains(pmu->second)) {
    return value_of(pmu->second);
  }
  return value_of("cpu");
}

}  // namespace

BranchStackFormat BranchStackFormatOf(const RecordingDescription& description,
                                      const EventDescription& event) {
  const EventAttr& attr = event.attr;
  BranchStackFormat format;
  if (!attr.Samples(kSampleBranchStack)) return format;
  const uint64_t chosen = attr.branch_sample_type;
  format.mode =
      (chosen & kBranchCallStack) != 0 ? BranchStackMode::kCallStack : BranchStackMode::kFlow;
  const bool any = (chosen & kBranchAny) != 0 || (chosen & kKindBits) == 0;
  format.every_branch =
      format.mode == BranchStackMode::kFlow && any && (chosen & kTransactionBits) == 0;
  format.has_outcome = (chosen & kBranchNoFlags) == 0 && !IsMadeFromCoresight(description, attr);
  format.has_cycles = (chosen & kBranchNoCycles) == 0;
  constexpr uint64_t kEntriesMax = 1U << 16;
  const uint64_t entries = CapabilityOf(description, attr, "branches");
  if (entries <= kEntriesMax) format.entries_max = static_cast<size_t>(entries);
  if ((chosen & kBranchCounters) != 0) {
    const uint64_t counters = CapabilityOf(description, attr, "branch_counter_nr");
    const uint64_t bits = CapabilityOf(description, attr, "branch_counter_width");
    if (counters > 0 && bits > 0 && counters <= 64 && bits < 64 && counters * bits <= 64) {
      format.counters = static_cast<unsigned>(counters);
      format.counter_bits = static_cast<unsigned>(bits);
    }
  }
  return format;
}

BranchCounter BranchCounterOf(uint64_t counters, const BranchStackFormat& format, unsigned index) {
  const uint64_t most = (uint64_t{1} << format.counter_bits) - 1;
  const uint64_t value = counters >> index * format.counter_bits & most;
  return {.value = value, .is_saturated = value == most};
}

BranchEntryCounts ReadBranchStack(const CapturedSample& sample, const BranchStackFormat& format,
                                  std::span<BranchEdge> edges) {
  CHECK(edges.size() >= sample.branches.size());
  BranchEntryCounts counts;
  BranchEdge* next = edges.data();
  for (const BranchRecord& branch : sample.branches) {
    if (branch.spec == kSpecWrongPath) {
      ++counts.wrong_path;
      continue;
    }
    const bool has_from = branch.from != 0;
    const bool has_to = branch.to != 0;
    if (!has_from && !has_to) {
      ++counts.empty;
      continue;
    }
    ++(has_from && has_to ? counts.whole : counts.half);
    next->from = branch.from;
    next->to = branch.to;
    next->cycles = format.has_cycles ? static_cast<uint16_t>(branch.cycles) : uint16_t{0};
    next->outcome = !format.has_outcome        ? BranchOutcome::kUnknown
                    : branch.mispredicted != 0 ? BranchOutcome::kMispredicted
                    : branch.predicted != 0    ? BranchOutcome::kPredicted
                                               : BranchOutcome::kUnknown;
    next->is_return = IsReturnType(branch);
    ++next;
  }
  return counts;
}

BranchEntryCounts AppendBranchStack(const CapturedSample& sample, const BranchStackFormat& format,
                                    std::vector<BranchEdge>* edges) {
  const size_t before = edges->size();
  edges->resize(before + sample.branches.size());
  const BranchEntryCounts counts =
      ReadBranchStack(sample, format, std::span(*edges).subspan(before));
  edges->resize(before + counts.kept());
  return counts;
}

}  // namespace ptarmigan
