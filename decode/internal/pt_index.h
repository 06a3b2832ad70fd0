// PtIndex: where an Intel PT stream can be entered: its PSB packets and what the header behind each says. Looks for
// nothing but the 16 bytes of a PSB, at the speed of memory, so it costs nothing beside decoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/byte_cursor.h"

namespace ptarmigan::internal {

constexpr size_t kPsbBytes = 16;

struct PtSyncPoint {
  uint64_t offset = 0;      // of the PSB
  uint64_t header_end = 0;  // behind its PSBEND; 0: the header is broken or cut off
  bool has_tsc = false;
  bool has_address = false;  // tracing was on (a FUP with an address)
  uint64_t tsc = 0;
  uint64_t address = 0;
};

// In order of offset.
std::vector<PtSyncPoint> IndexPt(Bytes trace);

// The size of the packet that `bytes` begins with; 0 if it is unknown or cut off. Packets as of SDM 083 (2024).
size_t PtPacketBytes(Bytes bytes);

}  // namespace ptarmigan::internal
