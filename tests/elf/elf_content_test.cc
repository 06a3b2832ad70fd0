#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <tuple>

#include "base/str_format.h"
#include "elf/elf_file.h"
#include "tests/support/elf_bytes.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

constexpr uint32_t kZlib = 1;
constexpr uint32_t kZstd = 2;

std::string Zlib(const std::string& text) {
  uLongf size = compressBound(text.size());
  std::string out(size, '\0');
  compress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(text.data()),
           text.size());
  out.resize(size);
  return out;
}

std::string Zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string SampleText(size_t lines) {
  std::string text;
  for (size_t i = 0; i < lines; ++i) text += StrFormat("line {} of the section\n", i * i);
  return text;
}

// Compresses so well that the output has to grow several times.
std::string LongText() {
  return SampleText(1000) + std::string(size_t{6} << 20, 'x') + SampleText(1000);
}

struct Header {
  uint32_t method = kZlib;
  uint64_t size_bytes = 0;
};

// One section ".debug_info" with a gABI compression header.
std::string Object(const ElfBytes::Format& format, const Header& header, const std::string& data) {
  ByteWriter content(format.order);
  content.U32(header.method);
  if (format.is_64_bit) content.U32(0).U64(header.size_bytes).U64(1);
  if (!format.is_64_bit) content.U32(header.size_bytes).U32(1);
  ElfBytes elf(format);
  elf.Add({.name = ".debug_info", .flags = SHF_COMPRESSED, .content = content.bytes() + data});
  return elf.Build();
}

Result<std::string> ReadContent(const std::string& object, std::string_view section) {
  TRY_ASSIGN(const std::unique_ptr<ElfFile> file, ElfFile::FromBytes(AsBytes(object), "test.so"));
  std::string storage;
  TRY_ASSIGN(const Bytes content, file->Content(*file->FindSection(section), &storage));
  return std::string(AsText(content));
}

class CompressedFormats : public testing::TestWithParam<std::tuple<bool, std::endian>> {
 protected:
  static ElfBytes::Format Format() {
    return {.is_64_bit = std::get<0>(GetParam()), .order = std::get<1>(GetParam())};
  }
};

INSTANTIATE_TEST_SUITE_P(ClassesAndByteOrders, CompressedFormats,
                         testing::Combine(testing::Bool(),
                                          testing::Values(std::endian::little, std::endian::big)));

TEST_P(CompressedFormats, InflatesZlib) {
  const std::string text = LongText();
  EXPECT_EQ(ReadContent(Object(Format(), {kZlib, text.size()}, Zlib(text)), ".debug_info").value(),
            text);
}

TEST_P(CompressedFormats, InflatesZstd) {
  const std::string text = LongText();
  EXPECT_EQ(ReadContent(Object(Format(), {kZstd, text.size()}, Zstd(text)), ".debug_info").value(),
            text);
}

TEST(ElfContent, InflatesSeveralZstdFrames) {
  const std::string text = SampleText(100);
  EXPECT_EQ(
      ReadContent(Object({}, {kZstd, 2 * text.size()}, Zstd(text) + Zstd(text)), ".debug_info")
          .value(),
      text + text);
}

TEST(ElfContent, InflatesTheOlderGnuForm) {
  const std::string text = SampleText(1000);
  for (const std::endian order : {std::endian::little, std::endian::big}) {
    ElfBytes elf({.order = order});
    elf.Add(
        {.name = ".zdebug_frame",
         .content =
             ByteWriter(std::endian::big).Text("ZLIB").U64(text.size()).Text(Zlib(text)).bytes()});
    EXPECT_EQ(ReadContent(elf.Build(), ".zdebug_frame").value(), text);
  }
}

TEST(ElfContent, GivesPlainSectionsWithoutACopy) {
  ElfBytes elf;
  elf.Add({.name = ".debug_line", .content = "plain"});
  elf.Add({.name = ".zdebug_line", .content = "not compressed"});
  const std::string bytes = elf.Build();
  const auto file = ElfFile::FromBytes(AsBytes(bytes), "test.so");
  std::string storage;
  const auto content = (*file)->Content(*(*file)->FindSection(".debug_line"), &storage);
  EXPECT_EQ(AsText(*content), "plain");
  EXPECT_TRUE(storage.empty());
  EXPECT_EQ(ReadContent(bytes, ".zdebug_line").value(), "not compressed");
}

TEST(ElfContent, RefusesDamagedDataWithOneSentence) {
  const std::string text = SampleText(1000);
  for (const uint32_t method : {kZlib, kZstd}) {
    const std::string data = method == kZlib ? Zlib(text) : Zstd(text);
    const auto expect_damaged = [&](uint64_t declared, const std::string& damaged) {
      const auto content = ReadContent(Object({}, {method, declared}, damaged), ".debug_info");
      ASSERT_FALSE(content.has_value());
      EXPECT_EQ(content.error().code, ErrorCode::kInvalidInput);
      EXPECT_EQ(content.error().message, "test.so: section .debug_info: damaged compressed data");
    };
    expect_damaged(text.size(), data.substr(0, data.size() / 2));
    expect_damaged(text.size(), data.substr(0, 1));
    expect_damaged(text.size(), "");
    expect_damaged(text.size() + 1, data);
    expect_damaged(text.size() - 1, data);
    std::string flipped = data;
    flipped[data.size() / 2] = static_cast<char>(flipped[data.size() / 2] ^ 0x55);
    // zstd frames of the one-shot interface have no checksum: a flip may give other text, never
    // other sizes.
    const auto content = ReadContent(Object({}, {method, text.size()}, flipped), ".debug_info");
    if (content) {
      EXPECT_EQ(content->size(), text.size());
    }
  }
}

TEST(ElfContent, DoesNotBelieveTheDeclaredSize) {
  // At the bound the size is accepted, but the data ends long before: no 2 GiB are touched.
  const auto at_bound =
      ReadContent(Object({}, {kZlib, ElfFile::kInflatedSectionBytesMax}, Zlib("x")), ".debug_info");
  ASSERT_FALSE(at_bound.has_value());
  EXPECT_EQ(at_bound.error().code, ErrorCode::kInvalidInput);
  const auto above = ReadContent(
      Object({}, {kZlib, ElfFile::kInflatedSectionBytesMax + 1}, Zlib("x")), ".debug_info");
  ASSERT_FALSE(above.has_value());
  EXPECT_EQ(above.error().code, ErrorCode::kResourceLimit);
}

TEST(ElfContent, RefusesUnknownMethodsAndShortHeaders) {
  EXPECT_EQ(ReadContent(Object({}, {99, 4}, "data"), ".debug_info").error().code,
            ErrorCode::kUnsupported);
  ElfBytes elf;
  elf.Add({.name = ".debug_info", .flags = SHF_COMPRESSED, .content = "123456789"});
  EXPECT_EQ(ReadContent(elf.Build(), ".debug_info").error().code, ErrorCode::kInvalidInput);
}

TEST(ElfContent, InflatesWhatObjcopyCompressed) {
  if (!HaveProgram("objcopy")) GTEST_SKIP() << "objcopy is not installed";
  ElfBytes elf({.type = ET_REL});
  const std::string text = SampleText(5000);
  elf.Add({.name = ".debug_info", .content = text, .alignment = 1});
  const std::string directory = TestTemporaryDirectory();
  auto out = OutputFile::Create(directory + "/plain.o");
  ASSERT_TRUE(out.has_value());
  ASSERT_TRUE(out->Write(elf.Build()).has_value());
  ASSERT_TRUE(out->Commit().has_value());
  for (const std::string style : {"zlib-gabi", "zlib-gnu", "zstd"}) {
    const CommandResult made = RunCommand(StrFormat(
        "cd {} && objcopy --compress-debug-sections={} plain.o {}.o", directory, style, style));
    if (made.exit_code != 0) continue;  // older binutils have no zstd
    const auto file = ElfFile::Open(directory + "/" + style + ".o");
    ASSERT_TRUE(file.has_value());
    const ElfSection* section =
        (*file)->FindSection(style == "zlib-gnu" ? ".zdebug_info" : ".debug_info");
    ASSERT_NE(section, nullptr) << style;
    EXPECT_LT(section->size_bytes, text.size() / 2);
    std::string storage;
    const auto content = (*file)->Content(*section, &storage);
    ASSERT_TRUE(content.has_value()) << content.error().message;
    EXPECT_EQ(AsText(*content), text) << style;
  }
}

}  // namespace
}  // namespace ptarmigan
