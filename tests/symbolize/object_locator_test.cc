#include "symbolize/object_locator.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "symbolize/internal/build_id_index.h"
#include "tests/support/elf_bytes.h"
#include "tests/symbolize/test_programs.h"

namespace ptarmigan {
namespace {

// A small object with a build id whose every byte is `id`, optionally with parts that debug files have.
struct ObjectParts {
  uint8_t id = 0;
  bool symbols = false;
  bool dwarf = false;
  std::string debug_link = {};
  uint32_t debug_link_crc = 0;
  std::string alt_path = {};
  uint8_t alt_id = 0;
};

std::string IdBytes(uint8_t id) { return std::string(20, static_cast<char>(id)); }

BuildId IdOf(uint8_t id) {
  const std::string bytes = IdBytes(id);
  return BuildId(AsBytes(bytes));
}

std::string MakeObject(const ObjectParts& parts) {
  ElfBytes elf;
  elf.Add({.name = ".text",
           .flags = SHF_ALLOC | SHF_EXECINSTR,
           .vaddr = 0x1000,
           .content = std::string(64, '\x90')});
  if (parts.id != 0) {
    elf.Add({.name = ".note.gnu.build-id",
             .type = SHT_NOTE,
             .flags = SHF_ALLOC,
             .content = elf.NoteBytes({.name = "GNU", .type = 3, .content = IdBytes(parts.id)}),
             .alignment = 4});
  }
  if (parts.symbols) elf.AddSymbols(".symtab", {{.name = "f", .value = 0x1000, .size_bytes = 16}});
  if (parts.dwarf) elf.Add({.name = ".debug_info", .content = std::string(32, 'd')});
  if (!parts.debug_link.empty()) {
    ByteWriter link;
    link.CString(parts.debug_link).PadTo(4).U32(parts.debug_link_crc);
    elf.Add({.name = ".gnu_debuglink", .content = link.bytes(), .alignment = 4});
  }
  if (!parts.alt_path.empty()) {
    elf.Add({.name = ".gnu_debugaltlink",
             .content = parts.alt_path + '\0' + IdBytes(parts.alt_id),
             .alignment = 1});
  }
  return elf.Build();
}

void WriteObject(const std::string& path, const ObjectParts& parts) {
  ASSERT_TRUE(MakeDirectories(path.substr(0, path.rfind('/'))));
  WriteTestFile(path, MakeObject(parts));
}

std::string BuildIdFile(uint8_t id, const std::string& suffix) {
  const std::string hex = IdOf(id).ToHex();
  return ".build-id/" + hex.substr(0, 2) + "/" + hex.substr(2) + suffix;
}

class ObjectLocatorTest : public ::testing::Test {
 protected:
  ObjectLocatorTest() : root_(TestTemporaryDirectory()) {
    options_.debug_root = root_ + "/debug-root";
    options_.perf_cache = root_ + "/perf-cache";
    options_.proc_root = root_ + "/proc";
    options_.binary_paths = {root_ + "/given"};
  }
  LocatedObject Locate(const CodeObject& object, const LoadHints& hints = {}) const {
    return ObjectLocator(options_).Locate(object, hints);
  }
  std::string At(const std::string& relative) const { return root_ + "/" + relative; }

  std::string root_;
  LocatorOptions options_;
};

TEST_F(ObjectLocatorTest, TakesPlacesInTheirOrder) {
  const std::string path = At("bin/prog");
  const CodeObject object = FileObject(path, IdOf(7));
  EXPECT_EQ(Locate(object).object_misses.miss, SymbolMiss::kFileNotFound);
  // From the last place to the first: each new file must win.
  WriteObject(At("perf-cache/" + BuildIdFile(7, "") + "/elf"), {.id = 7});
  EXPECT_EQ(Locate(object).object.path, At("perf-cache/" + BuildIdFile(7, "") + "/elf"));
  WriteObject(path, {.id = 7});
  EXPECT_EQ(Locate(object).object.path, path);
  WriteObject(At("given/prog"), {.id = 7});
  EXPECT_EQ(Locate(object).object.path, At("given/prog"));
  WriteObject(At("given") + path, {.id = 7});
  EXPECT_EQ(Locate(object).object.path, At("given") + path);
  WriteObject(At("given/" + BuildIdFile(7, "")), {.id = 7});
  EXPECT_EQ(Locate(object).object.path, At("given/" + BuildIdFile(7, "")));
}

TEST_F(ObjectLocatorTest, FindsAGivenFileOfAnyNameByItsBuildId) {
  const CodeObject object = FileObject(At("bin/prog"), IdOf(7));
  WriteObject(At("given/other"), {.id = 8});
  WriteTestFile(At("given/notes.txt"), "no ELF file");
  WriteObject(At("given/prog-2.1.renamed"), {.id = 7});
  EXPECT_EQ(Locate(object).object.path, At("given/prog-2.1.renamed"));
  EXPECT_EQ(Locate(FileObject(At("bin/prog"), IdOf(9))).object.file, nullptr);
  EXPECT_EQ(Locate(FileObject(At("bin/prog"), BuildId())).object.file, nullptr)
      << "without a build id nothing says that it is the object";
  options_.binary_paths = {At("given/prog-2.1.renamed")};
  EXPECT_EQ(Locate(object).object.path, At("given/prog-2.1.renamed")) << "a file may be given";
}

TEST_F(ObjectLocatorTest, FindsAGivenDebugFileOfAnyNameByItsBuildId) {
  const CodeObject object = FileObject(At("bin/prog"), IdOf(7));
  WriteObject(At("given/prog"), {.id = 7});
  WriteObject(At("given/symbols-of-prog"), {.id = 7, .dwarf = true});
  EXPECT_EQ(Locate(object).debug.path, At("given/symbols-of-prog"));
}

TEST_F(ObjectLocatorTest, LooksAtABoundedNumberOfGivenFiles) {
  ASSERT_TRUE(MakeDirectories(At("given")));
  for (size_t i = 0; i < internal::BuildIdIndex::kFilesMax; ++i) {
    WriteTestFile(At("given/a" + std::to_string(i)), "");
  }
  WriteObject(At("given/b"), {.id = 7});
  EXPECT_EQ(Locate(FileObject(At("bin/prog"), IdOf(7))).object.file, nullptr);
  WriteObject(At("given/A"), {.id = 7});
  EXPECT_EQ(Locate(FileObject(At("bin/prog"), IdOf(7))).object.path, At("given/A"));
}

TEST_F(ObjectLocatorTest, TakesDebugPlacesInTheirOrder) {
  const std::string path = At("bin/prog");
  WriteObject(path, {.id = 7, .debug_link = "prog.dbg", .debug_link_crc = 0});
  const CodeObject object = FileObject(path, IdOf(7));
  EXPECT_EQ(Locate(object).debug.file, nullptr);
  EXPECT_FALSE(Locate(object).debug_misses.tried.empty());
  for (const std::string& place :
       {At("perf-cache/" + BuildIdFile(7, "") + "/debug"), At("debug-root") + path + ".debug",
        At("debug-root/" + BuildIdFile(7, ".debug")), At("given/prog.debug"),
        At("given") + path + ".debug", At("given/" + BuildIdFile(7, ".debug"))}) {
    WriteObject(place, {.id = 7, .symbols = true});
    EXPECT_EQ(Locate(object).debug.path, place);
    EXPECT_TRUE(Locate(object).debug_misses.tried.empty());
  }
}

TEST_F(ObjectLocatorTest, NeverUsesAnotherBuild) {
  const std::string path = At("bin/prog");
  WriteObject(path, {.id = 8, .symbols = true, .dwarf = true});
  WriteObject(At("given/prog"), {.symbols = true});  // no build id at all
  WriteObject(At("debug-root") + path + ".debug", {.id = 9, .dwarf = true});
  const LocatedObject located = Locate(FileObject(path, IdOf(7)));
  EXPECT_EQ(located.object.file, nullptr);
  EXPECT_EQ(located.debug.file, nullptr);
  EXPECT_EQ(located.object_misses.miss, SymbolMiss::kBuildIdMismatch);
  EXPECT_NE(located.object_misses.Sentence().find(IdOf(8).ToHex()), std::string::npos)
      << located.object_misses.Sentence();
  EXPECT_NE(located.object_misses.Sentence().find("no build id"), std::string::npos);
}

TEST_F(ObjectLocatorTest, TakesTheDebugFileOfTheObjectsOwnBuildIdWhereNoneIsRecorded) {
  const std::string path = At("bin/prog");
  WriteObject(path, {.id = 7});
  WriteObject(At("debug-root/" + BuildIdFile(7, ".debug")), {.id = 7, .dwarf = true});
  const LocatedObject located = Locate(FileObject(path));
  EXPECT_EQ(located.object.path, path);
  EXPECT_EQ(located.debug.path, At("debug-root/" + BuildIdFile(7, ".debug")));
}

TEST_F(ObjectLocatorTest, ChecksTheSumOfADebugLink) {
  const std::string path = At("bin/prog");
  WriteObject(At("bin/.debug/prog.dbg"), {.symbols = true, .dwarf = true});
  // The sum as binutils computes it: crc32 of the file.
  const CommandResult sum =
      RunCommand("gzip -1 -c '" + At("bin/.debug/prog.dbg") + "' | tail -c 8 | od -An -tu4 -N4");
  ASSERT_EQ(sum.exit_code, 0);
  const uint32_t crc = static_cast<uint32_t>(std::stoul(sum.out));
  WriteObject(path, {.debug_link = "prog.dbg", .debug_link_crc = crc});
  EXPECT_EQ(Locate(FileObject(path)).debug.path, At("bin/.debug/prog.dbg"));
  WriteObject(At("bin/prog.dbg"), {.symbols = true});  // comes first, but its sum is another
  EXPECT_EQ(Locate(FileObject(path)).debug.path, At("bin/.debug/prog.dbg"));
  WriteObject(path, {.debug_link = "prog.dbg", .debug_link_crc = crc + 1});
  const LocatedObject located = Locate(FileObject(path));
  EXPECT_EQ(located.debug.file, nullptr);
  EXPECT_EQ(located.debug_misses.miss, SymbolMiss::kBuildIdMismatch);
}

TEST_F(ObjectLocatorTest, DoesNotLetADebugLinkLeadAstray) {
  const std::string path = At("bin/prog");
  WriteObject(At("secret"), {.symbols = true});
  WriteObject(path, {.debug_link = "../secret"});
  EXPECT_EQ(Locate(FileObject(path)).debug.file, nullptr);
}

TEST_F(ObjectLocatorTest, FindsTheDwzFileByBuildIdOrPath) {
  const std::string path = At("bin/prog");
  WriteObject(path, {.id = 7});
  const std::string debug = At("debug-root/" + BuildIdFile(7, ".debug"));
  WriteObject(debug, {.id = 7, .dwarf = true, .alt_path = "../../.dwz/common", .alt_id = 5});
  LocatedObject located = Locate(FileObject(path, IdOf(7)));
  EXPECT_EQ(located.alt.file, nullptr);
  EXPECT_NE(located.debug_misses.Sentence().find("dwz"), std::string::npos);
  WriteObject(At("debug-root/.dwz/common"), {.id = 5, .dwarf = true});
  located = Locate(FileObject(path, IdOf(7)));
  ASSERT_NE(located.alt.file, nullptr);
  EXPECT_EQ(located.alt.file->build_id(), IdOf(5));
  WriteObject(At("debug-root/" + BuildIdFile(5, ".debug")), {.id = 5, .dwarf = true});
  EXPECT_EQ(Locate(FileObject(path, IdOf(7))).alt.path,
            At("debug-root/" + BuildIdFile(5, ".debug")));
}

TEST_F(ObjectLocatorTest, NeitherWaitsOnNorTakesSpecialFiles) {
  const std::string path = At("bin/prog");
  ASSERT_TRUE(MakeDirectories(At("bin")));
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const LocatedObject located = Locate(FileObject(path));
  EXPECT_EQ(located.object.file, nullptr);
  EXPECT_EQ(located.object_misses.miss, SymbolMiss::kDamaged);
  EXPECT_NE(located.object_misses.Sentence().find("not a regular file"), std::string::npos);
  EXPECT_EQ(Locate(FileObject("/dev/zero")).object.file, nullptr);
  EXPECT_EQ(Locate(FileObject(At("bin"))).object.file, nullptr);
}

TEST_F(ObjectLocatorTest, SaysWhenItMayNotReadAFile) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every file";
  const std::string path = At("bin/prog");
  WriteObject(path, {.id = 7});
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  EXPECT_EQ(Locate(FileObject(path)).object_misses.miss, SymbolMiss::kPermission);
}

TEST_F(ObjectLocatorTest, DoesNotTakeAReplacedFileForTheMappedOne) {
  const std::string path = At("bin/prog");
  WriteObject(path, {.symbols = true});
  CodeObject object = FileObject(path);
  object.inode = 1;  // of the file that was mapped
  options_.live = true;
  EXPECT_EQ(Locate(object).object_misses.miss, SymbolMiss::kBuildIdMismatch);
  struct stat status = {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  object.inode = status.st_ino;
  EXPECT_EQ(Locate(object).object.path, path);
}

TEST_F(ObjectLocatorTest, LooksThroughTheProcessFirst) {
  options_.live = true;
  const std::string process = At("proc/55");
  WriteObject(process + "/root/bin/prog", {.id = 7});
  WriteTestFile(process + "/maps",
                "00400000-00402000 r-xp 00001000 08:01 99 /bin/prog (deleted)\n");
  const CodeObject object = FileObject("/bin/prog", IdOf(7));
  EXPECT_EQ(Locate(object).object.file, nullptr);  // without a hint nobody knows the process
  EXPECT_EQ(Locate(object, {.pid = 55}).object.path, process + "/root/bin/prog");
  WriteObject(process + "/map_files/400000-402000", {.id = 7});
  EXPECT_EQ(Locate(object, {.pid = 55}).object.path, process + "/map_files/400000-402000");
  options_.live = false;
  EXPECT_EQ(Locate(object, {.pid = 55}).object.file, nullptr);
}

TEST_F(ObjectLocatorTest, FindsPerfsCopiesOfKallsyms) {
  const ObjectLocator locator(options_);
  EXPECT_EQ(locator.FindByBuildId(IdOf(7), "kallsyms"), "");
  const std::string copy = At("perf-cache/[kernel.kallsyms]/" + IdOf(7).ToHex() + "/kallsyms");
  ASSERT_TRUE(MakeDirectories(copy.substr(0, copy.rfind('/'))));
  WriteTestFile(copy, "ffffffff81000000 T _text\n");
  EXPECT_EQ(locator.FindByBuildId(IdOf(7), "kallsyms"), copy);
}

TEST(LocateMisses, KeepsTheMostTellingReasonAndBoundsItsList) {
  LocateMisses misses;
  for (size_t i = 0; i < LocateMisses::kMissesMax + 10; ++i)
    misses.Add("a", SymbolMiss::kFileNotFound, "no");
  EXPECT_EQ(misses.tried.size(), LocateMisses::kMissesMax);
  misses.Add("b", SymbolMiss::kBuildIdMismatch, "other");
  misses.Add("c", SymbolMiss::kPermission, "no");
  EXPECT_EQ(misses.miss, SymbolMiss::kBuildIdMismatch);
}

}  // namespace
}  // namespace ptarmigan
