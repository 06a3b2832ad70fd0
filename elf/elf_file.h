// ElfFile: a bounds-checked, read-only view of an ELF object (32- and 64-bit, either byte order),
// over a mapped file or over bytes in memory. Hostile input: every offset and count is checked,
// nothing is trusted, nothing is allocated by a number read from the file without a bound. libelf
// is not used here, so that opening objects in a privileged process parses as little foreign data
// as possible (docs/architecture.md, trust boundaries).
//
// Immutable after Open; any thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_cursor.h"
#include "base/file.h"
#include "base/result.h"
#include "model/address.h"
#include "model/arch.h"
#include "model/build_id.h"

namespace ptarmigan {

struct ElfSegment {
  uint32_t type = 0;   // PT_*
  uint32_t flags = 0;  // PF_*
  FileOffset offset;
  FileVaddr vaddr;
  uint64_t file_bytes = 0;
  uint64_t memory_bytes = 0;
  uint64_t alignment = 0;
};

struct ElfSection {
  std::string_view name;
  uint32_t type = 0;   // SHT_*
  uint64_t flags = 0;  // SHF_*
  FileVaddr vaddr;
  FileOffset offset;
  uint64_t size_bytes = 0;
  uint32_t link = 0;
  uint32_t info = 0;
  uint64_t entry_bytes = 0;
  uint64_t alignment = 0;
};

struct ElfSymbol {
  std::string_view name;  // borrowed from the file
  FileVaddr value;
  uint64_t size_bytes = 0;
  uint8_t type = 0;     // STT_*
  uint8_t binding = 0;  // STB_*
  uint16_t section = 0;
};

struct ElfNote {
  std::string_view name;  // without its NUL
  uint32_t type = 0;      // NT_*
  Bytes content;          // borrowed
};

struct ElfDebugLink {
  std::string file_name;
  uint32_t crc = 0;
};

struct ElfHeaderFields;

class ElfFile {
 public:
  // Bounds; files beyond them are read up to the bound.
  static constexpr size_t kSegmentsMax = 4096;
  static constexpr size_t kSectionsMax = 65536;
  static constexpr size_t kSymbolsMax = size_t{16} << 20;
  static constexpr size_t kNotesMax = 65536;
  static constexpr size_t kSectionNameBytesMax = 4096;
  // Longer symbol names are cut.
  static constexpr size_t kSymbolNameBytesMax = size_t{1} << 20;
  static constexpr uint64_t kInflatedSectionBytesMax = uint64_t{2} << 30;

  // kInvalidInput "…: not an ELF file", kTruncated, or the file's own errors.
  static Result<std::unique_ptr<ElfFile>> Open(const std::string& path);
  static Result<std::unique_ptr<ElfFile>> FromFd(int fd, const std::string& name);
  // Keeps a copy-free view: `bytes` must outlive the ElfFile.
  static Result<std::unique_ptr<ElfFile>> FromBytes(Bytes bytes, const std::string& name);

  const std::string& name() const { return name_; }
  Bytes bytes() const { return bytes_; }
  Arch arch() const { return arch_; }
  bool is_64_bit() const { return is_64_bit_; }
  std::endian byte_order() const { return order_; }
  uint16_t type() const { return type_; }  // ET_*
  FileVaddr entry() const { return entry_; }
  const std::vector<ElfSegment>& segments() const { return segments_; }
  const std::vector<ElfSection>& sections() const { return sections_; }
  // First section of that name; null if none.
  const ElfSection* FindSection(std::string_view name) const;
  // The section's bytes as they stand in the file (perhaps compressed); empty for SHT_NOBITS or a
  // bad range.
  Bytes RawContent(const ElfSection& section) const;
  // The section's bytes, inflated if SHF_COMPRESSED (zlib or zstd) or ".zdebug_*". `storage` holds
  // them if they had to be inflated. kInvalidInput if the compressed data is damaged,
  // kResourceLimit above the bound.
  Result<Bytes> Content(const ElfSection& section, std::string* storage) const;

  // The notes of every PT_NOTE segment, or of the SHT_NOTE sections if there is no such segment.
  void ForEachNote(const std::function<void(const ElfNote&)>& visit) const;
  // The GNU build id note, from PT_NOTE or SHT_NOTE; empty if there is none.
  const BuildId& build_id() const { return build_id_; }
  std::optional<ElfDebugLink> DebugLink() const;  // .gnu_debuglink
  // .gnu_debugaltlink: path and build id of the dwz file.
  std::optional<std::pair<std::string, BuildId>> DebugAltLink() const;
  bool HasDwarf() const;  // .debug_info (or .zdebug_info) with content

  // Conversions through the file-backed part of PT_LOAD; nothing if no segment covers it. Where two
  // segments share file bytes, the executable one is meant.
  std::optional<FileVaddr> ToVaddr(FileOffset offset) const;
  std::optional<FileOffset> ToOffset(FileVaddr vaddr) const;
  // Up to `size_bytes` file-backed bytes at an address; fewer at the end of a segment.
  Bytes ReadAt(FileVaddr vaddr, uint64_t size_bytes) const;

  // Symbols of ".symtab" or ".dynsym", in file order; undefined and section symbols included.
  void ForEachSymbol(std::string_view table,
                     const std::function<void(const ElfSymbol&)>& visit) const;

 private:
  ElfFile() = default;
  Status Parse();
  Status ParseHeader();
  void ParseSegments(const ElfHeaderFields& header);
  void ParseSections(const ElfHeaderFields& header);
  void FindBuildId();

  std::string name_;
  MappedFile mapped_;
  Bytes bytes_;
  Arch arch_ = Arch::kUnknown;
  bool is_64_bit_ = true;
  std::endian order_ = std::endian::little;
  uint16_t type_ = 0;
  FileVaddr entry_;
  std::vector<ElfSegment> segments_;
  std::vector<ElfSection> sections_;
  BuildId build_id_;
};

// The notes in `bytes` (the content of a PT_NOTE segment or of /sys/kernel/notes), until the first
// that does not fit. `alignment` is the segment's: 8 pads to 8 bytes, all else to 4.
void ForEachNoteIn(Bytes bytes, std::endian order, uint64_t alignment,
                   const std::function<void(const ElfNote&)>& visit);
// The GNU build id among them; empty if there is none.
BuildId BuildIdFromNotes(Bytes bytes, std::endian order);

}  // namespace ptarmigan
