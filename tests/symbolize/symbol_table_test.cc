#include "symbolize/symbol_table.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "symbolize/internal/sym_format.h"
#include "symbolize/symbol_table_writer.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

constexpr uint64_t kStart = 0x1000;
constexpr uint64_t kFunctions = 3000;

std::string SampleTable() {
  SymbolRows rows;
  for (uint64_t i = 0; i < kFunctions; ++i) {
    const uint64_t start = kStart + i * 16;
    const auto scope = rows.AddFunction({.start = {start},
                                         .size_bytes = 16,
                                         .names = {.system_name = "f" + std::to_string(i)},
                                         .source = SymbolSource::kDwarf});
    const CodeRange range = {{start + 4}, {start + 8}};
    rows.AddInline(scope, {.system_name = "g"}, {.file = "a.h", .line = 5}, std::span(&range, 1));
    const SymbolRows::LineRow row = {
        .start = {start}, .file = rows.Intern("a.cc"), .line = static_cast<uint32_t>(i)};
    rows.AddLines(SymbolSource::kDwarf, std::span(&row, 1), {start + 16});
  }
  return WriteSymbolTable(rows, {.identity = "sample"}).value();
}

// The checksum of a changed directory made right again, as an attacker would.
void Reseal(std::string* bytes) {
  uint32_t directory_bytes = 0;
  std::memcpy(&directory_bytes, bytes->data() + 12, 4);
  const uint64_t zero = 0;
  std::memcpy(bytes->data() + internal::kSymChecksumOffset, &zero, 8);
  const uint64_t checksum =
      HashBytes64(AsBytes(std::string_view(*bytes).substr(0, directory_bytes)));
  std::memcpy(bytes->data() + internal::kSymChecksumOffset, &checksum, 8);
}

// Everything the table says, as one number.
uint64_t AskEverywhere(const SymbolTable& table) {
  FrameRef frames[SymbolTable::kFramesMax];
  uint64_t digest = 0;
  for (uint64_t address = 0; address < kStart + kFunctions * 16 + 64; address += 7) {
    const size_t count = table.FindFrames({address}, frames);
    EXPECT_LE(count, SymbolTable::kFramesMax);
    for (const FrameRef& frame : std::span(frames, count)) {
      digest = HashBytes64(AsBytes(frame.system_name), digest + frame.line);
      digest = HashBytes64(AsBytes(frame.file), digest);
    }
    if (const auto range = table.FindFunction({address})) digest += range->start.value;
  }
  return digest + table.FindFrames({UINT64_MAX}, frames);
}

TEST(SymbolTable, OpensAFileAndAnswers) {
  const std::string path = TestTemporaryDirectory() + "/a.sym";
  auto file = OutputFile::Create(path);
  ASSERT_TRUE(file.has_value());
  ASSERT_TRUE(file->Write(SampleTable()).has_value());
  ASSERT_TRUE(file->Commit().has_value());
  auto table = SymbolTable::Open(path);
  ASSERT_TRUE(table.has_value());
  FrameRef frames[SymbolTable::kFramesMax];
  ASSERT_EQ((*table)->FindFrames({kStart + 20}, frames), 2U);
  EXPECT_EQ(frames[0].system_name, "g");
  EXPECT_EQ(frames[0].file, "a.cc");
  EXPECT_EQ(frames[1].function, "f1");
  EXPECT_EQ(frames[1].file, "a.h");
  EXPECT_EQ((*table)->function_count(), kFunctions + 1);
}

TEST(SymbolTable, GivesEqualFunctionsOneNumber) {
  auto table = SymbolTable::FromString(SampleTable(), "test");
  ASSERT_TRUE(table.has_value());
  FrameRef first[SymbolTable::kFramesMax];
  FrameRef second[SymbolTable::kFramesMax];
  ASSERT_EQ((*table)->FindFrames({kStart + 4}, first), 2U);
  ASSERT_EQ((*table)->FindFrames({kStart + 16 * 2500 + 4}, second), 2U);
  EXPECT_EQ(first[0].function_id, second[0].function_id);
  EXPECT_NE(first[1].function_id, second[1].function_id);
}

TEST(SymbolTable, SaysInNumbersWhatItSaysInTexts) {
  const auto table = SymbolTable::FromString(SampleTable(), "test");
  ASSERT_TRUE(table.has_value());
  for (uint64_t address = kStart - 4; address < kStart + 40 * 16; address += 4) {
    InlineStack frames;
    std::vector<FrameNumbers> numbers;
    EXPECT_EQ((*table)->Find({address}, &frames), (*table)->FindNumbers({address}, &numbers));
    ASSERT_EQ(frames.size(), numbers.size());
    for (size_t i = 0; i < frames.size(); ++i) {
      SourceFrame frame;
      (*table)->Describe(numbers[i], &frame);
      EXPECT_EQ(frame.function, frames[i].function);
      EXPECT_EQ(frame.file, frames[i].file);
      EXPECT_EQ(frame.line, frames[i].line);
    }
  }
  SourceFrame nothing;
  (*table)->Describe({.function = UINT32_MAX, .file = UINT32_MAX}, &nothing);
  EXPECT_EQ(nothing.function + nothing.system_name + nothing.file, "");
}

TEST(SymbolTable, UnpacksAgainWhatWasDropped) {
  const auto table = SymbolTable::FromString(SampleTable(), "test");
  ASSERT_TRUE(table.has_value());
  EXPECT_EQ((*table)->unpacked_bytes(), 0U);
  const uint64_t digest = AskEverywhere(**table);
  EXPECT_GT((*table)->unpacked_bytes(), 0U);
  (*table)->DropPages();
  EXPECT_EQ((*table)->unpacked_bytes(), 0U);
  EXPECT_EQ(AskEverywhere(**table), digest);
}

TEST(SymbolTable, KeepsNumbersOfEveryWidth) {
  // A page whose lines span exactly what one, two and four bytes hold.
  for (const uint32_t span : {0U, 255U, 256U, 65535U, 65536U, UINT32_MAX - 7}) {
    SymbolRows rows;
    const uint32_t lines[] = {7, 7 + span, 7 + span / 2};
    std::vector<SymbolRows::LineRow> sequence;
    for (uint64_t i = 0; i < std::size(lines); ++i) {
      sequence.push_back(
          {.start = {kStart + i * 4}, .file = rows.Intern("a.cc"), .line = lines[i], .column = 3});
    }
    rows.AddLines(SymbolSource::kDwarf, sequence, {kStart + 12});
    const auto table = SymbolTable::FromString(WriteSymbolTable(rows, {}).value(), "test");
    ASSERT_TRUE(table.has_value());
    for (uint64_t i = 0; i < std::size(lines); ++i) {
      InlineStack frames;
      ASSERT_TRUE((*table)->Find({kStart + i * 4 + 1}, &frames)) << span;
      EXPECT_EQ(frames.front().line, lines[i]);
      EXPECT_EQ(frames.front().column, 3U);
    }
  }
}

TEST(SymbolTable, RefusesWhatIsNoTable) {
  for (const std::string& bytes :
       {std::string(),
        std::string("\x7f"
                    "ELF"),
        std::string(4096, '\0'), SampleTable().substr(0, 30), SampleTable().substr(0, 64)}) {
    const auto table = SymbolTable::FromBytes(AsBytes(bytes), "test");
    ASSERT_FALSE(table.has_value());
    EXPECT_EQ(table.error().code, ErrorCode::kInvalidInput);
    EXPECT_TRUE(table.error().message.starts_with("test: "));
  }
  EXPECT_EQ(SymbolTable::Open("/no/such/file").error().code, ErrorCode::kNotFound);
}

TEST(SymbolTable, RefusesAnotherVersionAsUnsupported) {
  std::string bytes = SampleTable();
  ++bytes[8];
  EXPECT_EQ(SymbolTable::FromBytes(AsBytes(bytes), "test").error().code, ErrorCode::kUnsupported);
}

TEST(SymbolTable, RefusesACutFile) {
  const std::string bytes = SampleTable();
  for (const size_t size : {bytes.size() - 1, bytes.size() / 2, size_t{100}}) {
    EXPECT_FALSE(SymbolTable::FromBytes(AsBytes(bytes.substr(0, size)), "test").has_value());
  }
  EXPECT_FALSE(SymbolTable::FromBytes(AsBytes(bytes + "x"), "test").has_value());
}

TEST(SymbolTable, NoticesEveryChangedByteOfItsDirectory) {
  const std::string good = SampleTable();
  uint32_t directory_bytes = 0;
  std::memcpy(&directory_bytes, good.data() + 12, 4);
  for (size_t i = 0; i < directory_bytes; ++i) {
    std::string bytes = good;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x41);
    EXPECT_FALSE(SymbolTable::FromBytes(AsBytes(bytes), "test").has_value()) << i;
  }
}

TEST(SymbolTable, SaysNothingWhereAPageIsDamagedAndTellsSo) {
  const std::string good = SampleTable();
  uint32_t directory_bytes = 0;
  std::memcpy(&directory_bytes, good.data() + 12, 4);
  const uint64_t truth = AskEverywhere(**SymbolTable::FromBytes(AsBytes(good), "test"));
  size_t damaged = 0;
  for (size_t i = directory_bytes; i < good.size(); i += 97) {
    std::string bytes = good;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
    const auto table = SymbolTable::FromBytes(AsBytes(bytes), "test");
    ASSERT_TRUE(table.has_value());
    const uint64_t digest = AskEverywhere(**table);
    // Not every bit of a packed page matters.
    EXPECT_TRUE((*table)->damaged() || digest == truth) << i;
    if ((*table)->damaged()) ++damaged;
  }
  EXPECT_GT(damaged, (good.size() - directory_bytes) / 97 * 9 / 10);
}

// With a right checksum the directory's own checks have to hold.
TEST(SymbolTable, SurvivesADirectoryChangedWithMalice) {
  const std::string good = SampleTable();
  uint32_t directory_bytes = 0;
  std::memcpy(&directory_bytes, good.data() + 12, 4);
  for (size_t i = 32; i < directory_bytes; ++i) {
    for (const char change : {'\x01', '\x80', '\xff'}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ change);
      Reseal(&bytes);
      const auto table = SymbolTable::FromBytes(AsBytes(bytes), "test");
      if (table.has_value()) AskEverywhere(**table);
    }
  }
}

TEST(SymbolTable, RefusesAPageThatWouldUnpackBeyondItsBound) {
  std::string bytes = SampleTable();
  // The raw size in the first code page's entry.
  const size_t place = internal::kSymHeaderBytes + 20;
  const uint32_t largest = internal::kSymCodeRawBytesMax;
  std::memcpy(bytes.data() + place, &largest, 4);
  Reseal(&bytes);
  auto table = SymbolTable::FromBytes(AsBytes(bytes), "test");
  ASSERT_TRUE(table.has_value()) << "at the bound it is only wrong";
  InlineStack frames;
  EXPECT_FALSE((*table)->Find({kStart}, &frames));
  EXPECT_TRUE((*table)->damaged());
  const uint32_t too_large = internal::kSymCodeRawBytesMax + 1;
  std::memcpy(bytes.data() + place, &too_large, 4);
  Reseal(&bytes);
  EXPECT_FALSE(SymbolTable::FromBytes(AsBytes(bytes), "test").has_value());
}

TEST(SymbolTable, AnswersManyThreadsAtOnce) {
  const std::string bytes = SampleTable();
  const auto table = SymbolTable::FromBytes(AsBytes(bytes), "test");
  ASSERT_TRUE(table.has_value());
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      FrameRef frames[SymbolTable::kFramesMax];
      for (uint64_t i = 0; i < kFunctions; ++i) {
        if ((*table)->FindFrames({kStart + i * 16 + 4}, frames) != 2 ||
            frames[1].system_name != "f" + std::to_string(i)) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(SymFormat, ReadsBackEveryLengthOfNumber) {
  const std::vector<uint32_t> values = {0, 1, 255, 256, 65535, 65536, UINT32_MAX, 0, 7};
  std::string bytes;
  internal::AppendColumn(values, &bytes);
  EXPECT_EQ(bytes.size(), 3U + 0 + 1 + 1 + 2 + 2 + 4 + 4 + 0 + 1);
  const size_t size = bytes.size();
  bytes.append(internal::ColumnReader::kPadding, '\x55');
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  std::vector<uint32_t> read(values.size());
  internal::ColumnReader whole(data, size);
  ASSERT_TRUE(whole.Read(read));
  EXPECT_EQ(read, values);
  EXPECT_EQ(whole.remaining(), 0U);
  for (size_t cut = 0; cut < size; ++cut) {
    EXPECT_FALSE(internal::ColumnReader(data, cut).Read(read)) << cut;
    EXPECT_FALSE(internal::ColumnReader(data, cut).Skip(read.size())) << cut;
  }
  internal::ColumnReader skipped(data, size);
  ASSERT_TRUE(skipped.Skip(read.size()));
  EXPECT_EQ(skipped.remaining(), 0U);
}

TEST(SymFormat, ZigZagTurnsSmallDifferencesIntoSmallNumbers) {
  for (const uint32_t delta : {0U, 1U, UINT32_MAX, 2U, UINT32_MAX - 1, 0x7fffffffU, 0x80000000U}) {
    EXPECT_EQ(internal::UnZigZag(internal::ZigZag(delta)), delta);
  }
  EXPECT_EQ(internal::ZigZag(UINT32_MAX), 1U);
}

}  // namespace
}  // namespace ptarmigan
