// One PERF_RECORD_SAMPLE's bytes into a reused CapturedSample.
#pragma once

#include "base/byte_cursor.h"
#include "decode/internal/event_index.h"
#include "model/event.h"

namespace ptarmigan::internal {

enum class SampleOutcome {
  kWhole,
  kPartial,  // a size inside the record does not fit into it: the fields before it are there, those after it not
  kBroken,  // not even the fixed fields are there
};

// `record` includes the header. Everything in `sample` but `event` is set anew; spans in it borrow `record`.
SampleOutcome ParseSample(Bytes record, const EventLayout& layout, std::endian order,
                          CapturedSample* sample);

// The sample_id trailer of any other record.
RecordIdentity ParseTrailer(Bytes record, const EventLayout& layout, std::endian order);

CpuMode CpuModeOf(uint16_t misc);

}  // namespace ptarmigan::internal
