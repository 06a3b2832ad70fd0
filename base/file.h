// Files: owned descriptors, bounded reads, mappings, and outputs that appear whole or not at all.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_cursor.h"
#include "base/result.h"

namespace ptarmigan {

// Owns a file descriptor. Move-only.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { Close(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Close();

 private:
  int fd_ = -1;
};

struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t size_bytes = 0;
  int64_t modified_ns = 0;
  uint32_t owner_uid = 0;
  bool is_regular = false;
  bool is_directory = false;
};

// O_CLOEXEC is always added. The error names the path.
Result<Fd> OpenFile(const std::string& path, int flags, mode_t mode = 0);
Result<FileIdentity> IdentifyFile(int fd);

// The whole file, which may be a pipe or in /proc (size unknown). More than `bytes_max` is
// kResourceLimit.
Result<std::string> ReadFile(const std::string& path, uint64_t bytes_max = uint64_t{64} << 20);
Result<std::string> ReadFd(int fd, const std::string& name, uint64_t bytes_max);

// Read-only private mapping of a regular file. If another process truncates the file while it is
// mapped, reads beyond the new end raise SIGBUS: map only files, and copy what must survive.
class MappedFile {
 public:
  static Result<MappedFile> Open(const std::string& path);
  // Maps an open file; the descriptor may be closed afterwards. `name` is for messages.
  static Result<MappedFile> FromFd(int fd, const std::string& name);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  Bytes bytes() const { return {data_, size_}; }
  // Tells the kernel that [0, size_bytes) will not be read again soon, so that it no longer counts
  // as resident memory; reading it again is still correct.
  void DropPrefix(size_t size_bytes) const;
  // Asks for the memory of `part`, which lies in a mapped file and is about to be read, at once instead of page by page.
  static void Populate(Bytes part);

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Writes all of `bytes` (restarting after signals and short writes).
Status WriteAll(int fd, Bytes bytes, const std::string& name);
Status WriteAllAt(int fd, Bytes bytes, uint64_t offset, const std::string& name);

// An output file under a temporary name beside `path`, renamed onto it by Commit; removed if never
// committed. `path` "-" is standard output, where nothing is temporary. If `path` names something
// that is not a regular file
// (/dev/null, a pipe), it is written directly.
class OutputFile {
 public:
  static Result<OutputFile> Create(const std::string& path, mode_t mode = 0644);
  OutputFile(OutputFile&&) noexcept = default;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }
  Status Write(Bytes bytes) { return WriteAll(fd_.get(), bytes, path_); }
  Status Write(std::string_view text) { return Write(AsBytes(text)); }
  Status Commit();

 private:
  OutputFile(Fd fd, std::string path, std::string temporary)
      : fd_(std::move(fd)), path_(std::move(path)), temporary_(std::move(temporary)) {}
  Fd fd_;
  std::string path_;
  std::string temporary_;  // empty: nothing to rename or remove
};

// Creates `path` and its parents (mode 0755); no error if it is there.
Status MakeDirectories(const std::string& path);
// Names of the entries of a directory, sorted, without "." and "..".
Result<std::vector<std::string>> ListDirectory(const std::string& path);
bool PathExists(const std::string& path);
// Joins with exactly one '/'.
std::string JoinPath(std::string_view directory, std::string_view name);
// sysconf(_SC_PAGESIZE), read once.
size_t PageSizeBytes();

}  // namespace ptarmigan
