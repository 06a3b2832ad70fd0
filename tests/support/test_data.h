// Recordings made by others live outside this repository, under $PTARMIGAN_DATA (default
// ../shared/data beside the source tree). Tests that need them skip with the reason where they are
// absent:
//
//   const std::string path = TestDataPath("kdab-perfparser/vector_static_gcc.perf.data");
//   if (path.empty()) GTEST_SKIP() << TestDataMissing("kdab-perfparser/...");
#pragma once

#include <string>
#include <string_view>

namespace ptarmigan {

// The absolute path of a recording or folder, empty if it is not there.
std::string TestDataPath(std::string_view relative);
// "recordings are not available: set PTARMIGAN_DATA (<what>)".
std::string TestDataMissing(std::string_view what);
// The whole file, gunzipped if its name ends in ".gz". Aborts if it cannot be read: call
// TestDataPath first.
std::string ReadTestFile(const std::string& path);
// A directory for this test alone under the system's temporary folder, removed at exit.
std::string TestTemporaryDirectory();

struct CommandResult {
  int exit_code = -1;  // 128 + signal if killed
  std::string out;
  std::string err;
};
// Runs a shell command with a time limit (killed and exit code 124 afterwards).
CommandResult RunCommand(const std::string& command, int timeout_seconds = 60);
// Whether `name` is an executable on PATH.
bool HaveProgram(std::string_view name);

}  // namespace ptarmigan
