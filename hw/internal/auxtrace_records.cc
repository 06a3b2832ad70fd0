#include "hw/internal/auxtrace_records.h"

#include <optional>
#include <string_view>

#include "hw/internal/attr_bits.h"
#include "hw/internal/coresight_metadata.h"
#include "hw/internal/pmu_events.h"

namespace ptarmigan::internal {
namespace {

enum AuxtraceKind : uint32_t { kAuxtraceIntelPt = 1, kAuxtraceCoreSight = 3, kAuxtraceArmSpe = 4 };

// What perf writes where it does not know the bits of a term.
constexpr uint64_t kNoBits = 0;

uint64_t BitsOfTerm(const AuxtraceFacts& facts, std::string_view term) {
  const auto format = ReadTermFormat(facts.pmu, term, EventRoots{facts.sysfs_root, ""});
  if (!format || format->word != 0) return kNoBits;
  const unsigned width = format->Width();
  return format->Place(width >= 64 ? UINT64_MAX : (uint64_t{1} << width) - 1).value_or(kNoBits);
}

// Ticks of the time-stamp counter per tick of the crystal, as a fraction ("num:den" in sysfs, CPUID 15h EBX and EAX); zeros:
// not known.
struct TscRatio {
  uint64_t ticks = 0;
  uint64_t crystal_ticks = 0;
};
TscRatio ReadTscRatio(const AuxtraceFacts& facts) {
  const std::string text =
      ReadPmuFile(facts.pmu, "tsc_art_ratio", EventRoots{facts.sysfs_root, ""});
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return {};
  const auto ticks = ParseNumber(std::string_view(text).substr(0, colon));
  const auto crystal_ticks = ParseNumber(std::string_view(text).substr(colon + 1));
  if (!ticks || !crystal_ticks) return {};
  return {.ticks = *ticks, .crystal_ticks = *crystal_ticks};
}

uint64_t MaximumNonTurboRatio(const AuxtraceFacts& facts) {
  const std::string text =
      ReadPmuFile(facts.pmu, "max_nonturbo_ratio", EventRoots{facts.sysfs_root, ""});
  return ParseNumber(text).value_or(0);
}

// intel-pt's HAVE_SCHED_SWITCH: 2 says SWITCH records of the traced tasks, 3 of every task of a CPU.
uint64_t SwitchKind(const AuxtraceFacts& facts) {
  if (!facts.records_switches) return 0;
  return facts.of_tasks ? 2 : 3;
}

void Begin(uint32_t kind, RecordBuilder* builder) {
  builder->Begin(kRecordAuxtraceInfo, 0);
  builder->Put<uint32_t>(kind);
  builder->Put<uint32_t>(0);
}

void PutIntelPt(const AuxtraceFacts& facts, RecordBuilder* builder) {
  const ClockConversion& clock = facts.clock;
  const TscRatio ratio = ReadTscRatio(facts);
  Begin(kAuxtraceIntelPt, builder);
  constexpr uint64_t kPerCpuAreas = 1;
  for (const uint64_t word :
       {uint64_t{facts.event->attr.type}, uint64_t{clock.shift}, uint64_t{clock.mult}, clock.zero,
        uint64_t{clock.has_zero ? 1U : 0U}, BitsOfTerm(facts, "tsc"),
        BitsOfTerm(facts, "noretcomp"), SwitchKind(facts), uint64_t{facts.is_snapshot ? 1U : 0U},
        kPerCpuAreas, BitsOfTerm(facts, "mtc"), BitsOfTerm(facts, "mtc_period"), ratio.ticks,
        ratio.crystal_ticks, BitsOfTerm(facts, "cyc"), MaximumNonTurboRatio(facts)}) {
    builder->Put<uint64_t>(word);
  }
  // The text with its end, filled up to words.
  builder->Put<uint64_t>(facts.filter.empty() ? 0 : (facts.filter.size() + 8) / 8 * 8);
  if (!facts.filter.empty()) builder->PutText(facts.filter);
}

// Version 1, which every perf reads: the PMU and that areas are per CPU.
void PutArmSpe(const AuxtraceFacts& facts, RecordBuilder* builder) {
  Begin(kAuxtraceArmSpe, builder);
  builder->Put<uint64_t>(facts.event->attr.type);
  builder->Put<uint64_t>(1);
}

void PutCoreSight(const AuxtraceFacts& facts, RecordBuilder* builder) {
  Begin(kAuxtraceCoreSight, builder);
  for (const uint64_t word : CoreSightMetadata(facts.pmu, facts.event->attr, facts.is_snapshot,
                                               facts.cpus, EventRoots{facts.sysfs_root, ""}))
    builder->Put<uint64_t>(word);
}

}  // namespace

Bytes WriteAuxtraceInfo(const AuxtraceFacts& facts, RecordBuilder* builder) {
  if (facts.pmu.starts_with("intel_pt"))
    PutIntelPt(facts, builder);
  else if (facts.pmu.starts_with("arm_spe"))
    PutArmSpe(facts, builder);
  else if (facts.pmu.starts_with("cs_etm"))
    PutCoreSight(facts, builder);
  else
    return {};
  return builder->Finish({});
}

Bytes WriteTimeConversion(const AuxtraceFacts& facts, RecordBuilder* builder) {
  const ClockConversion& clock = facts.clock;
  if (!clock.has_zero) return {};
  builder->Begin(kRecordTimeConv, 0);
  builder->Put<uint64_t>(clock.shift);
  builder->Put<uint64_t>(clock.mult);
  builder->Put<uint64_t>(clock.zero);
  builder->Put<uint64_t>(clock.cycles);
  builder->Put<uint64_t>(clock.mask);
  builder->Put<uint8_t>(1);
  builder->Put<uint8_t>(clock.is_short ? 1 : 0);
  builder->PutBytes(AsBytes(std::string_view("\0\0\0\0\0\0", 6)));
  return builder->Finish({});
}

uint64_t ReadTimeStampCounter() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}

Bytes BuildAuxtrace(const AuxtracePiece& piece, RecordBuilder* builder) {
  builder->Begin(kRecordAuxtrace, 0);
  builder->Put<uint64_t>((piece.bytes + 7) / 8 * 8);
  builder->Put<uint64_t>(piece.offset);
  builder->Put<uint64_t>(piece.reference);
  builder->Put<uint32_t>(piece.ring);
  builder->Put<int32_t>(-1);
  builder->Put<int32_t>(piece.cpu);
  builder->Put<uint32_t>(0);
  return builder->Finish({});
}

}  // namespace ptarmigan::internal
