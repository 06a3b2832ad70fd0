#include "symbolize/internal/xz.h"

#include <lzma.h>

#include <algorithm>

namespace ptarmigan::internal {
namespace {

struct Stream {
  lzma_stream lzma = LZMA_STREAM_INIT;
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { lzma_end(&lzma); }
};

}  // namespace

Result<std::string> InflateXz(Bytes stream, uint64_t bytes_max) {
  constexpr size_t kStepBytesMin = size_t{64} << 10;
  Stream state;
  if (lzma_stream_decoder(&state.lzma, kXzMemoryBytesMax, 0) != LZMA_OK) {
    return Error{ErrorCode::kResourceLimit, "xz: the decoder cannot start"};
  }
  state.lzma.next_in = reinterpret_cast<const uint8_t*>(stream.data());
  state.lzma.avail_in = stream.size();
  std::string out;
  for (;;) {
    const size_t old_size = out.size();
    if (old_size > bytes_max) return Error{ErrorCode::kResourceLimit, "xz: the data is too large"};
    // One byte beyond the bound tells "too large" from "just fits".
    const uint64_t step =
        std::min<uint64_t>(std::max<uint64_t>(kStepBytesMin, old_size), bytes_max + 1 - old_size);
    out.resize(old_size + step);
    state.lzma.next_out = reinterpret_cast<uint8_t*>(out.data() + old_size);
    state.lzma.avail_out = step;
    const lzma_ret code = lzma_code(&state.lzma, LZMA_FINISH);
    out.resize(out.size() - state.lzma.avail_out);
    switch (code) {
      case LZMA_OK:
        break;  // more to write
      case LZMA_STREAM_END:
        if (out.size() > bytes_max) {
          return Error{ErrorCode::kResourceLimit, "xz: the data is too large"};
        }
        return out;
      case LZMA_BUF_ERROR:
        return Error{ErrorCode::kTruncated, "xz: the data ends too early"};
      case LZMA_MEM_ERROR:
      case LZMA_MEMLIMIT_ERROR:
        return Error{ErrorCode::kResourceLimit, "xz: decoding needs too much memory"};
      default:
        return Error{ErrorCode::kInvalidInput, "xz: the data is damaged"};
    }
  }
}

}  // namespace ptarmigan::internal
