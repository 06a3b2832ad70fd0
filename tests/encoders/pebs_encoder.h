// Memory samples as Intel's PEBS and the kernel describe them, for tests: facts chosen freely, the words of the sample,
// and the record that a decoder has to make of them.
#pragma once

#include <random>

#include "decode/pebs.h"
#include "model/event.h"
#include "model/event_attr.h"

namespace ptarmigan {

struct PebsFacts {
  CapturedSample sample;  // weight, data_src, addresses, page sizes, cgroup as `attr` asks for them
  EventAttr attr;
  PebsRecord truth;
};

// Any combination of sample bits, operation, place (new and old way of saying it), snoop, TLB, lock.
PebsFacts RandomPebs(std::mt19937_64& random);

}  // namespace ptarmigan
