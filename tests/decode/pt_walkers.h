// What our own walker and libipt's say of the same streams.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decode/pt_decoder.h"

namespace ptarmigan {

struct PtWalkerComparison {
  uint64_t segments = 0;
  uint64_t by_libipt = 0;  // that our own walker left to it
  // libipt's errors depend on what it has seen: segments that both call bad, but not in the same words, and those that it
  // calls bad unless it begins with them.
  uint64_t other_errors = 0;
  std::string difference;  // the first other one; empty: none

  void Add(const PtWalkerComparison& other);
  std::string Text() const;
};

PtWalkerComparison ComparePtWalkers(const PtConfig& config, const std::vector<PtStream>& streams,
                                    PtOptions options);
// With and without times, and with all that may be asked for.
PtWalkerComparison ComparePtWalkersInAllWays(const PtConfig& config,
                                             const std::vector<PtStream>& streams);

}  // namespace ptarmigan
