#include "export/internal/location_lists.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/check.h"
#include "export/internal/protobuf_wire.h"
#include "proto/profile.pb.h"

namespace ptarmigan::internal {
namespace {

// Tag and size of the field.
constexpr size_t kHeadBytesMax = 2 * kVarintBytesMax;
// What the entry of the leaf may spoil.
constexpr size_t kSpoiledBytesMax = sizeof(uint64_t);
// Of a 32-bit number.
constexpr size_t kIdBytesMax = 5;

}  // namespace

LocationLists::LocationLists(std::span<const LocationId> numbered, size_t locations)
    : numbers_(locations, 0) {
  for (size_t i = 0; i < numbered.size(); ++i) numbers_[numbered[i]] = Encoded(i + 1);
}

LocationLists::Number LocationLists::Encoded(uint64_t id) {
  std::array<char, kVarintBytesMax> varint;
  const auto size = static_cast<size_t>(PutVarint(varint.data(), id) - varint.data());
  CHECK(size <= kIdBytesMax);
  Number number = 0;
  for (size_t i = size; i-- > 0;) number = number << 8U | static_cast<uint8_t>(varint[i]);
  return number << (8 * (sizeof(Number) - size)) | size;
}

void LocationLists::Grow(size_t frames) {
  sizes_.resize(std::max(2 * sizes_.size(), frames + 1));
  bytes_.resize(sizes_.size() * kIdBytesMax + kHeadBytesMax + kSpoiledBytesMax);
  last_ = {};
}

std::string_view LocationLists::Field(std::span<const LocationId> frames) {
  if (frames.empty()) {
    last_ = {};  // nobody promised that the frames before these are still there
    return {};
  }
  if (sizes_.size() <= frames.size()) Grow(frames.size());
  const auto [ours, theirs] =
      std::mismatch(frames.rbegin(), frames.rend(), last_.rbegin(), last_.rend());
  auto depth = static_cast<size_t>(ours - frames.rbegin());
  char* const end = bytes_.data() + bytes_.size();
  uint32_t size = sizes_[depth];
  for (const LocationId* frame = frames.data() + (frames.size() - depth); frame != frames.data();) {
    Number number = numbers_[*--frame];
    const auto number_bytes = static_cast<uint32_t>(number & 0xff);
    if constexpr (std::endian::native == std::endian::big) number = __builtin_bswap64(number);
    std::memcpy(end - size - sizeof(number), &number, sizeof(number));
    size += number_bytes;
    sizes_[++depth] = size;
  }
  last_ = frames;
  std::array<char, kHeadBytesMax> head;
  constexpr uint64_t kTag =
      WireWriter::TagOf(perftools::profiles::Sample::kLocationIdFieldNumber, WireType::kBytes);
  const auto head_bytes =
      static_cast<size_t>(PutVarint(PutVarint(head.data(), kTag), size) - head.data());
  char* const begin = end - size - head_bytes;
  PutBytes(begin, {head.data(), head_bytes});
  return {begin, head_bytes + size};
}

}  // namespace ptarmigan::internal
