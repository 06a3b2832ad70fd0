// PtFastPackets: the packets of a segment that tell of flow, one after the other, each with what leads up to it: timing and
// padding before it are passed, a FUP is joined with what it belongs to. SDM volume 3, chapter "Intel Processor Trace".
//
// What a walker of its own does not follow is kOdd: transactions, PTWRITE, power, paging, event trace, TraceStop, changes of
// the mode of execution, whatever is unknown or cut off or does not fit. One per worker.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/byte_cursor.h"

namespace ptarmigan::internal {

struct PtFastPacket {
  enum class Kind : uint8_t {
    kBits,        // TNT
    kTarget,      // TIP
    kInterrupt,   // FUP, TIP: before the instruction at `from`, execution went on at `address`
    kStopAt,      // FUP, TIP.PGD: before the instruction at `from`, tracing went off
    kStop,        // TIP.PGD
    kStart,       // TIP.PGE; it may have a mode
    kOverflow,    // OVF; with a FUP it has an address
    kRatio,       // CBR
    kNextHeader,  // PSB+ of the next segment, with an address
    kEnd,
    kOdd,
  };
  Kind kind = Kind::kEnd;
  bool has_address = false;
  bool has_mode = false;
  bool is_64_bit = true;  // by a mode packet, of kStart and kNextHeader
  uint8_t states = 0;     // that kNextHeader tells of: packets that libipt makes events of
  size_t offset = 0;      // where libipt waits until it needs the packet
  size_t end = 0;         // behind it
  uint64_t address = 0;
  uint64_t from = 0;
  uint64_t bits = 0;  // from the top, oldest first; a 1 behind the last

  bool is_event() const {
    return kind != Kind::kBits && kind != Kind::kTarget && kind < Kind::kEnd;
  }
};

class PtFastPackets {
 public:
  // `bits` that are used up.
  static constexpr uint64_t kNoBits = uint64_t{1} << 63;

  // Errata by which overflows are not what they seem: then they are kOdd.
  explicit PtFastPackets(bool odd_overflows) : odd_overflows_(odd_overflows) {}

  // Of a segment's own header.
  struct Header {
    bool is_plain = false;  // can be followed from here on
    bool has_address = false;
    bool is_64_bit = true;
    uint64_t address = 0;
  };
  // `bytes` begin with a PSB and outlive the walk; the next segment's header begins at `own_bytes`.
  Header Begin(Bytes bytes, size_t own_bytes);
  void Next(PtFastPacket* packet);

 private:
  // Of a mode packet. False if it is of something else, or of 16-bit code.
  bool ReadExecutionMode(size_t at, bool* is_64_bit) const;
  Header ReadHeader(size_t* at, uint8_t* states);
  bool ReadAddress(size_t at, size_t* size, bool* has_address);
  void NextExtended(size_t at, PtFastPacket* packet);
  void Overflow(size_t at, PtFastPacket* packet);
  // Of a timing packet or padding; 0 if it is neither, is cut off, or cannot be there.
  size_t TimingBytes(size_t at);
  uint8_t ByteAt(size_t at) const { return std::to_integer<uint8_t>(bytes_[at]); }

  const bool odd_overflows_;
  Bytes bytes_;
  size_t own_bytes_ = 0;
  size_t at_ = 0;
  uint64_t last_address_ = 0;
  bool may_have_tma_ = false;  // one for each TSC
};

}  // namespace ptarmigan::internal
