#include "elf/elf_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "base/str_format.h"
#include "tests/support/elf_bytes.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

const std::string kBuildIdBytes = "\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc";

std::unique_ptr<ElfFile> OpenBytes(const std::string& bytes) {
  auto file = ElfFile::FromBytes(AsBytes(bytes), "test.so");
  EXPECT_TRUE(file.has_value()) << file.error().message;
  return file ? std::move(file).value() : nullptr;
}

Error OpenError(const std::string& bytes) {
  auto file = ElfFile::FromBytes(AsBytes(bytes), "test.so");
  EXPECT_FALSE(file.has_value());
  return file ? Error{} : file.error();
}

// A text segment at 0x401000, a note segment, symbols.
std::string SampleObject(const ElfBytes::Format& format) {
  ElfBytes elf(format);
  const uint32_t note = elf.Add(
      {.name = ".note.gnu.build-id",
       .type = SHT_NOTE,
       .vaddr = 0x400200,
       .content = elf.NoteBytes({.name = "XX", .type = 7, .content = "12345"}) +
                  elf.NoteBytes({.name = "GNU", .type = NT_GNU_BUILD_ID, .content = kBuildIdBytes}),
       .alignment = 4});
  const uint32_t text = elf.Add({.name = ".text",
                                 .flags = SHF_ALLOC | SHF_EXECINSTR,
                                 .vaddr = 0x401000,
                                 .content = "0123456789abcdef",
                                 .alignment = 16});
  const uint32_t bss = elf.Add(
      {.name = ".bss", .type = SHT_NOBITS, .vaddr = 0x401010, .content = std::string(64, 'x')});
  elf.AddSegment(PT_LOAD, PF_R | PF_X, {text, bss}, 0x1000);
  elf.AddSegment(PT_NOTE, PF_R, {note, note}, 4);
  elf.AddSymbols(".symtab", {{.name = "main", .value = 0x401002, .size_bytes = 5, .section = 2},
                             {.name = "object",
                              .value = 0x401010,
                              .size_bytes = 8,
                              .type = STT_OBJECT,
                              .binding = STB_LOCAL,
                              .section = 3}});
  return elf.Build();
}

class ElfFormats : public testing::TestWithParam<std::tuple<bool, std::endian, bool>> {
 protected:
  static ElfBytes::Format Format() {
    const bool is_64_bit = std::get<0>(GetParam());
    return {.is_64_bit = is_64_bit,
            .order = std::get<1>(GetParam()),
            .machine = is_64_bit ? uint16_t{EM_AARCH64} : uint16_t{EM_ARM},
            .extended_counts = std::get<2>(GetParam())};
  }
};

INSTANTIATE_TEST_SUITE_P(ClassesAndByteOrders, ElfFormats,
                         testing::Combine(testing::Bool(),
                                          testing::Values(std::endian::little, std::endian::big),
                                          testing::Bool()));

TEST_P(ElfFormats, ReadsHeadersSectionsAndSegments) {
  const std::string bytes = SampleObject(Format());
  const auto file = OpenBytes(bytes);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->is_64_bit(), Format().is_64_bit);
  EXPECT_EQ(file->byte_order(), Format().order);
  EXPECT_EQ(file->arch(), Format().is_64_bit ? Arch::kArm64 : Arch::kArm);
  EXPECT_EQ(file->type(), ET_DYN);
  EXPECT_EQ(file->entry(), FileVaddr{0x1000});
  ASSERT_EQ(file->segments().size(), 2U);
  EXPECT_EQ(file->segments()[0].flags, uint32_t{PF_R | PF_X});
  EXPECT_EQ(file->segments()[0].vaddr, FileVaddr{0x401000});
  EXPECT_EQ(file->segments()[0].file_bytes, 16U);
  EXPECT_EQ(file->segments()[0].memory_bytes, 16U + 64U);
  EXPECT_EQ(file->segments()[0].alignment, 0x1000U);
  ASSERT_EQ(file->sections().size(), 7U);
  EXPECT_EQ(file->sections()[6].name, ".shstrtab");
  const ElfSection* text = file->FindSection(".text");
  ASSERT_NE(text, nullptr);
  EXPECT_EQ(AsText(file->RawContent(*text)), "0123456789abcdef");
  EXPECT_EQ(file->FindSection(".data"), nullptr);
  EXPECT_TRUE(file->RawContent(*file->FindSection(".bss")).empty());
}

TEST_P(ElfFormats, FindsTheBuildIdInANoteSegment) {
  const std::string bytes = SampleObject(Format());
  const auto file = OpenBytes(bytes);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->build_id().ToHex(), "0123456789abcdeffedc");
}

TEST_P(ElfFormats, ConvertsBetweenOffsetsAndAddresses) {
  const std::string bytes = SampleObject(Format());
  const auto file = OpenBytes(bytes);
  ASSERT_NE(file, nullptr);
  const FileOffset text = file->FindSection(".text")->offset;
  EXPECT_EQ(file->ToVaddr(text + 3), FileVaddr{0x401003});
  EXPECT_EQ(file->ToVaddr(text + 16), std::nullopt);
  EXPECT_EQ(file->ToVaddr(text - 1), std::nullopt);
  EXPECT_EQ(file->ToOffset(FileVaddr{0x40100f}), text + 15);
  EXPECT_EQ(file->ToOffset(FileVaddr{0x401010}), std::nullopt);
  EXPECT_EQ(AsText(file->ReadAt(FileVaddr{0x40100c}, 100)), "cdef");
  EXPECT_EQ(AsText(file->ReadAt(FileVaddr{0x40100c}, 2)), "cd");
  EXPECT_TRUE(file->ReadAt(FileVaddr{0x401020}, 4).empty());
}

TEST_P(ElfFormats, ReadsSymbols) {
  const std::string bytes = SampleObject(Format());
  const auto file = OpenBytes(bytes);
  ASSERT_NE(file, nullptr);
  std::vector<std::string> seen;
  file->ForEachSymbol(".symtab", [&](const ElfSymbol& symbol) {
    seen.push_back(StrFormat("{}@{:x}+{} {}/{} in {}", symbol.name, symbol.value.value,
                             symbol.size_bytes, symbol.type, symbol.binding, symbol.section));
  });
  EXPECT_EQ(seen, (std::vector<std::string>{"@0+0 0/0 in 0", "main@401002+5 2/1 in 2",
                                            "object@401010+8 1/0 in 3"}));
}

TEST_P(ElfFormats, SurvivesEveryTruncation) {
  const std::string bytes = SampleObject(Format());
  const size_t header_bytes = Format().is_64_bit ? 64 : 52;
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);  // own allocation, so that ASan sees its end
    const auto file = ElfFile::FromBytes(AsBytes(cut), "cut.so");
    ASSERT_EQ(file.has_value(), size >= header_bytes) << size;
    if (!file) {
      EXPECT_EQ(file.error().code, size < 16 ? ErrorCode::kInvalidInput : ErrorCode::kTruncated);
      continue;
    }
    for (const ElfSection& section : (*file)->sections()) {
      std::string storage;
      EXPECT_LE((*file)->Content(section, &storage).value().size(), size);
    }
    (*file)->ForEachSymbol(".symtab", [](const ElfSymbol&) {});
    (*file)->ReadAt(FileVaddr{0x401000}, 16);
    (*file)->DebugLink();
  }
}

TEST_P(ElfFormats, SurvivesEveryByteSetToOnes) {
  const std::string bytes = SampleObject(Format());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = '\xff';
    const auto file = ElfFile::FromBytes(AsBytes(damaged), "damaged.so");
    if (!file) continue;
    for (const ElfSection& section : (*file)->sections()) {
      std::string storage;
      (void)(*file)->Content(section, &storage);
    }
    (*file)->ForEachSymbol(".symtab", [](const ElfSymbol&) {});
    (*file)->ReadAt(FileVaddr{0x401000}, UINT64_MAX);
    (*file)->ToVaddr(FileOffset{UINT64_MAX});
  }
}

TEST(ElfFile, RejectsWhatIsNotElfWithOneSentence) {
  EXPECT_EQ(OpenError("").message, "test.so: not an ELF file");
  EXPECT_EQ(OpenError("#!/bin/sh\nexit 0 # long enough").message, "test.so: not an ELF file");
  std::string bytes = SampleObject({});
  bytes[EI_CLASS] = 3;
  EXPECT_EQ(OpenError(bytes).message, "test.so: ELF file of an unknown class or byte order");
  EXPECT_EQ(OpenError(SampleObject({}).substr(0, 40)).code, ErrorCode::kTruncated);
  EXPECT_FALSE(ElfFile::Open("/nonexistent/file").has_value());
  EXPECT_FALSE(ElfFile::Open("/").has_value());
}

TEST(ElfFile, FindsTheBuildIdInANoteSectionWithoutSegments) {
  ElfBytes elf;
  elf.Add({.name = ".note.gnu.build-id",
           .type = SHT_NOTE,
           .content =
               elf.NoteBytes({.name = "GNU", .type = NT_GNU_BUILD_ID, .content = kBuildIdBytes})});
  const std::string bytes = elf.Build();
  EXPECT_EQ(OpenBytes(bytes)->build_id().ToHex(), "0123456789abcdeffedc");
}

TEST(ElfFile, ReadsNotesPaddedToEightBytes) {
  ElfBytes elf;
  const uint32_t note = elf.Add(
      {.name = ".note.gnu.property",
       .type = SHT_NOTE,
       .content =
           elf.NoteBytes({.name = "GNU", .type = 5, .content = "0123456789ab"}, 8) +
           elf.NoteBytes({.name = "GNU", .type = NT_GNU_BUILD_ID, .content = kBuildIdBytes}, 8)});
  elf.AddSegment(PT_NOTE, PF_R, {note, note}, 8);
  const std::string bytes = elf.Build();
  EXPECT_EQ(OpenBytes(bytes)->build_id().ToHex(), "0123456789abcdeffedc");
}

TEST(ElfFile, StopsAtANoteThatDoesNotFit) {
  const ElfBytes elf;
  std::string notes = elf.NoteBytes({.name = "A", .type = 1, .content = "1"});
  notes += ByteWriter().U32(4).U32(UINT32_MAX).U32(3).CString("GNU").bytes();
  std::vector<uint32_t> types;
  ForEachNoteIn(AsBytes(notes), std::endian::little, 4,
                [&](const ElfNote& note) { types.push_back(note.type); });
  EXPECT_EQ(types, std::vector<uint32_t>{1});
  EXPECT_TRUE(BuildIdFromNotes(AsBytes(notes), std::endian::little).empty());
}

TEST(ElfFile, PrefersTheExecutableSegmentWhereTwoShareAnOffset) {
  ElfBytes elf;
  const uint32_t text = elf.Add({.name = ".text", .vaddr = 0x2000, .content = "0123456789abcdef"});
  elf.AddSegment(PT_LOAD, PF_R, {text, text});
  elf.AddSegment(PT_LOAD, PF_R | PF_X, {text, text});
  std::string bytes = elf.Build();
  // The first segment's p_vaddr.
  bytes.replace(sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_vaddr), 8,
                ByteWriter().U64(0x9000).bytes());
  const auto file = OpenBytes(bytes);
  EXPECT_EQ(file->ToVaddr(file->FindSection(".text")->offset + 1), FileVaddr{0x2001});
}

TEST(ElfFile, ReadsDebugLinks) {
  ElfBytes elf;
  elf.Add({.name = ".gnu_debuglink",
           .content = ByteWriter().CString("lib.debug").PadTo(4).U32(0x12345678).bytes()});
  elf.Add({.name = ".gnu_debugaltlink",
           .content = ByteWriter().CString("/usr/lib/debug/.dwz/x").Text(kBuildIdBytes).bytes()});
  const std::string bytes = elf.Build();
  const auto file = OpenBytes(bytes);
  ASSERT_TRUE(file->DebugLink().has_value());
  EXPECT_EQ(file->DebugLink()->file_name, "lib.debug");
  EXPECT_EQ(file->DebugLink()->crc, 0x12345678U);
  ASSERT_TRUE(file->DebugAltLink().has_value());
  EXPECT_EQ(file->DebugAltLink()->first, "/usr/lib/debug/.dwz/x");
  EXPECT_EQ(file->DebugAltLink()->second.ToHex(), "0123456789abcdeffedc");
}

TEST(ElfFile, IgnoresDamagedDebugLinks) {
  ElfBytes elf;
  elf.Add({.name = ".gnu_debuglink", .content = "no end"});
  elf.Add({.name = ".gnu_debugaltlink", .content = "no build id" + std::string(1, '\0')});
  const std::string bytes = elf.Build();
  EXPECT_FALSE(OpenBytes(bytes)->DebugLink().has_value());
  EXPECT_FALSE(OpenBytes(bytes)->DebugAltLink().has_value());
}

TEST(ElfFile, KnowsWhetherThereIsDwarf) {
  for (const auto& [name, type, expected] :
       {std::tuple<std::string, uint32_t, bool>{".debug_info", SHT_PROGBITS, true},
        {".zdebug_info", SHT_PROGBITS, true},
        {".debug_info", SHT_NOBITS, false},
        {".debug_line", SHT_PROGBITS, false}}) {
    ElfBytes elf;
    elf.Add({.name = name, .type = type, .content = "x"});
    const std::string bytes = elf.Build();
    EXPECT_EQ(OpenBytes(bytes)->HasDwarf(), expected) << name;
  }
}

TEST(ElfFile, ReadsSegmentsSectionsAndNamesUpToTheirBounds) {
  ElfBytes elf({.extended_counts = true});
  for (size_t i = 0; i < ElfFile::kSectionsMax + 8; ++i) elf.Add({.name = "s", .alignment = 1});
  for (size_t i = 0; i < ElfFile::kSegmentsMax + 8; ++i) elf.AddSegment(PT_LOAD, PF_R, {1, 1});
  const std::string bytes = elf.Build();
  const auto file = OpenBytes(bytes);
  EXPECT_EQ(file->sections().size(), ElfFile::kSectionsMax);
  EXPECT_EQ(file->segments().size(), ElfFile::kSegmentsMax);

  ElfBytes long_names;
  long_names.Add({.name = std::string(ElfFile::kSectionNameBytesMax + 5, 'n')});
  const std::string long_bytes = long_names.Build();
  EXPECT_EQ(OpenBytes(long_bytes)->sections()[1].name.size(), ElfFile::kSectionNameBytesMax);
}

TEST(ElfFile, BoundsTheWorkForOverlappingSymbolNames) {
  // 100,000 symbols that all claim the same name of 4 MB: cut, and quick.
  ElfBytes elf;
  elf.AddSymbols(".symtab", {{.name = std::string(size_t{4} << 20, 'n')}});
  std::string bytes = elf.Build();
  ByteWriter symbol;
  symbol.U32(1).U8(0x12).U8(0).U16(1).U64(0).U64(0);
  std::string symbols;
  for (int i = 0; i < 100'000; ++i) symbols += symbol.bytes();
  ElfBytes big;
  const uint32_t strings =
      big.Add({.name = ".strtab",
               .type = SHT_STRTAB,
               .content = std::string(1, '\0') + std::string(size_t{4} << 20, 'n')});
  big.Add({.name = ".symtab", .type = SHT_SYMTAB, .content = symbols, .link = strings});
  bytes = big.Build();
  const auto file = OpenBytes(bytes);
  uint64_t name_bytes = 0;
  size_t longest = 0;
  file->ForEachSymbol(".symtab", [&](const ElfSymbol& one) {
    name_bytes += one.name.size();
    longest = std::max(longest, one.name.size());
  });
  EXPECT_EQ(longest, ElfFile::kSymbolNameBytesMax);
  EXPECT_LE(name_bytes, (uint64_t{64} * 4 << 20) + 100'001U * 1024 + 64);
}

// The installed files that this machine may have, against binutils.
class SystemBinaries : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!PathExists(GetParam())) GTEST_SKIP() << GetParam() << " is not installed";
    if (!HaveProgram("readelf")) GTEST_SKIP() << "readelf is not installed";
  }
};

INSTANTIATE_TEST_SUITE_P(Installed, SystemBinaries,
                         testing::Values("/lib/x86_64-linux-gnu/libc.so.6", "/bin/ls",
                                         "/usr/bin/python3.11", "/lib64/ld-linux-x86-64.so.2",
                                         "/lib/aarch64-linux-gnu/libc.so.6",
                                         "/usr/aarch64-linux-gnu/lib/libc.so.6"));

TEST_P(SystemBinaries, SectionsEqualReadelf) {
  const auto file = ElfFile::Open(GetParam());
  ASSERT_TRUE(file.has_value());
  std::string ours;
  for (const ElfSection& section : (*file)->sections()) {
    if (section.name.empty()) continue;
    ours += StrFormat("{} {:016x} {:06x} {:06x}\n", section.name, section.vaddr.value,
                      section.offset.value, section.size_bytes);
  }
  const CommandResult theirs =
      RunCommand(StrFormat("readelf -SW {} | sed -n 's/^ *\\[ *[0-9]*\\] *//p' | "
                           "awk 'length($3) == 16 {{print $1, $3, $4, $5}}'",
                           GetParam()));
  EXPECT_TRUE(ours == theirs.out) << "sections differ";
}

TEST_P(SystemBinaries, BuildIdEqualsReadelf) {
  const auto file = ElfFile::Open(GetParam());
  ASSERT_TRUE(file.has_value());
  const CommandResult theirs =
      RunCommand(StrFormat("readelf -n {} | awk '/Build ID:/ {{printf \"%s\", $3}}'", GetParam()));
  EXPECT_FALSE(theirs.out.empty());
  EXPECT_EQ((*file)->build_id().ToHex(), theirs.out);
}

TEST_P(SystemBinaries, DynamicSymbolsEqualReadelf) {
  const auto fd = OpenFile(GetParam(), O_RDONLY);
  ASSERT_TRUE(fd.has_value());
  const auto file = ElfFile::FromFd(fd->get(), GetParam());
  ASSERT_TRUE(file.has_value());
  std::string ours;
  size_t count = 0;
  (*file)->ForEachSymbol(".dynsym", [&](const ElfSymbol& symbol) {
    ++count;
    if (!symbol.name.empty()) ours += StrFormat("{:016x} {}\n", symbol.value.value, symbol.name);
  });
  const CommandResult theirs =
      RunCommand(StrFormat("readelf --dyn-syms -W {} | "
                           "awk '$1 ~ /^[0-9]+:$/ && $4 != \"SECTION\" && $8 != \"\" {{sub(/@.*/, "
                           "\"\", $8); print $2, $8}}'",
                           GetParam()));
  EXPECT_GT(count, 10U);
  EXPECT_TRUE(ours == theirs.out) << "symbols differ";
}

}  // namespace
}  // namespace ptarmigan
