// What decoders of control-flow traces have in common, whoever made the trace: who ran on what code, and what became of it.
// PtDecoder (Intel PT) and CoreSightFlow use it.
//
// Plain values; not thread-safe while being changed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/address.h"
#include "model/code_image.h"
#include "model/control_flow.h"

namespace ptarmigan {

// Who ran from a moment on, on what code.
struct CodeOccupant {
  uint64_t since_ticks = 0;  // of the decoder's clock
  uint32_t owner = 0;
  const CodeImage* image = nullptr;  // null: not known, its packets have no image
};

// Of all streams that a decoder was given.
struct FlowStatistics {
  FlowBytes bytes;  // Sum() = bytes of all streams
  uint64_t segments = 0;
  uint64_t verified = 0;
  uint64_t suspect = 0;
  uint64_t bad = 0;
  uint64_t instructions = 0;
  uint64_t overflows = 0;
  uint64_t unknown_packets = 0;
  uint64_t segments_by_libipt = 0;  // Intel PT: that our own walker left to libipt
  // PtWalkerKind::kBoth: where they said different things first, and what; empty: nowhere.
  std::string first_difference;
  uint64_t errors = 0;
  bool unknown_cpu = false;  // Intel PT: no errata are applied
  struct MissingObject {
    std::string name;  // empty: nothing was mapped there
    uint64_t segments = 0;
    uint64_t bytes = 0;  // of trace that could not be decoded for it
    VirtAddr first_address;
  };
  std::vector<MissingObject> missing;  // by name
};

}  // namespace ptarmigan
