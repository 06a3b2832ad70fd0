// Every kind of profile that is read, by its first bytes: pprof (plain, gzip, zstd) and the legacy formats. What
// decodes must be valid and must survive being written and read again.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "export/formats.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using ptarmigan::DecodeLimits;
  const ptarmigan::Bytes bytes = std::as_bytes(std::span(data, size));
  const DecodeLimits limits = {.plain_bytes_max = 1 << 20, .entries_max = 1 << 16};
  const auto profile = ptarmigan::DecodeAny(bytes, "input", limits);
  if (!profile) {
    CHECK(!profile.error().message.empty());
    return 0;
  }
  CHECK(profile->CheckValid().has_value());
  const auto encoded = ptarmigan::EncodePprof(*profile, {.gzip = false});
  CHECK(encoded.has_value());
  const auto again = ptarmigan::DecodePprof(ptarmigan::AsBytes(*encoded));
  CHECK(again.has_value());
  CHECK(ptarmigan::EquivalentProfiles(*profile, *again));
  return 0;
}
