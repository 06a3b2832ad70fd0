// DWARF line programs (DWARF 2 to 5, section 6.2) to SymbolRows. libdw has a reader too, but it sorts the rows of all
// sequences of a unit into one list, so that sequences of removed functions (at address 0) mix with real ones.
//
// Foreign bytes: damaged programs give the rows up to the damage.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_cursor.h"
#include "symbolize/symbol_rows.h"

namespace ptarmigan::internal {

struct LineSections {
  Bytes line;      // .debug_line
  Bytes line_str;  // .debug_line_str
  Bytes str;       // .debug_str
  std::endian order = std::endian::little;
};

class LineProgram {
 public:
  static constexpr size_t kFilesMax = size_t{1} << 20;
  static constexpr size_t kDirectoriesMax = size_t{1} << 20;
  static constexpr size_t kRowsPerUnitMax = size_t{1} << 26;

  // The program at `offset` of .debug_line; nothing if its header is damaged. `sections` and `compilation_directory`
  // are borrowed for the program's life.
  static std::optional<LineProgram> Parse(const LineSections& sections, uint64_t offset,
                                          std::string_view compilation_directory);

  // The path of a file by the index that DW_AT_decl_file, DW_AT_call_file and the rows use; 0 (the empty string) if
  // there is none. Relative paths are joined with the compilation directory.
  SymbolRows::StringId File(uint64_t index, SymbolRows* rows);

  // Adds every sequence; returns false if the program was damaged.
  bool AddRows(SymbolRows* rows);

 private:
  struct FileEntry {
    std::string_view name;
    uint64_t directory = 0;
    SymbolRows::StringId id = SymbolRows::kNone;  // made when asked for
  };
  struct EntryFormat {
    uint64_t content = 0;
    uint64_t form = 0;
  };
  struct EntryValue {
    std::string_view text;
    uint64_t number = 0;
  };
  struct Machine;

  bool ParseHeader(ByteCursor* cursor);
  bool ParseTablesBefore5(ByteCursor* cursor);
  bool ParseTables5(ByteCursor* cursor);
  bool ReadEntry(ByteCursor* cursor, const std::vector<EntryFormat>& formats, FileEntry* entry);
  bool ReadForm(ByteCursor* cursor, uint64_t form, EntryValue* value);
  std::string Path(const FileEntry& entry) const;
  void Special(Machine* machine, unsigned opcode) const;
  bool Standard(Machine* machine, ByteCursor* cursor, unsigned opcode) const;
  bool Extended(Machine* machine, ByteCursor* cursor);
  void Advance(Machine* machine, uint64_t operation_advance) const;

  LineSections sections_;
  std::string_view compilation_directory_;
  Bytes program_;
  bool is_64_bit_ = false;  // the DWARF format, not the machine
  uint16_t version_ = 0;
  uint8_t instruction_bytes_min_ = 1;
  uint8_t operations_max_ = 1;
  int8_t line_base_ = 0;
  uint8_t line_range_ = 1;
  uint8_t opcode_base_ = 1;
  std::vector<uint8_t> operand_counts_;
  std::vector<std::string_view> directories_;
  std::vector<FileEntry> files_;
};

}  // namespace ptarmigan::internal
