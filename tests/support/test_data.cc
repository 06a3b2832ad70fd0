#include "tests/support/test_data.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/check.h"
#include "base/file.h"
#include "base/str_format.h"

namespace ptarmigan {
namespace {

std::string DataRoot() {
  const char* configured = std::getenv("PTARMIGAN_DATA");
  return configured != nullptr ? configured : JoinPath(PTARMIGAN_SOURCE_DIR, "../shared/data");
}

struct TemporaryDirectory {
  std::string path = (std::filesystem::temp_directory_path() / "ptarmigan-test-XXXXXX").string();
  TemporaryDirectory() { CHECK(::mkdtemp(path.data()) != nullptr); }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

std::string TestDataPath(std::string_view relative) {
  const std::string path = JoinPath(DataRoot(), relative);
  return PathExists(path) ? path : "";
}

std::string TestDataMissing(std::string_view what) {
  return StrFormat("recordings are not available: set PTARMIGAN_DATA ({})", what);
}

std::string ReadTestFile(const std::string& path) {
  if (!path.ends_with(".gz")) {
    auto content = ReadFile(path, uint64_t{1} << 30);
    CHECK(content.has_value());
    return *std::move(content);
  }
  gzFile file = gzopen(path.c_str(), "rb");
  CHECK(file != nullptr);
  std::string content;
  char buffer[1 << 16];
  for (int count; (count = gzread(file, buffer, sizeof(buffer))) > 0;) {
    content.append(buffer, static_cast<size_t>(count));
  }
  gzclose(file);
  return content;
}

std::string TestTemporaryDirectory() {
  static const TemporaryDirectory root;
  static int next = 0;
  const std::string path = StrFormat("{}/{}", root.path, next++);
  CHECK(MakeDirectories(path).has_value());
  return path;
}

CommandResult RunCommand(const std::string& command, int timeout_seconds) {
  int out[2];
  int err[2];
  CHECK(::pipe2(out, O_CLOEXEC) == 0 && ::pipe2(err, O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  CHECK(child >= 0);
  if (child == 0) {
    ::setpgid(0, 0);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  CommandResult result;
  pollfd ends[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  std::string* texts[2] = {&result.out, &result.err};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_seconds);
  bool timed_out = false;
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      timed_out = true;
      break;
    }
    ::poll(ends, 2, static_cast<int>(left.count()));
    for (int i = 0; i < 2; ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      char buffer[1 << 16];
      const ssize_t count = ::read(ends[i].fd, buffer, sizeof(buffer));
      if (count > 0) {
        texts[i]->append(buffer, static_cast<size_t>(count));
      } else if (count == 0 || errno != EINTR) {
        ends[i].fd = -1;
      }
    }
  }
  if (timed_out) ::kill(-child, SIGKILL);
  ::close(out[0]);
  ::close(err[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  result.exit_code = timed_out           ? 124
                     : WIFEXITED(status) ? WEXITSTATUS(status)
                                         : 128 + WTERMSIG(status);
  return result;
}

bool HaveProgram(std::string_view name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    if (::access(JoinPath(rest.substr(0, end), name).c_str(), X_OK) == 0) return true;
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return false;
}

}  // namespace ptarmigan
