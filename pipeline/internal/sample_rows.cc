#include "pipeline/internal/sample_rows.h"

#include <array>

namespace ptarmigan::internal {
namespace {

// PERF_BR_* by the names that perf prints (tools/perf/util/branch.c).
constexpr std::array<std::string_view, 14> kBranchTypes = {
    "",        "COND",   "UNCOND",    "IND",      "CALL", "IND_CALL", "RET",
    "SYSCALL", "SYSRET", "COND_CALL", "COND_RET", "ERET", "IRQ",      "SERROR"};
constexpr std::array<std::string_view, 8> kNewBranchTypes = {
    "FAULT_ALGN", "FAULT_DATA", "FAULT_INST", "ARCH_1", "ARCH_2", "ARCH_3", "ARCH_4", "ARCH_5"};
constexpr uint8_t kBranchTypeNoTransaction = 14;
constexpr uint8_t kBranchTypeExtended = 15;

std::string_view BranchTypeName(const BranchRecord& branch) {
  if (branch.type == kBranchTypeNoTransaction) return "NO_TX";
  if (branch.type == kBranchTypeExtended) {
    return branch.new_type < kNewBranchTypes.size() ? kNewBranchTypes[branch.new_type] : "";
  }
  return branch.type < kBranchTypes.size() ? kBranchTypes[branch.type] : "";
}

// cpu, pid, tid, time_ns, ip: each with the tab after it.
void AppendIdentity(const CapturedSample& sample, std::string* text) {
  const auto out = std::back_inserter(*text);
  const RecordIdentity& identity = sample.identity;
  if (identity.cpu != RecordIdentity::kNoCpu) fmt::format_to(out, "{}", identity.cpu);
  *text += '\t';
  if (identity.pid != -1 || identity.tid != -1) {
    fmt::format_to(out, "{}\t{}\t", identity.pid, identity.tid);
  } else {
    *text += "\t\t";
  }
  if (identity.has_time) fmt::format_to(out, "{}", identity.time_ns);
  *text += '\t';
  if (sample.has_ip) fmt::format_to(out, "0x{:x}", sample.ip.value);
  *text += '\t';
}

}  // namespace

void SampleRows::OnSample(const CapturedSample& sample) {
  if (sample.event < description_.events.size()) text_ += description_.events[sample.event].name;
  text_ += '\t';
  AppendIdentity(sample, &text_);
  Append("{}\t", sample.period);
  for (size_t i = 0; i < sample.chain.size(); ++i)
    Append("{}{:x}", i == 0 ? "" : ",", sample.chain[i]);
  text_ += '\n';
}

void BranchRows::OnSample(const CapturedSample& sample) {
  if (sample.event >= description_.events.size()) return;
  const EventAttr& attr = description_.events[sample.event].attr;
  const bool has_flags = (attr.branch_sample_type & kBranchNoFlags) == 0;
  const bool has_cycles = (attr.branch_sample_type & kBranchNoCycles) == 0;
  const BranchStackFormat format =
      BranchStackFormatOf(description_, description_.events[sample.event]);
  for (size_t i = 0; i < sample.branches.size(); ++i) {
    const BranchRecord& branch = sample.branches[i];
    AppendIdentity(sample, &text_);
    Append("{}\t0x{:x}\t0x{:x}\t", i, branch.from, branch.to);
    // Neither predicted nor mispredicted, no cycles, no speculation: the hardware does not tell.
    if (has_flags && (branch.mispredicted != 0 || branch.predicted != 0))
      Append("{}\t{}\t", +branch.mispredicted, +branch.predicted);
    else
      text_ += "\t\t";
    if (has_cycles && branch.cycles != 0) Append("{}", +branch.cycles);
    Append("\t{}\t", BranchTypeName(branch));
    if (branch.spec != 0) Append("{}", +branch.spec);
    text_ += '\t';
    if (has_flags)
      Append("{}\t{}\t", +branch.abort, +branch.in_transaction);
    else
      text_ += "\t\t";
    if (i < sample.branch_counters.size()) AppendCounters(sample.branch_counters[i], format);
    text_ += '\n';
  }
}

// One after the other where the recording says how they lie, else as they are. "+": at least so many.
void BranchRows::AppendCounters(uint64_t counters, const BranchStackFormat& format) {
  if (format.counters == 0) {
    Append("0x{:x}", counters);
    return;
  }
  for (unsigned i = 0; i < format.counters; ++i) {
    const BranchCounter counter = BranchCounterOf(counters, format, i);
    Append("{}{}{}", i == 0 ? "" : ",", counter.value, counter.is_saturated ? "+" : "");
  }
}

}  // namespace ptarmigan::internal
