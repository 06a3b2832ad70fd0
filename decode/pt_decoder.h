// PtDecoder: Intel PT bytes and code in, control flow out, segment by segment, on several threads.
//
//   bytes   ├──┤PSB+ ... ┤PSB+ ... ┤PSB+ ...        PtIndex finds the PSBs
//   workers      ├─ 0 ──▶├─ 1 ──▶├─ 2 ──▶           each segment is walked by itself, up to the address that the next
//   sink          0        1        2               PSB+ names; results come in order and are equal for any number of
//                                                   threads
//
// Two decoders stand behind it: libipt's block decoder, and a faster one of our own (PtOptions::walker). Bad bytes are no
// error: they are counted in FlowBytes, and what follows the next PSB is decoded again. It never hangs: every segment has
// a budget. Built without libipt it answers kUnsupported.
//
// Packets: Intel SDM volume 3, chapter "Intel Processor Trace".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "decode/flow_decoder.h"
#include "decode/pt_config.h"
#include "model/control_flow.h"

namespace ptarmigan {

// One AUX stream (or one snapshot, or one sample's window of it).
struct PtStream {
  Bytes bytes;                // contiguous; outlives the call
  uint64_t begin_offset = 0;  // of bytes[0], for results
  // By since_ticks, at least one; the first holds from the beginning. Changes take place where tracing is enabled again, or
  // where the owner stays the same and only its image changes.
  std::vector<CodeOccupant> occupants;
  // Offsets in `bytes` at which the hardware or kernel lost data (AUX records TRUNCATED, PARTIAL, COLLISION): nothing is
  // continued across them. Rising.
  std::vector<uint64_t> breaks;
  // Only segments that begin here or later are reported, and only from there on: the part of a window that an earlier one
  // already covered. Earlier ones are still walked when needed.
  uint64_t report_from = 0;
};

// How segments are walked; results are the same.
enum class PtWalkerKind : uint8_t {
  kLibipt,
  // By a walker of our own. It leaves segments to libipt in which it meets transactions, PTWRITE packets, changes of address
  // space, power events, event trace, TraceStop, overflows on processors whose errata make them odd, 16-bit code, code that is
  // missing, and whatever does not fit.
  kFast,
  kBoth,  // one after the other; where they say different things is told (FlowStatistics::first_difference)
};

struct PtOptions {
  size_t threads = 1;
  PtWalkerKind walker = PtWalkerKind::kFast;
  bool want_path = false;   // FlowSegment::path
  bool want_calls = false;  // FlowSegment::calls
  bool want_contexts = true;
  bool want_time = true;
  // Of a stream; the oldest whole segments beyond it are dropped and counted.
  uint64_t bytes_max = uint64_t{4} << 30;
  uint64_t code_cache_bytes_max = uint64_t{256} << 20;  // what libipt may keep mapped
  // Blocks that may follow each other without a packet.
  uint32_t packetless_blocks_max = 100000;
};

class PtDecoder {
 public:
  // kUnsupported if this program was built without libipt.
  static Result<std::unique_ptr<PtDecoder>> Create(const PtConfig& config,
                                                   const PtOptions& options);
  virtual ~PtDecoder() = default;

  // Decodes a stream and hands out its segments in order before it returns. The graph that the sink sees is one for all
  // streams of this decoder. Fails only if memory or descriptors run out.
  virtual Status Decode(const PtStream& stream, FlowSink& sink) = 0;
  // Of all streams so far.
  virtual const FlowStatistics& statistics() const = 0;
};

// One sentence for people whose program was built without libipt.
std::string_view PtUnsupportedSentence();

}  // namespace ptarmigan
