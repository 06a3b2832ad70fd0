#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

void WriteText(const std::string& path, std::string_view text) {
  auto fd = OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  ASSERT_TRUE(fd) << fd.error().message;
  ASSERT_TRUE(WriteAll(fd->get(), AsBytes(text), path));
}

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(Fd, ClosesWhatItOwnsOnce) {
  int raw = -1;
  {
    auto fd = OpenFile("/dev/null", O_RDONLY);
    ASSERT_TRUE(fd);
    raw = fd->get();
    EXPECT_TRUE(IsOpen(raw));
    const Fd moved = *std::move(fd);
    EXPECT_EQ(moved.get(), raw);
    EXPECT_TRUE(IsOpen(raw));
  }
  EXPECT_FALSE(IsOpen(raw));
}

TEST(Fd, AssignmentClosesTheOldDescriptor) {
  auto first = OpenFile("/dev/null", O_RDONLY);
  auto second = OpenFile("/dev/null", O_RDONLY);
  ASSERT_TRUE(first && second);
  const int old = first->get();
  const int kept = second->get();
  *first = *std::move(second);
  EXPECT_FALSE(IsOpen(old));
  EXPECT_EQ(first->get(), kept);
}

TEST(Fd, ReleaseGivesUpOwnership) {
  auto fd = OpenFile("/dev/null", O_RDONLY);
  ASSERT_TRUE(fd);
  const int raw = fd->Release();
  EXPECT_FALSE(fd->valid());
  EXPECT_TRUE(IsOpen(raw));
  ::close(raw);
}

TEST(OpenFile, IsNotInheritedByPrograms) {
  const auto fd = OpenFile("/dev/null", O_RDONLY);
  ASSERT_TRUE(fd);
  EXPECT_NE(::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(OpenFile, NamesThePathAndTheReason) {
  const auto fd = OpenFile("/nowhere/at/all", O_RDONLY);
  ASSERT_FALSE(fd);
  EXPECT_EQ(fd.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(fd.error().errno_value, ENOENT);
  EXPECT_EQ(fd.error().message, "/nowhere/at/all: No such file or directory");
}

TEST(IdentifyFile, TellsFilesDirectoriesAndDevicesApart) {
  const std::string directory = TestTemporaryDirectory();
  WriteText(directory + "/f", "12345");
  const auto file = OpenFile(directory + "/f", O_RDONLY);
  const auto identity = IdentifyFile(file->get());
  ASSERT_TRUE(identity);
  EXPECT_TRUE(identity->is_regular);
  EXPECT_FALSE(identity->is_directory);
  EXPECT_EQ(identity->size_bytes, 5U);
  EXPECT_EQ(identity->owner_uid, ::geteuid());
  EXPECT_GT(identity->modified_ns, 0);

  const auto folder = OpenFile(directory, O_RDONLY | O_DIRECTORY);
  EXPECT_TRUE(IdentifyFile(folder->get())->is_directory);
  const auto device = OpenFile("/dev/null", O_RDONLY);
  EXPECT_FALSE(IdentifyFile(device->get())->is_regular);
  EXPECT_EQ(IdentifyFile(-1).error().errno_value, EBADF);
}

TEST(ReadFile, ReadsFilesWhoseSizeIsNotKnown) {
  const auto status = ReadFile("/proc/self/status");
  ASSERT_TRUE(status);
  EXPECT_NE(status->find("Pid:"), std::string::npos);
}

TEST(ReadFile, AcceptsTheBoundAndRefusesOneByteMore) {
  const std::string path = TestTemporaryDirectory() + "/f";
  WriteText(path, "0123456789");
  EXPECT_EQ(*ReadFile(path, 10), "0123456789");
  const auto refused = ReadFile(path, 9);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceLimit);
}

TEST(ReadFile, SaysThatADirectoryIsNone) {
  const auto refused = ReadFile(TestTemporaryDirectory());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidInput);
}

TEST(ReadFd, ReadsAPipeToItsEndInPieces) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  Fd in(ends[0]);
  Fd out(ends[1]);
  // More than a pipe holds, so that reader and writer take turns.
  const std::string text(300'000, 'p');
  std::thread writer([&out, &text] {
    ASSERT_TRUE(WriteAll(out.get(), AsBytes(text), "pipe"));
    out.Close();
  });
  const auto read = ReadFd(in.get(), "pipe", 1 << 20);
  writer.join();
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, text);
}

TEST(MappedFile, ShowsTheBytesOfTheFile) {
  const std::string path = TestTemporaryDirectory() + "/f";
  std::string text(3 * PageSizeBytes() + 17, 'x');
  text.back() = 'y';
  WriteText(path, text);
  auto mapped = MappedFile::Open(path);
  ASSERT_TRUE(mapped);
  EXPECT_EQ(AsText(mapped->bytes()), text);

  mapped->DropPrefix(2 * PageSizeBytes() + 1);
  EXPECT_EQ(AsText(mapped->bytes()), text) << "dropped pages come back from the file";

  const MappedFile moved = *std::move(mapped);
  EXPECT_EQ(moved.bytes().size(), text.size());
}

TEST(MappedFile, MapsAnEmptyFileAsNoBytes) {
  const std::string path = TestTemporaryDirectory() + "/f";
  WriteText(path, "");
  const auto mapped = MappedFile::Open(path);
  ASSERT_TRUE(mapped);
  EXPECT_TRUE(mapped->bytes().empty());
}

TEST(MappedFile, RefusesWhatIsNotARegularFile) {
  EXPECT_EQ(MappedFile::Open(TestTemporaryDirectory()).error().code, ErrorCode::kInvalidInput);
  EXPECT_FALSE(MappedFile::Open("/dev/null"));
  EXPECT_EQ(MappedFile::Open("/nowhere/at/all").error().code, ErrorCode::kNotFound);
}

TEST(WriteAll, ReportsAFullDevice) {
  const auto full = OpenFile("/dev/full", O_WRONLY);
  ASSERT_TRUE(full);
  const auto written = WriteAll(full->get(), AsBytes("x"), "/dev/full");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kResourceLimit);
  EXPECT_EQ(written.error().errno_value, ENOSPC);
}

TEST(WriteAllAt, LeavesTheRestOfTheFileAlone) {
  const std::string path = TestTemporaryDirectory() + "/f";
  WriteText(path, "aaaaaa");
  const auto fd = OpenFile(path, O_WRONLY);
  ASSERT_TRUE(WriteAllAt(fd->get(), AsBytes("bb"), 2, path));
  EXPECT_EQ(*ReadFile(path), "aabbaa");
}

TEST(OutputFile, AppearsOnlyWhenCommitted) {
  const std::string directory = TestTemporaryDirectory();
  const std::string path = directory + "/out";
  auto output = OutputFile::Create(path);
  ASSERT_TRUE(output);
  ASSERT_TRUE(output->Write("content"));
  EXPECT_FALSE(PathExists(path));
  ASSERT_TRUE(output->Commit());
  EXPECT_EQ(*ReadFile(path), "content");
  EXPECT_EQ(ListDirectory(directory)->size(), 1U) << "no temporary file may stay";
}

TEST(OutputFile, KeepsTheOldFileAndLeavesNothingWhenAbandoned) {
  const std::string directory = TestTemporaryDirectory();
  const std::string path = directory + "/out";
  WriteText(path, "old");
  {
    auto output = OutputFile::Create(path);
    ASSERT_TRUE(output);
    ASSERT_TRUE(output->Write("new, but never finished"));
  }
  EXPECT_EQ(*ReadFile(path), "old");
  EXPECT_EQ(ListDirectory(directory)->size(), 1U);
}

TEST(OutputFile, ReplacesAnOlderFileAndSetsTheMode) {
  const std::string path = TestTemporaryDirectory() + "/out";
  WriteText(path, "old");
  auto output = OutputFile::Create(path, 0600);
  ASSERT_TRUE(output);
  ASSERT_TRUE(output->Write("new"));
  ASSERT_TRUE(output->Commit());
  EXPECT_EQ(*ReadFile(path), "new");
  struct stat info = {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
}

TEST(OutputFile, WritesDevicesDirectly) {
  auto output = OutputFile::Create("/dev/null");
  ASSERT_TRUE(output);
  EXPECT_TRUE(output->Write("gone"));
  EXPECT_TRUE(output->Commit());
  struct stat info = {};
  ASSERT_EQ(::stat("/dev/null", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
}

TEST(OutputFile, NamesTheFolderThatIsMissing) {
  const auto output = OutputFile::Create("/nowhere/at/all");
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, ErrorCode::kNotFound);
  EXPECT_NE(output.error().message.find("/nowhere/at/all"), std::string::npos);
}

TEST(MakeDirectories, CreatesEveryParentAndAcceptsWhatIsThere) {
  const std::string root = TestTemporaryDirectory();
  ASSERT_TRUE(MakeDirectories(root + "/a/b/c"));
  ASSERT_TRUE(MakeDirectories(root + "/a/b/c"));
  ASSERT_TRUE(MakeDirectories(root + "/a/b/d/"));
  EXPECT_EQ(*ListDirectory(root + "/a/b"), (std::vector<std::string>{"c", "d"}));
}

TEST(MakeDirectories, FailsBelowAFile) {
  const std::string root = TestTemporaryDirectory();
  WriteText(root + "/f", "");
  EXPECT_FALSE(MakeDirectories(root + "/f/below"));
}

TEST(ListDirectory, SortsNamesAndLeavesOutTheDots) {
  const std::string root = TestTemporaryDirectory();
  for (const char* name : {"/b", "/a", "/.hidden"}) WriteText(root + name, "");
  EXPECT_EQ(*ListDirectory(root), (std::vector<std::string>{".hidden", "a", "b"}));
  EXPECT_EQ(ListDirectory(root + "/none").error().code, ErrorCode::kNotFound);
}

TEST(JoinPath, PutsExactlyOneSlashBetween) {
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a//", "//b"), "a/b");
  EXPECT_EQ(JoinPath("/", "b"), "/b");
  EXPECT_EQ(JoinPath("", "b"), "/b");
}

TEST(PageSizeBytes, IsAPowerOfTwo) {
  EXPECT_GE(PageSizeBytes(), 4096U);
  EXPECT_EQ(PageSizeBytes() & (PageSizeBytes() - 1), 0U);
}

}  // namespace
}  // namespace ptarmigan
