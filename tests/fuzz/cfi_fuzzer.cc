// Call frame information of an arbitrary ELF file: every entry, rows at and around each, and a walk over them with the
// file's own bytes as the stack.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "unwind/cfi.h"
#include "unwind/stack_walker.h"

namespace {

using namespace ptarmigan;  // NOLINT(google-build-using-namespace): a program of its own

// Work for one input stays small: entries may share one long CIE.
constexpr size_t kRangesMax = 64;

class OneModule : public ModuleFinder {
 public:
  explicit OneModule(UnwindObject* object) : object_(object) {}
  bool Find(VirtAddr, CodeModule* module) override {
    *module = {.object = object_, .bias = 0, .start = {0}, .end = {UINT64_MAX}, .is_vdso = false};
    return true;
  }

 private:
  UnwindObject* object_;
};

void WalkFrom(FileVaddr pc, Bytes stack, UnwindObject* object) {
  RegisterSet registers;
  registers.abi = RegisterSet::Abi::k64;
  registers.mask = UINT64_MAX;
  for (size_t i = 0; i < registers.values.size(); ++i) registers.values[i] = 0x7000 + 8 * i;
  OneModule finder(object);
  std::vector<WalkedFrame> frames;
  for (const Arch arch : {Arch::kX86_64, Arch::kArm64, Arch::kX86}) {
    registers.values[8] = pc.value;
    registers.values[32] = pc.value;
    StackWalker walker(arch);
    walker.Walk({.registers = registers, .stack = stack}, finder, &frames);
    CHECK(!frames.empty() && frames.size() <= StackWalker::kFramesMax);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes bytes = std::as_bytes(std::span(data, size));
  const auto file = ElfFile::FromBytes(bytes, "fuzz");
  if (!file) return 0;
  CfiTable table(**file);
  std::vector<CfiRange> ranges;
  table.ForEachRange([&](const CfiRange& range) {
    if (ranges.size() < kRangesMax) ranges.push_back(range);
  });
  UnwindObject object(**file);
  UnwindRow row;
  for (const CfiRange& range : ranges) {
    for (const FileVaddr pc : {range.start, range.start + 1, range.end - 1, range.end}) {
      CfiRange row_range;
      if (!table.FindRow(pc, &row, &row_range)) continue;
      CHECK(row_range.start <= pc && pc < row_range.end);
      for (const RegisterRule& rule : row.rules) {
        CHECK(rule.register_number < UnwindRow::kRegistersMax);
        if (rule.kind == RuleKind::kExpression) CHECK(row.Expression(rule).size() == rule.source);
      }
    }
  }
  for (size_t i = 0; i < std::min<size_t>(ranges.size(), 4); ++i)
    WalkFrom(ranges[i].start, bytes, &object);
  return 0;
}
