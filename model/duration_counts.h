// DurationCounts: how often something took how long, in little memory: durations are counted by their leading binary digits, so
// what is read back is off by at most 1/32 of its value. Sum and maximum are exact.
//
// A plain value; not thread-safe while being changed.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace ptarmigan {

class DurationCounts {
 public:
  // Significant binary digits that are kept; smaller durations are exact.
  static constexpr unsigned kDigits = 5;
  static constexpr uint32_t kStepsPerOctave = 1 << (kDigits - 1);
  // Steps of all durations: 0..31, then 16 for each further octave.
  static constexpr uint32_t kStepsMax = (64 - kDigits + 2) * kStepsPerOctave;

  static constexpr uint32_t StepOf(uint64_t ns) {
    const unsigned width = static_cast<unsigned>(std::bit_width(ns));
    if (width <= kDigits) return static_cast<uint32_t>(ns);
    const unsigned shift = width - kDigits;
    return shift * kStepsPerOctave + static_cast<uint32_t>(ns >> shift);
  }
  // The shortest and the longest duration of a step.
  static constexpr uint64_t LowestOf(uint32_t step) {
    if (step < 2 * kStepsPerOctave) return step;
    const uint32_t shift = step / kStepsPerOctave - 1;
    return uint64_t{step - shift * kStepsPerOctave} << shift;
  }
  static constexpr uint64_t HighestOf(uint32_t step) {
    if (step < 2 * kStepsPerOctave) return step;
    return LowestOf(step) + (uint64_t{1} << (step / kStepsPerOctave - 1)) - 1;
  }

  void Add(uint64_t ns);
  void Add(const DurationCounts& other);
  // `count` durations of a step, beside what sum and maximum say (of a file). False, and nothing is added, if there is no such
  // step.
  bool AddStep(uint32_t step, uint64_t count);
  void AddSum(uint64_t sum_ns, uint64_t max_ns);

  bool empty() const { return count_ == 0; }
  uint64_t count() const { return count_; }
  uint64_t sum_ns() const { return sum_ns_; }
  uint64_t max_ns() const { return max_ns_; }
  double MeanNs() const;
  // What at least `share` (0..1) of them do not exceed: the middle of a step, or the maximum if that is less. 0 if empty.
  uint64_t QuantileNs(double share) const;
  // Steps with a count, rising.
  void ForEachStep(const std::function<void(uint32_t step, uint64_t count)>& use) const;
  // The same durations.
  bool operator==(const DurationCounts& other) const;

 private:
  uint64_t& CountOf(uint32_t step);

  uint32_t first_ = 0;            // step of counts_[0]
  std::vector<uint64_t> counts_;  // by step
  uint64_t count_ = 0;
  uint64_t sum_ns_ = 0;
  uint64_t max_ns_ = 0;
};

}  // namespace ptarmigan
