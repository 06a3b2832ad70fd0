#include "unwind/cfi.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <tuple>

#include "base/str_format.h"
#include "tests/support/cfi_bytes.h"
#include "tests/support/elf_bytes.h"
#include "tests/support/test_data.h"
#include "unwind/internal/cfi_entry.h"

namespace ptarmigan {
namespace {

constexpr uint64_t kText = 0x1000;
constexpr uint64_t kFrameVaddr = 0x5000;
constexpr uint64_t kHeaderVaddr = 0x4000;
constexpr uint64_t kGot = 0x6000;

std::string RuleText(const UnwindRow& row, const RegisterRule& rule) {
  switch (rule.kind) {
    case RuleKind::kSameValue:
      return "same";
    case RuleKind::kUndefined:
      return "undefined";
    case RuleKind::kOffset:
      return StrFormat("[cfa{:+}]", rule.offset);
    case RuleKind::kValOffset:
      return StrFormat("cfa{:+}", rule.offset);
    case RuleKind::kRegister:
      return StrFormat("r{}{:+}", rule.source, rule.offset);
    case RuleKind::kExpression:
      return StrFormat("[expression of {}]", row.Expression(rule).size());
    case RuleKind::kValExpression:
      return StrFormat("expression of {}", row.Expression(rule).size());
  }
  return "";
}

std::string RowText(const UnwindRow& row) {
  std::string text = "cfa=" + RuleText(row, row.cfa);
  for (const RegisterRule& rule : row.rules) {
    text += StrFormat(" r{}={}", rule.register_number, RuleText(row, rule));
  }
  if (row.signal_frame) text += " signal";
  if (row.return_address_signed) text += " signed";
  return text;
}

// DW_CFA_def_cfa r7, 8; DW_CFA_offset r16, 1 (times -8).
std::string CallRules() {
  return ByteWriter().U8(0x0c).Uleb(7).Uleb(8).U8(0x80 | 16).Uleb(1).bytes();
}
const char kCallRulesText[] = "cfa=r7+8 r16=[cfa-8]";

struct Object {
  std::string bytes;
  std::unique_ptr<ElfFile> file;
  std::unique_ptr<CfiTable> cfi;

  std::string At(uint64_t pc) const {
    UnwindRow row;
    return cfi->FindRow(FileVaddr{pc}, &row) ? RowText(row) : "none";
  }
};

Object Open(std::string bytes) {
  Object object;
  object.bytes = std::move(bytes);
  auto file = ElfFile::FromBytes(AsBytes(object.bytes), "test.so");
  EXPECT_TRUE(file.has_value());
  object.file = std::move(file).value();
  object.cfi = std::make_unique<CfiTable>(*object.file);
  return object;
}

struct Sections {
  std::string eh_frame = {};
  std::string eh_frame_hdr = {};
  std::string debug_frame = {};
};

Object OpenSections(const Sections& sections, const ElfBytes::Format& format = {}) {
  ElfBytes elf(format);
  elf.Add({.name = ".text",
           .flags = SHF_ALLOC | SHF_EXECINSTR,
           .vaddr = kText,
           .content = std::string(64, '\x90')});
  elf.Add({.name = ".got", .flags = SHF_ALLOC, .vaddr = kGot, .content = std::string(16, '\0')});
  if (!sections.eh_frame_hdr.empty()) {
    elf.Add({.name = ".eh_frame_hdr",
             .flags = SHF_ALLOC,
             .vaddr = kHeaderVaddr,
             .content = sections.eh_frame_hdr});
  }
  if (!sections.eh_frame.empty()) {
    elf.Add({.name = ".eh_frame",
             .flags = SHF_ALLOC,
             .vaddr = kFrameVaddr,
             .content = sections.eh_frame});
  }
  if (!sections.debug_frame.empty())
    elf.Add({.name = ".debug_frame", .content = sections.debug_frame});
  return Open(elf.Build());
}

CfiBytes::Format EhFormat() {
  return {.vaddr = kFrameVaddr, .text_base = kText, .data_base = kGot};
}

// One function [kText, kText + 0x40) with these instructions, on top of CallRules.
Object OneFunction(const std::string& instructions, const CfiBytes::Cie& cie_options,
                   const ElfBytes::Format& elf_format = {}) {
  CfiBytes frame(EhFormat());
  CfiBytes::Cie cie = cie_options;
  if (cie.instructions.empty()) cie.instructions = CallRules();
  const size_t position = frame.AddCie(cie);
  frame.AddFde({.cie = position, .start = kText, .size_bytes = 0x40, .instructions = instructions});
  return OpenSections({.eh_frame = frame.bytes()}, elf_format);
}

Object OneFunction(const std::string& instructions) { return OneFunction(instructions, {}); }

class PointerEncodings : public testing::TestWithParam<std::tuple<int, bool, std::endian>> {};

INSTANTIATE_TEST_SUITE_P(FormsClassesAndByteOrders, PointerEncodings,
                         testing::Combine(testing::Values(0x00, 0x01, 0x02, 0x03, 0x04, 0x08, 0x09,
                                                          0x0a, 0x0b, 0x0c, 0x10, 0x13, 0x1b, 0x1c,
                                                          0x19, 0x2b, 0x3b, 0x3c, 0x33),
                                          testing::Bool(),
                                          testing::Values(std::endian::little, std::endian::big)));

TEST_P(PointerEncodings, GiveTheFunctionsRange) {
  CfiBytes::Format format = EhFormat();
  format.is_64_bit = std::get<1>(GetParam());
  format.order = std::get<2>(GetParam());
  CfiBytes frame(format);
  const size_t cie =
      frame.AddCie({.pointer_encoding = static_cast<uint8_t>(std::get<0>(GetParam())),
                    .instructions = CallRules()});
  // Unsigned relative forms can only reach upwards.
  const uint64_t start = (std::get<0>(GetParam()) & 0x70) == 0 ? kText : 0x7000;
  frame.AddFde({.cie = cie, .start = start, .size_bytes = 0x40});
  const Object object = OpenSections({.eh_frame = frame.bytes()},
                                     {.is_64_bit = format.is_64_bit, .order = format.order});
  EXPECT_EQ(object.At(start - 1), "none");
  EXPECT_EQ(object.At(start), kCallRulesText);
  EXPECT_EQ(object.At(start + 0x3f), kCallRulesText);
  EXPECT_EQ(object.At(start + 0x40), "none");
}

TEST(Cfi, AlignsAlignedPointers) {
  CfiBytes frame(EhFormat());
  const size_t cie = frame.AddCie({.pointer_encoding = 0x50, .instructions = CallRules()});
  // The pointer would begin at 4 modulo 8: four bytes of padding come first.
  const size_t fde = frame.bytes().size();
  frame.AddRaw(ByteWriter().U32(36).U32(fde + 4 - cie).bytes());
  ByteWriter body;
  while ((frame.bytes().size() + body.size()) % 8 != 0) body.U8(0);
  body.U64(kText).U64(0x40).Uleb(0);
  frame.AddRaw(body.bytes() + std::string(36 - 4 - body.size(), '\0'));
  EXPECT_EQ(OpenSections({.eh_frame = frame.bytes()}).At(kText + 1), kCallRulesText);
}

TEST(Cfi, RefusesIndirectAndUnknownEncodings) {
  for (const int encoding : {0x9b, 0x0e, 0x4b, 0x6b}) {
    CfiBytes frame(EhFormat());
    const size_t cie = frame.AddCie(
        {.pointer_encoding = static_cast<uint8_t>(encoding), .instructions = CallRules()});
    frame.AddFde({.cie = cie, .start = kText, .size_bytes = 0x40});
    EXPECT_EQ(OpenSections({.eh_frame = frame.bytes()}).At(kText), "none") << encoding;
  }
}

class EntryForms : public testing::TestWithParam<std::tuple<bool, bool, int>> {};

INSTANTIATE_TEST_SUITE_P(SectionsLengthsAndVersions, EntryForms,
                         testing::Combine(testing::Bool(), testing::Bool(),
                                          testing::Values(1, 3, 4)));

TEST_P(EntryForms, AreRead) {
  CfiBytes::Format format = EhFormat();
  format.is_eh_frame = std::get<0>(GetParam());
  format.long_entries = std::get<1>(GetParam());
  if (!format.is_eh_frame) format.vaddr = 0;
  CfiBytes frame(format);
  const size_t cie = frame.AddCie({.version = static_cast<uint8_t>(std::get<2>(GetParam())),
                                   .augmentation = format.is_eh_frame ? "zR" : "",
                                   .instructions = CallRules()});
  frame.AddFde({.cie = cie, .start = kText, .size_bytes = 0x10});
  frame.AddFde({.cie = cie,
                .start = kText + 0x10,
                .size_bytes = 0x10,
                .instructions = ByteWriter().U8(0x0e).Uleb(24).bytes()});
  const Object object = format.is_eh_frame ? OpenSections({.eh_frame = frame.bytes()})
                                           : OpenSections({.debug_frame = frame.bytes()});
  EXPECT_EQ(object.At(kText + 0xf), kCallRulesText);
  EXPECT_EQ(object.At(kText + 0x10), "cfa=r7+24 r16=[cfa-8]");
}

TEST(Cfi, ReadsFourByteAddressesWhereVersionFourSaysSo) {
  CfiBytes::Format format = EhFormat();
  format.is_eh_frame = false;
  CfiBytes frame(format);
  const size_t cie = frame.AddCie(
      {.version = 4, .augmentation = "", .instructions = CallRules(), .address_bytes = 4});
  frame.AddFde({.cie = cie, .start = kText, .size_bytes = 0x40});
  EXPECT_EQ(OpenSections({.debug_frame = frame.bytes()}).At(kText + 0x3f), kCallRulesText);
}

TEST(Cfi, ReadsAugmentations) {
  const auto with = [](const std::string& augmentation, const std::string& bytes) {
    return OneFunction("", {.augmentation = augmentation, .augmentation_bytes = bytes}).At(kText);
  };
  EXPECT_EQ(with("zR", "\x1b"), kCallRulesText);
  EXPECT_EQ(with("zRS", "\x1b"), std::string(kCallRulesText) + " signal");
  EXPECT_EQ(with("zRB", "\x1b"), kCallRulesText);
  EXPECT_EQ(with("zPLR", "\x9b" + std::string(4, '\1') + "\x1b\x1b"), kCallRulesText);
  EXPECT_EQ(with("zPLR", std::string(1, '\0') + std::string(8, '\1') + "\x1b\x1b"), kCallRulesText);
  // The rest of an augmentation with an unknown letter is skipped by its size.
  EXPECT_EQ(with("zR?", "\x1b" + std::string(9, 'x')), kCallRulesText);
}

TEST(Cfi, ReadsOldCiesWithoutASize) {
  const auto with = [](const std::string& augmentation) {
    CfiBytes frame(EhFormat());
    const size_t cie = frame.AddCie({.augmentation = augmentation, .instructions = CallRules()});
    frame.AddFde({.cie = cie, .start = kText, .size_bytes = 0x40});
    return OpenSections({.eh_frame = frame.bytes()}).At(kText);
  };
  EXPECT_EQ(with(""), kCallRulesText);
  EXPECT_EQ(with("eh"), kCallRulesText);
  EXPECT_EQ(with("S"), std::string(kCallRulesText) + " signal");
  EXPECT_EQ(with("?"), "none");
  EXPECT_EQ(with(std::string(200, 'S')), "none") << "no augmentation is so long";
}

TEST(Cfi, RunsEveryInstruction) {
  const auto expect = [](const ByteWriter& instructions, const std::string& row) {
    EXPECT_EQ(OneFunction(instructions.bytes()).At(kText + 0x20), row);
  };
  using W = ByteWriter;
  expect(W().U8(0x00), kCallRulesText);
  // Locations: rows from 0x20 on apply at 0x20, later ones do not.
  expect(W().U8(0x40 | 0x20).U8(0x0e).Uleb(16), "cfa=r7+16 r16=[cfa-8]");
  expect(W().U8(0x40 | 0x21).U8(0x0e).Uleb(16), kCallRulesText);
  expect(W().U8(0x02).U8(0x20).U8(0x0e).Uleb(16), "cfa=r7+16 r16=[cfa-8]");
  expect(W().U8(0x02).U8(0x21).U8(0x0e).Uleb(16), kCallRulesText);
  expect(W().U8(0x03).U16(0x20).U8(0x0e).Uleb(16), "cfa=r7+16 r16=[cfa-8]");
  expect(W().U8(0x04).U32(0x20).U8(0x0e).Uleb(16), "cfa=r7+16 r16=[cfa-8]");
  expect(W().U8(0x1d).U64(0x20).U8(0x0e).Uleb(16), "cfa=r7+16 r16=[cfa-8]");
  // CFA.
  expect(W().U8(0x0c).Uleb(6).Uleb(32), "cfa=r6+32 r16=[cfa-8]");
  expect(W().U8(0x12).Uleb(6).Sleb(-4), "cfa=r6+32 r16=[cfa-8]");
  expect(W().U8(0x12).Uleb(6).Sleb(4), "cfa=r6-32 r16=[cfa-8]");
  expect(W().U8(0x0d).Uleb(6), "cfa=r6+8 r16=[cfa-8]");
  expect(W().U8(0x0e).Uleb(300), "cfa=r7+300 r16=[cfa-8]");
  expect(W().U8(0x13).Sleb(-2), "cfa=r7+16 r16=[cfa-8]");
  expect(W().U8(0x0f).Uleb(2).U8(0x77).Sleb(8), "cfa=[expression of 2] r16=[cfa-8]");
  // Registers.
  expect(W().U8(0x80 | 3).Uleb(2), "cfa=r7+8 r3=[cfa-16] r16=[cfa-8]");
  expect(W().U8(0x05).Uleb(3).Uleb(2), "cfa=r7+8 r3=[cfa-16] r16=[cfa-8]");
  expect(W().U8(0x11).Uleb(3).Sleb(-2), "cfa=r7+8 r3=[cfa+16] r16=[cfa-8]");
  expect(W().U8(0x2f).Uleb(3).Uleb(2), "cfa=r7+8 r3=[cfa+16] r16=[cfa-8]");
  expect(W().U8(0x14).Uleb(3).Uleb(2), "cfa=r7+8 r3=cfa-16 r16=[cfa-8]");
  expect(W().U8(0x15).Uleb(3).Sleb(-2), "cfa=r7+8 r3=cfa+16 r16=[cfa-8]");
  expect(W().U8(0x07).Uleb(16), "cfa=r7+8 r16=undefined");
  expect(W().U8(0x08).Uleb(16), "cfa=r7+8");
  expect(W().U8(0x09).Uleb(3).Uleb(12), "cfa=r7+8 r3=r12+0 r16=[cfa-8]");
  expect(W().U8(0x10).Uleb(3).Uleb(3).Text("abc"), "cfa=r7+8 r3=[expression of 3] r16=[cfa-8]");
  expect(W().U8(0x16).Uleb(3).Uleb(3).Text("abc"), "cfa=r7+8 r3=expression of 3 r16=[cfa-8]");
  expect(W().U8(0x80 | 3).Uleb(2).U8(0xc0 | 3), kCallRulesText);
  expect(W().U8(0x80 | 16).Uleb(2).U8(0xc0 | 16), kCallRulesText);
  expect(W().U8(0x80 | 16).Uleb(2).U8(0x06).Uleb(16), kCallRulesText);
  expect(W().U8(0x2e).Uleb(500), kCallRulesText);
  // Vector registers are passed over.
  expect(W().U8(0x05).Uleb(70).Uleb(2).U8(0x06).Uleb(70).U8(0x07).Uleb(1000), kCallRulesText);
  // Remember and restore, with the CFA.
  expect(W().U8(0x0a).U8(0x0e).Uleb(64).U8(0x80 | 3).Uleb(2).U8(0x0b), kCallRulesText);
  expect(W().U8(0x0a).U8(0x0e).Uleb(64).U8(0x0a).U8(0x0e).Uleb(72).U8(0x0b),
         "cfa=r7+64 r16=[cfa-8]");
}

TEST(Cfi, SetsTheLocationByPointer) {
  // DW_CFA_set_loc kText + 0x20 in the CIE's pc-relative encoding. The FDE lies behind a CIE of 24 bytes; its
  // instructions begin 17 bytes into it, the operand one byte later.
  CfiBytes frame(EhFormat());
  const size_t cie = frame.AddCie({.instructions = CallRules()});
  const uint64_t operand = kFrameVaddr + frame.bytes().size() + 17 + 1;
  frame.AddFde({.cie = cie,
                .start = kText,
                .size_bytes = 0x40,
                .instructions =
                    ByteWriter().U8(0x01).U32(kText + 0x20 - operand).U8(0x0e).Uleb(16).bytes()});
  const Object object = OpenSections({.eh_frame = frame.bytes()});
  EXPECT_EQ(object.At(kText + 0x1f), kCallRulesText);
  EXPECT_EQ(object.At(kText + 0x20), "cfa=r7+16 r16=[cfa-8]");
}

TEST(Cfi, TogglesReturnAddressSigningOnArm64Only) {
  const CfiBytes::Cie cie = {.code_alignment = 4,
                             .return_register = 30,
                             .instructions = ByteWriter().U8(0x0c).Uleb(31).Uleb(0).bytes()};
  const std::string sign = ByteWriter().U8(0x41).U8(0x2d).U8(0x41).U8(0x2c).bytes();
  const Object arm = OneFunction(sign, cie, {.machine = EM_AARCH64});
  EXPECT_EQ(arm.At(kText), "cfa=r31+0");
  EXPECT_EQ(arm.At(kText + 4), "cfa=r31+0 signed");
  EXPECT_EQ(arm.At(kText + 8), "cfa=r31+0");
  EXPECT_EQ(OneFunction(ByteWriter().U8(0x2d).bytes()).At(kText), kCallRulesText);
}

TEST(Cfi, GivesTheRowsRange) {
  const Object object =
      OneFunction(ByteWriter().U8(0x44).U8(0x0e).Uleb(16).U8(0x50).U8(0x0e).Uleb(8).bytes());
  UnwindRow row;
  CfiRange range;
  ASSERT_TRUE(object.cfi->FindRow(FileVaddr{kText + 7}, &row, &range));
  EXPECT_EQ(range.start, FileVaddr{kText + 4});
  EXPECT_EQ(range.end, FileVaddr{kText + 0x14});
  ASSERT_TRUE(object.cfi->FindRow(FileVaddr{kText + 0x14}, &row, &range));
  EXPECT_EQ(range.end, FileVaddr{kText + 0x40});
}

TEST(Cfi, RefusesDamagedInstructions) {
  using W = ByteWriter;
  for (const W& damage : {
           W().U8(0x0b),                          // nothing to restore
           W().U8(0x3f),                          // unknown
           W().U8(0x2c),                          // arm64's
           W().U8(0x0c).Uleb(36).Uleb(8),         // a CFA in a vector register
           W().U8(0x0e).Uleb(uint64_t{1} << 40),  // offsets that do not fit
           W().U8(0x83).Uleb(uint64_t{1} << 40),
           W().U8(0x83).Uleb(UINT64_MAX),
           W().U8(0x11).Uleb(3).Sleb(INT64_MIN),
           W().U8(0x0f).Uleb(100),  // an expression beyond the entry
           W().U8(0x10).Uleb(3).Uleb(100),
           W().U8(0x0f).Uleb(0).U8(0x0d).Uleb(6),  // a register for a CFA that is an expression
           W().U8(0x0f).Uleb(0).U8(0x0e).Uleb(16),
       }) {
    EXPECT_EQ(OneFunction(damage.bytes()).At(kText + 0x20), "none")
        << "opcode " << int{damage.bytes()[0]};
  }
  // Damage behind the row that is asked for does not matter.
  EXPECT_EQ(OneFunction(W().U8(0x60).U8(0x3f).bytes()).At(kText + 0x1f), kCallRulesText);
  EXPECT_EQ(OneFunction(W().U8(0x60).U8(0x3f).bytes()).At(kText + 0x20), "none");
}

TEST(Cfi, BoundsRememberedStates) {
  const auto nested = [](size_t depth) {
    return OneFunction(std::string(depth, '\x0a') + std::string(depth, '\x0b')).At(kText);
  };
  EXPECT_EQ(nested(CfiTable::kRememberDepthMax), kCallRulesText);
  EXPECT_EQ(nested(CfiTable::kRememberDepthMax + 1), "none");
}

TEST(Cfi, BoundsInstructions) {
  // The CIE has two instructions of its own and the entry's padding counts, so the count is found by doubling.
  const auto with = [](size_t count) { return OneFunction(std::string(count, '\0')).At(kText); };
  EXPECT_EQ(with(CfiTable::kInstructionsMax - 64), kCallRulesText);
  EXPECT_EQ(with(CfiTable::kInstructionsMax), "none");
}

CfiBytes ThreeFunctions() {
  CfiBytes frame(EhFormat());
  const size_t cie = frame.AddCie({.instructions = CallRules()});
  for (const uint64_t i : {2U, 0U, 1U}) {  // not in order
    frame.AddFde({.cie = cie,
                  .start = kText + 0x10 * i,
                  .size_bytes = i == 0 ? 0x10U : 0x8U,
                  .instructions = ByteWriter().U8(0x0e).Uleb(16 * (i + 1)).bytes()});
  }
  frame.AddTerminator();
  return frame;
}

void ExpectThreeFunctions(const Object& object) {
  EXPECT_EQ(object.At(kText - 1), "none");
  EXPECT_EQ(object.At(kText), "cfa=r7+16 r16=[cfa-8]");
  EXPECT_EQ(object.At(kText + 0xf), "cfa=r7+16 r16=[cfa-8]");
  EXPECT_EQ(object.At(kText + 0x17), "cfa=r7+32 r16=[cfa-8]");
  EXPECT_EQ(object.At(kText + 0x18), "none");
  EXPECT_EQ(object.At(kText + 0x27), "cfa=r7+48 r16=[cfa-8]");
  EXPECT_EQ(object.At(kText + 0x28), "none");
}

TEST(Cfi, SearchesTheHeadersTable) {
  const CfiBytes frame = ThreeFunctions();
  const Object object =
      OpenSections({.eh_frame = frame.bytes(), .eh_frame_hdr = frame.Header(kHeaderVaddr)});
  EXPECT_TRUE(object.cfi->uses_header());
  ExpectThreeFunctions(object);
  EXPECT_TRUE(object.cfi->uses_header());
}

TEST(Cfi, ScansWithoutAHeader) {
  const Object object = OpenSections({.eh_frame = ThreeFunctions().bytes()});
  EXPECT_FALSE(object.cfi->uses_header());
  ExpectThreeFunctions(object);
}

TEST(Cfi, ScansWhereTheHeaderIsDamaged) {
  const CfiBytes frame = ThreeFunctions();
  const std::string good = frame.Header(kHeaderVaddr);
  const auto with_byte = [&](size_t position, char value) {
    std::string damaged = good;
    damaged[position] = value;
    return damaged;
  };
  const size_t first_pair = 12;
  for (const std::string& header :
       {with_byte(0, 2),                             // version
        with_byte(1, '\xff'), with_byte(2, '\xff'),  // omitted pointers
        with_byte(3, '\xff'), with_byte(3, 0x1b),    // a table in another form
        with_byte(8, 100), with_byte(8, 0),          // count
        with_byte(first_pair + 1, 0x7f),             // not sorted
        with_byte(first_pair + 4, 1),                // no entry there
        with_byte(first_pair + 5, 0x7f),             // outside
        good.substr(0, 3), good.substr(0, 10), good.substr(0, 30)}) {
    const Object object = OpenSections({.eh_frame = frame.bytes(), .eh_frame_hdr = header});
    ExpectThreeFunctions(object);
    EXPECT_FALSE(object.cfi->uses_header());
  }
}

TEST(Cfi, FindsEhFrameBySegmentWhereSectionsAreStripped) {
  const CfiBytes frame = ThreeFunctions();
  for (const bool damaged : {false, true}) {
    ElfBytes elf;
    std::string header = frame.Header(kHeaderVaddr);
    if (damaged) header[3] = '\xff';
    // One segment with both; .eh_frame at kFrameVaddr.
    const uint32_t first =
        elf.Add({.name = ".eh_frame_hdr", .vaddr = kHeaderVaddr, .content = header});
    const uint32_t gap = elf.Add(
        {.name = ".gap",
         .content = std::string(kFrameVaddr - kHeaderVaddr - (header.size() + 7) / 8 * 8, '\0'),
         .alignment = 8});
    const uint32_t last =
        elf.Add({.name = ".eh_frame", .vaddr = kFrameVaddr, .content = frame.bytes() + "garbage"});
    elf.AddSegment(PT_LOAD, PF_R, {first, last});
    elf.AddSegment(PT_GNU_EH_FRAME, PF_R, {first, first});
    (void)gap;
    std::string bytes = elf.Build();
    bytes.replace(offsetof(Elf64_Ehdr, e_shoff), 8, 8, '\0');
    const Object object = Open(bytes);
    ASSERT_TRUE(object.file->sections().empty());
    ExpectThreeFunctions(object);
    EXPECT_EQ(object.cfi->uses_header(), !damaged);
  }
}

TEST(Cfi, PassesOverTerminatorsInTheMiddle) {
  CfiBytes frame(EhFormat());
  const size_t cie = frame.AddCie({.instructions = CallRules()});
  frame.AddTerminator();
  frame.AddFde({.cie = cie, .start = kText, .size_bytes = 0x40});
  EXPECT_EQ(OpenSections({.eh_frame = frame.bytes()}).At(kText), kCallRulesText);
}

TEST(Cfi, PrefersTheLongestOfEntriesWithTheSameStart) {
  CfiBytes frame(EhFormat());
  const size_t cie = frame.AddCie({.instructions = CallRules()});
  const auto rule = [](uint64_t offset) { return ByteWriter().U8(0x0e).Uleb(offset).bytes(); };
  frame.AddFde({.cie = cie, .start = kText, .size_bytes = 0x40, .instructions = rule(64)});
  frame.AddFde({.cie = cie, .start = kText, .size_bytes = 0x10, .instructions = rule(16)});
  frame.AddFde({.cie = cie, .start = kText, .size_bytes = 0, .instructions = rule(8)});
  EXPECT_EQ(OpenSections({.eh_frame = frame.bytes()}).At(kText + 0x20), "cfa=r7+64 r16=[cfa-8]");
}

TEST(Cfi, FallsBackToDebugFrame) {
  CfiBytes::Format format = EhFormat();
  format.is_eh_frame = false;
  CfiBytes debug(format);
  const size_t cie = debug.AddCie({.version = 3, .augmentation = "", .instructions = CallRules()});
  debug.AddFde({.cie = cie, .start = kText, .size_bytes = 0x1000});
  const CfiBytes frame = ThreeFunctions();
  const Object object = OpenSections({.eh_frame = frame.bytes(), .debug_frame = debug.bytes()});
  EXPECT_EQ(object.At(kText), "cfa=r7+16 r16=[cfa-8]") << "from .eh_frame";
  EXPECT_EQ(object.At(kText + 0x18), kCallRulesText) << "a gap of .eh_frame";
  size_t ranges = 0;
  object.cfi->ForEachRange([&](const CfiRange&) { ++ranges; });
  EXPECT_EQ(ranges, 4U);
}

TEST(Cfi, InflatesDebugFrame) {
  CfiBytes::Format format = EhFormat();
  format.is_eh_frame = false;
  CfiBytes debug(format);
  const size_t cie = debug.AddCie({.version = 3, .augmentation = "", .instructions = CallRules()});
  debug.AddFde({.cie = cie, .start = kText, .size_bytes = 0x40});
  const std::string& plain = debug.bytes();
  uLongf size = compressBound(plain.size());
  std::string zlib(size, '\0');
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(zlib.data()), &size,
                     reinterpret_cast<const Bytef*>(plain.data()), plain.size()),
            Z_OK);
  zlib.resize(size);
  ElfBytes gabi;
  gabi.Add({.name = ".debug_frame",
            .flags = SHF_COMPRESSED,
            .content = ByteWriter().U32(1).U32(0).U64(plain.size()).U64(8).Text(zlib).bytes()});
  EXPECT_EQ(Open(gabi.Build()).At(kText), kCallRulesText);
  ElfBytes gnu;
  gnu.Add(
      {.name = ".zdebug_frame",
       .content = ByteWriter(std::endian::big).Text("ZLIB").U64(plain.size()).Text(zlib).bytes()});
  EXPECT_EQ(Open(gnu.Build()).At(kText), kCallRulesText);
}

TEST(Cfi, KeepsWhatIsGoodOfADamagedSection) {
  CfiBytes frame = ThreeFunctions();
  // An FDE whose CIE pointer leads nowhere, one that leads to an FDE, then an entry that runs off the end.
  frame.AddRaw(ByteWriter().U32(16).U32(0x7fffffff).U64(0).U32(0).bytes());
  frame.AddRaw(ByteWriter().U32(16).U32(24).U64(0).U32(0).bytes());
  frame.AddRaw(ByteWriter().U32(0x1000).U32(0).bytes());
  const Object object = OpenSections({.eh_frame = frame.bytes()});
  ExpectThreeFunctions(object);
}

TEST(Cfi, SurvivesEveryTruncationAndBitFlip) {
  const CfiBytes frame = ThreeFunctions();
  const std::string header = frame.Header(kHeaderVaddr);
  for (size_t i = 0; i < frame.bytes().size(); ++i) {
    std::string flipped = frame.bytes();
    flipped[i] = static_cast<char>(flipped[i] ^ 0x80);
    for (const std::string& damaged : {frame.bytes().substr(0, i), flipped}) {
      for (const std::string& one_header : {header, std::string()}) {
        const Object object = OpenSections({.eh_frame = damaged, .eh_frame_hdr = one_header});
        for (uint64_t pc = kText - 8; pc < kText + 0x40; pc += 4) object.At(pc);
      }
    }
  }
}

TEST(Cfi, IsEmptyWithoutSections) {
  const Object object = OpenSections({});
  EXPECT_TRUE(object.cfi->empty());
  EXPECT_EQ(object.At(kText), "none");
}

TEST(CfiEntries, AreCountedUpToTheBound) {
  const CfiBytes frame = ThreeFunctions();
  internal::CfiSection section;
  section.bytes = AsBytes(frame.bytes());
  section.vaddr.value = kFrameVaddr;
  section.is_eh_frame = true;
  for (const uint64_t bound : {0U, 1U, 2U, 3U, 4U}) {
    uint64_t count = 0;
    internal::ForEachFde(section, bound, [&](uint64_t, const internal::Fde&) { ++count; });
    EXPECT_EQ(count, std::min<uint64_t>(bound, 3));
  }
}

// Real objects with unusual tables.
TEST(Cfi, ReadsObjectsThatTrippedOthers) {
  for (const char* name :
       {"otel-unwind/schrodinger-libpython3.8.so.1.0.gz", "otel-unwind/test.so"}) {
    const std::string path = TestDataPath(name);
    if (path.empty()) GTEST_SKIP() << TestDataMissing(name);
    const Object object = Open(ReadTestFile(path));
    size_t functions = 0;
    size_t rows = 0;
    std::vector<CfiRange> ranges;
    object.cfi->ForEachRange([&](const CfiRange& range) { ranges.push_back(range); });
    for (const CfiRange& range : ranges) {
      UnwindRow row;
      if (range.end <= range.start) continue;
      ++functions;
      if (object.cfi->FindRow(range.start, &row)) ++rows;
    }
    EXPECT_GT(functions, 50U) << name;
    EXPECT_EQ(rows, functions) << name;
  }
}

}  // namespace
}  // namespace ptarmigan
