// Programs that tests of this room build: sources, one build per variant, and a running child.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>

#include "base/file.h"
#include "base/str_format.h"
#include "model/address_space.h"
#include "tests/support/test_data.h"

namespace ptarmigan {

inline void WriteTestFile(const std::string& path, std::string_view text) {
  auto file = OutputFile::Create(path);
  ASSERT_TRUE(file) << path;
  ASSERT_TRUE(file->Write(text));
  ASSERT_TRUE(file->Commit());
}

// Templates, inlined calls of several levels, a recursive and a cold function; waits if it is given an argument.
inline constexpr std::string_view kTestProgram = R"(
#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <string>
#include <vector>
#include <unistd.h>

namespace shop {
template <typename T> struct Basket {
  std::vector<T> items;
  void Put(T item) { items.push_back(std::move(item)); }
  T Total() const { return std::accumulate(items.begin(), items.end(), T()); }
};
static inline int Price(int kind) { return kind * 3 % 17; }
static inline int Discounted(int kind) { return Price(kind) - Price(kind + 1) / 2; }
__attribute__((noinline)) int Walk(int depth) { return depth == 0 ? 1 : Walk(depth - 1) + Discounted(depth); }
__attribute__((noinline, cold)) void Complain(const std::string& what) { std::fprintf(stderr, "%s\n", what.c_str()); }
}  // namespace shop

int main(int argc, char** argv) {
  shop::Basket<int> numbers;
  shop::Basket<std::string> words;
  std::map<std::string, int> index;
  for (int i = 0; i < 100; ++i) {
    numbers.Put(shop::Discounted(i));
    words.Put(std::to_string(i));
    index[words.items.back()] = shop::Walk(i % 9);
  }
  std::sort(words.items.begin(), words.items.end());
  if (numbers.Total() == -12345) shop::Complain(words.Total());
  std::printf("%d %zu\n", numbers.Total(), words.Total().size() + index.size());
  std::fflush(stdout);
  if (argc > 1) pause();
  return argv == nullptr;
}
)";

// Runs a shell command in `directory`; false (and a test failure) if it fails.
inline bool RunIn(const std::string& directory, const std::string& command) {
  const CommandResult result = RunCommand("cd '" + directory + "' && " + command, 240);
  EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.err;
  return result.exit_code == 0;
}

inline bool CanBuildPrograms() {
  return HaveProgram("g++") && HaveProgram("objcopy") && HaveProgram("strip");
}

// A directory with the test program as "full": optimized, with DWARF and a build id. Built once; empty if that fails.
inline const std::string& TestProgramDirectory() {
  static const std::string directory = [] {
    const std::string made = TestTemporaryDirectory();
    WriteTestFile(made + "/shop.cc", kTestProgram);
    return RunIn(made, "g++ -O2 -g -std=c++17 -Wl,--build-id shop.cc -o full") ? made
                                                                               : std::string();
  }();
  return directory;
}

// A child that has printed its first line (so its libraries are mapped) and then waits; ended by the destructor.
class WaitingChild {
 public:
  explicit WaitingChild(const std::string& command) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::alarm(120);
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    const Fd out(ends[0]);
    char byte = 0;
    ready_ = ::read(out.get(), &byte, 1) == 1;
  }
  WaitingChild(const WaitingChild&) = delete;
  WaitingChild& operator=(const WaitingChild&) = delete;
  ~WaitingChild() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  bool ready() const { return ready_; }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  bool ready_ = false;
};

inline CodeObject FileObject(const std::string& path, const BuildId& build_id = BuildId()) {
  CodeObject object;
  object.kind = CodeObject::Kind::kFile;
  object.path = path;
  object.build_id = build_id;
  return object;
}

}  // namespace ptarmigan
