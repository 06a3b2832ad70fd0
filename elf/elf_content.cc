// ElfFile::Content: sections that may be compressed.
#include <elf.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <new>

#include "base/str_format.h"
#include "elf/elf_file.h"

namespace ptarmigan {
namespace {

constexpr uint32_t kCompressZlib = 1;  // ELFCOMPRESS_ZLIB
constexpr uint32_t kCompressZstd = 2;  // ELFCOMPRESS_ZSTD, not in the elf.h of glibc 2.36

struct CompressedSection {
  uint32_t method = 0;
  uint64_t size_bytes = 0;  // when inflated, as the header says
  Bytes data;
};

// The declared size is not believed at once: storage starts near the compressed size and doubles.
class GrowingOutput {
 public:
  GrowingOutput(std::string* storage, uint64_t compressed_bytes, uint64_t declared_bytes)
      : storage_(*storage), declared_bytes_(declared_bytes) {
    constexpr uint64_t kFirstBytesMin = uint64_t{1} << 20;
    storage_.resize(std::min(declared_bytes, std::max(compressed_bytes * 8, kFirstBytesMin)));
  }
  char* next() { return storage_.data() + used_; }
  size_t room() const { return storage_.size() - used_; }
  void Advance(size_t count) { used_ += count; }
  bool full() const { return used_ == declared_bytes_; }
  // Makes room if there is none and the declared size allows it.
  void Grow() {
    if (room() == 0 && !full()) {
      storage_.resize(std::min<uint64_t>(declared_bytes_, storage_.size() * uint64_t{2}));
    }
  }

 private:
  std::string& storage_;
  uint64_t declared_bytes_;
  size_t used_ = 0;
};

// True if `data` is one zlib stream of exactly the declared size.
bool InflateZlib(Bytes data, GrowingOutput* output) {
  z_stream stream = {};
  if (inflateInit(&stream) != Z_OK) return false;
  const std::unique_ptr<z_stream, int (*)(z_stream*)> closer(&stream, inflateEnd);
  constexpr size_t kStepBytesMax = size_t{1} << 30;  // zlib counts in 32 bits
  int status = Z_OK;
  while (status == Z_OK) {
    output->Grow();
    const size_t in_bytes = std::min(data.size(), kStepBytesMax);
    const size_t out_bytes = std::min(output->room(), kStepBytesMax);
    // zlib's interface is not const-correct; it only reads the input.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(data.data()));
    stream.avail_in = static_cast<uInt>(in_bytes);
    stream.next_out = reinterpret_cast<Bytef*>(output->next());
    stream.avail_out = static_cast<uInt>(out_bytes);
    status = inflate(&stream, Z_NO_FLUSH);  // Z_BUF_ERROR if it could do nothing
    data = data.subspan(in_bytes - stream.avail_in);
    output->Advance(out_bytes - stream.avail_out);
  }
  return status == Z_STREAM_END && output->full();
}

// True if `data` is a sequence of zstd frames of exactly the declared size.
bool InflateZstd(Bytes data, GrowingOutput* output) {
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> decoder(ZSTD_createDCtx(),
                                                                   ZSTD_freeDCtx);
  if (decoder == nullptr) return false;
  ZSTD_inBuffer in = {data.data(), data.size(), 0};
  size_t hint = 1;
  for (;;) {
    output->Grow();
    ZSTD_outBuffer out = {output->next(), output->room(), 0};
    const size_t in_before = in.pos;
    hint = ZSTD_decompressStream(decoder.get(), &out, &in);
    if (ZSTD_isError(hint) != 0) return false;
    output->Advance(out.pos);
    if (hint == 0 && in.pos == in.size) return output->full();
    if (out.pos == 0 && in.pos == in_before)
      return false;  // no progress: cut off, or larger than declared
  }
}

}  // namespace

Result<Bytes> ElfFile::Content(const ElfSection& section, std::string* storage) const {
  const Bytes raw = RawContent(section);
  constexpr std::string_view kOldMagic = "ZLIB";
  CompressedSection compressed;
  if ((section.flags & SHF_COMPRESSED) != 0) {
    ByteCursor cursor(raw, order_);
    compressed.method = cursor.U32();
    if (is_64_bit_) cursor.U32();  // ch_reserved
    compressed.size_bytes = is_64_bit_ ? cursor.U64() : cursor.U32();
    cursor.Skip(is_64_bit_ ? 8 : 4);  // ch_addralign
    if (!cursor.ok()) {
      return Error{
          ErrorCode::kInvalidInput,
          StrFormat("{}: section {}: the compression header is cut off", name_, section.name)};
    }
    compressed.data = cursor.Rest();
  } else if (section.name.starts_with(".zdebug_") && AsText(raw).starts_with(kOldMagic)) {
    // GNU's older form: "ZLIB", size in 8 big-endian bytes, then the stream.
    ByteCursor cursor(raw.subspan(kOldMagic.size()), std::endian::big);
    compressed.method = kCompressZlib;
    compressed.size_bytes = cursor.U64();
    compressed.data = cursor.Rest();
  } else {
    return raw;
  }
  if (compressed.method != kCompressZlib && compressed.method != kCompressZstd) {
    return Error{ErrorCode::kUnsupported, StrFormat("{}: section {}: unknown compression method {}",
                                                    name_, section.name, compressed.method)};
  }
  if (compressed.size_bytes > kInflatedSectionBytesMax) {
    return Error{ErrorCode::kResourceLimit,
                 StrFormat("{}: section {}: {} bytes when inflated, more than {}", name_,
                           section.name, compressed.size_bytes, kInflatedSectionBytesMax)};
  }
  try {
    GrowingOutput output(storage, compressed.data.size(), compressed.size_bytes);
    const bool inflated = compressed.method == kCompressZlib
                              ? InflateZlib(compressed.data, &output)
                              : InflateZstd(compressed.data, &output);
    if (inflated) return AsBytes(*storage);
  } catch (const std::bad_alloc&) {
    storage->clear();
    return Error{ErrorCode::kResourceLimit,
                 StrFormat("{}: section {}: not enough memory to inflate", name_, section.name)};
  }
  storage->clear();
  return Error{ErrorCode::kInvalidInput,
               StrFormat("{}: section {}: damaged compressed data", name_, section.name)};
}

}  // namespace ptarmigan
