#include "unwind/internal/cfi_entry.h"

#include <algorithm>
#include <string_view>

namespace ptarmigan::internal {
namespace {

// Longer augmentation strings do not exist; the limit keeps parsing one entry cheap.
constexpr size_t kAugmentationBytesMax = 64;

uint64_t ReadUnsigned(ByteCursor& cursor, uint8_t size_bytes) {
  switch (size_bytes) {
    case 1:
      return cursor.U8();
    case 2:
      return cursor.U16();
    case 4:
      return cursor.U32();
    case 8:
      return cursor.U64();
    default:
      cursor.Skip(UINT64_MAX);
      return 0;  // not ok any more
  }
}

// What the letters behind 'z' say. False if a letter is unknown: the rest of the augmentation cannot be read then,
// but its size is known.
bool ParseAugmentation(const CfiSection& section, std::string_view letters, ByteCursor* cursor,
                       Cie* cie) {
  for (const char letter : letters) {
    switch (letter) {
      case 'R':
        cie->pointer_encoding = cursor->U8();
        break;
      case 'S':
        cie->signal_frame = true;
        break;
      case 'L':
        cursor->U8();
        break;  // encoding of the LSDA pointer, which a walk does not read
      case 'P': {
        const uint8_t encoding = cursor->U8();
        if (!ReadEncodedPointer(section, encoding, cie->address_bytes, cursor)) return false;
        break;
      }
      case 'B':  // arm64: return addresses are signed with key B; stripping is the same
      case 'G':  // arm64: memory tagged frames
        break;
      default:
        return false;
    }
  }
  return true;
}

}  // namespace

std::optional<uint64_t> ReadEncodedPointer(const CfiSection& section, uint8_t encoding,
                                           uint8_t address_bytes, ByteCursor* cursor) {
  if (encoding == kEncodingOmit) return 0;
  if ((encoding & 0x70) == kEncodingAligned) cursor->AlignTo(address_bytes);
  const uint64_t field = section.vaddr.value + cursor->position();
  uint64_t value = 0;
  switch (encoding & 0x0f) {
    case kEncodingAbsolute:
    case kEncodingSigned:
      value = ReadUnsigned(*cursor, address_bytes);
      break;
    case kEncodingUleb128:
      value = cursor->Uleb128();
      break;
    case kEncodingUdata2:
      value = cursor->U16();
      break;
    case kEncodingUdata4:
      value = cursor->U32();
      break;
    case kEncodingUdata8:
      value = cursor->U64();
      break;
    case kEncodingSleb128:
      value = static_cast<uint64_t>(cursor->Sleb128());
      break;
    case kEncodingSdata2:
      value = static_cast<uint64_t>(int64_t{cursor->Read<int16_t>()});
      break;
    case kEncodingSdata4:
      value = static_cast<uint64_t>(int64_t{cursor->S32()});
      break;
    case kEncodingSdata8:
      value = cursor->U64();
      break;
    default:
      return std::nullopt;
  }
  if (!cursor->ok()) return std::nullopt;
  switch (encoding & 0x70) {
    case kEncodingAbsolute:
    case kEncodingAligned:
      break;
    case kEncodingPcRelative:
      value += field;
      break;
    case kEncodingTextRelative:
      value += section.text_base.value;
      break;
    case kEncodingDataRelative:
      value += section.data_base.value;
      break;
    default:
      return std::nullopt;  // function-relative has no meaning for the pointers read here
  }
  if (address_bytes == 4) value &= UINT32_MAX;
  return value;
}

std::optional<CfiEntry> ReadEntry(const CfiSection& section, uint64_t position) {
  if (position >= section.bytes.size()) return std::nullopt;
  ByteCursor cursor(section.bytes, section.order);
  cursor.Seek(position);
  CfiEntry entry;
  entry.position = position;
  uint64_t length = cursor.U32();
  const bool long_form = length == UINT32_MAX;
  if (long_form) length = cursor.U64();
  if (!cursor.ok() || length > cursor.remaining()) return std::nullopt;
  entry.end = cursor.position() + length;
  if (length == 0) {
    entry.content = entry.end;
    return entry;
  }
  const uint64_t id_position = cursor.position();
  // The id keeps 4 bytes in the long form of .eh_frame (LSB 5.0), not of .debug_frame (DWARF 5 section 7.24).
  const bool long_id = long_form && !section.is_eh_frame;
  const uint64_t id = long_id ? cursor.U64() : cursor.U32();
  if (!cursor.ok() || cursor.position() > entry.end) return std::nullopt;
  entry.content = cursor.position();
  if (section.is_eh_frame) {
    entry.is_cie = id == 0;
    entry.cie_position = id_position - id;  // may wrap: checked where it is used
  } else {
    entry.is_cie = id == (long_id ? UINT64_MAX : uint64_t{UINT32_MAX});
    entry.cie_position = id;
  }
  return entry;
}

std::optional<Cie> ParseCie(const CfiSection& section, const CfiEntry& entry) {
  ByteCursor cursor(section.bytes.first(static_cast<size_t>(entry.end)), section.order);
  cursor.Seek(entry.content);
  Cie cie;
  cie.address_bytes = section.address_bytes();
  const uint8_t version = cursor.U8();
  if (version < 1 || version > 4) return std::nullopt;
  const std::string_view rest = AsText(cursor.Rest()).substr(0, kAugmentationBytesMax);
  const size_t length = rest.find('\0');
  if (length == std::string_view::npos) return std::nullopt;
  std::string_view augmentation = rest.substr(0, length);
  cursor.Skip(length + 1);
  if (augmentation.starts_with("eh")) {  // GCC 2: a pointer follows
    cursor.Skip(cie.address_bytes);
    augmentation.remove_prefix(2);
  }
  if (version == 4) {
    cie.address_bytes = cursor.U8();
    cie.segment_bytes = cursor.U8();
    if (cie.address_bytes != 4 && cie.address_bytes != 8) return std::nullopt;
    if (cie.segment_bytes > 8) return std::nullopt;
  }
  cie.code_alignment = cursor.Uleb128();
  cie.data_alignment = cursor.Sleb128();
  cie.return_register = version == 1 ? cursor.U8() : cursor.Uleb128();
  if (augmentation.starts_with("z")) {
    cie.has_augmentation_size = true;
    const uint64_t size = cursor.Uleb128();
    if (!cursor.ok() || size > cursor.remaining()) return std::nullopt;
    const uint64_t end = cursor.position() + size;
    ByteCursor inner(section.bytes.first(static_cast<size_t>(end)), section.order);
    inner.Seek(cursor.position());
    ParseAugmentation(section, augmentation.substr(1), &inner, &cie);
    cursor.Seek(end);
  } else if (!ParseAugmentation(section, augmentation, &cursor, &cie)) {
    return std::nullopt;
  }
  if (!cursor.ok()) return std::nullopt;
  cie.instructions_start = cursor.position();
  cie.instructions_end = entry.end;
  return cie;
}

bool ParseFde(const CfiSection& section, const CfiEntry& entry, Fde* fde) {
  if (entry.is_cie || entry.content == entry.end) return false;
  // instructions_end is 0 in a fresh Fde only.
  const bool same_cie = fde->cie.instructions_end != 0 && fde->cie_position == entry.cie_position;
  if (!same_cie) {
    const auto cie_entry = ReadEntry(section, entry.cie_position);
    if (!cie_entry || !cie_entry->is_cie) return false;
    const auto cie = ParseCie(section, *cie_entry);
    if (!cie) return false;
    fde->cie = *cie;
    fde->cie_position = entry.cie_position;
  }
  const Cie& cie = fde->cie;
  ByteCursor cursor(section.bytes.first(static_cast<size_t>(entry.end)), section.order);
  cursor.Seek(entry.content);
  cursor.Skip(cie.segment_bytes);
  if ((cie.pointer_encoding & kEncodingIndirect) != 0)
    return false;  // nobody writes indirect code pointers
  const auto start = ReadEncodedPointer(section, cie.pointer_encoding, cie.address_bytes, &cursor);
  if (!start) return false;
  const auto size =
      ReadEncodedPointer(section, cie.pointer_encoding & 0x0f, cie.address_bytes, &cursor);
  if (!size) return false;
  uint64_t end = 0;
  if (!CheckedAdd(*start, *size, &end)) return false;
  if (cie.has_augmentation_size) cursor.Skip(cursor.Uleb128());
  if (!cursor.ok()) return false;
  fde->start.value = *start;
  fde->end.value = end;
  fde->instructions_start = cursor.position();
  fde->instructions_end = entry.end;
  return true;
}

void ForEachFde(const CfiSection& section, uint64_t count_max,
                const std::function<void(uint64_t position, const Fde&)>& visit) {
  Fde fde;
  uint64_t position = 0;
  for (uint64_t count = 0; count < count_max;) {
    const auto entry = ReadEntry(section, position);
    if (!entry) return;
    if (section.ends_at_terminator && entry->content == entry->end && !entry->is_cie) return;
    if (ParseFde(section, *entry, &fde)) {
      visit(position, fde);
      ++count;
    }
    position = entry->end;
  }
}

}  // namespace ptarmigan::internal
