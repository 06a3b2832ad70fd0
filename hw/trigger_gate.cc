#include <algorithm>

#include "hw/trigger.h"

namespace ptarmigan {
namespace {

constexpr uint64_t kHourNs = uint64_t{3600} * 1'000'000'000;

uint64_t Since(uint64_t now_ns, uint64_t then_ns) {
  return now_ns > then_ns ? now_ns - then_ns : 0;
}

}  // namespace

std::string_view TriggerVerdictName(TriggerVerdict verdict) {
  switch (verdict) {
    case TriggerVerdict::kTake:
      return "taken";
    case TriggerVerdict::kShortHistory:
      return "too little history";
    case TriggerVerdict::kCoolingDown:
      return "cooling down";
    case TriggerVerdict::kTooMany:
      return "too many this hour";
    case TriggerVerdict::kDiskFull:
      return "disk limit";
  }
  return "";
}

TriggerVerdict TriggerGate::Decide(uint64_t now_ns, uint64_t bytes) const {
  if (limits_.bytes_max != 0 && (bytes_ > limits_.bytes_max || bytes > limits_.bytes_max - bytes_))
    return TriggerVerdict::kDiskFull;
  const auto lately = std::ranges::count_if(
      taken_ns_, [now_ns](uint64_t taken) { return Since(now_ns, taken) < kHourNs; });
  if (limits_.snapshots_per_hour != 0 &&
      static_cast<uint64_t>(lately) >= limits_.snapshots_per_hour)
    return TriggerVerdict::kTooMany;
  if (any_taken_ && Since(now_ns, last_taken_ns_) < static_cast<uint64_t>(limits_.cooldown.count()))
    return TriggerVerdict::kCoolingDown;
  if (Since(now_ns, since_ns_) < static_cast<uint64_t>(limits_.history.count()))
    return TriggerVerdict::kShortHistory;
  return TriggerVerdict::kTake;
}

TriggerVerdict TriggerGate::Ask(uint64_t now_ns, uint64_t bytes) {
  const TriggerVerdict verdict = Decide(now_ns, bytes);
  ++counts_[static_cast<size_t>(verdict)];
  return verdict;
}

void TriggerGate::Taken(uint64_t now_ns, uint64_t bytes) {
  any_taken_ = true;
  last_taken_ns_ = now_ns;
  since_ns_ = now_ns;
  bytes_ += bytes;
  if (limits_.snapshots_per_hour == 0) return;
  std::erase_if(taken_ns_, [now_ns](uint64_t taken) { return Since(now_ns, taken) >= kHourNs; });
  taken_ns_.push_back(now_ns);
}

}  // namespace ptarmigan
