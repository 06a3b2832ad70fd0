#include "symbolize/internal/line_program.h"

#include <dwarf.h>

#include <algorithm>
#include <utility>

namespace ptarmigan::internal {
namespace {

// The string at `offset` of a string section; empty if there is none.
std::string_view StringAt(Bytes section, uint64_t offset) {
  if (offset >= section.size()) return {};
  const std::string_view rest = AsText(section.subspan(static_cast<size_t>(offset)));
  return rest.substr(0, rest.find('\0'));
}

bool IsAbsolute(std::string_view path) { return path.starts_with('/'); }

// Appends a path component with one '/' between.
void AppendPath(std::string* path, std::string_view component) {
  if (component.empty()) return;
  if (!path->empty() && path->back() != '/') path->push_back('/');
  path->append(component);
}

}  // namespace

// The state machine of section 6.2.2 and the rows of the sequence that it is in.
struct LineProgram::Machine {
  uint64_t address = 0;
  uint64_t operation_index = 0;
  uint64_t file = 1;
  uint64_t line = 1;
  uint64_t column = 0;
  uint64_t discriminator = 0;
  SymbolRows* rows = nullptr;
  LineProgram* program = nullptr;
  std::vector<SymbolRows::LineRow> sequence;
  size_t rows_seen = 0;
  uint64_t known_file = UINT64_MAX;  // the last file index and its string
  SymbolRows::StringId known_id = 0;

  static uint32_t Clip(uint64_t value) {
    return static_cast<uint32_t>(std::min<uint64_t>(value, UINT32_MAX));
  }
  void Emit() {
    if (file != known_file) {
      known_file = file;
      known_id = program->File(file, rows);
    }
    const SymbolRows::LineRow row = {.start = {address},
                                     .file = known_id,
                                     // "Line -5" of a damaged program is no line.
                                     .line = line > UINT32_MAX ? 0 : static_cast<uint32_t>(line),
                                     .column = Clip(column),
                                     .discriminator = Clip(discriminator)};
    // Of rows at one address only the last counts.
    if (!sequence.empty() && sequence.back().start == row.start) {
      sequence.back() = row;
    } else {
      sequence.push_back(row);
    }
    discriminator = 0;
    ++rows_seen;
  }
  void EndSequence() {
    rows->AddLines(SymbolSource::kDwarf, sequence, {address});
    sequence.clear();
    address = operation_index = column = discriminator = 0;
    file = line = 1;
  }
};

std::optional<LineProgram> LineProgram::Parse(const LineSections& sections, uint64_t offset,
                                              std::string_view compilation_directory) {
  if (offset >= sections.line.size()) return std::nullopt;
  LineProgram program;
  program.sections_ = sections;
  program.compilation_directory_ = compilation_directory;
  ByteCursor cursor(sections.line.subspan(static_cast<size_t>(offset)), sections.order);
  if (!program.ParseHeader(&cursor)) return std::nullopt;
  return program;
}

bool LineProgram::ParseHeader(ByteCursor* cursor) {
  uint64_t unit_bytes = cursor->U32();
  if (unit_bytes == 0xffffffff) {
    is_64_bit_ = true;
    unit_bytes = cursor->U64();
  } else if (unit_bytes >= 0xfffffff0) {
    return false;
  }
  // A unit longer than the section is read up to the section's end.
  ByteCursor unit = *cursor;
  const Bytes unit_content = cursor->Take(std::min<uint64_t>(unit_bytes, cursor->remaining()));
  unit = ByteCursor(unit_content, sections_.order);
  version_ = unit.U16();
  if (version_ < 2 || version_ > 5) return false;
  if (version_ >= 5) {
    unit.U8();  // address size: DW_LNE_set_address carries its own
    unit.U8();  // segment selector size
  }
  const uint64_t header_bytes = is_64_bit_ ? unit.U64() : unit.U32();
  if (header_bytes > unit.remaining()) return false;
  program_ = unit.Rest().subspan(static_cast<size_t>(header_bytes));
  ByteCursor header(unit.Rest().first(static_cast<size_t>(header_bytes)), sections_.order);
  instruction_bytes_min_ = header.U8();
  if (version_ >= 4) operations_max_ = std::max<uint8_t>(header.U8(), 1);
  header.U8();  // default_is_stmt: every row counts for symbols
  line_base_ = static_cast<int8_t>(header.U8());
  line_range_ = header.U8();
  opcode_base_ = header.U8();
  if (!header.ok() || line_range_ == 0 || opcode_base_ == 0) return false;
  for (unsigned i = 1; i < opcode_base_; ++i) operand_counts_.push_back(header.U8());
  return header.ok() && (version_ >= 5 ? ParseTables5(&header) : ParseTablesBefore5(&header));
}

bool LineProgram::ParseTablesBefore5(ByteCursor* cursor) {
  directories_.push_back(compilation_directory_);
  while (directories_.size() < kDirectoriesMax) {
    const std::string_view directory = cursor->CString();
    if (!cursor->ok()) return false;
    if (directory.empty()) break;
    directories_.push_back(directory);
  }
  files_.emplace_back();  // file 0 does not exist
  while (files_.size() < kFilesMax) {
    const std::string_view name = cursor->CString();
    if (!cursor->ok()) return false;
    if (name.empty()) break;
    FileEntry& entry = files_.emplace_back();
    entry.name = name;
    entry.directory = cursor->Uleb128();
    cursor->Uleb128();  // time of change
    cursor->Uleb128();  // length
  }
  return cursor->ok();
}

bool LineProgram::ParseTables5(ByteCursor* cursor) {
  for (const bool is_file : {false, true}) {
    std::vector<EntryFormat> formats(cursor->U8());
    for (EntryFormat& format : formats) {
      format.content = cursor->Uleb128();
      format.form = cursor->Uleb128();
    }
    const uint64_t count = cursor->Uleb128();
    if (!cursor->ok()) return false;
    if (formats.empty()) {  // entries without a byte: their count means nothing
      if (count != 0) return false;
      continue;
    }
    for (uint64_t i = 0; i < count; ++i) {
      FileEntry entry;
      const size_t before = cursor->position();
      if (!ReadEntry(cursor, formats, &entry) || cursor->position() == before) return false;
      if (is_file && files_.size() < kFilesMax) files_.push_back(entry);
      if (!is_file && directories_.size() < kDirectoriesMax) directories_.push_back(entry.name);
    }
  }
  return true;
}

bool LineProgram::ReadEntry(ByteCursor* cursor, const std::vector<EntryFormat>& formats,
                            FileEntry* entry) {
  for (const EntryFormat& format : formats) {
    EntryValue value;
    if (!ReadForm(cursor, format.form, &value)) return false;
    if (format.content == DW_LNCT_path) entry->name = value.text;
    if (format.content == DW_LNCT_directory_index) entry->directory = value.number;
  }
  return cursor->ok();
}

bool LineProgram::ReadForm(ByteCursor* cursor, uint64_t form, EntryValue* value) {
  const auto offset = [&] { return is_64_bit_ ? cursor->U64() : uint64_t{cursor->U32()}; };
  switch (form) {
    case DW_FORM_string:
      value->text = cursor->CString();
      break;
    case DW_FORM_line_strp:
      value->text = StringAt(sections_.line_str, offset());
      break;
    case DW_FORM_strp:
      value->text = StringAt(sections_.str, offset());
      break;
    case DW_FORM_strp_sup:
    case DW_FORM_sec_offset:
      offset();
      break;
    case DW_FORM_udata:
    case DW_FORM_strx:
      value->number = cursor->Uleb128();
      break;
    case DW_FORM_data1:
    case DW_FORM_strx1:
      value->number = cursor->U8();
      break;
    case DW_FORM_data2:
    case DW_FORM_strx2:
      value->number = cursor->U16();
      break;
    case DW_FORM_data4:
    case DW_FORM_strx4:
      value->number = cursor->U32();
      break;
    case DW_FORM_data8:
      value->number = cursor->U64();
      break;
    case DW_FORM_data16:
      cursor->Skip(16);
      break;
    case DW_FORM_block:
      cursor->Skip(cursor->Uleb128());
      break;
    case DW_FORM_block1:
      cursor->Skip(cursor->U8());
      break;
    case DW_FORM_block2:
      cursor->Skip(cursor->U16());
      break;
    case DW_FORM_block4:
      cursor->Skip(cursor->U32());
      break;
    default:
      return false;
  }
  return cursor->ok();
}

std::string LineProgram::Path(const FileEntry& entry) const {
  std::string path;
  if (!IsAbsolute(entry.name)) {
    const std::string_view directory =
        entry.directory < directories_.size() ? directories_[entry.directory] : std::string_view();
    // Before DWARF 5 directory 0 is the compilation directory by definition, since then by entry 0.
    const bool is_compilation_directory = entry.directory == 0;
    if (!is_compilation_directory && !IsAbsolute(directory)) path = compilation_directory_;
    AppendPath(&path, directory);
  }
  AppendPath(&path, entry.name);
  return path;
}

SymbolRows::StringId LineProgram::File(uint64_t index, SymbolRows* rows) {
  if (index >= files_.size()) return 0;
  FileEntry& entry = files_[static_cast<size_t>(index)];
  if (entry.id == SymbolRows::kNone) {
    entry.id = entry.name.empty() ? 0 : rows->Intern(Path(entry));
  }
  return entry.id;
}

void LineProgram::Advance(Machine* machine, uint64_t operation_advance) const {
  if (operations_max_ == 1) {
    machine->address += instruction_bytes_min_ * operation_advance;
    return;
  }
  const uint64_t operations = machine->operation_index + operation_advance;
  machine->address += instruction_bytes_min_ * (operations / operations_max_);
  machine->operation_index = operations % operations_max_;
}

void LineProgram::Special(Machine* machine, unsigned opcode) const {
  const unsigned adjusted = opcode - opcode_base_;
  Advance(machine, adjusted / line_range_);
  machine->line += static_cast<uint64_t>(int64_t{line_base_} + adjusted % line_range_);
  machine->Emit();
}

bool LineProgram::Standard(Machine* machine, ByteCursor* cursor, unsigned opcode) const {
  switch (opcode) {
    case DW_LNS_copy:
      machine->Emit();
      break;
    case DW_LNS_advance_pc:
      Advance(machine, cursor->Uleb128());
      break;
    case DW_LNS_advance_line:
      machine->line += static_cast<uint64_t>(cursor->Sleb128());
      break;
    case DW_LNS_set_file:
      machine->file = cursor->Uleb128();
      break;
    case DW_LNS_set_column:
      machine->column = cursor->Uleb128();
      break;
    case DW_LNS_const_add_pc:
      Advance(machine, (255U - opcode_base_) / line_range_);
      break;
    case DW_LNS_fixed_advance_pc:
      machine->address += cursor->U16();
      machine->operation_index = 0;
      break;
    case DW_LNS_negate_stmt:
    case DW_LNS_set_basic_block:
    case DW_LNS_set_prologue_end:
    case DW_LNS_set_epilogue_begin:
      break;
    default:  // DW_LNS_set_isa and those of the future
      for (unsigned i = 0; i < operand_counts_[opcode - 1]; ++i) cursor->Uleb128();
  }
  return cursor->ok();
}

bool LineProgram::Extended(Machine* machine, ByteCursor* cursor) {
  ByteCursor operation(cursor->Take(cursor->Uleb128()), sections_.order);
  if (!cursor->ok() || operation.AtEnd()) return cursor->ok();
  switch (operation.U8()) {
    case DW_LNE_end_sequence:
      machine->EndSequence();
      break;
    case DW_LNE_set_address:
      machine->operation_index = 0;
      if (operation.remaining() == 8)
        machine->address = operation.U64();
      else if (operation.remaining() == 4)
        machine->address = operation.U32();
      else
        return false;
      break;
    case DW_LNE_define_file: {
      if (files_.size() >= kFilesMax) return false;
      FileEntry& entry = files_.emplace_back();
      entry.name = operation.CString();
      entry.directory = operation.Uleb128();
      break;
    }
    case DW_LNE_set_discriminator:
      machine->discriminator = operation.Uleb128();
      break;
    default:
      break;
  }
  return operation.ok();
}

bool LineProgram::AddRows(SymbolRows* rows) {
  Machine machine;
  machine.rows = rows;
  machine.program = this;
  ByteCursor cursor(program_, sections_.order);
  while (!cursor.AtEnd()) {
    if (machine.rows_seen >= kRowsPerUnitMax) return false;
    const unsigned opcode = cursor.U8();
    if (opcode >= opcode_base_) {
      Special(&machine, opcode);
    } else if (!(opcode == 0 ? Extended(&machine, &cursor) : Standard(&machine, &cursor, opcode))) {
      return false;  // the sequence without an end has no last address
    }
  }
  return machine.sequence.empty();
}

}  // namespace ptarmigan::internal
