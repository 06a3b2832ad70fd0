#include "decode/internal/byte_feed.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ptarmigan::internal {

void FdFeed::Fill(size_t count) {
  const size_t have = window_.size();
  if (buffer_.size() < count + kReadBytes) {
    std::vector<std::byte> larger(count + kReadBytes);
    std::copy(window_.begin(), window_.end(), larger.begin());
    buffer_ = std::move(larger);
  } else if (have > 0) {
    std::memmove(buffer_.data(), window_.data(), have);
  }
  size_t filled = have;
  while (filled < count) {
    const ssize_t got = ::read(fd_.get(), buffer_.data() + filled, buffer_.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      if (got < 0) status_ = ErrnoError("cannot read " + name_, errno);
      ended_ = true;
      break;
    }
    filled += static_cast<size_t>(got);
  }
  window_ = Bytes(buffer_).first(filled);
}

}  // namespace ptarmigan::internal
