// RecordBuilder: one record as the kernel would write it, with the sample_id trailer that our events ask for.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/byte_cursor.h"

namespace ptarmigan::internal {

// What stands at the end of every record that is not a sample (sample_id_all), in the kernel's order.
struct RecordTrailer {
  uint64_t sample_type = 0;  // of the event with this id
  uint64_t id = 0;
  int32_t pid = 0;
  int32_t tid = 0;
  uint64_t time_ns = 0;
};

class RecordBuilder {
 public:
  void Begin(uint32_t type, uint16_t misc) {
    bytes_.clear();
    Put<uint32_t>(type);
    Put<uint16_t>(misc);
    Put<uint16_t>(0);
  }
  template <typename T>
  void Put(T value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  void PutBytes(Bytes bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  // NUL-terminated, padded to 8 bytes; cut to kTextBytesMax.
  void PutText(std::string_view text);
  // Appends the trailer, sets the size and returns the record, valid until the next Begin.
  Bytes Finish(const RecordTrailer& trailer);

  static constexpr size_t kTextBytesMax = 4096;  // PATH_MAX

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace ptarmigan::internal
