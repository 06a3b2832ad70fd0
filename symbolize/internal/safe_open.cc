#include "symbolize/internal/safe_open.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/str_format.h"

namespace ptarmigan::internal {
namespace {

Result<Fd> OnlyRegular(Fd fd, const std::string& name) {
  TRY_ASSIGN(const FileIdentity identity, IdentifyFile(fd.get()));
  if (!identity.is_regular) {
    return Error{ErrorCode::kInvalidInput, StrFormat("{}: not a regular file", name)};
  }
  return fd;
}

constexpr int kFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

}  // namespace

Result<Fd> OpenRegularFile(const std::string& path) {
  TRY_ASSIGN(Fd fd, OpenFile(path, kFlags));
  return OnlyRegular(std::move(fd), path);
}

Result<Fd> OpenRegularFileIn(const std::string& root, std::string_view path) {
  while (!path.empty() && path.front() == '/') path.remove_prefix(1);
  const std::string relative(path);
  const std::string name = JoinPath(root, relative);
  TRY_ASSIGN(const Fd directory, OpenFile(root, O_PATH | O_DIRECTORY | O_CLOEXEC));
  open_how how = {};
  how.flags = kFlags;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  long fd = ::syscall(SYS_openat2, directory.get(), relative.c_str(), &how, sizeof(how));
  if (fd < 0 &&
      (errno == ENOSYS || errno == EPERM)) {  // EPERM: seccomp filters that predate the call
    fd = ::openat(directory.get(), relative.c_str(), kFlags | O_NOFOLLOW);
  }
  if (fd < 0) return ErrnoError(name, errno);
  return OnlyRegular(Fd(static_cast<int>(fd)), name);
}

Status CheckOwner(const Fd& fd, const std::string& name, uint32_t uid) {
  TRY_ASSIGN(const FileIdentity identity, IdentifyFile(fd.get()));
  if (identity.owner_uid == uid || identity.owner_uid == 0) return OkStatus();
  return Error{ErrorCode::kPermission,
               StrFormat("{}: owned by uid {}, not by the process's user {}", name,
                         identity.owner_uid, uid)};
}

Result<uint32_t> FileCrc32(int fd, const std::string& name) {
  std::array<unsigned char, size_t{64} << 10> buffer;
  uLong crc = ::crc32(0, nullptr, 0);
  for (off_t offset = 0;;) {
    const ssize_t count = ::pread(fd, buffer.data(), buffer.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoError(name, errno);
    if (count == 0) return static_cast<uint32_t>(crc);
    crc = ::crc32(crc, buffer.data(), static_cast<uInt>(count));
    offset += count;
  }
}

}  // namespace ptarmigan::internal
