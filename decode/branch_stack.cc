#include "decode/branch_stack.h"

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
  return format;
}

BranchEntryCounts AppendBranchStack(const CapturedSample& sample, const BranchStackFormat& format,
                                    std::vector<BranchEdge>* edges) {
  BranchEntryCounts counts;
  const size_t kept_before = edges->size();
  edges->resize(kept_before + sample.branches.size());
  BranchEdge* next = edges->data() + kept_before;
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
  edges->resize(static_cast<size_t>(next - edges->data()));
  return counts;
}

}  // namespace ptarmigan
