// Record types and header bits of perf recordings. Sources: include/uapi/linux/perf_event.h and
// tools/lib/perf/include/perf/event.h (Linux 6.18), simpleperf's record.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ptarmigan {

enum RecordType : uint32_t {
  // Written by the kernel.
  kRecordMmap = 1,
  kRecordLost = 2,
  kRecordComm = 3,
  kRecordExit = 4,
  kRecordThrottle = 5,
  kRecordUnthrottle = 6,
  kRecordFork = 7,
  kRecordRead = 8,
  kRecordSample = 9,
  kRecordMmap2 = 10,
  kRecordAux = 11,
  kRecordItraceStart = 12,
  kRecordLostSamples = 13,
  kRecordSwitch = 14,
  kRecordSwitchCpuWide = 15,
  kRecordNamespaces = 16,
  kRecordKsymbol = 17,
  kRecordBpfEvent = 18,
  kRecordCgroup = 19,
  kRecordTextPoke = 20,
  kRecordAuxOutputHwId = 21,
  kRecordCallchainDeferred = 22,
  kRecordKernelLast = kRecordCallchainDeferred,

  // Written by perf; these have no sample_id trailer.
  kRecordUserFirst = 64,
  kRecordHeaderAttr = 64,
  kRecordHeaderEventType = 65,
  kRecordHeaderTracingData = 66,
  kRecordHeaderBuildId = 67,
  kRecordFinishedRound = 68,
  kRecordIdIndex = 69,
  kRecordAuxtraceInfo = 70,
  kRecordAuxtrace = 71,
  kRecordAuxtraceError = 72,
  kRecordThreadMap = 73,
  kRecordCpuMap = 74,
  kRecordStatConfig = 75,
  kRecordStat = 76,
  kRecordStatRound = 77,
  kRecordEventUpdate = 78,
  kRecordTimeConv = 79,
  kRecordHeaderFeature = 80,
  kRecordCompressed = 81,
  kRecordFinishedInit = 82,
  kRecordCompressed2 = 83,
  kRecordBpfMetadata = 84,
  kRecordSchedstatCpu = 85,
  kRecordSchedstatDomain = 86,
  kRecordUserLast = kRecordSchedstatDomain,

  // Written by simpleperf. Their size has 32 bits: the header's `misc` is its upper half.
  kRecordSimpleperfFirst = 32768,
  kRecordSimpleperfKernelSymbol = 32769,
  kRecordSimpleperfDso = 32770,
  kRecordSimpleperfSymbol = 32771,
  kRecordSimpleperfSplit = 32772,
  kRecordSimpleperfSplitEnd = 32773,
  kRecordSimpleperfEventId = 32774,
  kRecordSimpleperfCallchain = 32775,
  kRecordSimpleperfUnwindingResult = 32776,
  kRecordSimpleperfTracingData = 32777,
  kRecordSimpleperfDebug = 32778,
  kRecordSimpleperfLast = kRecordSimpleperfDebug,
};

// perf_event_header::misc
inline constexpr uint16_t kMiscCpuModeMask = 7;
inline constexpr uint16_t kMiscMmapData = 1U << 13;       // MMAP: not executable
inline constexpr uint16_t kMiscCommExec = 1U << 13;       // COMM: by execve
inline constexpr uint16_t kMiscSwitchOut = 1U << 13;      // SWITCH: the task leaves the CPU
inline constexpr uint16_t kMiscExactIp = 1U << 14;        // SAMPLE: no skid
inline constexpr uint16_t kMiscSwitchPreempt = 1U << 14;  // SWITCH: it could have gone on
inline constexpr uint16_t kMiscMmapBuildId = 1U
                                             << 14;  // MMAP2: build id instead of device and inode
inline constexpr uint16_t kMiscBuildIdSize = 1U
                                             << 15;   // BUILD_ID: the byte after the id is its size
inline constexpr uint16_t kMiscLostByBpf = 1U << 15;  // LOST_SAMPLES: dropped by a filter

inline constexpr size_t kRecordHeaderBytes = 8;
// The 16-bit size of a record bounds everything inside it.
inline constexpr size_t kRecordBytesMax = 65535;

// Feature sections (tools/perf/util/header.h; 128 and up are simpleperf's).
enum FeatureId : unsigned {
  kFeatureTracingData = 1,
  kFeatureBuildId = 2,
  kFeatureHostname = 3,
  kFeatureOsRelease = 4,
  kFeatureVersion = 5,
  kFeatureArch = 6,
  kFeatureNrCpus = 7,
  kFeatureCpuDesc = 8,
  kFeatureCpuid = 9,
  kFeatureTotalMem = 10,
  kFeatureCmdline = 11,
  kFeatureEventDesc = 12,
  kFeatureCpuTopology = 13,
  kFeatureNumaTopology = 14,
  kFeatureBranchStack = 15,
  kFeaturePmuMappings = 16,
  kFeatureGroupDesc = 17,
  kFeatureAuxtrace = 18,
  kFeatureStat = 19,
  kFeatureCache = 20,
  kFeatureSampleTime = 21,
  kFeatureMemTopology = 22,
  kFeatureClockid = 23,
  kFeatureDirFormat = 24,
  kFeatureBpfProgInfo = 25,
  kFeatureBpfBtf = 26,
  kFeatureCompressed = 27,
  kFeatureCpuPmuCaps = 28,
  kFeatureClockData = 29,
  kFeatureHybridTopology = 30,
  kFeaturePmuCaps = 31,
  kFeatureCpuDomainInfo = 32,
  kFeatureEMachine = 33,
  kFeatureSimpleperfFile = 128,
  kFeatureSimpleperfMetaInfo = 129,
  kFeatureSimpleperfDebugUnwind = 130,
  kFeatureSimpleperfDebugUnwindFile = 131,
  kFeatureSimpleperfFile2 = 132,
  kFeatureSimpleperfEtmBranchList = 133,
  kFeatureSimpleperfInitMap = 134,
  kFeatureBits = 256,
};

}  // namespace ptarmigan
