// What the readers of legacy profiles share: samples as lists of addresses, turned into a Profile at the end.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "export/pprof.h"
#include "model/profile.h"

namespace ptarmigan::internal {

// A name for an address, as Java profiles give it.
struct LegacySymbol {
  std::string_view name;
  std::string_view file;
  int64_t line = 0;
};

class LegacyProfile {
 public:
  explicit LegacyProfile(const DecodeLimits& limits) : limits_(limits) {}

  // Header fields; samples are added by Add alone.
  Profile& profile() { return profile_; }
  void AddType(std::string_view type, std::string_view unit);
  void SetPeriod(std::string_view type, std::string_view unit, int64_t period);

  // Leaf first. `block_bytes`: a numeric label "bytes". kResourceLimit at the limit.
  Status Add(std::span<const uint64_t> addresses, std::span<const int64_t> values,
             std::optional<int64_t> block_bytes = std::nullopt);
  size_t samples() const { return block_bytes_.size(); }
  std::vector<uint64_t>& addresses(size_t sample) { return addresses_[sample]; }
  // Adds to a value of a sample that is there already.
  void Increment(size_t sample, size_t type) { ++values_[sample * types_ + type]; }

  void CountBadLine() {
    profile_.losses.Lose(LossStage::kParse, LossReason::kMissingText, 1, LossUnit::kRecords);
  }

  // Locations in the order of their first use; frames with a symbol lose their address. `maps`: text of the
  // memory map. The frames that legacy writers left in are named in drop_frames.
  Result<Profile> Finish(std::string_view maps,
                         const std::unordered_map<uint64_t, LegacySymbol>& symbols = {});

 private:
  LocationId Locate(uint64_t address, const std::unordered_map<uint64_t, LegacySymbol>& symbols);

  const DecodeLimits& limits_;
  Profile profile_;
  size_t types_ = 0;
  uint64_t frames_ = 0;
  std::vector<std::vector<uint64_t>> addresses_;
  std::vector<int64_t> values_;
  std::vector<std::optional<int64_t>> block_bytes_;
  std::unordered_map<uint64_t, LocationId> locations_;
  std::map<std::string_view, FunctionId> functions_;
};

// Every "0x..." in the text. False if one does not fit into 64 bits.
bool ParseAddresses(std::string_view text, std::vector<uint64_t>* addresses);

// What a sampling heap profiler saw once in `rate_bytes` stands for how much: a block of size S is seen with the
// probability 1 - exp(-S / rate). Rates of 1 and less mean that everything was seen.
struct HeapValue {
  int64_t count = 0;
  int64_t bytes = 0;
};
HeapValue ScaleHeapValue(HeapValue seen, int64_t rate_bytes);
// `value` times `factor`, at most INT64_MAX.
int64_t ScaleCount(int64_t value, double factor);

// Each reads one family; the caller has looked at the first bytes.
Result<Profile> ReadBinaryCpuProfile(Bytes bytes, const DecodeLimits& limits);
bool LooksLikeBinaryCpuProfile(Bytes bytes);
Result<Profile> ReadHeapProfile(std::string_view text, const DecodeLimits& limits);
Result<Profile> ReadContentionProfile(std::string_view text, const DecodeLimits& limits);
Result<Profile> ReadThreadProfile(std::string_view text, const DecodeLimits& limits);
Result<Profile> ReadCountProfile(std::string_view text, const DecodeLimits& limits);
Result<Profile> ReadJavaProfile(std::string_view text, const DecodeLimits& limits);
// The names behind a Java profile: "0x0003 com.example.f (source.java:3)".
std::unordered_map<uint64_t, LegacySymbol> ParseJavaSymbols(std::string_view text);

}  // namespace ptarmigan::internal
