#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "base/str_format.h"

namespace ptarmigan {
namespace {

std::atomic<LogLevel>& Level() {
  static std::atomic<LogLevel> level =
      std::getenv("PTARMIGAN_DEBUG") != nullptr ? LogLevel::kDebug : LogLevel::kNotice;
  return level;
}

std::string_view LevelWord(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error: ";
    case LogLevel::kWarning:
      return "warning: ";
    case LogLevel::kNotice:
      return "";
    case LogLevel::kDebug:
      return "debug: ";
  }
  return "";
}

}  // namespace

void SetLogLevel(LogLevel level) { Level() = level; }

void Log(LogLevel level, std::string_view message) {
  if (level > Level()) return;
  const std::string line = StrFormat("ptarmigan: {}{}\n", LevelWord(level), message);
  // A message that cannot be written has nobody to be told about.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace ptarmigan
