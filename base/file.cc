#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/str_format.h"

namespace ptarmigan {

void Fd::Close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<Fd> OpenFile(const std::string& path, int flags, mode_t mode) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return ErrnoError(path, errno);
  return Fd(fd);
}

Result<FileIdentity> IdentifyFile(int fd) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return ErrnoError("fstat", errno);
  return FileIdentity{
      .device = info.st_dev,
      .inode = info.st_ino,
      .size_bytes = static_cast<uint64_t>(info.st_size),
      .modified_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec,
      .owner_uid = info.st_uid,
      .is_regular = S_ISREG(info.st_mode),
      .is_directory = S_ISDIR(info.st_mode),
  };
}

Result<std::string> ReadFd(int fd, const std::string& name, uint64_t bytes_max) {
  std::string content;
  constexpr size_t kChunkBytes = size_t{64} << 10;
  for (;;) {
    const size_t old_size = content.size();
    content.resize(old_size + kChunkBytes);
    const ssize_t count = ::read(fd, content.data() + old_size, kChunkBytes);
    if (count < 0 && errno == EINTR) {
      content.resize(old_size);
      continue;
    }
    if (count < 0) return ErrnoError(name, errno);
    content.resize(old_size + static_cast<size_t>(count));
    if (count == 0) return content;
    if (content.size() > bytes_max) {
      return Error{ErrorCode::kResourceLimit,
                   StrFormat("{}: larger than {} bytes", name, bytes_max)};
    }
  }
}

Result<std::string> ReadFile(const std::string& path, uint64_t bytes_max) {
  TRY_ASSIGN(const Fd fd, OpenFile(path, O_RDONLY));
  return ReadFd(fd.get(), path, bytes_max);
}

Result<MappedFile> MappedFile::Open(const std::string& path) {
  TRY_ASSIGN(const Fd fd, OpenFile(path, O_RDONLY));
  return FromFd(fd.get(), path);
}

Result<MappedFile> MappedFile::FromFd(int fd, const std::string& name) {
  TRY_ASSIGN(const FileIdentity identity, IdentifyFile(fd));
  if (identity.is_directory) {
    return Error{ErrorCode::kInvalidInput, name + ": is a directory"};
  }
  if (!identity.is_regular) {
    return Error{ErrorCode::kInvalidInput, name + ": not a regular file"};
  }
  if (identity.size_bytes == 0) return MappedFile();
  void* data = ::mmap(nullptr, identity.size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return ErrnoError(name, errno);
  return MappedFile(static_cast<const std::byte*>(data), identity.size_bytes);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::DropPrefix(size_t size_bytes) const {
  const size_t whole_pages = std::min(size_bytes, size_) / PageSizeBytes() * PageSizeBytes();
  // Advice only: the mapping is private, read-only and file-backed, so nothing can be lost.
  if (whole_pages > 0) ::madvise(const_cast<std::byte*>(data_), whole_pages, MADV_DONTNEED);
}

void MappedFile::Populate(Bytes part) {
  const auto begin = reinterpret_cast<uintptr_t>(part.data()) / PageSizeBytes() * PageSizeBytes();
  const auto end = reinterpret_cast<uintptr_t>(part.data() + part.size());
  // Linux 5.14; where it fails the pages come one fault after the other, as ever.
  if (end > begin) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);
}

Status WriteAll(int fd, Bytes bytes, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoError(name, errno);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return OkStatus();
}

Status WriteAllAt(int fd, Bytes bytes, uint64_t offset, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoError(name, errno);
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return OkStatus();
}

Result<OutputFile> OutputFile::Create(const std::string& path, mode_t mode) {
  if (path == "-") {
    const int copy = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return ErrnoError("standard output", errno);
    return OutputFile(Fd(copy), path, "");
  }
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    TRY_ASSIGN(Fd direct, OpenFile(path, O_WRONLY));
    return OutputFile(std::move(direct), path, "");
  }
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return ErrnoError(path, errno);
  ::fchmod(fd, mode);
  return OutputFile(Fd(fd), path, std::move(temporary));
}

OutputFile::~OutputFile() {
  if (fd_.valid() && !temporary_.empty()) ::unlink(temporary_.c_str());
}

Status OutputFile::Commit() {
  CHECK(fd_.valid());
  if (!temporary_.empty() && ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return ErrnoError(path_, errno);
  }
  temporary_.clear();
  fd_.Close();
  return OkStatus();
}

Status MakeDirectories(const std::string& path) {
  for (size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string prefix = path.substr(0, end);
    if (::mkdir(prefix.c_str(), 0755) != 0 && errno != EEXIST) return ErrnoError(prefix, errno);
  }
  return OkStatus();
}

Result<std::vector<std::string>> ListDirectory(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
  if (directory == nullptr) return ErrnoError(path, errno);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory.get())) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool PathExists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::string JoinPath(std::string_view directory, std::string_view name) {
  std::string joined(directory);
  while (!joined.empty() && joined.back() == '/') joined.pop_back();
  while (!name.empty() && name.front() == '/') name.remove_prefix(1);
  return joined + "/" + std::string(name);
}

size_t PageSizeBytes() {
  static const size_t size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace ptarmigan
