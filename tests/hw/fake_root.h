// A directory tree that stands for /proc or /sys in tests.
#pragma once

#include <fcntl.h>

#include <string>
#include <string_view>

#include "base/check.h"
#include "base/file.h"
#include "tests/support/test_data.h"

namespace ptarmigan {

class FakeRoot {
 public:
  FakeRoot() : path_(TestTemporaryDirectory()) {}
  const std::string& path() const { return path_; }
  FakeRoot& File(std::string_view relative, std::string_view content) {
    const std::string full = JoinPath(path_, relative);
    CHECK(MakeDirectories(full.substr(0, full.rfind('/'))).has_value());
    auto fd = OpenFile(full, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(fd.has_value());
    CHECK(WriteAll(fd->get(), AsBytes(content), full).has_value());
    return *this;
  }

 private:
  std::string path_;
};

}  // namespace ptarmigan
