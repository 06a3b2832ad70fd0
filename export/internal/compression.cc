#include "export/internal/compression.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/str_format.h"

namespace ptarmigan::internal {
namespace {

constexpr int kGzipWindowBits = 15 + 16;  // 32 KiB window, gzip wrapper
constexpr size_t kChunkBytes = size_t{256} << 10;

Error TooLarge(uint64_t plain_bytes_max) {
  return Error{ErrorCode::kResourceLimit,
               StrFormat("more than {} bytes come out of the compressed file", plain_bytes_max)};
}

uInt ClampedSize(size_t size) {
  return static_cast<uInt>(std::min<size_t>(size, std::numeric_limits<uInt>::max()));
}

// zlib's interface is not const-correct; it does not write to its input.
Bytef* ZlibInput(const std::byte* data) {
  return reinterpret_cast<Bytef*>(const_cast<std::byte*>(data));
}

struct InflateStream {
  z_stream stream = {};
  InflateStream() { CHECK(inflateInit2(&stream, kGzipWindowBits) == Z_OK); }
  ~InflateStream() { inflateEnd(&stream); }
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;
};

// Inflates the member at the start of `compressed`, appends to `plain`; returns its compressed size.
Result<size_t> InflateMember(Bytes compressed, uint64_t plain_bytes_max, std::string* plain) {
  InflateStream inflater;
  z_stream& stream = inflater.stream;
  size_t given = 0;
  const auto chunk = std::make_unique<char[]>(kChunkBytes);
  for (;;) {
    if (stream.avail_in == 0 && given < compressed.size()) {
      stream.next_in = ZlibInput(compressed.data() + given);
      stream.avail_in = ClampedSize(compressed.size() - given);
      given += stream.avail_in;
    }
    stream.next_out = reinterpret_cast<Bytef*>(chunk.get());
    stream.avail_out = kChunkBytes;
    const int result = inflate(&stream, Z_NO_FLUSH);
    const size_t got = kChunkBytes - stream.avail_out;
    if (got > plain_bytes_max - plain->size()) return TooLarge(plain_bytes_max);
    plain->append(chunk.get(), got);
    if (result == Z_STREAM_END) return given - stream.avail_in;
    if (result == Z_MEM_ERROR)
      return Error{ErrorCode::kResourceLimit, "no memory to inflate the file"};
    if (result != Z_OK && result != Z_BUF_ERROR) {
      return Error{ErrorCode::kInvalidInput,
                   StrFormat("the gzip data is damaged ({})",
                             stream.msg != nullptr ? stream.msg : "bad block")};
    }
    if (stream.avail_in == 0 && given == compressed.size() && got == 0) {
      return Error{ErrorCode::kTruncated, "the gzip data ends too early"};
    }
  }
}

}  // namespace

bool IsGzip(Bytes bytes) {
  return bytes.size() >= 3 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b} &&
         bytes[2] == std::byte{8};
}

bool IsZstd(Bytes bytes) {
  return bytes.size() >= 4 && bytes[0] == std::byte{0x28} && bytes[1] == std::byte{0xb5} &&
         bytes[2] == std::byte{0x2f} && bytes[3] == std::byte{0xfd};
}

namespace {

// One gzip member being made.
class Deflater {
 public:
  explicit Deflater(int level) {
    constexpr int kMemoryLevel = 9;
    CHECK(deflateInit2(&stream_, level, Z_DEFLATED, kGzipWindowBits, kMemoryLevel,
                       Z_DEFAULT_STRATEGY) == Z_OK);
    header_.os = 255;  // unknown: the same bytes on every system
    CHECK(deflateSetHeader(&stream_, &header_) == Z_OK);
  }
  ~Deflater() { deflateEnd(&stream_); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  void Add(Bytes plain) {
    while (!plain.empty()) {
      stream_.next_in = ZlibInput(plain.data());
      stream_.avail_in = ClampedSize(plain.size());
      plain = plain.subspan(stream_.avail_in);
      while (stream_.avail_in > 0) Run(Z_NO_FLUSH);
    }
  }
  std::string Finish() {
    while (Run(Z_FINISH) != Z_STREAM_END) {
    }
    return std::move(out_);
  }

 private:
  int Run(int flush) {
    stream_.next_out = reinterpret_cast<Bytef*>(chunk_.get());
    stream_.avail_out = kChunkBytes;
    const int result = deflate(&stream_, flush);
    CHECK(result != Z_STREAM_ERROR);
    out_.append(chunk_.get(), kChunkBytes - stream_.avail_out);
    return result;
  }

  z_stream stream_ = {};
  gz_header header_ = {};
  std::string out_;
  std::unique_ptr<char[]> chunk_ = std::make_unique<char[]>(kChunkBytes);
};

}  // namespace

std::string Gzip(Bytes plain, int level) {
  Deflater deflater(level);
  deflater.Add(plain);
  return deflater.Finish();
}

struct GzipStream::Worker {
  explicit Worker(int level) : deflater(level) {
    try {
      thread = std::thread([this] { Work(); });
    } catch (const std::system_error&) {
      // No thread to be had: Write compresses itself.
    }
  }

  void Work() {
    for (;;) {
      std::string piece;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return ending || !pieces.empty(); });
        if (pieces.empty()) return;
        piece = std::move(pieces.front());
        pieces.pop_front();
      }
      changed.notify_all();
      deflater.Add(AsBytes(piece));
    }
  }
  // What was written is compressed; then the thread has ended.
  void End() {
    if (!thread.joinable()) return;
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    changed.notify_all();
    thread.join();
  }

  Deflater deflater;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> pieces;
  bool ending = false;
  std::thread thread;
};

GzipStream::GzipStream(int level) : worker_(std::make_unique<Worker>(level)) {}

GzipStream::~GzipStream() { worker_->End(); }

void GzipStream::Write(std::string piece) {
  if (!worker_->thread.joinable()) {
    worker_->deflater.Add(AsBytes(piece));
    return;
  }
  {
    std::unique_lock lock(worker_->mutex);
    worker_->changed.wait(lock, [this] { return worker_->pieces.size() < kPiecesMax; });
    worker_->pieces.push_back(std::move(piece));
  }
  worker_->changed.notify_all();
}

std::string GzipStream::Finish() {
  worker_->End();
  return worker_->deflater.Finish();
}

Result<Inflated> Gunzip(Bytes compressed, uint64_t plain_bytes_max) {
  Inflated inflated;
  Bytes rest = compressed;
  do {
    TRY_ASSIGN(const size_t used, InflateMember(rest, plain_bytes_max, &inflated.plain));
    rest = rest.subspan(used);
  } while (IsGzip(rest));
  const bool padding =
      std::all_of(rest.begin(), rest.end(), [](std::byte byte) { return byte == std::byte{0}; });
  if (!padding) inflated.trailing_bytes = rest.size();
  return inflated;
}

Result<std::string> ZstdCompress(Bytes plain, int level) {
  std::string out(ZSTD_compressBound(plain.size()), '\0');
  const size_t size = ZSTD_compress(out.data(), out.size(), plain.data(), plain.size(), level);
  if (ZSTD_isError(size) != 0) {
    return Error{ErrorCode::kResourceLimit, StrFormat("zstd: {}", ZSTD_getErrorName(size))};
  }
  out.resize(size);
  return out;
}

Result<std::string> ZstdDecompress(Bytes compressed, uint64_t plain_bytes_max) {
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> inflater(ZSTD_createDCtx(),
                                                                      &ZSTD_freeDCtx);
  if (!inflater) return Error{ErrorCode::kResourceLimit, "no memory to inflate the file"};
  // A frame may ask for a window of any size; 128 MiB is what the zstd tool accepts without being told.
  constexpr int kWindowLogMax = 27;
  ZSTD_DCtx_setParameter(inflater.get(), ZSTD_d_windowLogMax, kWindowLogMax);
  std::string plain;
  const auto chunk = std::make_unique<char[]>(kChunkBytes);
  ZSTD_inBuffer in = {compressed.data(), compressed.size(), 0};
  size_t wanted = 1;
  bool full = false;
  while (in.pos < in.size || full) {
    ZSTD_outBuffer out = {chunk.get(), kChunkBytes, 0};
    wanted = ZSTD_decompressStream(inflater.get(), &out, &in);
    if (ZSTD_isError(wanted) != 0) {
      return Error{ErrorCode::kInvalidInput,
                   StrFormat("the zstd data is damaged ({})", ZSTD_getErrorName(wanted))};
    }
    if (out.pos > plain_bytes_max - plain.size()) return TooLarge(plain_bytes_max);
    plain.append(chunk.get(), out.pos);
    full = out.pos == kChunkBytes;
  }
  if (wanted != 0) return Error{ErrorCode::kTruncated, "the zstd data ends too early"};
  return plain;
}

Result<std::string> Inflate(Bytes compressed, uint64_t plain_bytes_max) {
  if (!IsGzip(compressed)) return ZstdDecompress(compressed, plain_bytes_max);
  TRY_ASSIGN(Inflated inflated, Gunzip(compressed, plain_bytes_max));
  return std::move(inflated.plain);
}

Result<std::string> InflatePrefix(Bytes compressed, size_t plain_bytes) {
  std::string plain(plain_bytes, '\0');
  size_t got = 0;
  if (IsGzip(compressed)) {
    InflateStream inflater;
    z_stream& stream = inflater.stream;
    stream.next_in = ZlibInput(compressed.data());
    stream.avail_in = ClampedSize(compressed.size());
    stream.next_out = reinterpret_cast<Bytef*>(plain.data());
    stream.avail_out = ClampedSize(plain.size());
    inflate(&stream, Z_SYNC_FLUSH);  // a fault shows in what came out before it
    got = plain.size() - stream.avail_out;
  } else {
    const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> inflater(ZSTD_createDCtx(),
                                                                        &ZSTD_freeDCtx);
    ZSTD_inBuffer in = {compressed.data(), compressed.size(), 0};
    ZSTD_outBuffer out = {plain.data(), plain.size(), 0};
    while (inflater && in.pos < in.size && out.pos < out.size) {
      if (ZSTD_isError(ZSTD_decompressStream(inflater.get(), &out, &in)) != 0) break;
    }
    got = out.pos;
  }
  if (got == 0) return Error{ErrorCode::kInvalidInput, "nothing comes out of the compressed file"};
  plain.resize(got);
  return plain;
}

}  // namespace ptarmigan::internal
