#include "decode/internal/record_decompressor.h"

#include <zstd.h>

#include <cstdint>

#include "base/check.h"

namespace ptarmigan::internal {
namespace {

constexpr size_t kPieceBytes = size_t{128} << 10;

}  // namespace

struct RecordDecompressor::Stream {
  ZSTD_DCtx* context = ZSTD_createDCtx();
  Stream() { CHECK(context != nullptr); }
  ~Stream() { ZSTD_freeDCtx(context); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

RecordDecompressor::RecordDecompressor() = default;
RecordDecompressor::~RecordDecompressor() = default;

bool RecordDecompressor::Inflate(Bytes payload, const std::function<size_t(Bytes)>& consume) {
  if (stream_ == nullptr) stream_ = std::make_unique<Stream>();
  ZSTD_inBuffer input = {payload.data(), payload.size(), 0};
  for (;;) {
    const size_t before = pending_.size();
    pending_.resize(before + kPieceBytes);
    ZSTD_outBuffer output = {pending_.data() + before, kPieceBytes, 0};
    const size_t input_before = input.pos;
    const size_t status = ZSTD_decompressStream(stream_->context, &output, &input);
    const bool failed = ZSTD_isError(status) != 0;
    pending_.resize(before + (failed ? 0 : output.pos));
    if (failed) {
      ZSTD_DCtx_reset(stream_->context, ZSTD_reset_session_only);
      return false;
    }
    if (output.pos > 0) {
      const size_t taken = consume(pending_);
      pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(taken));
    }
    // A full output buffer may hide more output.
    if (output.pos < kPieceBytes && (input.pos == input.size || input.pos == input_before))
      return true;
  }
}

}  // namespace ptarmigan::internal
