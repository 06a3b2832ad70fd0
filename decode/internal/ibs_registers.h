// The bits of AMD's IBS registers (PPR for Family 19h Model 11h, 55901; Linux 7.2 arch/x86/include/asm/amd/ibs.h), and
// the raw bytes of a sample cut into registers.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/byte_cursor.h"

namespace ptarmigan::internal {

inline constexpr size_t kIbsOpRegisters = 7;  // what every processor has
inline constexpr size_t kIbsFetchRegisters = 3;
inline constexpr size_t kIbsOpRegistersMax = 9;
inline constexpr size_t kIbsCapsBytes = 4;

struct IbsRegisters {
  uint32_t caps = 0;
  size_t count = 0;  // registers[0 .. count) were recorded
  std::array<uint64_t, kIbsOpRegistersMax> registers = {};
};

// Takes as many whole registers as there are, up to the maximum.
inline IbsRegisters ReadIbsRegisters(Bytes raw, std::endian order) {
  IbsRegisters result;
  ByteCursor cursor(raw, order);
  result.caps = cursor.U32();
  while (result.count < result.registers.size() && cursor.remaining() >= sizeof(uint64_t)) {
    result.registers[result.count++] = cursor.U64();
  }
  return result;
}

constexpr bool Bit(uint64_t value, unsigned index) { return (value >> index & 1) != 0; }
constexpr uint16_t Bits16(uint64_t value, unsigned shift) {
  return static_cast<uint16_t>(value >> shift);
}

namespace op_ctl {
inline constexpr unsigned kValid = 18;
}  // namespace op_ctl

namespace op_data {
inline constexpr unsigned kCompletionToRetire = 0;  // 16 bits
inline constexpr unsigned kTagToRetire = 16;        // 16 bits
inline constexpr unsigned kReturn = 34;
inline constexpr unsigned kBranchTaken = 35;
inline constexpr unsigned kBranchMispredicted = 36;
inline constexpr unsigned kBranchRetired = 37;
inline constexpr unsigned kRipInvalid = 38;
inline constexpr unsigned kBranchFused = 39;
inline constexpr unsigned kMicrocode = 40;
}  // namespace op_data

namespace op_data2 {
inline constexpr uint64_t kSourceLowMask = 7;
inline constexpr unsigned kRemoteNode = 4;
inline constexpr unsigned kCacheHitState = 5;  // 0: modified, 1: owned
inline constexpr unsigned kSourceHigh = 6;     // 2 bits
inline constexpr unsigned kStreamingStore = 8;
inline constexpr unsigned kRemoteSocket = 9;
}  // namespace op_data2

namespace op_data3 {
inline constexpr unsigned kLoad = 0;
inline constexpr unsigned kStore = 1;
inline constexpr unsigned kL1TlbMiss = 2;
inline constexpr unsigned kL2TlbMiss = 3;
inline constexpr unsigned kL1TlbHit2M = 4;  // with kIbsCapTlbPageSize bits 5:4 are the page size
inline constexpr unsigned kL1TlbHit1G = 5;
inline constexpr unsigned kDcMiss = 7;
inline constexpr unsigned kMisaligned = 8;
inline constexpr unsigned kWriteCombining = 13;
inline constexpr unsigned kUncacheable = 14;
inline constexpr unsigned kLocked = 15;
inline constexpr unsigned kNoMab = 16;
inline constexpr unsigned kLinearValid = 17;
inline constexpr unsigned kPhysicalValid = 18;
inline constexpr unsigned kL2Miss = 20;
inline constexpr unsigned kSoftwarePrefetch = 21;
inline constexpr unsigned kWidth = 22;             // 4 bits: 1 << (n - 1) bytes, 0 not told
inline constexpr unsigned kOpenRequests = 26;      // 6 bits
inline constexpr unsigned kDcMissLatency = 32;     // 16 bits
inline constexpr unsigned kTlbRefillLatency = 48;  // 16 bits
}  // namespace op_data3

namespace fetch_ctl {
inline constexpr unsigned kLatency = 32;  // 16 bits
inline constexpr unsigned kValid = 49;
inline constexpr unsigned kComplete = 50;
inline constexpr unsigned kIcMiss = 51;
inline constexpr unsigned kPhysicalValid = 52;
inline constexpr unsigned kPageSize = 53;  // 2 bits
inline constexpr unsigned kL1TlbMiss = 55;
inline constexpr unsigned kL2TlbMiss = 56;
inline constexpr unsigned kL2Miss = 58;
inline constexpr unsigned kOpCacheMiss = 60;
inline constexpr unsigned kL3Miss = 61;
}  // namespace fetch_ctl

}  // namespace ptarmigan::internal
