// LibiptDecoder: one of libipt's block decoders, with the bytes and the code that it works on (intel-pt.h, libipt 2.0.5 and
// later).
//
// A libipt decoder is bound to one buffer for its life, and making one costs as much as decoding a small segment. So one
// is kept over a buffer of its own, and each segment is copied to the end of it.
//
// Code reaches libipt as sections of files, through its section cache, which keeps what it learnt about them: the open
// files of CodeRegion, or memory files that hold a copy. Never through the read-memory callback, for which it keeps
// nothing.
#pragma once

#include <intel-pt.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/byte_cursor.h"
#include "base/file.h"
#include "decode/pt_config.h"
#include "model/code_image.h"

namespace ptarmigan::internal {

// What libipt is told of the processor. `knows_cpu`: with its errata.
pt_config LibiptConfig(const PtConfig& config, bool* knows_cpu);

// The sections of all images of one decoder. Decoders of several threads share none: libipt locks a section for every block
// that it looks up, and two threads in the same code would wait for each other most of the time.
class LibiptSections {
 public:
  // `bytes_max`: what libipt keeps mapped.
  explicit LibiptSections(uint64_t bytes_max);
  bool ok() const { return cache_ != nullptr; }
  pt_image_section_cache* get() const { return cache_.get(); }
  // The number of a region's section, negative if it cannot be read.
  int Find(const CodeImage* image, size_t epoch, const CodeRegion& region);

 private:
  struct CacheDeleter {
    void operator()(pt_image_section_cache* cache) const { pt_iscache_free(cache); }
  };
  using Key = std::tuple<const CodeImage*, size_t, uint64_t, uint64_t, uint64_t, uint64_t>;

  int Add(const CodeRegion& region);

  std::unique_ptr<pt_image_section_cache, CacheDeleter> cache_;
  std::map<Key, int> sections_;
  std::vector<Fd> memory_files_;  // libipt opens them again and again
};

// One per worker.
class LibiptDecoder {
 public:
  LibiptDecoder(const pt_config& base, uint64_t code_bytes_max);

  // False if libipt has no memory.
  bool Open();
  // Null if a decoder of its own is needed and cannot be made.
  pt_block_decoder* Load(Bytes segment);
  pt_block_decoder* get() const { return now_; }
  // Of the code at which the decoder looks. False if it cannot be set.
  bool UseImage(const CodeImage* image, size_t epoch);
  // How far libipt has read, in the segment.
  size_t Position() const;
  // libipt's status.
  int Start() { return pt_blk_sync_set(now_, begin_); }
  // Goes on behind `end_offset` of the segment as if it began there, at `address`: a PSB is written over bytes that have been
  // used. Only if can_restart().
  int Restart(size_t end_offset, uint64_t address, bool is_64_bit);
  // (The bytes of large segments are not ours to overwrite.)
  bool can_restart() const { return large_decoder_ == nullptr; }
  // Packets newer than libipt, since Load.
  uint64_t unknown_packets() const { return unknown_packets_; }

 private:
  struct DecoderDeleter {
    void operator()(pt_block_decoder* decoder) const { pt_blk_free_decoder(decoder); }
  };
  struct ImageDeleter {
    void operator()(pt_image* image) const { pt_image_free(image); }
  };
  using Decoder = std::unique_ptr<pt_block_decoder, DecoderDeleter>;
  using Image = std::unique_ptr<pt_image, ImageDeleter>;

  Decoder OpenOver(uint8_t* begin, size_t size);
  pt_image* ImageOf(const CodeImage* image, size_t epoch);

  pt_config base_;
  LibiptSections sections_;
  std::vector<uint8_t> buffer_;
  Decoder decoder_;
  Decoder large_decoder_;
  std::map<std::pair<const CodeImage*, size_t>, Image> images_;
  pt_block_decoder* now_ = nullptr;
  uint64_t begin_ = 0;  // of the segment in libipt's buffer
  uint64_t unknown_packets_ = 0;
};

}  // namespace ptarmigan::internal
