// CoreSightFlow: CoreSight bytes and code in, control flow out, as PtDecoder does it for Intel PT.
//
//   pieces of a buffer ──▶ CoreSightDecoder ──elements by trace id──▶ one recorder per trace unit ──▶ FlowSegments
//
// The ticks of the result are nanoseconds of the recording's clock. A segment ends with its piece of the buffer (tracing
// starts afresh in each), where another thread begins to run, after an error, or when it has become long. Bad bytes are no
// error: they are counted.
//
// Checks of its own are few, since a unit's packets repeat little: a segment is bad if a packet in it was; else verified.
//
// One thread at a time; see CoreSightDecoder for OpenCSD's locking.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "decode/coresight_setup.h"
#include "decode/flow_decoder.h"
#include "decode/time_conversion.h"
#include "decode/trace_streams.h"
#include "model/control_flow.h"

namespace ptarmigan {

struct CoreSightStream {
  Bytes bytes;                // contiguous; outlives the call
  uint64_t begin_offset = 0;  // of bytes[0], for results
  uint32_t cpu = RecordIdentity::kNoCpu;
  // Rising, not overlapping. What lies between them was not written by a unit, and is padding. None: all is one piece.
  std::span<const TracePiece> pieces;
  // By since_ticks (ns), at least one; the first holds from the beginning.
  std::vector<CodeOccupant> occupants;
  // Who has this context id at a time (ns; 0: not known), where the unit traces thread ids; nothing if nobody that is known.
  std::function<std::optional<CodeOccupant>(uint32_t thread, uint64_t time_ns)> occupant_of;
};

struct CoreSightFlowOptions {
  bool want_path = false;   // FlowSegment::path
  bool want_calls = false;  // FlowSegment::calls
  bool want_contexts = true;
  std::optional<TimeConversion> time;  // without it segments have no time
};

class CoreSightFlow {
 public:
  // Ranges of a segment.
  static constexpr uint64_t kRangesMax = uint64_t{1} << 16;

  // kUnsupported if this program was built without OpenCSD, or if there is no trace unit that it knows.
  // `trace_ids` are those of the units by CPU.
  static Result<std::unique_ptr<CoreSightFlow>> Create(const CoreSightSetup& setup,
                                                       const std::map<uint32_t, uint8_t>& trace_ids,
                                                       const CoreSightFlowOptions& options);
  virtual ~CoreSightFlow() = default;

  // Decodes a stream and hands out its segments before it returns. The graph that the sink sees is one for all streams.
  virtual Status Decode(const CoreSightStream& stream, FlowSink& sink) = 0;
  // Of all streams so far.
  virtual const FlowStatistics& statistics() const = 0;
};

}  // namespace ptarmigan
