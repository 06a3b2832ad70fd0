#include "unwind/unwind_object.h"

#include <elf.h>
#include <gtest/gtest.h>

#include "tests/support/cfi_bytes.h"
#include "tests/support/elf_bytes.h"
#include "tests/support/fake_process.h"

namespace ptarmigan {
namespace {

constexpr uint64_t kText = 0x100000;

std::string CallRules(uint64_t cfa_offset) {
  return ByteWriter().U8(0x0c).Uleb(7).Uleb(cfa_offset).U8(0x80 | 16).Uleb(1).bytes();
}

// `count` functions of 16 bytes each with a frame of their own size, or all of the same size.
std::string ObjectWith(size_t count, bool own_rows, const std::string& section = ".eh_frame") {
  CfiBytes frame({.is_eh_frame = section == ".eh_frame"});
  const size_t cie = frame.AddCie({.version = 3,
                                   .augmentation = section == ".eh_frame" ? "zR" : "",
                                   .pointer_encoding = 0,
                                   .instructions = CallRules(8)});
  for (size_t i = 0; i < count; ++i) {
    frame.AddFde({.cie = cie,
                  .start = kText + 16 * i,
                  .size_bytes = 16,
                  .instructions = CallRules(own_rows ? 16 + 8 * i : 16)});
  }
  ElfBytes elf;
  const uint32_t text =
      elf.Add({.name = ".text", .vaddr = kText, .content = "code that can be read"});
  const uint32_t data =
      elf.Add({.name = ".data", .vaddr = 0x2000, .content = "data that can change"});
  elf.AddSegment(PT_LOAD, PF_R | PF_X, {text, text});
  elf.AddSegment(PT_LOAD, PF_R | PF_W, {data, data});
  elf.Add({.name = section, .content = frame.bytes()});
  return elf.Build();
}

TEST(UnwindObject, GivesTheSameRowEachTime) {
  FakeProcess process;
  UnwindObject& object = *process.AddObject("a.so", ObjectWith(100, true))->unwind;
  for (int round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < 1600; ++i) {
      const UnwindRow* row = object.FindRow(FileVaddr{kText + i});
      ASSERT_NE(row, nullptr);
      EXPECT_EQ(row->cfa.offset, static_cast<int32_t>(16 + 8 * (i / 16)));
    }
    EXPECT_EQ(object.cached_addresses(), 1600U);
  }
  EXPECT_EQ(object.cached_rows(), 100U);
  EXPECT_EQ(object.FindRow(FileVaddr{kText - 1}), nullptr);
  EXPECT_EQ(object.FindRow(FileVaddr{kText - 1}), nullptr);
  EXPECT_EQ(object.FindRow(FileVaddr{UINT64_MAX}), nullptr);
  EXPECT_EQ(object.FindRow(FileVaddr{0}), nullptr);
}

TEST(UnwindObject, KeepsEqualRowsOnce) {
  FakeProcess process;
  UnwindObject& object = *process.AddObject("a.so", ObjectWith(50, false))->unwind;
  const UnwindRow* first = object.FindRow(FileVaddr{kText});
  for (uint64_t i = 0; i < 50; ++i) EXPECT_EQ(object.FindRow(FileVaddr{kText + 16 * i}), first);
  EXPECT_EQ(object.cached_rows(), 1U);
}

TEST(UnwindObject, ForgetsAddressesAtTheBound) {
  FakeProcess process;
  const size_t functions = UnwindObject::kCachedAddressesMax / 16 + 1;
  UnwindObject& object = *process.AddObject("a.so", ObjectWith(functions, false))->unwind;
  for (uint64_t i = 0; i < UnwindObject::kCachedAddressesMax; ++i) {
    ASSERT_NE(object.FindRow(FileVaddr{kText + i}), nullptr);
  }
  EXPECT_EQ(object.cached_addresses(), UnwindObject::kCachedAddressesMax);
  ASSERT_NE(object.FindRow(FileVaddr{kText + UnwindObject::kCachedAddressesMax}), nullptr);
  EXPECT_EQ(object.cached_addresses(), 1U);
  ASSERT_NE(object.FindRow(FileVaddr{kText}), nullptr);
}

TEST(UnwindObject, ForgetsRowsAtTheBound) {
  FakeProcess process;
  UnwindObject& object =
      *process.AddObject("a.so", ObjectWith(UnwindObject::kCachedRowsMax + 1, true))->unwind;
  for (uint64_t i = 0; i < UnwindObject::kCachedRowsMax; ++i)
    object.FindRow(FileVaddr{kText + 16 * i});
  EXPECT_EQ(object.cached_rows(), UnwindObject::kCachedRowsMax);
  const UnwindRow* row = object.FindRow(FileVaddr{kText + 16 * UnwindObject::kCachedRowsMax});
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->cfa.offset, static_cast<int32_t>(16 + 8 * UnwindObject::kCachedRowsMax));
  EXPECT_EQ(object.cached_rows(), 1U);
}

TEST(UnwindObject, AsksTheDebugFileWhereTheObjectHasNoRow) {
  FakeProcess process;
  const ElfFile& object_file = *process.AddObject("a.so", ObjectWith(1, false))->file;
  const ElfFile& debug_file =
      *process.AddObject("a.debug", ObjectWith(3, true, ".debug_frame"))->file;
  UnwindObject object(object_file, &debug_file);
  EXPECT_EQ(object.FindRow(FileVaddr{kText})->cfa.offset, 16);
  EXPECT_EQ(object.FindRow(FileVaddr{kText + 40})->cfa.offset, 32);
  EXPECT_EQ(object.FindRow(FileVaddr{kText + 48}), nullptr);
}

TEST(UnwindObject, ReadsOnlyWhatCannotChange) {
  FakeProcess process;
  const UnwindObject& object = *process.AddObject("a.so", ObjectWith(1, false))->unwind;
  EXPECT_EQ(AsText(object.ReadOnlyBytes(FileVaddr{kText + 5}, 4)), "that");
  EXPECT_TRUE(object.ReadOnlyBytes(FileVaddr{0x2000}, 4).empty());
  EXPECT_TRUE(object.ReadOnlyBytes(FileVaddr{0x9000}, 4).empty());
}

}  // namespace
}  // namespace ptarmigan
