#include "symbolize/internal/dwarf_image.h"

#include <elf.h>

#include <cstring>
#include <optional>
#include <utility>

#include "base/str_format.h"
#include "symbolize/internal/code_ranges.h"

namespace ptarmigan::internal {
namespace {

constexpr size_t kDebugSectionsMax = 1024;

// ".debug_x" for ".debug_x" and ".zdebug_x"; empty for other sections.
std::string PlainName(std::string_view name) {
  if (name.starts_with(".debug_")) return std::string(name);
  if (name.starts_with(".zdebug_")) return StrFormat(".{}", name.substr(2));
  return {};
}

bool IsCompressed(const ElfSection& section) {
  return (section.flags & SHF_COMPRESSED) != 0 || section.name.starts_with(".zdebug_");
}

// Writes integers in the object's byte order.
class ElfWriter {
 public:
  ElfWriter(std::string* out, const ElfFile& file)
      : out_(*out), swap_(file.byte_order() != std::endian::native), wide_(file.is_64_bit()) {}

  template <typename T>
  void Put(T value) {
    if (swap_) value = ByteSwap(value);
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out_.append(bytes, sizeof(T));
  }
  // Elf32_Word or Elf64_Xword, whichever the class has there.
  void PutWord(uint64_t value) {
    if (wide_) {
      Put<uint64_t>(value);
    } else {
      Put(static_cast<uint32_t>(value));
    }
  }
  void Section(uint32_t name, uint32_t type, uint64_t offset, uint64_t size_bytes) {
    Put(name);
    Put(type);
    PutWord(0);  // flags
    PutWord(0);  // address
    PutWord(offset);
    PutWord(size_bytes);
    Put<uint32_t>(0);                   // link
    Put<uint32_t>(0);                   // info
    PutWord(type == SHT_NULL ? 0 : 1);  // alignment
    PutWord(0);                         // entry size
  }

 private:
  std::string& out_;
  bool swap_;
  bool wide_;
};

// Bytes that an absolute relocation writes; 0: none, nothing: unknown type.
std::optional<unsigned> RelocationBytes(Arch arch, uint64_t type) {
  switch (arch) {
    case Arch::kX86_64:
      if (type == R_X86_64_NONE) return 0;
      if (type == R_X86_64_64) return 8;
      if (type == R_X86_64_32 || type == R_X86_64_32S) return 4;
      break;
    case Arch::kArm64:
      if (type == R_AARCH64_NONE || type == 256) return 0;
      if (type == R_AARCH64_ABS64) return 8;
      if (type == R_AARCH64_ABS32) return 4;
      break;
    default:
      break;
  }
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<DwarfImage>> DwarfImage::Make(const ElfFile& file) {
  std::unique_ptr<DwarfImage> image(new DwarfImage(file));
  bool rebuild = file.type() == ET_REL;
  for (const ElfSection& section : file.sections()) {
    rebuild |= !PlainName(section.name).empty() && IsCompressed(section);
  }
  image->elf_ = file.bytes();
  if (!rebuild) return image;
  for (const ElfSection& section : file.sections()) {
    if (PlainName(section.name).empty() || section.type == SHT_NOBITS || section.type == SHT_RELA ||
        section.type == SHT_REL || image->sections_.size() >= kDebugSectionsMax) {
      continue;
    }
    TRY(image->Load(section));
  }
  image->Assemble();
  return image;
}

Result<DwarfImage::PlainSection*> DwarfImage::Load(const ElfSection& section) {
  auto plain = std::make_unique<PlainSection>();
  plain->name = PlainName(section.name);
  TRY_ASSIGN(plain->content, file_.Content(section, &plain->storage));
  if (file_.type() == ET_REL) {
    const auto index = static_cast<size_t>(&section - file_.sections().data());
    for (const ElfSection& relocations : file_.sections()) {
      if (relocations.type != SHT_RELA || relocations.info != index) continue;
      if (plain->storage.empty()) plain->storage.assign(AsText(plain->content));
      TRY(Relocate(relocations, &plain->storage));
      plain->content = AsBytes(plain->storage);
    }
  }
  sections_.push_back(std::move(plain));
  return sections_.back().get();
}

Status DwarfImage::Relocate(const ElfSection& relocations, std::string* target) const {
  if (!file_.is_64_bit()) {
    return Error{ErrorCode::kUnsupported,
                 StrFormat("{}: relocatable 32-bit objects are not supported", file_.name())};
  }
  if (relocations.link >= file_.sections().size()) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("{}: relocations without symbols", file_.name())};
  }
  const Bytes symbols = file_.RawContent(file_.sections()[relocations.link]);
  std::string inflated;
  TRY_ASSIGN(const Bytes entries, file_.Content(relocations, &inflated));
  for (ByteCursor cursor(entries, file_.byte_order()); cursor.remaining() >= sizeof(Elf64_Rela);) {
    const uint64_t offset = cursor.U64();
    const uint64_t info = cursor.U64();
    const uint64_t addend = cursor.U64();
    const auto bytes = RelocationBytes(file_.arch(), ELF64_R_TYPE(info));
    if (!bytes.has_value()) {
      return Error{ErrorCode::kUnsupported, StrFormat("{}: relocation type {} is not supported",
                                                      file_.name(), ELF64_R_TYPE(info))};
    }
    if (*bytes == 0 || offset > target->size() || *bytes > target->size() - offset) continue;
    ByteCursor symbol(
        SubspanOrEmpty(symbols, ELF64_R_SYM(info) * sizeof(Elf64_Sym), sizeof(Elf64_Sym)),
        file_.byte_order());
    symbol.Skip(6);  // name, type and binding, visibility
    const uint16_t section = symbol.U16();
    uint64_t value = symbol.U64() + addend;
    // Only code has an address here; offsets into other debug sections stay what they are.
    if (section < file_.sections().size() && (file_.sections()[section].flags & SHF_ALLOC) != 0) {
      value += SectionAddress(file_, file_.sections()[section]).value;
    }
    if (file_.byte_order() != std::endian::native) value = ByteSwap(value);
    const auto* source = reinterpret_cast<const char*>(&value);
    // The low half of a big-endian word is its last half.
    if (*bytes == 4 && file_.byte_order() == std::endian::big) source += 4;
    std::memcpy(target->data() + offset, source, *bytes);
  }
  return OkStatus();
}

void DwarfImage::Assemble() {
  constexpr size_t kIdentBytes = EI_NIDENT;
  const size_t header_bytes = file_.is_64_bit() ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr);
  const size_t section_bytes = file_.is_64_bit() ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
  std::string names(1, '\0');
  std::vector<uint32_t> name_offsets;
  uint64_t content_bytes = header_bytes;
  for (const auto& section : sections_) {
    name_offsets.push_back(static_cast<uint32_t>(names.size()));
    names += section->name;
    names.push_back('\0');
    content_bytes += section->content.size();
  }
  const auto names_name = static_cast<uint32_t>(names.size());
  names += ".shstrtab";
  names.push_back('\0');
  const uint64_t padding = (8 - (content_bytes + names.size()) % 8) % 8;
  const uint64_t table_offset = content_bytes + names.size() + padding;
  const size_t section_count = sections_.size() + 2;

  storage_.reserve(table_offset + section_count * section_bytes);
  ElfWriter writer(&storage_, file_);
  storage_.append(AsText(file_.bytes().first(kIdentBytes)));
  ByteCursor original(file_.bytes(), file_.byte_order());
  original.Skip(kIdentBytes + 2);
  writer.Put<uint16_t>(ET_DYN);
  writer.Put(original.U16());  // machine
  writer.Put<uint32_t>(EV_CURRENT);
  writer.PutWord(0);             // entry
  writer.PutWord(0);             // program headers
  writer.PutWord(table_offset);  // section headers
  writer.Put<uint32_t>(0);       // flags
  writer.Put(static_cast<uint16_t>(header_bytes));
  writer.Put<uint16_t>(0);
  writer.Put<uint16_t>(0);
  writer.Put(static_cast<uint16_t>(section_bytes));
  writer.Put(static_cast<uint16_t>(section_count));
  writer.Put(static_cast<uint16_t>(section_count - 1));
  for (const auto& section : sections_) storage_.append(AsText(section->content));
  storage_.append(names);
  storage_.append(padding, '\0');

  writer.Section(0, SHT_NULL, 0, 0);
  uint64_t offset = header_bytes;
  for (size_t i = 0; i < sections_.size(); ++i) {
    writer.Section(name_offsets[i], SHT_PROGBITS, offset, sections_[i]->content.size());
    offset += sections_[i]->content.size();
  }
  writer.Section(names_name, SHT_STRTAB, content_bytes, names.size());
  // From here on the sections are read from the new file, so that the originals can go.
  offset = header_bytes;
  elf_ = AsBytes(storage_);
  for (const auto& section : sections_) {
    section->content = elf_.subspan(static_cast<size_t>(offset), section->content.size());
    offset += section->content.size();
    section->storage = {};
  }
}

Bytes DwarfImage::Section(std::string_view name) {
  for (const auto& section : sections_) {
    if (section->name == name) return section->content;
  }
  if (rebuilt()) return {};
  for (const ElfSection& section : file_.sections()) {
    if (PlainName(section.name) != name || section.type == SHT_NOBITS) continue;
    auto loaded = Load(section);
    return loaded.has_value() ? (*loaded)->content : Bytes();
  }
  return {};
}

}  // namespace ptarmigan::internal
