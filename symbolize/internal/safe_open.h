// Opening files that a stranger may have put there: never waits (FIFOs, devices), takes regular files only, and stays
// below a root where one is given.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/result.h"

namespace ptarmigan::internal {

// Opens for reading without blocking; kInvalidInput if it is not a regular file. Follows symbolic links.
Result<Fd> OpenRegularFile(const std::string& path);

// The same for `path` as a process with root directory `root` sees it: symbolic links are resolved inside the root and
// cannot leave it (openat2, Linux 5.6; on older kernels links are refused altogether).
Result<Fd> OpenRegularFileIn(const std::string& root, std::string_view path);

// Ok if `uid` or root owns the file; kPermission with the owner otherwise.
Status CheckOwner(const Fd& fd, const std::string& name, uint32_t uid);

// CRC-32 of the whole file, as .gnu_debuglink stores it (IEEE 802.3).
Result<uint32_t> FileCrc32(int fd, const std::string& name);

}  // namespace ptarmigan::internal
