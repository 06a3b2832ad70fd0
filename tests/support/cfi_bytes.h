// CfiBytes: writes .eh_frame and .debug_frame sections, and .eh_frame_hdr, for tests.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/byte_writer.h"

namespace ptarmigan {

class CfiBytes {
 public:
  struct Format {
    bool is_eh_frame = true;
    bool is_64_bit = true;
    std::endian order = std::endian::little;
    uint64_t vaddr = 0;  // of the section, for pc-relative pointers
    uint64_t text_base = 0;
    uint64_t data_base = 0;
    bool long_entries = false;  // 64-bit DWARF
  };
  struct Cie {
    uint8_t version = 1;
    std::string augmentation = "zR";
    uint64_t code_alignment = 1;
    int64_t data_alignment = -8;
    uint64_t return_register = 16;
    uint8_t pointer_encoding = 0x1b;  // pc-relative, 4 bytes, signed
    // What stands for the letters of the augmentation; empty: the pointer encoding alone.
    std::string augmentation_bytes = {};
    std::string instructions = {};
    uint8_t address_bytes = 8;  // version 4
  };

  explicit CfiBytes(const Format& format) : format_(format), out_(format.order) {}

  // Returns the entry's position.
  size_t AddCie(const Cie& cie) {
    const size_t position = out_.size();
    ByteWriter body(format_.order);
    body.U8(cie.version).CString(cie.augmentation);
    if (cie.augmentation.starts_with("eh")) body.Number(0, address_bytes());
    if (cie.version == 4) body.U8(cie.address_bytes).U8(0);
    body.Uleb(cie.code_alignment).Sleb(cie.data_alignment);
    if (cie.version == 1) body.U8(cie.return_register);
    if (cie.version != 1) body.Uleb(cie.return_register);
    if (cie.augmentation.starts_with("z")) {
      const std::string letters = cie.augmentation_bytes.empty() && cie.augmentation.size() > 1
                                      ? ByteWriter().U8(cie.pointer_encoding).bytes()
                                      : cie.augmentation_bytes;
      body.Uleb(letters.size()).Text(letters);
    }
    body.Text(cie.instructions);
    const uint64_t id = format_.is_eh_frame ? 0 : UINT64_MAX;
    AddEntry(id, body.bytes());
    cies_.emplace_back(position, cie);
    return position;
  }

  struct Fde {
    size_t cie = 0;  // position
    uint64_t start = 0;
    uint64_t size_bytes = 0;
    std::string instructions = {};
  };
  size_t AddFde(const Fde& fde) {
    const size_t position = out_.size();
    const Cie& cie = CieAt(fde.cie);
    const uint8_t encoding =
        cie.augmentation.find('R') != std::string::npos ? cie.pointer_encoding : 0;
    // The first pointer lies behind the length and the CIE pointer.
    const size_t id_position = position + (format_.long_entries ? 12 : 4);
    const size_t pointer_position = id_position + id_bytes();
    ByteWriter body(format_.order);
    WritePointer(&body, encoding, fde.start, format_.vaddr + pointer_position, cie);
    WritePointer(&body, encoding & 0x0f, fde.size_bytes, 0, cie);
    if (cie.augmentation.starts_with("z")) body.Uleb(0);
    body.Text(fde.instructions);
    AddEntry(format_.is_eh_frame ? id_position - fde.cie : fde.cie, body.bytes());
    fdes_.emplace_back(fde.start, position);
    return position;
  }
  void AddTerminator() { out_.U32(0); }
  void AddRaw(const std::string& bytes) { out_.Text(bytes); }

  const std::string& bytes() const { return out_.bytes(); }

  // .eh_frame_hdr for everything added so far, to lie at `vaddr`.
  std::string Header(uint64_t vaddr) const {
    ByteWriter header(format_.order);
    header.U8(1).U8(0x1b).U8(0x03).U8(0x3b);
    header.U32(format_.vaddr - (vaddr + 4)).U32(fdes_.size());
    auto sorted = fdes_;
    std::sort(sorted.begin(), sorted.end());
    for (const auto& [start, position] : sorted) {
      header.U32(start - vaddr).U32(format_.vaddr + position - vaddr);
    }
    return header.bytes();
  }

 private:
  size_t address_bytes() const { return format_.is_64_bit ? 8 : 4; }
  size_t id_bytes() const { return format_.long_entries && !format_.is_eh_frame ? 8 : 4; }
  const Cie& CieAt(size_t position) const {
    return std::find_if(cies_.begin(), cies_.end(),
                        [&](const auto& entry) { return entry.first == position; })
        ->second;
  }
  void AddEntry(uint64_t id, const std::string& body) {
    // Padded with DW_CFA_nop.
    const size_t size = (id_bytes() + body.size() + 7) / 8 * 8;
    if (format_.long_entries) out_.U32(UINT32_MAX).U64(size);
    if (!format_.long_entries) out_.U32(size);
    out_.Number(id, id_bytes()).Text(body);
    out_.Text(std::string(size - id_bytes() - body.size(), '\0'));
  }
  void WritePointer(ByteWriter* body, uint8_t encoding, uint64_t value, uint64_t field,
                    const Cie& cie) const {
    const size_t width = cie.version == 4 ? cie.address_bytes : address_bytes();
    if ((encoding & 0x70) == 0x10) value -= field;
    if ((encoding & 0x70) == 0x20) value -= format_.text_base;
    if ((encoding & 0x70) == 0x30) value -= format_.data_base;
    switch (encoding & 0x0f) {
      case 0x01:
        body->Uleb(value);
        break;
      case 0x09:
        body->Sleb(static_cast<int64_t>(value));
        break;
      case 0x02:
      case 0x0a:
        body->U16(value);
        break;
      case 0x03:
      case 0x0b:
        body->U32(value);
        break;
      case 0x04:
      case 0x0c:
        body->U64(value);
        break;
      default:
        body->Number(value, width);
        break;
    }
  }

  Format format_;
  ByteWriter out_;
  std::vector<std::pair<size_t, Cie>> cies_;
  std::vector<std::pair<uint64_t, size_t>> fdes_;  // start, position
};

}  // namespace ptarmigan
