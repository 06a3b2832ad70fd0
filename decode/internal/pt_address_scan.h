// PtAddressScan: the addresses that the packets of a segment name, whatever the code between them was: where flow can be
// taken up again behind code that is missing. SDM volume 3, "Target IP (TIP) Packet": addresses leave out what they share
// with the one before.
//
// Forward only; what it has passed is not read again. One per worker.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/byte_cursor.h"

namespace ptarmigan::internal {

class PtAddressScan {
 public:
  // Where execution goes on: the target of an indirect branch or event (TIP), or where tracing was enabled (TIP.PGE).
  struct Landing {
    size_t end_offset = 0;  // behind its packet
    uint64_t address = 0;
    bool enables = false;
    bool is_64_bit = true;  // by the last mode packet
  };

  // `bytes` begin with a PSB and outlive the scan.
  void Begin(Bytes bytes);
  // The first one whose packet begins at `offset` or later; nothing if there is none. Offsets must not fall.
  std::optional<Landing> Next(size_t offset);

 private:
  Bytes bytes_;
  size_t at_ = 0;
  uint64_t last_address_ = 0;
  bool is_64_bit_ = true;
};

// A PSB with the least of a header, for execution at `address`: what a decoder begins with.
constexpr size_t kPtEntryBytes = 27;
std::array<uint8_t, kPtEntryBytes> PtEntryAt(uint64_t address, bool is_64_bit);

}  // namespace ptarmigan::internal
