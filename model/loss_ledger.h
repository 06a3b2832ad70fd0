// LossLedger: captured = kept + the sum of losses by (stage, reason). Every sample that does not
// reach the profile is counted here, and so is every record and byte that could not be used (other
// units, which do not enter the balance of samples). The lists below are shared by all rooms; add a
// line where one is missing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace ptarmigan {

// Where it was lost.
#define PTARMIGAN_LOSS_STAGES(X) \
  X(kKernel, "kernel")           \
  X(kRead, "read")               \
  X(kParse, "parse")             \
  X(kMerge, "merge")             \
  X(kFilter, "filter")           \
  X(kUnwind, "unwind")           \
  X(kSymbolize, "symbolize")     \
  X(kBuild, "build")             \
  X(kExport, "export")

// Why.
#define PTARMIGAN_LOSS_REASONS(X)          \
  X(kRingFull, "ring_full")                \
  X(kThrottled, "throttled")               \
  X(kTruncated, "truncated")               \
  X(kBadSize, "bad_size")                  \
  X(kZeroSize, "zero_size_record")         \
  X(kBadOffset, "bad_offset")              \
  X(kBadLayout, "bad_layout")              \
  X(kUnknownRecord, "unknown_record_type") \
  X(kUnknownEvent, "unknown_event_id")     \
  X(kBadCompression, "bad_compression")    \
  X(kOutOfOrder, "out_of_order")           \
  X(kBufferFull, "buffer_full")            \
  X(kUnsupported, "unsupported")           \
  X(kDummyEvent, "dummy_event")            \
  X(kIgnored, "ignored")                   \
  X(kMissingFile, "missing_file")          \
  X(kLimit, "limit")                       \
  X(kBadValue, "bad_value")                \
  X(kBadPacket, "bad_packet")              \
  X(kTruncatedTail, "truncated_tail")      \
  X(kNoPc, "no_pc")                        \
  X(kEl3, "el3")                           \
  X(kSecure, "secure")                     \
  X(kShortRaw, "short_raw")                \
  X(kWrongPath, "wrong_path")              \
  X(kPadding, "padding")                   \
  X(kNoAuxRecord, "no_aux_record")         \
  X(kMissingText, "unreadable_line")

enum class LossStage : uint8_t {
#define PTARMIGAN_X(name, text) name,
  PTARMIGAN_LOSS_STAGES(PTARMIGAN_X)
#undef PTARMIGAN_X
};
enum class LossReason : uint8_t {
#define PTARMIGAN_X(name, text) name,
  PTARMIGAN_LOSS_REASONS(PTARMIGAN_X)
#undef PTARMIGAN_X
};
enum class LossUnit : uint8_t { kSamples, kRecords, kBytes };

std::string_view LossStageName(LossStage stage);
std::string_view LossReasonName(LossReason reason);
std::string_view LossUnitName(LossUnit unit);

struct LossEntry {
  LossStage stage;
  LossReason reason;
  LossUnit unit;
  uint64_t count;
};

// A plain value; not thread-safe. Counts saturate instead of wrapping.
class LossLedger {
 public:
  void Capture(uint64_t samples = 1) { Add(&captured_, samples); }
  void Keep(uint64_t samples = 1) { Add(&kept_, samples); }
  void Lose(LossStage stage, LossReason reason, uint64_t count = 1,
            LossUnit unit = LossUnit::kSamples);

  uint64_t captured() const { return captured_; }
  uint64_t kept() const { return kept_; }
  // Sum over all entries of the unit.
  uint64_t Lost(LossUnit unit = LossUnit::kSamples) const;
  uint64_t Lost(LossStage stage, LossReason reason, LossUnit unit = LossUnit::kSamples) const;
  // Entries with a count, ordered by unit, stage, reason.
  std::vector<LossEntry> Entries() const;
  // captured() == kept() + Lost().
  bool Balances() const { return captured_ == kept_ + Lost(); }

  void Merge(const LossLedger& other);
  // "12 samples lost (kernel ring_full 10, parse truncated 2); 3 records skipped (…)"; empty if
  // nothing was.
  std::string Sentence() const;

 private:
  static void Add(uint64_t* sum, uint64_t count);

  uint64_t captured_ = 0;
  uint64_t kept_ = 0;
  std::map<std::tuple<LossUnit, LossStage, LossReason>, uint64_t> lost_;
};

}  // namespace ptarmigan
