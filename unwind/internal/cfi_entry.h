// The entries of a CFI section: CIE (common facts) and FDE (one range of addresses).
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/byte_cursor.h"
#include "model/address.h"

namespace ptarmigan::internal {

// Pointer encodings (LSB 5.0 Core, "DWARF Exception Header Encoding").
constexpr uint8_t kEncodingAbsolute = 0x00;
constexpr uint8_t kEncodingUleb128 = 0x01;
constexpr uint8_t kEncodingUdata2 = 0x02;
constexpr uint8_t kEncodingUdata4 = 0x03;
constexpr uint8_t kEncodingUdata8 = 0x04;
constexpr uint8_t kEncodingSigned = 0x08;
constexpr uint8_t kEncodingSleb128 = 0x09;
constexpr uint8_t kEncodingSdata2 = 0x0a;
constexpr uint8_t kEncodingSdata4 = 0x0b;
constexpr uint8_t kEncodingSdata8 = 0x0c;
constexpr uint8_t kEncodingPcRelative = 0x10;
constexpr uint8_t kEncodingTextRelative = 0x20;
constexpr uint8_t kEncodingDataRelative = 0x30;
constexpr uint8_t kEncodingFunctionRelative = 0x40;
constexpr uint8_t kEncodingAligned = 0x50;
constexpr uint8_t kEncodingIndirect = 0x80;
constexpr uint8_t kEncodingOmit = 0xff;

struct CfiSection {
  Bytes bytes;
  FileVaddr vaddr;      // of bytes[0]; .debug_frame: 0
  FileVaddr text_base;  // for text- and data-relative pointers
  FileVaddr data_base;
  bool is_eh_frame = false;
  // Where the section's size is not known, its terminator ends it; else terminators in the middle are passed over.
  bool ends_at_terminator = false;
  bool is_64_bit = true;
  std::endian order = std::endian::little;

  uint8_t address_bytes() const { return is_64_bit ? 8 : 4; }
};

// Reads a pointer; `cursor` must run over a prefix of section.bytes, so that its position gives the address. Indirect
// pointers are not followed. Nothing if it does not fit or the encoding is unknown.
std::optional<uint64_t> ReadEncodedPointer(const CfiSection& section, uint8_t encoding,
                                           uint8_t address_bytes, ByteCursor* cursor);

struct Cie {
  uint64_t code_alignment = 1;
  int64_t data_alignment = 1;
  uint64_t return_register = 0;
  uint8_t pointer_encoding = kEncodingAbsolute;
  uint8_t address_bytes = 8;
  uint8_t segment_bytes = 0;
  bool has_augmentation_size = false;
  bool signal_frame = false;
  uint64_t instructions_start = 0;  // positions in the section
  uint64_t instructions_end = 0;
};

struct Fde {
  uint64_t cie_position = 0;
  Cie cie;
  FileVaddr start;
  FileVaddr end;
  uint64_t instructions_start = 0;
  uint64_t instructions_end = 0;
};

// Where an entry lies and what it is.
struct CfiEntry {
  uint64_t position = 0;  // of its length field
  uint64_t content = 0;   // behind the CIE pointer
  uint64_t end = 0;
  bool is_cie = false;
  uint64_t cie_position = 0;  // FDE only; may be nonsense
};

// The entry at `position`; nothing if its length does not fit. A terminator (length 0) has content == end.
std::optional<CfiEntry> ReadEntry(const CfiSection& section, uint64_t position);
std::optional<Cie> ParseCie(const CfiSection& section, const CfiEntry& entry);
// `cie_position` and `cie` of *fde may hold the CIE of another FDE already: it is used again if it is the same.
bool ParseFde(const CfiSection& section, const CfiEntry& entry, Fde* fde);
// Every FDE that parses, in section order, up to `count_max`.
void ForEachFde(const CfiSection& section, uint64_t count_max,
                const std::function<void(uint64_t position, const Fde&)>& visit);

}  // namespace ptarmigan::internal
