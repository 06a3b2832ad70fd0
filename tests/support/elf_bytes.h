// ElfBytes: writes small ELF files for tests: any class, byte order and machine; sections, segments
// over sections, notes and symbols. What it writes is well-formed; tests damage the result.
#pragma once

#include <elf.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/byte_writer.h"

namespace ptarmigan {

class ElfBytes {
 public:
  struct Format {
    bool is_64_bit = true;
    std::endian order = std::endian::little;
    uint16_t machine = EM_X86_64;
    uint16_t type = ET_DYN;
    // Counts and the name table's index go to section 0, as in files with 65,280 sections and more.
    bool extended_counts = false;
  };
  struct Section {
    std::string name = {};
    uint32_t type = SHT_PROGBITS;
    uint64_t flags = 0;
    uint64_t vaddr = 0;
    std::string content = {};
    uint32_t link = 0;
    uint32_t info = 0;
    uint64_t entry_bytes = 0;
    uint64_t alignment = 8;
  };
  struct Symbol {
    std::string name = {};
    uint64_t value = 0;
    uint64_t size_bytes = 0;
    uint8_t type = STT_FUNC;
    uint8_t binding = STB_GLOBAL;
    uint16_t section = 1;
  };
  struct Note {
    std::string name = {};
    uint32_t type = 0;
    std::string content = {};
  };

  ElfBytes() : ElfBytes(Format{}) {}
  explicit ElfBytes(Format format) : format_(format) {}

  const Format& format() const { return format_; }
  // Returns the section's index.
  uint32_t Add(Section section) {
    sections_.push_back(std::move(section));
    return static_cast<uint32_t>(sections_.size());
  }
  // A segment that covers sections [first, last] (their content must be contiguous: they are laid
  // out in order) and has the first one's address.
  void AddSegment(uint32_t type, uint32_t flags, std::pair<uint32_t, uint32_t> first_last,
                  uint64_t alignment = 8) {
    segments_.push_back({type, flags, first_last.first, first_last.second, alignment});
  }
  // The bytes of one note.
  std::string NoteBytes(const Note& note, size_t alignment = 4) const {
    ByteWriter out(format_.order);
    out.U32(note.name.size() + 1).U32(note.content.size()).U32(note.type).CString(note.name);
    out.PadTo(alignment).Text(note.content).PadTo(alignment);
    return out.bytes();
  }
  // `symbol_table` and its string table; returns the symbol table's index.
  uint32_t AddSymbols(const std::string& symbol_table, const std::vector<Symbol>& symbols) {
    std::string names(1, '\0');
    ByteWriter out(format_.order);
    const auto write = [&](uint64_t name, const Symbol& symbol) {
      const auto symbol_info = static_cast<uint64_t>(symbol.binding << 4 | symbol.type);
      out.U32(name);
      if (format_.is_64_bit) {
        out.U8(symbol_info).U8(0).U16(symbol.section).U64(symbol.value).U64(symbol.size_bytes);
      } else {
        out.U32(symbol.value).U32(symbol.size_bytes).U8(symbol_info).U8(0).U16(symbol.section);
      }
    };
    write(0, Symbol{.name = "", .type = STT_NOTYPE, .binding = STB_LOCAL, .section = 0});
    for (const Symbol& symbol : symbols) {
      write(names.size(), symbol);
      names += symbol.name + '\0';
    }
    const uint32_t strings = Add({.name = symbol_table == ".dynsym" ? ".dynstr" : ".strtab",
                                  .type = SHT_STRTAB,
                                  .content = names,
                                  .alignment = 1});
    const uint64_t entry_bytes = format_.is_64_bit ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
    return Add({.name = symbol_table,
                .type = symbol_table == ".dynsym" ? uint32_t{SHT_DYNSYM} : uint32_t{SHT_SYMTAB},
                .content = out.bytes(),
                .link = strings,
                .info = 1,
                .entry_bytes = entry_bytes});
  }

  std::string Build() const;

 private:
  struct Segment {
    uint32_t type;
    uint32_t flags;
    uint32_t first;
    uint32_t last;
    uint64_t alignment;
  };
  struct Placed {
    uint64_t name = 0;
    uint64_t offset = 0;
  };
  static size_t AlignUp(size_t value, uint64_t alignment) {
    return alignment < 2 ? value
                         : static_cast<size_t>((value + alignment - 1) / alignment * alignment);
  }
  size_t word_bytes() const { return format_.is_64_bit ? 8 : 4; }
  size_t header_bytes() const {
    return format_.is_64_bit ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr);
  }
  size_t segment_bytes() const {
    return format_.is_64_bit ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
  }
  size_t section_bytes() const {
    return format_.is_64_bit ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
  }
  void WriteHeader(ByteWriter* out, uint64_t section_table, uint64_t section_count) const;
  void WriteSection(ByteWriter* out, const Section& section, const Placed& placed,
                    uint64_t size) const;

  Format format_;
  std::vector<Section> sections_;
  std::vector<Segment> segments_;
};

inline void ElfBytes::WriteHeader(ByteWriter* out, uint64_t section_table,
                                  uint64_t section_count) const {
  const bool extended = format_.extended_counts;
  out->Text(std::string_view("\177ELF", 4)).U8(format_.is_64_bit ? 2 : 1);
  out->U8(format_.order == std::endian::little ? 1 : 2).U8(1).PadTo(16);
  out->U16(format_.type).U16(format_.machine).U32(1).Number(0x1000, word_bytes());
  out->Number(segments_.empty() ? 0 : header_bytes(), word_bytes());
  out->Number(section_table, word_bytes()).U32(0).U16(header_bytes()).U16(segment_bytes());
  out->U16(extended ? PN_XNUM : segments_.size()).U16(section_bytes());
  out->U16(extended ? 0 : section_count).U16(extended ? SHN_XINDEX : section_count - 1);
}

inline void ElfBytes::WriteSection(ByteWriter* out, const Section& section, const Placed& placed,
                                   uint64_t size) const {
  const size_t word = word_bytes();
  out->U32(placed.name).U32(section.type).Number(section.flags, word).Number(section.vaddr, word);
  out->Number(placed.offset, word).Number(size, word).U32(section.link).U32(section.info);
  out->Number(section.alignment, word).Number(section.entry_bytes, word);
}

inline std::string ElfBytes::Build() const {
  std::vector<Section> sections = sections_;
  sections.push_back({.name = ".shstrtab", .type = SHT_STRTAB, .alignment = 1});
  std::string names(1, '\0');
  std::vector<Placed> placed;
  for (const Section& section : sections) {
    placed.push_back({.name = names.size()});
    names += section.name + '\0';
  }
  sections.back().content = names;

  size_t end = header_bytes() + segments_.size() * segment_bytes();
  for (size_t i = 0; i < sections.size(); ++i) {
    placed[i].offset = AlignUp(end, sections[i].alignment);
    end = placed[i].offset + (sections[i].type == SHT_NOBITS ? 0 : sections[i].content.size());
  }
  const size_t section_table = AlignUp(end, 8);

  ByteWriter out(format_.order);
  WriteHeader(&out, section_table, sections.size() + 1);
  for (const Segment& segment : segments_) {
    const Section& last = sections[segment.last - 1];
    const uint64_t offset = placed[segment.first - 1].offset;
    const uint64_t file_end =
        placed[segment.last - 1].offset + (last.type == SHT_NOBITS ? 0 : last.content.size());
    const uint64_t size = file_end - offset;
    const uint64_t memory = size + (last.type == SHT_NOBITS ? last.content.size() : 0);
    const uint64_t vaddr = sections[segment.first - 1].vaddr;
    const size_t word = word_bytes();
    out.U32(segment.type);
    if (format_.is_64_bit) out.U32(segment.flags);
    out.Number(offset, word).Number(vaddr, word).Number(vaddr, word).Number(size, word);
    out.Number(memory, word);
    if (!format_.is_64_bit) out.U32(segment.flags);
    out.Number(segment.alignment, word);
  }
  for (size_t i = 0; i < sections.size(); ++i) {
    while (out.size() < placed[i].offset) out.U8(0);
    if (sections[i].type != SHT_NOBITS) out.Text(sections[i].content);
  }
  out.PadTo(8);
  const bool extended = format_.extended_counts;
  WriteSection(&out,
               Section{.name = "",
                       .type = SHT_NULL,
                       .link = extended ? static_cast<uint32_t>(sections.size()) : 0,
                       .info = extended ? static_cast<uint32_t>(segments_.size()) : 0,
                       .alignment = 0},
               Placed{}, extended ? sections.size() + 1 : 0);
  for (size_t i = 0; i < sections.size(); ++i) {
    WriteSection(&out, sections[i], placed[i], sections[i].content.size());
  }
  return out.bytes();
}

}  // namespace ptarmigan
