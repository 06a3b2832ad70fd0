#include "export/memory_section.h"

#include <utility>
#include <vector>

#include "export/internal/section_bytes.h"
#include "model/memory_summary.h"

namespace ptarmigan {
namespace {

using internal::AppendU32;
using internal::AppendU64;

constexpr uint32_t kIsPhysical = 1;

class Decoder {
 public:
  explicit Decoder(Bytes content) : cursor_(content, std::endian::little) {}

  Status Decode(Profile* profile) {
    ReadDistributions(*profile);
    ReadLines();
    summary_.lines_not_counted = cursor_.U64();
    if (!cursor_.ok() || !cursor_.AtEnd()) {
      return Error{ErrorCode::kTruncated, "the archive's memory section has another size"};
    }
    if (!valid_) {
      return Error{ErrorCode::kInvalidInput, "the archive's memory section contradicts itself"};
    }
    // Sorts, and joins what is of one location.
    MemorySummary in_order;
    AddMemorySummary(summary_, locations_, &in_order);
    profile->summary.memory = std::move(in_order);
    return OkStatus();
  }

 private:
  // How many entries follow; 0 where they cannot all be there.
  uint32_t Count(size_t entry_bytes) {
    const uint32_t count = cursor_.U32();
    if (count <= cursor_.remaining() / entry_bytes) return count;
    valid_ = false;
    return 0;
  }

  void ReadDistributions(const Profile& profile) {
    const internal::LocationsByPlace by_place = internal::IndexByPlace(profile);
    const uint32_t distributions = Count(20);
    for (uint32_t i = 0; i < distributions && valid_; ++i) {
      const MappingId mapping = cursor_.U32();
      const auto found = by_place.find({mapping, cursor_.U64()});
      const uint32_t which = cursor_.U32();
      valid_ &= found != by_place.end() && which < kMemLatencies;
      if (!valid_) return;
      locations_.push_back(found->second);
      auto& distribution = summary_.distributions.emplace_back();
      distribution.location = i;
      distribution.which = static_cast<MemLatency>(which);
      const uint32_t values = Count(12);
      for (uint32_t v = 0; v < values; ++v) {
        const uint32_t cycles = cursor_.U32();
        valid_ &= v == 0 || cycles > distribution.counts.back().first;
        distribution.counts.emplace_back(cycles, cursor_.U64());
      }
    }
  }

  void ReadLines() {
    const uint32_t lines = Count(44);
    for (uint32_t i = 0; i < lines; ++i) {
      auto& line = summary_.lines.emplace_back();
      line.address = cursor_.U64();
      line.is_physical = (cursor_.U32() & kIsPhysical) != 0;
      line.writers = cursor_.U32();
      line.readers = cursor_.U32();
      line.stores = cursor_.U64();
      line.loads = cursor_.U64();
      line.latency_sum = cursor_.U64();
    }
  }

  ByteCursor cursor_;
  MemorySummary summary_;  // location i is locations_[i]
  std::vector<LocationId> locations_;
  bool valid_ = true;
};

}  // namespace

std::string EncodeMemorySection(const Profile& profile) {
  const MemorySummary& summary = profile.summary.memory;
  std::string out;
  AppendU32(static_cast<uint32_t>(summary.distributions.size()), &out);
  for (const auto& distribution : summary.distributions) {
    const Profile::Location& location = profile.locations[distribution.location];
    AppendU32(location.mapping, &out);
    AppendU64(location.address, &out);
    AppendU32(static_cast<uint32_t>(distribution.which), &out);
    AppendU32(static_cast<uint32_t>(distribution.counts.size()), &out);
    for (const auto& [cycles, samples] : distribution.counts) {
      AppendU32(cycles, &out);
      AppendU64(samples, &out);
    }
  }
  AppendU32(static_cast<uint32_t>(summary.lines.size()), &out);
  for (const auto& line : summary.lines) {
    AppendU64(line.address, &out);
    AppendU32(line.is_physical ? kIsPhysical : 0, &out);
    AppendU32(line.writers, &out);
    AppendU32(line.readers, &out);
    AppendU64(line.stores, &out);
    AppendU64(line.loads, &out);
    AppendU64(line.latency_sum, &out);
  }
  AppendU64(summary.lines_not_counted, &out);
  return out;
}

Status DecodeMemorySection(Bytes content, Profile* profile) {
  return Decoder(content).Decode(profile);
}

}  // namespace ptarmigan
