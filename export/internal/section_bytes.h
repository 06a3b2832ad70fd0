// What the writers and readers of an archive's sections share.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "model/profile.h"

namespace ptarmigan::internal {

// Little endian.
inline void AppendU32(uint32_t value, std::string* out) {
  for (unsigned shift = 0; shift < 32; shift += 8)
    out->push_back(static_cast<char>(static_cast<uint8_t>(value >> shift)));
}
inline void AppendU64(uint64_t value, std::string* out) {
  AppendU32(static_cast<uint32_t>(value), out);
  AppendU32(static_cast<uint32_t>(value >> 32), out);
}

// A pprof message numbers its locations anew: sections name them by mapping and address.
using LocationsByPlace = std::map<std::pair<MappingId, uint64_t>, LocationId>;
inline LocationsByPlace IndexByPlace(const Profile& profile) {
  LocationsByPlace by_place;
  for (LocationId id = 0; id < profile.locations.size(); ++id) {
    by_place.emplace(std::pair(profile.locations[id].mapping, profile.locations[id].address), id);
  }
  return by_place;
}

}  // namespace ptarmigan::internal
