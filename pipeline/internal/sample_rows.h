// Rows of plain samples and of branch stacks, for the `events` view.
#pragma once

#include <cstdint>
#include <string_view>

#include "decode/branch_stack.h"
#include "model/recording.h"
#include "pipeline/internal/event_rows.h"

namespace ptarmigan::internal {

// A sample a row.
class SampleRows : public EventRows {
 public:
  explicit SampleRows(const RecordingDescription& description) : description_(description) {}
  std::string_view Header() const override {
    return "event\tcpu\tpid\ttid\ttime_ns\tip\tperiod\tchain";
  }
  void OnSample(const CapturedSample& sample) override;

 private:
  const RecordingDescription& description_;
};

// A branch a row, newest first within its sample.
class BranchRows : public EventRows {
 public:
  explicit BranchRows(const RecordingDescription& description) : description_(description) {}
  std::string_view Header() const override {
    return "cpu\tpid\ttid\ttime_ns\tip\tidx\tfrom\tto\tmispredicted\tpredicted\tcycles\ttype\tspec"
           "\tabort\tin_tx\tcounters";
  }
  void OnSample(const CapturedSample& sample) override;

 private:
  void AppendCounters(uint64_t counters, const BranchStackFormat& format);

  const RecordingDescription& description_;
};

}  // namespace ptarmigan::internal
