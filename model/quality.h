// Quality: how much of what was captured can be trusted, beside the numbers themselves. Travels
// with a Profile (in pprof files as comments, docs/formats/pprof.md).
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ptarmigan {

// One perf event of the recording: every sample that was captured for it, whatever became of it.
struct EventTotal {
  std::string name;  // perf's name
  uint64_t samples = 0;
  uint64_t period_sum = 0;
  bool operator==(const EventTotal&) const = default;
};

struct Quality {
  uint64_t stacks_complete = 0;                // samples
  std::map<std::string, uint64_t> stacks_cut;  // StackEndName -> samples
  // What checking the call stacks of branch records gave (LbrCheckName) -> samples.
  std::map<std::string, uint64_t> lbr_checks;
  uint64_t frames_symbolized = 0;  // frames, weighted by samples
  // (object, reason) -> frames, weighted by samples
  std::map<std::pair<std::string, std::string>, uint64_t> frames_unsymbolized;
  // What became of the bytes of traces (AUX areas), each byte in one: "decoded", "padding", "after_error", …
  std::map<std::string, uint64_t> trace_bytes;

  bool empty() const {
    return stacks_complete == 0 && stacks_cut.empty() && lbr_checks.empty() &&
           frames_symbolized == 0 && frames_unsymbolized.empty() && trace_bytes.empty();
  }
  void Merge(const Quality& other) {
    stacks_complete += other.stacks_complete;
    frames_symbolized += other.frames_symbolized;
    for (const auto& [reason, count] : other.stacks_cut) stacks_cut[reason] += count;
    for (const auto& [check, count] : other.lbr_checks) lbr_checks[check] += count;
    for (const auto& [key, count] : other.frames_unsymbolized) frames_unsymbolized[key] += count;
    for (const auto& [fate, bytes] : other.trace_bytes) trace_bytes[fate] += bytes;
  }
  bool operator==(const Quality&) const = default;
};

}  // namespace ptarmigan
