#include "pipeline/event_table.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

namespace ptarmigan {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;

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

class TableSink : public EventSink {
 public:
  TableSink(const RecordingDescription& description, EventKind kind)
      : description_(description), kind_(kind) {
    text_ =
        kind == EventKind::kBranch
            ? "cpu\tpid\ttid\ttime_"
              "ns\tip\tidx\tfrom\tto\tmispredicted\tpredicted\tcycles\ttype\tspec\tabort\tin_tx\n"
            : "event\tcpu\tpid\ttid\ttime_ns\tip\tperiod\tchain\n";
  }

  void OnSample(const CapturedSample& sample) override {
    if (kind_ == EventKind::kBranch) {
      AppendBranches(sample);
    } else {
      AppendSample(sample);
    }
  }
  std::string& text() { return text_; }

 private:
  template <typename... Args>
  void Append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  void AppendIdentity(const CapturedSample& sample) {
    const RecordIdentity& identity = sample.identity;
    if (identity.cpu != RecordIdentity::kNoCpu) Append("{}", identity.cpu);
    text_ += '\t';
    if (identity.pid != -1 || identity.tid != -1)
      Append("{}\t{}\t", identity.pid, identity.tid);
    else
      text_ += "\t\t";
    if (identity.has_time) Append("{}", identity.time_ns);
    text_ += '\t';
    if (sample.has_ip) Append("0x{:x}", sample.ip.value);
    text_ += '\t';
  }
  void AppendSample(const CapturedSample& sample) {
    if (sample.event < description_.events.size()) text_ += description_.events[sample.event].name;
    text_ += '\t';
    AppendIdentity(sample);
    Append("{}\t", sample.period);
    for (size_t i = 0; i < sample.chain.size(); ++i)
      Append("{}{:x}", i == 0 ? "" : ",", sample.chain[i]);
    text_ += '\n';
  }
  void AppendBranches(const CapturedSample& sample) {
    if (sample.event >= description_.events.size()) return;
    const EventAttr& attr = description_.events[sample.event].attr;
    const bool has_flags = (attr.branch_sample_type & kBranchNoFlags) == 0;
    const bool has_cycles = (attr.branch_sample_type & kBranchNoCycles) == 0;
    for (size_t i = 0; i < sample.branches.size(); ++i) {
      const BranchRecord& branch = sample.branches[i];
      AppendIdentity(sample);
      Append("{}\t0x{:x}\t0x{:x}\t", i, branch.from, branch.to);
      if (has_flags)
        Append("{:d}\t{:d}\t", branch.mispredicted, branch.predicted);
      else
        text_ += "\t\t";
      if (has_cycles) Append("{}", branch.cycles);
      Append("\t{}\t{}\t", BranchTypeName(branch), branch.spec);
      if (has_flags)
        Append("{:d}\t{:d}\n", branch.abort, branch.in_transaction);
      else
        text_ += "\t\n";
    }
  }

  const RecordingDescription& description_;
  EventKind kind_;
  std::string text_;
};

EventKind ChooseKind(const RecordingDescription& description) {
  for (const EventDescription& event : description.events) {
    if (event.attr.Samples(kSampleBranchStack)) return EventKind::kBranch;
  }
  return EventKind::kSample;
}

}  // namespace

Status WriteEventTable(EventSource& source, EventKind kind,
                       const std::function<Status(std::string_view)>& write) {
  if (kind == EventKind::kAny) kind = ChooseKind(source.description());
  TableSink sink(source.description(), kind);
  for (;;) {
    Result<PollOutcome> outcome = source.Poll(sink);
    const bool ended = !outcome || *outcome == PollOutcome::kEnd;
    if (ended || sink.text().size() >= kPieceBytes) {
      TRY(write(sink.text()));
      sink.text().clear();
    }
    if (!outcome) return std::move(outcome).error();
    if (ended) return OkStatus();
  }
}

}  // namespace ptarmigan
