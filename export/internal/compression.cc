#include "export/internal/compression.h"

#include <libdeflate.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/str_format.h"
#include "export/internal/deflate_parts.h"

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

// RFC 1952: deflate, no flags, no time, no hint, system unknown: the same bytes everywhere.
constexpr std::string_view kGzipHeader("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
// RFC 1951: a last block of fixed codes that holds nothing.
constexpr std::string_view kLastBlock("\x03\0", 2);

// A stretch of a member: compressed on its own, so that several threads can work on one member.
struct Part {
  std::string plain;  // empty once compressed
  size_t plain_bytes = 0;
  std::string packed;
  uint32_t crc = 0;
};

// Threads that take part in compressing, the writer's own included: more than the encoder can feed are idle.
constexpr unsigned kThreadsMax = 4;
// Parts that wait; a writer that finds so many compresses one itself.
constexpr size_t kPartsWaitingMax = 4;

void AppendLittleEndian32(uint32_t value, std::string* out) {
  for (unsigned shift = 0; shift < 32; shift += 8) {
    out->push_back(static_cast<char>(static_cast<uint8_t>(value >> shift)));
  }
}

// The member that `parts` make.
std::string JoinParts(const std::deque<Part>& parts) {
  size_t packed_bytes = 0;
  for (const Part& part : parts) packed_bytes += part.packed.size();
  constexpr size_t kTrailerBytes = 8;
  std::string member(kGzipHeader);
  member.reserve(kGzipHeader.size() + packed_bytes + kLastBlock.size() + kTrailerBytes);
  uLong crc = crc32(0, nullptr, 0);
  size_t plain_bytes = 0;
  for (const Part& part : parts) {
    member += part.packed;
    crc = crc32_combine(crc, part.crc, static_cast<z_off_t>(part.plain_bytes));
    plain_bytes += part.plain_bytes;
  }
  member += kLastBlock;
  AppendLittleEndian32(static_cast<uint32_t>(crc), &member);
  AppendLittleEndian32(static_cast<uint32_t>(plain_bytes), &member);  // modulo 2^32
  return member;
}

}  // namespace

struct GzipStream::Team {
  explicit Team(int level_of_all) : level(level_of_all), own_deflater(level_of_all) {
    const unsigned threads_wanted =
        std::clamp(std::thread::hardware_concurrency(), 2U, kThreadsMax);
    try {
      while (threads.size() + 1 < threads_wanted) threads.emplace_back([this] { Work(); });
    } catch (const std::system_error&) {
      // No thread to be had: the writer compresses alone.
    }
  }
  ~Team() { End(); }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  void Work() {
    DeflateParts deflater(level);
    for (;;) {
      Part* part = nullptr;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return ending || !waiting.empty(); });
        if (waiting.empty()) return;
        part = waiting.front();
        waiting.pop_front();
      }
      Compress(part, &deflater);
    }
  }

  void Compress(Part* part, DeflateParts* deflater) {
    std::string plain = std::move(part->plain);
    part->plain_bytes = plain.size();
    part->packed = deflater->Add(AsBytes(plain));
    part->crc = libdeflate_crc32(0, plain.data(), plain.size());
    const std::lock_guard lock(mutex);
    spare = std::move(plain);
  }

  // Compresses one part in the calling thread if at least `waiting_min` wait.
  bool Help(size_t waiting_min) {
    Part* part = nullptr;
    {
      const std::lock_guard lock(mutex);
      if (waiting.size() < waiting_min) return false;
      part = waiting.front();
      waiting.pop_front();
    }
    Compress(part, &own_deflater);
    return true;
  }

  void Hand(std::string plain) {
    Help(kPartsWaitingMax);
    {
      const std::lock_guard lock(mutex);
      parts.emplace_back().plain = std::move(plain);
      waiting.push_back(&parts.back());
    }
    changed.notify_one();
  }

  // All parts are compressed and the threads have ended.
  void End() {
    while (Help(1)) {
    }
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    changed.notify_all();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }

  const int level;
  DeflateParts own_deflater;
  std::string unfinished;  // less than a part
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Part> parts;  // in order; a part in work is one thread's
  std::deque<Part*> waiting;
  std::string spare;
  bool ending = false;
  std::vector<std::thread> threads;
};

std::string Gzip(Bytes plain, int level) {
  DeflateParts deflater(level);
  std::deque<Part> parts;
  while (!plain.empty()) {
    const Bytes next = plain.first(std::min(plain.size(), GzipStream::kPartBytes));
    plain = plain.subspan(next.size());
    parts.emplace_back();
    parts.back().plain_bytes = next.size();
    parts.back().packed = deflater.Add(next);
    parts.back().crc = libdeflate_crc32(0, next.data(), next.size());
  }
  return JoinParts(parts);
}

GzipStream::GzipStream(int level) : team_(std::make_unique<Team>(level)) {}

GzipStream::~GzipStream() = default;

void GzipStream::Write(std::string piece) {
  std::string& unfinished = team_->unfinished;
  if (unfinished.empty() && piece.size() == kPartBytes) {  // no copy
    team_->Hand(std::move(piece));
    return;
  }
  std::string_view rest = piece;
  while (!rest.empty()) {
    const std::string_view next = rest.substr(0, kPartBytes - unfinished.size());
    rest.remove_prefix(next.size());
    unfinished += next;
    if (unfinished.size() == kPartBytes) team_->Hand(std::exchange(unfinished, {}));
  }
}

std::string GzipStream::Buffer() {
  const std::lock_guard lock(team_->mutex);
  return std::exchange(team_->spare, {});
}

std::string GzipStream::Finish() {
  if (!team_->unfinished.empty()) team_->Hand(std::exchange(team_->unfinished, {}));
  team_->End();
  return JoinParts(team_->parts);
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
