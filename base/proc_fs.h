// ProcFs: the parts of /proc (and /sys, where the root says so) that rooms need, parsed under a
// root directory so that tests can lay out their own. Everything read here may be gone or changed
// by the next call. Stateless but for the root; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ptarmigan {

// A line of /proc/PID/maps.
struct ProcMap {
  uint64_t start = 0;
  uint64_t end = 0;  // exclusive
  uint64_t file_offset = 0;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  uint64_t inode = 0;
  std::string path;  // without " (deleted)"; may be "[vdso]", "//anon", empty
  bool deleted = false;
};

struct ProcStatus {
  int32_t parent_pid = 0;
  uint32_t effective_uid = 0;
  int32_t namespace_pid = 0;  // last entry of NSpid: the pid that the process itself sees
};

class ProcFs {
 public:
  explicit ProcFs(std::string root = "/proc") : root_(std::move(root)) {}

  const std::string& root() const { return root_; }
  // "<root>/<pid>/<name>".
  std::string PathOf(int32_t pid, std::string_view name) const;

  Result<std::vector<int32_t>> Pids() const;
  Result<std::vector<int32_t>> Tids(int32_t pid) const;
  // The name of a thread, without the newline.
  Result<std::string> Comm(int32_t pid, int32_t tid) const;
  Result<std::vector<ProcMap>> Maps(int32_t pid) const;
  Result<ProcStatus> Status(int32_t pid) const;
  // Start time of a thread in clock ticks since boot (field 22 of stat).
  Result<uint64_t> StartTimeTicks(int32_t pid, int32_t tid) const;
  // A file whose content is one integer, e.g. "sys/kernel/perf_event_paranoid".
  Result<int64_t> Integer(std::string_view relative_path) const;

 private:
  std::string root_;
};

// One line of /proc/PID/maps; nothing if it is malformed.
std::optional<ProcMap> ParseProcMapLine(std::string_view line);

}  // namespace ptarmigan
