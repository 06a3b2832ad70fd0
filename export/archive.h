// The `.ptarmigan` archive: a profile with what is needed to look at it elsewhere (symbol tables, code, a
// description of the host). Byte layout: docs/formats/archive.md.
//
// Sections follow each other, each with its own sizes and checksum, so an archive can be written as it is made
// and read to its last whole section when the end is missing. Unknown section types are kept and counted, not
// refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "export/pprof.h"
#include "export/sink.h"
#include "model/profile.h"

namespace ptarmigan {

enum class ArchiveSection : uint32_t {
  kProfile = 1,      // pprof message, no gzip; one per archive
  kSymbolTable = 2,  // a .sym file; name: build id in hex
  kCode = 3,         // bytes of code; name: chosen by the writer
  kHost = 4,         // JSON object that describes the machine; one per archive
  kBranches = 5,  // the profile's BranchSummary (export/branch_section.h); at most one per archive
  kMemory = 6,    // the profile's MemorySummary (export/memory_section.h); at most one per archive
  kFlow = 7,      // the profile's FlowSummary (export/flow_section.h); at most one per archive
};

class ArchiveWriter {
 public:
  // Writes the header. `sink` must outlive the writer.
  static Result<ArchiveWriter> Begin(ByteSink* sink);

  // Compresses and writes one section. kInvalidInput if the name is longer than kArchiveNameBytesMax.
  Status Add(ArchiveSection type, std::string_view name, Bytes content);
  Status AddProfile(const Profile& profile);
  // Writes the end mark. Nothing may follow.
  Status Finish();

 private:
  explicit ArchiveWriter(ByteSink* sink) : sink_(sink) {}
  Status WriteSection(uint32_t type, std::string_view name, Bytes content);
  ByteSink* sink_;
  uint64_t sections_ = 0;
};

constexpr size_t kArchiveNameBytesMax = 4096;

struct ArchiveLimits {
  uint64_t sections_max = uint64_t{1} << 16;
  uint64_t section_bytes_max = uint64_t{1} << 30;  // after inflating, each
};

class ArchiveReader {
 public:
  struct Entry {
    ArchiveSection type;  // may be none of the enumerators
    std::string_view name;
    uint64_t plain_bytes = 0;
    bool operator==(const Entry&) const = default;
  };

  // Looks at all section headers; inflates nothing. `bytes` must outlive the reader. kInvalidInput if it is no
  // archive or none that this version reads; kTruncated if not even one section is whole.
  static Result<ArchiveReader> Open(Bytes bytes, const ArchiveLimits& limits = {});

  const std::vector<Entry>& entries() const { return entries_; }
  // The end mark was there and nothing is missing before it.
  bool is_complete() const { return is_complete_; }
  // Content of entry `index`, inflated and checked. kInvalidInput if the checksum or a size does not fit.
  Result<std::string> Read(size_t index) const;
  // The first entry of this type and name; entries().size() if there is none.
  size_t Find(ArchiveSection type, std::string_view name) const;

  // The profile section. A missing end of the archive is counted in its losses (parse, truncated), unknown
  // sections too (parse, unknown_record_type).
  Result<Profile> ReadProfile(const DecodeLimits& limits = {}) const;

 private:
  struct Stored {
    Bytes bytes;
    uint64_t checksum = 0;
    bool is_compressed = false;
  };
  ArchiveReader() = default;
  ArchiveLimits limits_;
  std::vector<Entry> entries_;
  std::vector<Stored> stored_;
  bool is_complete_ = false;
};

// Whether the bytes begin as an archive does.
bool IsArchive(Bytes prefix);

}  // namespace ptarmigan
