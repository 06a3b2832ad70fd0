#include "export/archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/export/profile_samples.h"

namespace ptarmigan {
namespace {

using ::testing::HasSubstr;

std::string Archive() {
  std::string out;
  StringSink sink(&out);
  auto writer = ArchiveWriter::Begin(&sink);
  EXPECT_TRUE(writer.has_value());
  EXPECT_TRUE(writer->AddProfile(RichProfile()).has_value());
  EXPECT_TRUE(
      writer->Add(ArchiveSection::kSymbolTable, "0123456789abcdef", AsBytes(std::string(5000, 's')))
          .has_value());
  EXPECT_TRUE(writer->Add(ArchiveSection::kCode, "[vdso]", AsBytes(std::string("\x90\x00\xc3", 3)))
                  .has_value());
  EXPECT_TRUE(writer->Add(ArchiveSection::kHost, "", AsBytes("{\"cpu\":\"x\"}")).has_value());
  EXPECT_TRUE(writer->Finish().has_value());
  return out;
}

TEST(Archive, ReadsBackEverySection) {
  const std::string bytes = Archive();
  const auto reader = ArchiveReader::Open(AsBytes(bytes));
  ASSERT_TRUE(reader.has_value()) << reader.error().message;
  EXPECT_TRUE(reader->is_complete());
  ASSERT_EQ(reader->entries().size(), 4U);
  EXPECT_EQ(*reader->Read(reader->Find(ArchiveSection::kSymbolTable, "0123456789abcdef")),
            std::string(5000, 's'));
  EXPECT_EQ(*reader->Read(reader->Find(ArchiveSection::kCode, "[vdso]")),
            std::string("\x90\x00\xc3", 3));
  EXPECT_EQ(*reader->Read(reader->Find(ArchiveSection::kHost, "")), "{\"cpu\":\"x\"}");
  EXPECT_EQ(reader->Find(ArchiveSection::kCode, "absent"), 4U);
  const auto profile = reader->ReadProfile();
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  EXPECT_TRUE(EquivalentProfiles(*profile, RichProfile()));
  EXPECT_EQ(profile->losses.Sentence(), RichProfile().losses.Sentence());
  EXPECT_EQ(bytes, Archive());
}

TEST(Archive, ReadsUpToTheLastWholeSection) {
  const std::string bytes = Archive();
  size_t readable = 0;
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto reader = ArchiveReader::Open(AsBytes(bytes).first(size));
    if (!reader) {
      EXPECT_FALSE(reader.error().message.empty());
      continue;
    }
    ++readable;
    EXPECT_FALSE(reader->is_complete());
    const auto profile = reader->ReadProfile();
    ASSERT_TRUE(profile.has_value());
    EXPECT_EQ(profile->losses.Lost(LossStage::kParse, LossReason::kTruncated, LossUnit::kRecords),
              1U);
  }
  EXPECT_GT(readable, 100U);
}

TEST(Archive, NoticesEveryFlippedBit) {
  const std::string bytes = Archive();
  constexpr size_t kHeaderBytes = 16;
  for (size_t i = kHeaderBytes; i < bytes.size(); ++i) {
    std::string bent = bytes;
    bent[i] = static_cast<char>(bent[i] ^ 0x10);
    const auto reader = ArchiveReader::Open(AsBytes(bent));
    if (!reader) continue;
    bool noticed = !reader->is_complete();
    for (size_t entry = 0; entry < reader->entries().size(); ++entry)
      noticed |= !reader->Read(entry).has_value();
    // Bytes that nobody reads: reserved words, flags beyond the first, the end mark's own sizes.
    if (noticed) continue;
    ASSERT_EQ(reader->entries().size(), 4U) << i;
    EXPECT_EQ(reader->ReadProfile()->Totals(), RichProfile().Totals()) << i;
  }
}

TEST(Archive, CountsSectionsOfLaterVersions) {
  std::string out;
  StringSink sink(&out);
  auto writer = ArchiveWriter::Begin(&sink);
  ASSERT_TRUE(writer.has_value());
  ASSERT_TRUE(writer->Add(static_cast<ArchiveSection>(77), "later", AsBytes("x")).has_value());
  ASSERT_TRUE(writer->AddProfile(RandomProfile({}, 1)).has_value());
  ASSERT_TRUE(writer->Finish().has_value());
  const auto profile = ArchiveReader::Open(AsBytes(out))->ReadProfile();
  ASSERT_TRUE(profile.has_value());
  EXPECT_EQ(profile->losses.Lost(LossStage::kParse, LossReason::kUnknownRecord, LossUnit::kRecords),
            1U);
}

TEST(Archive, BoundsSectionsNamesAndSizes) {
  const std::string bytes = Archive();
  EXPECT_TRUE(ArchiveReader::Open(AsBytes(bytes), {.sections_max = 4}).has_value());
  EXPECT_EQ(ArchiveReader::Open(AsBytes(bytes), {.sections_max = 3}).error().code,
            ErrorCode::kResourceLimit);
  EXPECT_TRUE(
      ArchiveReader::Open(AsBytes(bytes), {.section_bytes_max = 5000})->Read(1).has_value());
  EXPECT_EQ(ArchiveReader::Open(AsBytes(bytes), {.section_bytes_max = 4999})->Read(1).error().code,
            ErrorCode::kResourceLimit);
  std::string out;
  StringSink sink(&out);
  auto writer = ArchiveWriter::Begin(&sink);
  EXPECT_TRUE(
      writer->Add(ArchiveSection::kCode, std::string(kArchiveNameBytesMax, 'n'), {}).has_value());
  EXPECT_FALSE(writer->Add(ArchiveSection::kCode, std::string(kArchiveNameBytesMax + 1, 'n'), {})
                   .has_value());
}

TEST(Archive, RefusesOtherFilesAndOtherVersions) {
  EXPECT_FALSE(ArchiveReader::Open(AsBytes("something else")).has_value());
  std::string later = Archive();
  later[8] = 9;
  const auto reader = ArchiveReader::Open(AsBytes(later));
  ASSERT_FALSE(reader.has_value());
  EXPECT_EQ(reader.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(reader.error().message, HasSubstr("version 9"));
  std::string out;
  StringSink sink(&out);
  ASSERT_TRUE(ArchiveWriter::Begin(&sink)->Finish().has_value());
  const auto empty = ArchiveReader::Open(AsBytes(out));
  ASSERT_TRUE(empty.has_value());
  EXPECT_EQ(empty->ReadProfile().error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace ptarmigan
