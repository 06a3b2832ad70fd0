// The small parts of the pprof codec: wire format, fact comments, what a foreign file is.
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>

#include "export/internal/compression.h"
#include "export/internal/fact_comments.h"
#include "export/internal/foreign.h"
#include "export/internal/protobuf_wire.h"
#include "tests/export/profile_samples.h"

namespace ptarmigan::internal {
namespace {

TEST(ProtobufWire, WritesAndReadsEveryKindOfField) {
  WireWriter writer;
  writer.Unsigned(1, UINT64_MAX);
  writer.Signed(2, -1);
  writer.Unsigned(3, 0);  // not written
  writer.Bool(4, true);
  writer.Text(536870911, "text");
  WireReader reader(AsBytes(writer.bytes()));
  WireField field;
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.number, 1U);
  EXPECT_EQ(field.value, UINT64_MAX);
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(static_cast<int64_t>(field.value), -1);
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.number, 4U);
  ASSERT_TRUE(reader.Next(&field));
  EXPECT_EQ(field.number, 536870911U);
  EXPECT_EQ(AsText(field.bytes), "text");
  EXPECT_FALSE(reader.Next(&field));
  EXPECT_TRUE(reader.ok());
}

TEST(ProtobufWire, VarintsOfEverySizeComeBack) {
  for (unsigned bit = 0; bit < 64; ++bit) {
    for (const uint64_t value : {(uint64_t{1} << bit) - 1, uint64_t{1} << bit, UINT64_MAX >> bit}) {
      std::array<char, kVarintBytesMax> bytes;
      const char* const end = PutVarint(bytes.data(), value);
      EXPECT_EQ(static_cast<size_t>(end - bytes.data()), VarintSize(value)) << value;
      ByteCursor cursor(std::as_bytes(std::span(bytes)).first(VarintSize(value)));
      EXPECT_EQ(cursor.Uleb128(), value);
      EXPECT_TRUE(cursor.ok() && cursor.AtEnd()) << value;
    }
  }
}

TEST(ProtobufWire, NestedMessagesHaveLengthsOfAnySize) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{125}, size_t{126}, size_t{16000},
                            size_t{16384}, size_t{3000000}}) {
    const std::string text(size, 'x');
    WireWriter expected_inner;
    expected_inner.Text(3, text);
    WireWriter expected;
    expected.Text(2, expected_inner.bytes());
    expected.Unsigned(4, 5);
    WireWriter writer;
    writer.Message(2, [&] { writer.Text(3, text); });
    writer.Unsigned(4, 5);
    EXPECT_TRUE(writer.bytes() == expected.bytes()) << size;
  }
}

TEST(ProtobufWire, WhatIsNotTakenStays) {
  WireWriter writer;
  std::string all;
  std::string taken;
  for (int i = 0; i < 1000; ++i) {
    const std::string text = std::to_string(i * i);
    writer.Text(1, text);
    all += std::string("\x0a") + static_cast<char>(text.size()) + text;
    if (i % 7 == 0) taken += writer.Take(writer.size() / 2);
  }
  taken += writer.Take();
  EXPECT_EQ(taken, all);
  EXPECT_EQ(writer.size(), 0U);
}

TEST(ProtobufWire, StopsAtFaults) {
  // A length beyond the end, a cut number, field 0, a group, a number of 11 bytes.
  for (const std::string_view bytes :
       {std::string_view("\x0a\x05"
                         "ab"),
        std::string_view("\x08\x80"), std::string_view("\x00\x01", 2), std::string_view("\x0b"),
        std::string_view("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")}) {
    WireReader reader(AsBytes(bytes));
    WireField field;
    EXPECT_FALSE(reader.Next(&field));
    EXPECT_FALSE(reader.ok());
  }
}

TEST(FactComments, SayWhatTheProfileKnows) {
  const Profile profile = RichProfile();
  Profile back;
  for (const std::string& comment : FactComments(profile)) {
    EXPECT_TRUE(ParseFactComment(comment, &back)) << comment;
    EXPECT_EQ(comment.find('\n'), std::string::npos);
  }
  EXPECT_EQ(FactComments(back), FactComments(profile));
  EXPECT_EQ(back.quality, profile.quality);
  EXPECT_EQ(back.events, profile.events);
  EXPECT_TRUE(FactComments(Profile{}).empty());
}

TEST(FactComments, TakeNothingFromLinesThatDoNotFit) {
  Profile profile;
  for (const char* line :
       {"", "ptarmigan.samples", "ptarmigan.samples: captured=1",
        "ptarmigan.samples: captured=x kept=1", "ptarmigan.samples: captured=1 kept=1 more=1",
        "ptarmigan.samples: kept=1 captured=1",
        "ptarmigan.lost: stage=kernel reason=of_the_future unit=samples count=1",
        "ptarmigan.lost: stage=kernel reason=ring_full unit=samples count=-1",
        "ptarmigan.event: name=\"x samples=1 period_sum=1", "ptarmigan.event: name=\"x\\",
        "ptarmigan.unknown: a=1", "host: x"}) {
    EXPECT_FALSE(ParseFactComment(line, &profile)) << line;
  }
  EXPECT_EQ(profile.losses.captured(), 0U);
  EXPECT_TRUE(profile.losses.Entries().empty());
  EXPECT_TRUE(profile.events.empty());
}

TEST(Foreign, NamesFilesByTheirFirstBytes) {
  EXPECT_EQ(DescribeForeign(AsBytes("\x7f"
                                    "ELF")),
            "an ELF object file");
  EXPECT_EQ(DescribeForeign(AsBytes("  \n<HTML>")), "an HTML page");
  EXPECT_EQ(DescribeForeign(AsBytes("[1]")), "a JSON document");
  EXPECT_EQ(DescribeForeign(AsBytes(" \n ")), "a file of white space");
  EXPECT_EQ(DescribeForeign(AsBytes("gr\xc3\xbc\xc3\x9f dich")), "a text");
  EXPECT_EQ(DescribeForeign(AsBytes(std::string_view("\x0a\x04\x08\x01\x10\x02", 6))), "");
}

TEST(GzipStream, OfNothingIsAnEmptyMember) {
  const std::string member = GzipStream(4).Finish();
  EXPECT_EQ(member, Gzip({}, 4));
  const auto back = Gunzip(AsBytes(member), 1);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->plain, "");
  EXPECT_EQ(back->trailing_bytes, 0U);
}

TEST(GzipStream, GivesTheSameBytesHoweverItsInputIsCut) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i * 7919 % 1000);
  while (text.size() < 8 * GzipStream::kPartBytes + 12345) text += text.substr(0, text.size() - 1);
  const std::string whole = Gzip(AsBytes(text), 4);
  for (const size_t piece : {size_t{1000}, size_t{65536}, GzipStream::kPartBytes - 1,
                             GzipStream::kPartBytes, GzipStream::kPartBytes + 1, text.size()}) {
    GzipStream stream(4);
    for (size_t at = 0; at < text.size(); at += piece) stream.Write(text.substr(at, piece));
    EXPECT_EQ(stream.Finish(), whole) << piece;
  }
  const auto back = Gunzip(AsBytes(whole), text.size());
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->plain, text);
}

}  // namespace
}  // namespace ptarmigan::internal
