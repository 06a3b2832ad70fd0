// Rows of AMD IBS op and fetch samples, for the `events` view. Columns are those of docs/commands.md.
#pragma once

#include <string_view>

#include "pipeline/internal/memory_rows.h"

namespace ptarmigan::internal {

class IbsRows final : public MemoryRows {
 public:
  using MemoryRows::MemoryRows;
  std::string_view Header() const override;

 private:
  // The PMU: "ibs_op/cnt_ctl=1/" is ibs_op.
  std::string_view EventName(std::string_view name) const override {
    return name.substr(0, name.find_first_of("/:"));
  }
  void AppendMemory(const CapturedSample& sample, const MemSample& memory) override;
  void AppendOp(const IbsOpRecord& record);
  void AppendFetch(const IbsFetchRecord& record);
  void AppendDescribed(const PebsRecord& record);
  void AppendAccess(const IbsOpRecord& record);
  void AppendKernelsWords(const CapturedSample& sample);
};

}  // namespace ptarmigan::internal
