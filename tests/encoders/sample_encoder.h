// One PERF_RECORD_SAMPLE for tests, header included, with the fields that `sample_type` asks for, in the kernel's order
// (include/uapi/linux/perf_event.h). Read values, registers, stacks and branches are not written: sample_type must not
// ask for them.
#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "model/event.h"

namespace ptarmigan {

std::string EncodeSample(const CapturedSample& sample, uint64_t sample_type, uint16_t misc = 2,
                         std::endian order = std::endian::little);

}  // namespace ptarmigan
