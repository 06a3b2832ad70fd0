#include "model/loss_ledger.h"

#include "base/str_format.h"

namespace ptarmigan {
namespace {

constexpr std::array kStageNames = {
#define PTARMIGAN_X(name, text) std::string_view(text),
    PTARMIGAN_LOSS_STAGES(PTARMIGAN_X)
#undef PTARMIGAN_X
};
constexpr std::array kReasonNames = {
#define PTARMIGAN_X(name, text) std::string_view(text),
    PTARMIGAN_LOSS_REASONS(PTARMIGAN_X)
#undef PTARMIGAN_X
};

}  // namespace

std::string_view LossStageName(LossStage stage) { return kStageNames[static_cast<size_t>(stage)]; }
std::string_view LossReasonName(LossReason reason) {
  return kReasonNames[static_cast<size_t>(reason)];
}

std::string_view LossUnitName(LossUnit unit) {
  switch (unit) {
    case LossUnit::kSamples:
      return "samples";
    case LossUnit::kRecords:
      return "records";
    case LossUnit::kBytes:
      return "bytes";
  }
  return "";
}

void LossLedger::Add(uint64_t* sum, uint64_t count) {
  if (__builtin_add_overflow(*sum, count, sum)) *sum = UINT64_MAX;
}

void LossLedger::Lose(LossStage stage, LossReason reason, uint64_t count, LossUnit unit) {
  if (count > 0) Add(&lost_[{unit, stage, reason}], count);
}

uint64_t LossLedger::Lost(LossUnit unit) const {
  uint64_t sum = 0;
  for (const auto& [key, count] : lost_) {
    if (std::get<0>(key) == unit) Add(&sum, count);
  }
  return sum;
}

uint64_t LossLedger::Lost(LossStage stage, LossReason reason, LossUnit unit) const {
  const auto found = lost_.find({unit, stage, reason});
  return found == lost_.end() ? 0 : found->second;
}

std::vector<LossEntry> LossLedger::Entries() const {
  std::vector<LossEntry> entries;
  entries.reserve(lost_.size());
  for (const auto& [key, count] : lost_) {
    entries.push_back({std::get<1>(key), std::get<2>(key), std::get<0>(key), count});
  }
  return entries;
}

void LossLedger::Merge(const LossLedger& other) {
  Add(&captured_, other.captured_);
  Add(&kept_, other.kept_);
  for (const auto& [key, count] : other.lost_) Add(&lost_[key], count);
}

std::string LossLedger::Sentence() const {
  std::string sentence;
  for (const LossUnit unit : {LossUnit::kSamples, LossUnit::kRecords, LossUnit::kBytes}) {
    const uint64_t sum = Lost(unit);
    if (sum == 0) continue;
    if (!sentence.empty()) sentence += "; ";
    sentence += StrFormat("{} {} {} (", sum, LossUnitName(unit),
                          unit == LossUnit::kSamples ? "lost" : "skipped");
    bool first = true;
    for (const LossEntry& entry : Entries()) {
      if (entry.unit != unit) continue;
      sentence += StrFormat("{}{} {} {}", first ? "" : ", ", LossStageName(entry.stage),
                            LossReasonName(entry.reason), entry.count);
      first = false;
    }
    sentence += ")";
  }
  return sentence;
}

}  // namespace ptarmigan
