// Where a reader's bytes come from: a window that slides over a mapping, or over a pipe through a bounded buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/byte_cursor.h"
#include "base/file.h"
#include "base/result.h"

namespace ptarmigan::internal {

class ByteFeed {
 public:
  virtual ~ByteFeed() = default;

  // At least `count` bytes from the current position; fewer only at the end. Valid until the next call, unless stable.
  Bytes Window(size_t count) {
    if (window_.size() < count && !ended_) Fill(count);
    return window_;
  }
  // Moves on by `count` bytes of the last window.
  void Consume(size_t count) {
    window_ = window_.subspan(count);
    position_ += count;
  }
  uint64_t position() const { return position_; }
  // Whether bytes stay valid after the window has moved on.
  virtual bool stable() const { return false; }
  // What ended the feed, if it was not the end of the input.
  const Status& status() const { return status_; }

 protected:
  virtual void Fill(size_t count) = 0;

  Bytes window_;
  uint64_t position_ = 0;
  bool ended_ = false;
  Status status_;
};

class MemoryFeed final : public ByteFeed {
 public:
  explicit MemoryFeed(Bytes bytes) {
    window_ = bytes;
    ended_ = true;
  }
  bool stable() const override { return true; }

 private:
  void Fill(size_t) override {}
};

// Reads a descriptor (pipe, socket, terminal). The buffer grows to the largest window asked for.
class FdFeed final : public ByteFeed {
 public:
  FdFeed(Fd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}

 private:
  static constexpr size_t kReadBytes = size_t{256} << 10;
  void Fill(size_t count) override;

  Fd fd_;
  std::string name_;
  std::vector<std::byte> buffer_;
};

}  // namespace ptarmigan::internal
