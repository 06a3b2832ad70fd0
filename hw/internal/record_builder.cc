#include "hw/internal/record_builder.h"

#include "base/check.h"
#include "hw/internal/attr_bits.h"

namespace ptarmigan::internal {

void RecordBuilder::PutText(std::string_view text) {
  PutBytes(AsBytes(text.substr(0, kTextBytesMax - 1)));
  do {
    bytes_.push_back(std::byte{0});
  } while (bytes_.size() % 8 != 0);
}

Bytes RecordBuilder::Finish(const RecordTrailer& trailer) {
  if ((trailer.sample_type & kSampleTid) != 0) {
    Put<int32_t>(trailer.pid);
    Put<int32_t>(trailer.tid);
  }
  if ((trailer.sample_type & kSampleTime) != 0) Put<uint64_t>(trailer.time_ns);
  if ((trailer.sample_type & kSampleId) != 0) Put<uint64_t>(trailer.id);
  if ((trailer.sample_type & kSampleStreamId) != 0) Put<uint64_t>(trailer.id);
  if ((trailer.sample_type & kSampleCpu) != 0) {
    Put<uint32_t>(UINT32_MAX);  // no CPU
    Put<uint32_t>(0);
  }
  if ((trailer.sample_type & kSampleIdentifier) != 0) Put<uint64_t>(trailer.id);
  CHECK(bytes_.size() <= kRecordBytesMax);
  const auto size = static_cast<uint16_t>(bytes_.size());
  std::memcpy(bytes_.data() + 6, &size, sizeof(size));
  return bytes_;
}

}  // namespace ptarmigan::internal
