#include "unwind/cfi.h"

#include <elf.h>

#include <algorithm>
#include <limits>

#include "unwind/internal/cfi_entry.h"
#include "unwind/internal/cfi_program.h"

namespace ptarmigan {
namespace {

using internal::CfiSection;

// The sorted table of .eh_frame_hdr in its only form in use: pairs of 4-byte offsets from the section's start.
struct HeaderTable {
  static constexpr size_t kPairBytes = 8;
  FileVaddr base;  // address of .eh_frame_hdr
  Bytes pairs;
  std::endian order = std::endian::little;

  size_t size() const { return pairs.size() / kPairBytes; }
  FileVaddr At(size_t index, size_t field) const {
    ByteCursor cursor(pairs, order);
    cursor.Seek(index * kPairBytes + field * 4);
    return base + static_cast<uint64_t>(int64_t{cursor.S32()});
  }
  FileVaddr Start(size_t index) const { return At(index, 0); }
  FileVaddr Entry(size_t index) const { return At(index, 1); }
};

struct HeaderParts {
  FileVaddr eh_frame;
  std::optional<HeaderTable> table;
};

struct AddressedBytes {
  FileVaddr vaddr;
  Bytes bytes;
};

// .eh_frame_hdr by section, or by PT_GNU_EH_FRAME where sections were stripped.
std::optional<AddressedBytes> FindHeader(const ElfFile& file) {
  if (const ElfSection* section = file.FindSection(".eh_frame_hdr"); section != nullptr) {
    const Bytes bytes = file.RawContent(*section);
    if (!bytes.empty()) return AddressedBytes{section->vaddr, bytes};
  }
  for (const ElfSegment& segment : file.segments()) {
    if (segment.type != PT_GNU_EH_FRAME) continue;
    const Bytes bytes = file.ReadAt(segment.vaddr, segment.file_bytes);
    if (!bytes.empty()) return AddressedBytes{segment.vaddr, bytes};
  }
  return std::nullopt;
}

// LSB 5.0 Core, "Exception Frame Header".
std::optional<HeaderParts> ParseHeader(const ElfFile& file, const AddressedBytes& header) {
  CfiSection view;
  view.bytes = header.bytes;
  view.vaddr = header.vaddr;
  view.data_base = header.vaddr;
  view.is_64_bit = file.is_64_bit();
  view.order = file.byte_order();
  ByteCursor cursor(header.bytes, file.byte_order());
  const uint8_t version = cursor.U8();
  const uint8_t frame_encoding = cursor.U8();
  const uint8_t count_encoding = cursor.U8();
  const uint8_t table_encoding = cursor.U8();
  if (!cursor.ok() || version != 1 || frame_encoding == internal::kEncodingOmit)
    return std::nullopt;
  const auto eh_frame =
      internal::ReadEncodedPointer(view, frame_encoding, view.address_bytes(), &cursor);
  if (!eh_frame) return std::nullopt;
  HeaderParts parts = {.eh_frame = {*eh_frame}, .table = std::nullopt};
  if (count_encoding == internal::kEncodingOmit ||
      table_encoding != (internal::kEncodingDataRelative | internal::kEncodingSdata4)) {
    return parts;
  }
  const auto count =
      internal::ReadEncodedPointer(view, count_encoding, view.address_bytes(), &cursor);
  if (!count || *count == 0 || *count > cursor.remaining() / HeaderTable::kPairBytes) return parts;
  const HeaderTable table = {header.vaddr, cursor.Take(*count * HeaderTable::kPairBytes),
                             file.byte_order()};
  // A search needs order; one pass now costs less than a wrong answer later.
  for (size_t i = 1; i < table.size(); ++i) {
    if (table.Start(i) < table.Start(i - 1)) return parts;
  }
  parts.table = table;
  return parts;
}

}  // namespace

struct CfiTable::Section {
  struct IndexEntry {
    uint64_t start;
    uint64_t end;
    uint64_t position;
  };

  CfiSection cfi;
  std::string storage;  // of an inflated .debug_frame
  std::optional<HeaderTable> header;
  bool indexed = false;
  std::vector<IndexEntry> index;  // by start; made when first needed

  void MakeIndex() {
    indexed = true;
    internal::ForEachFde(cfi, kEntriesMax, [&](uint64_t position, const internal::Fde& fde) {
      if (fde.end > fde.start) index.push_back({fde.start.value, fde.end.value, position});
    });
    // Of entries with the same start the longest comes last and wins: linkers leave entries of dropped functions.
    std::sort(index.begin(), index.end(), [](const IndexEntry& a, const IndexEntry& b) {
      return a.start != b.start ? a.start < b.start : a.end < b.end;
    });
    index.shrink_to_fit();
  }

  // True if the header's table is right about `pc`: *fde covers it or it lies in a gap (*found false). False if
  // the table is damaged.
  bool FindByHeader(FileVaddr pc, internal::Fde* fde, bool* found) const {
    *found = false;
    size_t low = 0;
    size_t high = header->size();
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (header->Start(middle) <= pc) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low == 0) return true;
    const FileVaddr start = header->Start(low - 1);
    const FileVaddr entry_vaddr = header->Entry(low - 1);
    if (entry_vaddr < cfi.vaddr) return false;
    const auto entry = internal::ReadEntry(cfi, entry_vaddr - cfi.vaddr);
    if (!entry || !internal::ParseFde(cfi, *entry, fde) || fde->start != start) return false;
    *found = pc < fde->end;
    return true;
  }

  bool FindByIndex(FileVaddr pc, internal::Fde* fde) {
    if (!indexed) MakeIndex();
    auto after = std::upper_bound(
        index.begin(), index.end(), pc.value,
        [](uint64_t value, const IndexEntry& entry) { return value < entry.start; });
    if (after == index.begin()) return false;
    --after;
    if (pc.value >= after->end) return false;
    const auto entry = internal::ReadEntry(cfi, after->position);
    return entry && internal::ParseFde(cfi, *entry, fde);
  }
};

CfiTable::CfiTable(const ElfFile& file) : file_(file) {
  const auto base_of = [&](std::string_view name) {
    const ElfSection* section = file.FindSection(name);
    return section == nullptr ? FileVaddr{} : section->vaddr;
  };
  CfiSection common;
  common.is_64_bit = file.is_64_bit();
  common.order = file.byte_order();
  common.text_base = base_of(".text");
  common.data_base = base_of(".got");

  std::optional<HeaderParts> parts;
  if (const auto header = FindHeader(file)) parts = ParseHeader(file, *header);
  Bytes eh_frame;
  FileVaddr eh_frame_vaddr;
  bool ends_at_terminator = false;
  if (const ElfSection* section = file.FindSection(".eh_frame"); section != nullptr) {
    eh_frame = file.RawContent(*section);
    eh_frame_vaddr = section->vaddr;
  } else if (parts) {
    eh_frame = file.ReadAt(parts->eh_frame, UINT64_MAX);  // to the segment's end
    eh_frame_vaddr = parts->eh_frame;
    ends_at_terminator = true;
  }
  if (!eh_frame.empty()) {
    eh_frame_ = std::make_unique<Section>();
    eh_frame_->cfi = common;
    eh_frame_->cfi.is_eh_frame = true;
    eh_frame_->cfi.bytes = eh_frame;
    eh_frame_->cfi.ends_at_terminator = ends_at_terminator;
    eh_frame_->cfi.vaddr = eh_frame_vaddr;
    if (parts) eh_frame_->header = parts->table;
  }
  for (const std::string_view name : {".debug_frame", ".zdebug_frame"}) {
    const ElfSection* section = file.FindSection(name);
    if (section == nullptr || debug_frame_ != nullptr) continue;
    auto debug_frame = std::make_unique<Section>();
    const auto content = file.Content(*section, &debug_frame->storage);
    if (!content || content->empty()) continue;
    debug_frame->cfi = common;
    debug_frame->cfi.bytes = *content;
    debug_frame_ = std::move(debug_frame);
  }
}

CfiTable::~CfiTable() = default;

bool CfiTable::empty() const { return eh_frame_ == nullptr && debug_frame_ == nullptr; }

bool CfiTable::uses_header() const { return eh_frame_ != nullptr && eh_frame_->header.has_value(); }

bool CfiTable::FindRow(FileVaddr pc, UnwindRow* row, CfiRange* range) {
  return (eh_frame_ != nullptr && FindRowIn(*eh_frame_, pc, row, range)) ||
         (debug_frame_ != nullptr && FindRowIn(*debug_frame_, pc, row, range));
}

bool CfiTable::FindRowIn(Section& section, FileVaddr pc, UnwindRow* row, CfiRange* range) {
  internal::Fde fde;
  bool found = false;
  if (section.header && !section.FindByHeader(pc, &fde, &found)) section.header.reset();
  if (!section.header) found = section.FindByIndex(pc, &fde);
  return found && internal::RunCfiProgram(section.cfi, file_.arch(), fde, pc, row, range);
}

void CfiTable::ForEachRange(const std::function<void(const CfiRange&)>& visit) const {
  for (const Section* section : {eh_frame_.get(), debug_frame_.get()}) {
    if (section == nullptr) continue;
    internal::ForEachFde(section->cfi, kEntriesMax, [&](uint64_t, const internal::Fde& fde) {
      visit({fde.start, fde.end});
    });
  }
}

}  // namespace ptarmigan
