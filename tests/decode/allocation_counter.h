// How often this test program has called operator new.
#pragma once

#include <cstddef>

namespace ptarmigan {

size_t AllocationsSoFar();

}  // namespace ptarmigan
