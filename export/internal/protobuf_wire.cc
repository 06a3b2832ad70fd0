#include "export/internal/protobuf_wire.h"

#include <algorithm>
#include <utility>

namespace ptarmigan::internal {

void WireWriter::Grow(size_t bytes) {
  constexpr size_t kFirstBytes = 256;
  const size_t used = size();
  buffer_.resize(std::max({kFirstBytes, 2 * buffer_.size(), used + bytes}));
  at_ = buffer_.data() + used;
  end_ = buffer_.data() + buffer_.size();
}

std::string WireWriter::Take(size_t bytes, std::string next) {
  const size_t used = size();
  std::swap(buffer_, next);
  if (buffer_.size() < next.size()) buffer_.resize(next.size());
  at_ = PutBytes(buffer_.data(), std::string_view(next).substr(bytes, used - bytes));
  end_ = buffer_.data() + buffer_.size();
  next.resize(bytes);
  return next;
}

bool WireReader::Next(WireField* field) {
  if (!ok_ || cursor_.AtEnd()) return false;
  const uint64_t tag = cursor_.Uleb128();
  field->number = static_cast<uint32_t>(tag >> 3U);
  field->bytes = {};
  field->value = 0;
  switch (tag & 7U) {
    case 0:
      field->type = WireType::kVarint;
      field->value = cursor_.Uleb128();
      break;
    case 1:
      field->type = WireType::kFixed64;
      field->value = cursor_.U64();
      break;
    case 2:
      field->type = WireType::kBytes;
      field->bytes = cursor_.Take(cursor_.Uleb128());
      break;
    case 5:
      field->type = WireType::kFixed32;
      field->value = cursor_.U32();
      break;
    default:  // groups (3 and 4) left the format before pprof was made
      ok_ = false;
      return false;
  }
  ok_ = cursor_.ok() && field->number != 0 && (tag >> 3U) <= 0x1fffffffU;
  return ok_;
}

}  // namespace ptarmigan::internal
