// The `top` view: self and total of every function, for every sample type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "model/profile.h"
#include "query/entities.h"

namespace ptarmigan {

struct TopRow {
  EntityId entity = 0;
  std::vector<int64_t> self;   // one per sample type
  std::vector<int64_t> total;  // each sample once, however often the function stands in its stack
};

struct TopTable {
  std::vector<int64_t> total;  // of the selected samples, per sample type
  std::vector<TopRow> rows;    // by self of the ordering type, then total, then name
  size_t rows_cut = 0;         // what the limit left out
};

struct TopOptions {
  size_t order_by = 0;  // index of a sample type
  size_t rows_max = SIZE_MAX;
};

TopTable MakeTop(const Profile& profile, const EntityTable& entities,
                 const std::vector<bool>& selected, const TopOptions& options);

}  // namespace ptarmigan
