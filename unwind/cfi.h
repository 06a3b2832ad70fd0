// CfiTable: call frame information of one object: .eh_frame (found through the sorted table of .eh_frame_hdr where that
// holds, else by scanning and sorting), then .debug_frame (plain or compressed, 32- or 64-bit DWARF).
//
// Objects are hostile input, and this runs outside the sandbox that libdw needs: every read is bounds-checked, work per
// look-up is bounded, and damage costs only the entries it hits. DWARF 5 section 6.4; LSB 5.0 Core "DWARF Extensions" for
// .eh_frame; AADWARF64 for arm64's pointer authentication.
//
// Not thread-safe: look-ups index sections lazily.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "elf/elf_file.h"
#include "model/address.h"
#include "model/arch.h"
#include "unwind/unwind_row.h"

namespace ptarmigan {

// A function (or part of one) that has call frame information.
struct CfiRange {
  FileVaddr start;
  FileVaddr end;  // exclusive
};

class CfiTable {
 public:
  // Bounds. Entries beyond the first are not indexed; a row that needs more than the second or third is not given.
  static constexpr size_t kEntriesMax = size_t{4} << 20;
  static constexpr size_t kInstructionsMax = 65536;
  static constexpr size_t kRememberDepthMax = 64;

  // Keeps `file` by reference; it must outlive the table and every row.
  explicit CfiTable(const ElfFile& file);
  CfiTable(const CfiTable&) = delete;
  CfiTable& operator=(const CfiTable&) = delete;
  ~CfiTable();

  // Fills `row` with the rules at `pc` and `range` (may be null) with the addresses they hold for. False if no entry
  // covers it or the entry is damaged; `row` is then unspecified.
  bool FindRow(FileVaddr pc, UnwindRow* row, CfiRange* range = nullptr);

  // Every entry of both sections, in section order.
  void ForEachRange(const std::function<void(const CfiRange&)>& visit) const;

  // Whether the object has any call frame information at all.
  bool empty() const;
  // Whether look-ups go through the table of .eh_frame_hdr.
  bool uses_header() const;

 private:
  struct Section;
  bool FindRowIn(Section& section, FileVaddr pc, UnwindRow* row, CfiRange* range);

  const ElfFile& file_;
  std::unique_ptr<Section> eh_frame_;  // null if there is none
  std::unique_ptr<Section> debug_frame_;
};

}  // namespace ptarmigan
