// PtWalker: decodes one segment of an Intel PT trace. The seam behind which libipt stands, and a decoder of our own: a
// walker is given bytes from one PSB to the end of the next one's header, code, and who ran; it fills in FlowSegments and
// the graph of code that it found. It is never asked for the middle of a segment, and keeps what it learnt about code
// from one segment to the next.
//
// One per worker thread; not thread-safe. Code images and their caches are shared.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "decode/internal/flow_recorder.h"
#include "decode/internal/pt_index.h"
#include "decode/pt_decoder.h"
#include "model/control_flow.h"

namespace ptarmigan::internal {

struct PtSegmentTask {
  uint64_t number = 0;
  Bytes bytes;             // the segment's own, from its PSB on
  Bytes bytes_and_header;  // with the next segment's PSB and header, if they follow without a break
  uint64_t offset = 0;     // of the first byte in the stream
  PtSyncPoint begin;
  const PtSyncPoint* next = nullptr;  // null: nothing follows, or not without a break
  std::span<const CodeOccupant> occupants;
};

struct PtWalkCounts {
  uint64_t overflows = 0;
  uint64_t unknown_packets = 0;
  bool by_libipt = false;  // the walker left the segment to it
};

struct PtMissingCode {
  std::string_view object;  // lives as long as the image
  VirtAddr address;
  uint64_t bytes = 0;
};

// Reused from segment to segment.
struct PtWalkResult {
  std::vector<std::unique_ptr<FlowSegment>> parts;  // the first `size` of them are the result
  size_t size = 0;
  RecordedGraph graph;
  PtWalkCounts counts;
  std::string difference;  // between two walkers
  std::vector<PtMissingCode> missing;
  bool ended_well = false;     // the next segment goes on where this one ends
  bool began_tracing = false;  // tracing was on at the beginning
  bool ended_tracing = false;

  FlowSegment* NextPart();
  void Clear();
};

class PtWalker {
 public:
  virtual ~PtWalker() = default;
  virtual void Walk(const PtSegmentTask& task, PtWalkResult* result) = 0;
};

// What the workers of one decoder share. `Make` gives a walker for one more worker.
class PtWalkerFactory {
 public:
  virtual ~PtWalkerFactory() = default;
  virtual Result<std::unique_ptr<PtWalker>> Make() = 0;
  virtual bool knows_cpu() const = 0;
};

// By PtOptions::walker; only where there is libipt.
std::unique_ptr<PtWalkerFactory> MakePtWalkers(const PtConfig& config, const PtOptions& options);

}  // namespace ptarmigan::internal
