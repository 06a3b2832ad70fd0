// The archive's reader: every section is inflated, the profile decoded.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "export/archive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ptarmigan::Bytes bytes = std::as_bytes(std::span(data, size));
  const auto archive = ptarmigan::ArchiveReader::Open(bytes, {.section_bytes_max = 1 << 20});
  if (!archive) {
    CHECK(!archive.error().message.empty());
    return 0;
  }
  for (size_t i = 0; i < archive->entries().size(); ++i) {
    const auto content = archive->Read(i);
    CHECK(!content || content->size() == archive->entries()[i].plain_bytes);
  }
  const auto profile = archive->ReadProfile({.plain_bytes_max = 1 << 20, .entries_max = 1 << 16});
  CHECK(!profile || profile->CheckValid().has_value());
  return 0;
}
