#include "decode/pt_config.h"

#include <algorithm>
#include <charconv>

#include "decode/record_types.h"

namespace ptarmigan {
namespace {

__extension__ using Wide = unsigned __int128;
__extension__ using SignedWide = __int128;

constexpr uint32_t kAuxtraceTypeIntelPt = 1;
constexpr uint16_t kShiftMax = 63;
constexpr size_t kFilterBytesMax = size_t{64} << 10;

bool TakeNumber(std::string_view* text, unsigned max, unsigned* number) {
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc() || *number > max) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  if (text->starts_with(',')) text->remove_prefix(1);
  return true;
}

}  // namespace

uint64_t PtConfig::ToNs(uint64_t ticks) const {
  if (!has_clock()) return 0;
  return time_zero + static_cast<uint64_t>((static_cast<Wide>(ticks) * time_mult) >> time_shift);
}

uint64_t PtConfig::ToTicks(uint64_t ns) const {
  if (!has_clock()) return 0;
  // Below zero, as two's complement, where the counter ran before the kernel's clock did.
  const SignedWide since_zero_ns = SignedWide{ns} - static_cast<int64_t>(time_zero);
  if (since_zero_ns <= 0) return 0;
  const Wide bounded_ns = std::min<Wide>(static_cast<Wide>(since_zero_ns), UINT64_MAX);
  const Wide ticks = ((bounded_ns << time_shift) + time_mult - 1) / time_mult;
  return ticks > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(ticks);
}

uint64_t PtConfig::MtcPeriodTicks() const {
  if (!mtc || crystal_ratio == 0 || mtc_frequency > kShiftMax) return 0;
  const Wide ticks = (static_cast<Wide>(tsc_ratio) << mtc_frequency) / crystal_ratio;
  return ticks > UINT64_MAX ? 0 : static_cast<uint64_t>(ticks);
}

void PtRecording::SetEventConfig(uint64_t attr_config) {
  config.return_compression = (attr_config & noretcomp_bit) == 0;
  config.mtc = (attr_config & mtc_bit) != 0;
  config.cyc = (attr_config & cyc_bit) != 0;
  if (mtc_frequency_bits != 0) {
    config.mtc_frequency = static_cast<uint8_t>((attr_config & mtc_frequency_bits) >>
                                                std::countr_zero(mtc_frequency_bits));
  }
}

bool PtRecording::SetCpu(std::string_view cpuid) {
  constexpr std::string_view kIntel = "GenuineIntel,";
  if (!cpuid.starts_with(kIntel)) return false;
  cpuid.remove_prefix(kIntel.size());
  unsigned family = 0;
  unsigned model = 0;
  unsigned stepping = 0;
  if (!TakeNumber(&cpuid, UINT16_MAX, &family) || !TakeNumber(&cpuid, UINT8_MAX, &model) ||
      !TakeNumber(&cpuid, UINT8_MAX, &stepping)) {
    return false;
  }
  config.cpu_is_intel = true;
  config.cpu_family = static_cast<uint16_t>(family);
  config.cpu_model = static_cast<uint8_t>(model);
  config.cpu_stepping = static_cast<uint8_t>(stepping);
  return true;
}

std::optional<PtRecording> ReadPtRecording(Bytes record, std::endian order) {
  ByteCursor cursor(record, order);
  cursor.Skip(kRecordHeaderBytes);
  if (cursor.U32() != kAuxtraceTypeIntelPt) return std::nullopt;
  cursor.Skip(4);
  PtRecording recording;
  recording.pmu_type = static_cast<uint32_t>(cursor.U64());
  const uint64_t shift = cursor.U64();
  const uint64_t mult = cursor.U64();
  const uint64_t zero = cursor.U64();
  const bool has_clock = cursor.U64() != 0;
  cursor.Skip(8);  // the TSC bit: a stream without TSC packets shows itself
  recording.noretcomp_bit = cursor.U64();
  recording.have_sched_switch = cursor.U64() != 0;
  recording.snapshot_mode = cursor.U64() != 0;
  recording.per_cpu_mmaps = cursor.U64() != 0;
  if (!cursor.ok()) return std::nullopt;
  if (has_clock && shift <= kShiftMax && mult <= UINT32_MAX) {
    recording.config.time_shift = static_cast<uint16_t>(shift);
    recording.config.time_mult = static_cast<uint32_t>(mult);
    recording.config.time_zero = zero;
  }
  // Newer fields; a read beyond the end gives zeros: not known.
  recording.mtc_bit = cursor.U64();
  recording.mtc_frequency_bits = cursor.U64();
  const uint64_t tsc_ratio = cursor.U64();
  const uint64_t crystal_ratio = cursor.U64();
  recording.cyc_bit = cursor.U64();
  const uint64_t nominal_ratio = cursor.U64();
  const uint64_t filter_bytes = cursor.U64();
  if (tsc_ratio <= UINT32_MAX && crystal_ratio <= UINT32_MAX) {
    recording.config.tsc_ratio = static_cast<uint32_t>(tsc_ratio);
    recording.config.crystal_ratio = static_cast<uint32_t>(crystal_ratio);
  }
  if (nominal_ratio <= UINT8_MAX) {
    recording.config.nominal_ratio = static_cast<uint8_t>(nominal_ratio);
  }
  if (filter_bytes > 0 && filter_bytes <= kFilterBytesMax && filter_bytes <= cursor.remaining()) {
    const std::string_view text = AsText(cursor.Take(static_cast<size_t>(filter_bytes)));
    recording.filter = text.substr(0, text.find('\0'));
    recording.config.address_filter = !recording.filter.empty();
  }
  return recording;
}

}  // namespace ptarmigan
