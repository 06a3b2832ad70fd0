// EventColumn: how the samples of one perf event enter the profile, and their totals.
#pragma once

#include <cstddef>
#include <string>

#include "model/quality.h"
#include "model/recording.h"

namespace ptarmigan::internal {

struct EventColumn {
  bool is_clock = false;  // weights are nanoseconds
  bool is_dummy = false;
  // False: the periods do not say how much each sample stands for, so that there is no column of their sums.
  bool has_weight = true;
  std::string type;  // what pprof calls it
  EventTotal total;
};

// Of the event with this index; one that the description lacks gets a name by number.
//
// Of Arm SPE and AMD IBS the period counts what was chosen from (operations, cycles, fetches). It says nothing of the
// samples where the hardware filtered after choosing.
EventColumn MakeEventColumn(const RecordingDescription& description, size_t event);

}  // namespace ptarmigan::internal
