// Playback scripts of the software PMU (softpmu_abi.h): written from traces, so that no piece ends inside a packet, and read
// again for what a profiler has to get of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ptarmigan {

class SoftPmuScript {
 public:
  // `flags`: SOFTPMU_FILL, SOFTPMU_PATIENT.
  explicit SoftPmuScript(uint32_t flags = 0);

  SoftPmuScript& Data(std::string_view piece);
  // The counter's low `bytes` bytes are put at `offset` of the next piece.
  struct LiveTime {
    uint32_t offset = 0;
    uint32_t bytes = 0;
  };
  SoftPmuScript& Time(const LiveTime& time);
  SoftPmuScript& Sync();
  SoftPmuScript& Wait(uint64_t wait_ns);
  SoftPmuScript& Flags(uint64_t aux_flags);
  SoftPmuScript& Rate(uint64_t bytes_per_second);
  SoftPmuScript& Gap();
  SoftPmuScript& Task(std::string_view name);
  // The place of the next op, for LoopTo.
  uint32_t here() const { return static_cast<uint32_t>(bytes_.size()); }
  struct Loop {
    uint32_t target = 0;
    uint32_t times = 0;  // 0: for ever
  };
  SoftPmuScript& LoopTo(const Loop& loop);

  const std::string& bytes() const { return bytes_; }

 private:
  SoftPmuScript& Op(uint16_t code, std::string_view payload);
  SoftPmuScript& Number(uint16_t code, uint64_t value);

  std::string bytes_;
};

struct PtScriptOptions {
  size_t piece_bytes = 64;  // about
  bool live_time = false;   // TSC packets get the time at which they are played
  bool syncs = true;        // a PSB is a place to begin at
};
// Appends a trace in pieces of whole packets. Bytes before the first packet and from an unknown one to the next PSB are left
// out; returns how many.
uint64_t AppendPt(std::string_view trace, const PtScriptOptions& options, SoftPmuScript* script);

// Appends records of `record_bytes` bytes each. kInvalidInput if bytes are left over.
Status AppendRecords(std::string_view records, size_t record_bytes, SoftPmuScript* script);

// The pieces of a script in order, each loop once.
std::vector<std::string_view> PiecesOf(std::string_view script);
// Put together.
std::string BytesOf(std::string_view script);

}  // namespace ptarmigan
