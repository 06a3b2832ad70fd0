// Names for the bits of perf_event_attr's flag word and the record constants that `hw` itself needs
// (include/uapi/linux/perf_event.h, Linux 6.18; the C bit field starts at bit 0 on little-endian machines, which
// are the only ones that `hw` runs on).
#pragma once

#include <bit>
#include <cstdint>

#include "model/event_attr.h"

namespace ptarmigan::internal {

static_assert(std::endian::native == std::endian::little);

enum AttrBit : unsigned {
  kBitDisabled = 0,
  kBitInherit = 1,
  kBitExcludeUser = 4,
  kBitExcludeKernel = 5,
  kBitExcludeHypervisor = 6,
  kBitMmap = 8,
  kBitComm = 9,
  kBitFreq = 10,
  kBitEnableOnExec = 12,
  kBitTask = 13,
  kBitWatermark = 14,
  kBitPreciseIp = 15,  // two bits
  kBitSampleIdAll = 18,
  kBitExcludeHost = 19,
  kBitExcludeGuest = 20,
  kBitExcludeCallchainKernel = 21,
  kBitExcludeCallchainUser = 22,
  kBitMmap2 = 23,
  kBitCommExec = 24,
  kBitUseClockid = 25,
  kBitContextSwitch = 26,
  kBitKsymbol = 29,
  kBitBpfEvent = 30,
  kBitCgroup = 32,
  kBitTextPoke = 33,
  kBitBuildId = 34,
};

inline void SetBit(EventAttr* attr, AttrBit bit, bool value = true) {
  const uint64_t mask = uint64_t{1} << bit;
  attr->flags = value ? attr->flags | mask : attr->flags & ~mask;
}
inline void SetPreciseIp(EventAttr* attr, unsigned level) {
  attr->flags = (attr->flags & ~(uint64_t{3} << kBitPreciseIp)) | uint64_t{level & 3}
                                                                      << kBitPreciseIp;
}

constexpr uint64_t kSoftwareCpuClock = 0;
constexpr uint64_t kSoftwareTaskClock = 1;
constexpr uint64_t kSoftwareDummy = 9;

// PERF_RECORD_* types that are written or counted here; everything else passes by as bytes.
enum RecordType : uint32_t {
  kRecordMmap = 1,
  kRecordLost = 2,
  kRecordComm = 3,
  kRecordThrottle = 5,
  kRecordFork = 7,
  kRecordSample = 9,
  kRecordMmap2 = 10,
  kRecordAux = 11,
  kRecordLostSamples = 13,
  kRecordCgroup = 19,
  kRecordAuxtraceInfo = 70,
  kRecordAuxtrace = 71,
  kRecordTimeConv = 79,
};
// perf_event_attr's PERF_AUX_FLAG_*
enum AuxFlag : uint64_t {
  kAuxTruncated = 1,
  kAuxPartial = 4,
  kAuxCollision = 8,
};
enum RecordMisc : uint16_t {
  kMiscKernel = 1,
  kMiscUser = 2,
  kMiscMmapBuildId = 1 << 14,
};
constexpr uint64_t kRecordHeaderBytes = 8;
constexpr uint64_t kRecordBytesMax = 65535;  // perf_event_header::size is 16 bits

}  // namespace ptarmigan::internal
