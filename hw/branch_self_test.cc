#include "hw/branch_self_test.h"

#include <linux/perf_event.h>

#include <chrono>

#include "base/file.h"
#include "base/str_format.h"
#include "hw/internal/attr_bits.h"
#include "hw/internal/perf_open.h"
#include "hw/internal/perf_ring.h"

namespace ptarmigan {
namespace {

constexpr auto kSelfTestTime = std::chrono::milliseconds(200);
constexpr uint64_t kPeriod = 100'000;  // cycles: thousands of samples in that time
constexpr uint64_t kRingBytes = uint64_t{64} << 10;
constexpr uint64_t kEnough = 16;  // samples
constexpr uint64_t kEntryBytes = 24;

// Samples that hold a branch stack and nothing else.
class BranchCounter : public RawRecordSink {
 public:
  explicit BranchCounter(bool has_index) : has_index_(has_index) {}
  void OnRecord(const RawRecord& record) override {
    ByteCursor cursor(record.bytes);
    if (cursor.U32() != internal::kRecordSample) return;
    cursor.Skip(4);
    ++samples;
    const uint64_t count = cursor.U64();
    if (has_index_) cursor.Skip(8);
    for (uint64_t i = 0; i < count && cursor.ok(); ++i) {
      const uint64_t from = cursor.U64();
      const uint64_t to = cursor.U64();
      cursor.Skip(kEntryBytes - 16);
      if (cursor.ok() && (from != 0 || to != 0)) ++branches;
    }
  }
  void OnRoundEnd() override {}

  uint64_t samples = 0;
  uint64_t branches = 0;

 private:
  bool has_index_;
};

// Calls, returns and jumps that were taken, which no compiler removes.
[[gnu::noinline]] uint64_t Step(uint64_t value) {
  asm volatile("" ::: "memory");
  return (value & 1) != 0 ? value * 3 + 1 : value / 2;
}

}  // namespace

Status CheckBranchRecords(const EventSpec& spec, PerfKernel& kernel) {
  EventAttr attr = spec.attr;
  attr.sample_type = kSampleBranchStack;
  attr.sample_period = kPeriod;
  internal::SetBit(&attr, internal::kBitFreq, false);
  internal::SetBit(&attr, internal::kBitExcludeKernel);
  internal::SetBit(&attr, internal::kBitExcludeHypervisor);
  const Fd fd(kernel.Open(attr, PerfOpenTarget{}, PerfOpenExtras{}));
  if (!fd.valid()) return OkStatus();
  TRY_ASSIGN(internal::PerfRing ring, internal::PerfRing::Map(kernel, fd.get(), kRingBytes));
  BranchCounter counter((attr.branch_sample_type & kBranchHwIndex) != 0);
  const auto deadline = std::chrono::steady_clock::now() + kSelfTestTime;
  uint64_t value = 27;
  while (counter.branches == 0 && counter.samples < kEnough &&
         std::chrono::steady_clock::now() < deadline) {
    for (int i = 0; i < 100'000; ++i) value = Step(value);
    ring.reader().Read(counter, 0);
  }
  if (counter.branches > 0) return OkStatus();
  if (counter.samples == 0) {
    return Error{ErrorCode::kUnavailable,
                 "branch records: the event opens but no sample of a busy loop came"};
  }
  return Error{
      ErrorCode::kUnavailable,
      StrFormat("branch records are empty in {} samples of a busy loop: a virtual machine "
                "that passes the counters but not the records, or another program holds them",
                counter.samples)};
}

}  // namespace ptarmigan
