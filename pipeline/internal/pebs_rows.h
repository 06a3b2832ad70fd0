// Rows of samples whose access the kernel described (Intel PEBS), for the `events` view. Columns are those of
// docs/commands.md.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "pipeline/internal/memory_rows.h"

namespace ptarmigan::internal {

class PebsRows final : public MemoryRows {
 public:
  // Further ones are printed as numbers.
  static constexpr size_t kCgroupsMax = size_t{1} << 20;

  using MemoryRows::MemoryRows;
  std::string_view Header() const override;
  void OnCgroup(const CgroupEvent& event) override;

 private:
  void AppendMemory(const CapturedSample& sample, const MemSample& memory) override;
  void AppendCgroup(const PebsRecord& record);

  absl::flat_hash_map<uint64_t, std::string> cgroups_;  // paths by id
};

}  // namespace ptarmigan::internal
