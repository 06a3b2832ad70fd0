#include "model/duration_counts.h"

#include <algorithm>
#include <cmath>

namespace ptarmigan {

uint64_t& DurationCounts::CountOf(uint32_t step) {
  if (counts_.empty()) {
    first_ = step;
    counts_.resize(1);
  } else if (step < first_) {
    counts_.insert(counts_.begin(), first_ - step, 0);
    first_ = step;
  } else if (step - first_ >= counts_.size()) {
    counts_.resize(step - first_ + 1);
  }
  return counts_[step - first_];
}

void DurationCounts::Add(uint64_t ns) {
  ++CountOf(StepOf(ns));
  ++count_;
  AddSum(ns, ns);
}

bool DurationCounts::AddStep(uint32_t step, uint64_t count) {
  if (step >= kStepsMax) return false;
  if (count == 0) return true;
  CountOf(step) += count;
  count_ += count;
  return true;
}

void DurationCounts::AddSum(uint64_t sum_ns, uint64_t max_ns) {
  sum_ns_ += sum_ns;
  max_ns_ = std::max(max_ns_, max_ns);
}

void DurationCounts::Add(const DurationCounts& other) {
  other.ForEachStep([this](uint32_t step, uint64_t count) { AddStep(step, count); });
  AddSum(other.sum_ns_, other.max_ns_);
}

double DurationCounts::MeanNs() const {
  return count_ == 0 ? 0 : static_cast<double>(sum_ns_) / static_cast<double>(count_);
}

uint64_t DurationCounts::QuantileNs(double share) const {
  const double wanted = std::ceil(share * static_cast<double>(count_));
  uint64_t seen = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (counts_[i] == 0 || static_cast<double>(seen) < wanted) continue;
    const auto step = static_cast<uint32_t>(first_ + i);
    const uint64_t lowest = LowestOf(step);
    return std::min(lowest + (HighestOf(step) - lowest) / 2, max_ns_);
  }
  return 0;
}

void DurationCounts::ForEachStep(
    const std::function<void(uint32_t step, uint64_t count)>& use) const {
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] != 0) use(static_cast<uint32_t>(first_ + i), counts_[i]);
  }
}

bool DurationCounts::operator==(const DurationCounts& other) const {
  // Neither has zeros at its ends.
  return count_ == other.count_ && sum_ns_ == other.sum_ns_ && max_ns_ == other.max_ns_ &&
         (counts_.empty() || first_ == other.first_) && counts_ == other.counts_;
}

}  // namespace ptarmigan
