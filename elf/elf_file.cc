#include "elf/elf_file.h"

#include <elf.h>

#include <algorithm>

namespace ptarmigan {

// What Parse takes from the ELF header, 32- or 64-bit.
struct ElfHeaderFields {
  uint64_t segment_table = 0;
  uint64_t segment_count = 0;
  uint16_t segment_entry_bytes = 0;
  uint64_t section_table = 0;
  uint64_t section_count = 0;
  uint16_t section_entry_bytes = 0;
  uint32_t section_names = 0;
};

namespace {

uint64_t ReadWord(ByteCursor& cursor, bool is_64_bit) {
  return is_64_bit ? cursor.U64() : cursor.U32();
}

ElfSection ReadSection(ByteCursor& cursor, bool is_64_bit, uint32_t* name_offset) {
  ElfSection section;
  *name_offset = cursor.U32();
  section.type = cursor.U32();
  section.flags = ReadWord(cursor, is_64_bit);
  section.vaddr.value = ReadWord(cursor, is_64_bit);
  section.offset.value = ReadWord(cursor, is_64_bit);
  section.size_bytes = ReadWord(cursor, is_64_bit);
  section.link = cursor.U32();
  section.info = cursor.U32();
  section.alignment = ReadWord(cursor, is_64_bit);
  section.entry_bytes = ReadWord(cursor, is_64_bit);
  return section;
}

ElfSegment ReadSegment(ByteCursor& cursor, bool is_64_bit) {
  ElfSegment segment;
  segment.type = cursor.U32();
  if (is_64_bit) segment.flags = cursor.U32();
  segment.offset.value = ReadWord(cursor, is_64_bit);
  segment.vaddr.value = ReadWord(cursor, is_64_bit);
  ReadWord(cursor, is_64_bit);  // p_paddr
  segment.file_bytes = ReadWord(cursor, is_64_bit);
  segment.memory_bytes = ReadWord(cursor, is_64_bit);
  if (!is_64_bit) segment.flags = cursor.U32();
  segment.alignment = ReadWord(cursor, is_64_bit);
  return segment;
}

// The string at `offset` of a string table, at most `bytes_max` long; empty if it is outside.
std::string_view StringAt(Bytes table, uint64_t offset, uint64_t bytes_max) {
  if (offset >= table.size()) return {};
  const Bytes rest = table.subspan(static_cast<size_t>(offset));
  return ByteCursor(rest).FixedString(std::min<uint64_t>(rest.size(), bytes_max));
}

}  // namespace

void ForEachNoteIn(Bytes bytes, std::endian order, uint64_t alignment,
                   const std::function<void(const ElfNote&)>& visit) {
  // gABI says 8-byte words in 64-bit files, but only notes in segments aligned to 8 are padded so.
  const size_t padding = alignment == 8 ? 8 : 4;
  ByteCursor cursor(bytes, order);
  for (size_t count = 0; count < ElfFile::kNotesMax && cursor.remaining() >= 12; ++count) {
    const uint32_t name_bytes = cursor.U32();
    const uint32_t content_bytes = cursor.U32();
    ElfNote note;
    note.type = cursor.U32();
    note.name = cursor.FixedString(name_bytes);
    cursor.AlignTo(padding);
    note.content = cursor.Take(content_bytes);
    if (!cursor.ok()) return;
    visit(note);
    cursor.AlignTo(padding);  // fails harmlessly after a last note without padding
  }
}

BuildId BuildIdFromNotes(Bytes bytes, std::endian order) {
  BuildId build_id;
  ForEachNoteIn(bytes, order, 4, [&](const ElfNote& note) {
    if (build_id.empty() && note.type == NT_GNU_BUILD_ID && note.name == "GNU") {
      build_id = BuildId(note.content);
    }
  });
  return build_id;
}

Result<std::unique_ptr<ElfFile>> ElfFile::Open(const std::string& path) {
  std::unique_ptr<ElfFile> file(new ElfFile());
  TRY_ASSIGN(file->mapped_, MappedFile::Open(path));
  file->name_ = path;
  file->bytes_ = file->mapped_.bytes();
  TRY(file->Parse());
  return file;
}

Result<std::unique_ptr<ElfFile>> ElfFile::FromFd(int fd, const std::string& name) {
  std::unique_ptr<ElfFile> file(new ElfFile());
  TRY_ASSIGN(file->mapped_, MappedFile::FromFd(fd, name));
  file->name_ = name;
  file->bytes_ = file->mapped_.bytes();
  TRY(file->Parse());
  return file;
}

Result<std::unique_ptr<ElfFile>> ElfFile::FromBytes(Bytes bytes, const std::string& name) {
  std::unique_ptr<ElfFile> file(new ElfFile());
  file->name_ = name;
  file->bytes_ = bytes;
  TRY(file->Parse());
  return file;
}

Status ElfFile::Parse() {
  if (bytes_.size() < EI_NIDENT || AsText(bytes_).substr(0, SELFMAG) != ELFMAG) {
    return Error{ErrorCode::kInvalidInput, name_ + ": not an ELF file"};
  }
  const auto elf_class = static_cast<uint8_t>(bytes_[EI_CLASS]);
  const auto byte_order = static_cast<uint8_t>(bytes_[EI_DATA]);
  if ((elf_class != ELFCLASS32 && elf_class != ELFCLASS64) ||
      (byte_order != ELFDATA2LSB && byte_order != ELFDATA2MSB)) {
    return Error{ErrorCode::kInvalidInput, name_ + ": ELF file of an unknown class or byte order"};
  }
  is_64_bit_ = elf_class == ELFCLASS64;
  order_ = byte_order == ELFDATA2LSB ? std::endian::little : std::endian::big;
  return ParseHeader();
}

Status ElfFile::ParseHeader() {
  ByteCursor cursor(bytes_.subspan(EI_NIDENT), order_);
  ElfHeaderFields header;
  type_ = cursor.U16();
  arch_ = ArchFromElfMachine(cursor.U16());
  cursor.U32();  // e_version
  entry_.value = ReadWord(cursor, is_64_bit_);
  header.segment_table = ReadWord(cursor, is_64_bit_);
  header.section_table = ReadWord(cursor, is_64_bit_);
  cursor.U32();  // e_flags
  cursor.U16();  // e_ehsize
  header.segment_entry_bytes = cursor.U16();
  header.segment_count = cursor.U16();
  header.section_entry_bytes = cursor.U16();
  header.section_count = cursor.U16();
  header.section_names = cursor.U16();
  if (!cursor.ok()) return Error{ErrorCode::kTruncated, name_ + ": the ELF header is cut off"};

  // Counts that do not fit 16 bits are in section 0 (gABI, "ELF header").
  const size_t section_bytes = is_64_bit_ ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
  const Bytes first = SubspanOrEmpty(bytes_, header.section_table, section_bytes);
  if (header.section_table != 0 && !first.empty()) {
    ByteCursor section_cursor(first, order_);
    uint32_t unused_name = 0;
    const ElfSection zero = ReadSection(section_cursor, is_64_bit_, &unused_name);
    if (header.section_count == 0) header.section_count = zero.size_bytes;
    if (header.segment_count == PN_XNUM) header.segment_count = zero.info;
    if (header.section_names == SHN_XINDEX) header.section_names = zero.link;
  }
  ParseSegments(header);
  ParseSections(header);
  FindBuildId();
  return OkStatus();
}

void ElfFile::ParseSegments(const ElfHeaderFields& header) {
  const size_t entry_bytes = is_64_bit_ ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
  if (header.segment_entry_bytes < entry_bytes || header.segment_table > bytes_.size()) return;
  ByteCursor cursor(bytes_, order_);
  cursor.Seek(header.segment_table);
  const uint64_t count = std::min<uint64_t>(header.segment_count, kSegmentsMax);
  for (uint64_t i = 0; i < count && cursor.remaining() >= entry_bytes; ++i) {
    ByteCursor entry = cursor;
    segments_.push_back(ReadSegment(entry, is_64_bit_));
    cursor.Skip(header.segment_entry_bytes);
  }
}

void ElfFile::ParseSections(const ElfHeaderFields& header) {
  const size_t entry_bytes = is_64_bit_ ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
  if (header.section_table == 0 || header.section_table > bytes_.size() ||
      header.section_entry_bytes < entry_bytes) {
    return;
  }
  ByteCursor cursor(bytes_, order_);
  cursor.Seek(header.section_table);
  const uint64_t count = std::min<uint64_t>(header.section_count, kSectionsMax);
  std::vector<uint32_t> name_offsets;
  for (uint64_t i = 0; i < count && cursor.remaining() >= entry_bytes; ++i) {
    ByteCursor entry = cursor;
    sections_.push_back(ReadSection(entry, is_64_bit_, &name_offsets.emplace_back()));
    cursor.Skip(header.section_entry_bytes);
  }
  if (header.section_names >= sections_.size()) return;
  const Bytes names = RawContent(sections_[header.section_names]);
  for (size_t i = 0; i < sections_.size(); ++i) {
    sections_[i].name = StringAt(names, name_offsets[i], kSectionNameBytesMax);
  }
}

void ElfFile::ForEachNote(const std::function<void(const ElfNote&)>& visit) const {
  bool has_segment = false;
  for (const ElfSegment& segment : segments_) {
    if (segment.type != PT_NOTE) continue;
    has_segment = true;
    ForEachNoteIn(SubspanOrEmpty(bytes_, segment.offset.value, segment.file_bytes), order_,
                  segment.alignment, visit);
  }
  if (has_segment) return;
  for (const ElfSection& section : sections_) {
    if (section.type == SHT_NOTE)
      ForEachNoteIn(RawContent(section), order_, section.alignment, visit);
  }
}

void ElfFile::FindBuildId() {
  const auto take = [&](const ElfNote& note) {
    if (build_id_.empty() && note.type == NT_GNU_BUILD_ID && note.name == "GNU") {
      build_id_ = BuildId(note.content);
    }
  };
  ForEachNote(take);
  if (!build_id_.empty()) return;
  // Separate debug files may keep program headers that no longer describe their contents.
  for (const ElfSection& section : sections_) {
    if (section.type == SHT_NOTE)
      ForEachNoteIn(RawContent(section), order_, section.alignment, take);
  }
}

const ElfSection* ElfFile::FindSection(std::string_view name) const {
  for (const ElfSection& section : sections_) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

Bytes ElfFile::RawContent(const ElfSection& section) const {
  if (section.type == SHT_NOBITS || section.type == SHT_NULL) return {};
  return SubspanOrEmpty(bytes_, section.offset.value, section.size_bytes);
}

bool ElfFile::HasDwarf() const {
  return std::any_of(sections_.begin(), sections_.end(), [&](const ElfSection& section) {
    return (section.name == ".debug_info" || section.name == ".zdebug_info") &&
           !RawContent(section).empty();
  });
}

std::optional<ElfDebugLink> ElfFile::DebugLink() const {
  const ElfSection* section = FindSection(".gnu_debuglink");
  if (section == nullptr) return std::nullopt;
  ByteCursor cursor(RawContent(*section), order_);
  ElfDebugLink link;
  link.file_name = cursor.CString();
  cursor.AlignTo(4);
  link.crc = cursor.U32();
  if (!cursor.ok() || link.file_name.empty()) return std::nullopt;
  return link;
}

std::optional<std::pair<std::string, BuildId>> ElfFile::DebugAltLink() const {
  const ElfSection* section = FindSection(".gnu_debugaltlink");
  if (section == nullptr) return std::nullopt;
  ByteCursor cursor(RawContent(*section), order_);
  std::string path(cursor.CString());
  const BuildId build_id(cursor.Rest());
  if (!cursor.ok() || path.empty() || build_id.empty()) return std::nullopt;
  return std::pair(std::move(path), build_id);
}

std::optional<FileVaddr> ElfFile::ToVaddr(FileOffset offset) const {
  std::optional<FileVaddr> found;
  for (const ElfSegment& segment : segments_) {
    if (segment.type != PT_LOAD || offset < segment.offset ||
        offset - segment.offset >= segment.file_bytes) {
      continue;
    }
    const FileVaddr vaddr = segment.vaddr + (offset - segment.offset);
    if ((segment.flags & PF_X) != 0) return vaddr;
    if (!found) found = vaddr;
  }
  return found;
}

std::optional<FileOffset> ElfFile::ToOffset(FileVaddr vaddr) const {
  for (const ElfSegment& segment : segments_) {
    if (segment.type == PT_LOAD && vaddr >= segment.vaddr &&
        vaddr - segment.vaddr < segment.file_bytes) {
      return segment.offset + (vaddr - segment.vaddr);
    }
  }
  return std::nullopt;
}

Bytes ElfFile::ReadAt(FileVaddr vaddr, uint64_t size_bytes) const {
  for (const ElfSegment& segment : segments_) {
    if (segment.type != PT_LOAD || vaddr < segment.vaddr) continue;
    const uint64_t skipped = vaddr - segment.vaddr;
    if (skipped >= segment.file_bytes) continue;
    const FileOffset offset = segment.offset + skipped;
    if (offset < segment.offset || offset.value >= bytes_.size()) return {};
    const uint64_t available =
        std::min<uint64_t>(segment.file_bytes - skipped, bytes_.size() - offset.value);
    return bytes_.subspan(static_cast<size_t>(offset.value),
                          static_cast<size_t>(std::min(size_bytes, available)));
  }
  return {};
}

void ElfFile::ForEachSymbol(std::string_view table,
                            const std::function<void(const ElfSymbol&)>& visit) const {
  const ElfSection* section = FindSection(table);
  if (section == nullptr) return;
  const size_t entry_bytes = is_64_bit_ ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
  ByteCursor cursor(RawContent(*section), order_);
  const Bytes names =
      section->link < sections_.size() ? RawContent(sections_[section->link]) : Bytes();
  // Names may overlap, so that a small hostile file could make us scan its string table once per
  // symbol. Real tables need about one byte of scan per byte of names.
  const uint64_t count = std::min<uint64_t>(cursor.remaining() / entry_bytes, kSymbolsMax);
  uint64_t scan_bytes_left = uint64_t{64} * names.size() + count * 1024;
  for (uint64_t i = 0; i < count; ++i) {
    ElfSymbol symbol;
    const uint32_t name_offset = cursor.U32();
    uint8_t info = 0;
    if (is_64_bit_) {
      info = cursor.U8();
      cursor.U8();  // st_other
      symbol.section = cursor.U16();
      symbol.value.value = cursor.U64();
      symbol.size_bytes = cursor.U64();
    } else {
      symbol.value.value = cursor.U32();
      symbol.size_bytes = cursor.U32();
      info = cursor.U8();
      cursor.U8();
      symbol.section = cursor.U16();
    }
    symbol.type = info & 0xf;
    symbol.binding = info >> 4;
    symbol.name =
        StringAt(names, name_offset, std::min<uint64_t>(kSymbolNameBytesMax, scan_bytes_left));
    scan_bytes_left -= std::min<uint64_t>(symbol.name.size(), scan_bytes_left);
    visit(symbol);
  }
}

}  // namespace ptarmigan
