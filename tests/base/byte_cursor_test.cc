#include "base/byte_cursor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace ptarmigan {
namespace {

using std::string_view_literals::operator""sv;

TEST(ByteCursor, ReadsUnalignedLittleEndianWords) {
  ByteCursor cursor(AsBytes("\x7f\x01\x02\x03\x04\x05\x06\x07\x08\xaa\xbb\xcc\xdd"sv),
                    std::endian::little);
  EXPECT_EQ(cursor.U8(), 0x7f);
  EXPECT_EQ(cursor.U64(), 0x0807060504030201U);
  EXPECT_EQ(cursor.U32(), 0xddccbbaaU);
  EXPECT_TRUE(cursor.ok());
  EXPECT_TRUE(cursor.AtEnd());
}

TEST(ByteCursor, ReadsBigEndianWords) {
  ByteCursor cursor(AsBytes("\x01\x02\x01\x02\x03\x04\x01\x02\x03\x04\x05\x06\x07\x08"sv),
                    std::endian::big);
  EXPECT_EQ(cursor.U16(), 0x0102);
  EXPECT_EQ(cursor.U32(), 0x01020304U);
  EXPECT_EQ(cursor.U64(), 0x0102030405060708U);
  EXPECT_EQ(cursor.swaps(), std::endian::native == std::endian::little);
}

TEST(ByteCursor, ReadsNegativeNumbersInBothOrders) {
  EXPECT_EQ(ByteCursor(AsBytes("\xfe\xff\xff\xff"sv), std::endian::little).S32(), -2);
  EXPECT_EQ(ByteCursor(AsBytes("\xff\xff\xff\xff\xff\xff\xff\xfe"sv), std::endian::big).S64(), -2);
}

TEST(ByteCursor, StaysFailedAfterOneReadBeyondTheEnd) {
  ByteCursor cursor(AsBytes("\x01\x02\x03"sv));
  EXPECT_EQ(cursor.U32(), 0U);
  EXPECT_FALSE(cursor.ok());
  EXPECT_EQ(cursor.remaining(), 0U);
  EXPECT_EQ(cursor.U8(), 0);
  cursor.Seek(0);
  EXPECT_FALSE(cursor.ok()) << "moving back must not hide the failed read";
}

TEST(ByteCursor, TakesExactlyTheRestButNotOneByteMore) {
  ByteCursor whole(AsBytes("abcd"));
  EXPECT_EQ(AsText(whole.Take(4)), "abcd");
  EXPECT_TRUE(whole.ok());

  ByteCursor short_by_one(AsBytes("abcd"));
  EXPECT_TRUE(short_by_one.Take(5).empty());
  EXPECT_FALSE(short_by_one.ok());
}

TEST(ByteCursor, RefusesCountsThatWouldWrapThePosition) {
  ByteCursor cursor(AsBytes("abcd"));
  cursor.U8();
  EXPECT_FALSE(cursor.Skip(std::numeric_limits<uint64_t>::max()));
  EXPECT_FALSE(cursor.ok());
}

TEST(ByteCursor, SkipsNothingWithoutFailing) {
  ByteCursor cursor({});
  EXPECT_TRUE(cursor.Skip(0));
  EXPECT_TRUE(cursor.ok());
  EXPECT_TRUE(cursor.AtEnd());
}

TEST(ByteCursor, SeeksUpToTheEndAndNotBeyond) {
  ByteCursor cursor(AsBytes("abcd"));
  cursor.Seek(4);
  EXPECT_TRUE(cursor.ok());
  cursor.Seek(1);
  EXPECT_EQ(cursor.U8(), 'b');
  cursor.Seek(5);
  EXPECT_FALSE(cursor.ok());
}

TEST(ByteCursor, AlignsFromTheStartOfTheSpan) {
  ByteCursor cursor(AsBytes("0123456789"));
  cursor.AlignTo(8);
  EXPECT_EQ(cursor.position(), 0U);
  cursor.U8();
  cursor.AlignTo(8);
  EXPECT_EQ(cursor.position(), 8U);
  cursor.U8();
  cursor.AlignTo(8);
  EXPECT_FALSE(cursor.ok()) << "16 lies beyond the end";
}

TEST(ByteCursor, ReadsStringsUpToTheirNul) {
  ByteCursor cursor(AsBytes("one\0\0two\0rest"sv));
  EXPECT_EQ(cursor.CString(), "one");
  EXPECT_EQ(cursor.CString(), "");
  EXPECT_EQ(cursor.CString(), "two");
  EXPECT_TRUE(cursor.ok());
  EXPECT_EQ(cursor.CString(), "rest");
  EXPECT_FALSE(cursor.ok()) << "the last string has no NUL";
}

TEST(ByteCursor, CutsFixedFieldsAtTheFirstNul) {
  ByteCursor cursor(AsBytes("ab\0xfull"sv));
  EXPECT_EQ(cursor.FixedString(4), "ab");
  EXPECT_EQ(cursor.FixedString(4), "full");
  EXPECT_TRUE(cursor.ok());
}

// Values and encodings of the DWARF 5 standard, figures 22 and 23.
TEST(ByteCursor, ReadsTheLeb128ExamplesOfTheDwarfStandard) {
  const auto unsigned_of = [](std::string_view bytes) {
    return ByteCursor(AsBytes(bytes)).Uleb128();
  };
  EXPECT_EQ(unsigned_of("\x02"sv), 2U);
  EXPECT_EQ(unsigned_of("\x7f"sv), 127U);
  EXPECT_EQ(unsigned_of("\x80\x01"sv), 128U);
  EXPECT_EQ(unsigned_of("\x81\x01"sv), 129U);
  EXPECT_EQ(unsigned_of("\xb9\x64"sv), 12857U);
  const auto signed_of = [](std::string_view bytes) {
    return ByteCursor(AsBytes(bytes)).Sleb128();
  };
  EXPECT_EQ(signed_of("\x02"sv), 2);
  EXPECT_EQ(signed_of("\x7e"sv), -2);
  EXPECT_EQ(signed_of("\xff\x00"sv), 127);
  EXPECT_EQ(signed_of("\x81\x7f"sv), -127);
  EXPECT_EQ(signed_of("\x80\x01"sv), 128);
  EXPECT_EQ(signed_of("\x80\x7f"sv), -128);
}

TEST(ByteCursor, AcceptsTheLargestUleb128AndRefusesOneBitMore) {
  ByteCursor largest(AsBytes("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"sv));
  EXPECT_EQ(largest.Uleb128(), std::numeric_limits<uint64_t>::max());
  EXPECT_TRUE(largest.ok());

  ByteCursor larger(AsBytes("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"sv));
  larger.Uleb128();
  EXPECT_FALSE(larger.ok());
}

TEST(ByteCursor, AcceptsTheExtremesOfSleb128) {
  ByteCursor smallest(AsBytes("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f"sv));
  EXPECT_EQ(smallest.Sleb128(), std::numeric_limits<int64_t>::min());
  EXPECT_TRUE(smallest.ok());
  ByteCursor greatest(AsBytes("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00"sv));
  EXPECT_EQ(greatest.Sleb128(), std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(greatest.ok());
}

TEST(ByteCursor, FailsOnLeb128WithoutAnEnd) {
  ByteCursor cut(AsBytes("\x80\x80"sv));
  cut.Uleb128();
  EXPECT_FALSE(cut.ok());

  const std::string endless(1000, '\x80');
  ByteCursor padded(AsBytes(endless));
  padded.Sleb128();
  EXPECT_FALSE(padded.ok());
}

TEST(ByteCursor, CopiesHaveTheirOwnPosition) {
  ByteCursor first(AsBytes("abcd"));
  ByteCursor second = first;
  second.Skip(2);
  EXPECT_EQ(first.U8(), 'a');
  EXPECT_EQ(second.U8(), 'c');
}

TEST(ByteSwap, ReversesEveryWidth) {
  EXPECT_EQ(ByteSwap<uint8_t>(0x12), 0x12);
  EXPECT_EQ(ByteSwap<uint16_t>(0x1234), 0x3412);
  EXPECT_EQ(ByteSwap<uint32_t>(0x12345678U), 0x78563412U);
  EXPECT_EQ(ByteSwap<uint64_t>(0x0102030405060708U), 0x0807060504030201U);
  EXPECT_EQ(ByteSwap<int32_t>(-2), static_cast<int32_t>(0xfeffffffU));
}

TEST(SubspanOrEmpty, GivesPartsThatLieInsideAndNothingElse) {
  const Bytes bytes = AsBytes("abcdef");
  EXPECT_EQ(AsText(SubspanOrEmpty(bytes, 2, 4)), "cdef");
  EXPECT_TRUE(SubspanOrEmpty(bytes, 2, 5).empty());
  EXPECT_TRUE(SubspanOrEmpty(bytes, 6, 0).empty());
  EXPECT_TRUE(SubspanOrEmpty(bytes, 7, 0).empty());
  EXPECT_TRUE(SubspanOrEmpty(bytes, 2, std::numeric_limits<uint64_t>::max() - 1).empty());
}

TEST(CheckedArithmetic, SaysWhenItDoesNotFit) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  uint64_t result = 0;
  EXPECT_TRUE(CheckedAdd(kMax - 1, 1, &result));
  EXPECT_EQ(result, kMax);
  EXPECT_FALSE(CheckedAdd(kMax, 1, &result));
  EXPECT_TRUE(CheckedMul(uint64_t{1} << 32, (uint64_t{1} << 32) - 1, &result));
  EXPECT_FALSE(CheckedMul(uint64_t{1} << 32, uint64_t{1} << 32, &result));
}

}  // namespace
}  // namespace ptarmigan
