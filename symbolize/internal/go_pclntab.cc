#include "symbolize/internal/go_pclntab.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/byte_cursor.h"
#include "base/str_format.h"
#include "symbolize/internal/coverage.h"

namespace ptarmigan::internal {
namespace {

enum class GoVersion { k1_2, k1_16, k1_18, k1_20 };

constexpr uint32_t kMagic1_2 = 0xfffffffb;
constexpr uint32_t kMagic1_16 = 0xfffffffa;
constexpr uint32_t kMagic1_18 = 0xfffffff0;
constexpr uint32_t kMagic1_20 = 0xfffffff1;

constexpr uint64_t kFunctionsMax = uint64_t{1} << 22;
constexpr uint64_t kStepsMin = uint64_t{1} << 20;
constexpr size_t kPcdataInlineTreeIndex = 2;  // abi.PCDATA_InlTreeIndex
constexpr size_t kFuncdataInlineTree = 3;     // abi.FUNCDATA_InlTree
constexpr uint32_t kNoOffset = UINT32_MAX;

// One run of a pc-value table: `value` holds in [start, end).
struct Run {
  uint64_t start = 0;
  uint64_t end = 0;
  int32_t value = -1;
};

// The value at `pc`; -1 (which no table holds for known code) outside.
int32_t ValueAt(const std::vector<Run>& runs, uint64_t pc) {
  const auto after =
      std::upper_bound(runs.begin(), runs.end(), pc,
                       [](uint64_t address, const Run& run) { return address < run.end; });
  return after != runs.end() && pc >= after->start ? after->value : -1;
}

struct GoHeader {
  GoVersion version = GoVersion::k1_20;
  std::endian order = std::endian::little;
  uint8_t quantum = 1;
  uint8_t pointer_bytes = 8;
  uint64_t functions = 0;
  uint64_t text_start = 0;  // from 1.18 on
  Bytes names;
  Bytes units;  // from 1.16 on: per compilation unit, offsets in `files`
  Bytes files;  // 1.2: count and offsets of strings; later: the strings
  Bytes pc_values;
  Bytes functab;  // and, behind it, the _func structures
};

struct GoFunction {
  uint64_t entry = 0;
  std::string_view name;
  uint32_t pc_file = 0;
  uint32_t pc_line = 0;
  uint32_t unit_offset = 0;
  uint32_t start_line = 0;
  std::array<uint32_t, kPcdataInlineTreeIndex + 1> pcdata = {};
  size_t pcdata_count = 0;
  uint32_t inline_tree = kNoOffset;  // in go:func.*
};

struct InlinedCall {
  std::string_view name;
  uint32_t parent_pc = 0;  // from the function's entry
  uint32_t start_line = 0;
};

std::optional<GoHeader> ParseHeader(Bytes table, std::endian order) {
  ByteCursor cursor(table, order);
  GoHeader header;
  header.order = order;
  switch (cursor.U32()) {
    case kMagic1_2:
      header.version = GoVersion::k1_2;
      break;
    case kMagic1_16:
      header.version = GoVersion::k1_16;
      break;
    case kMagic1_18:
      header.version = GoVersion::k1_18;
      break;
    case kMagic1_20:
      header.version = GoVersion::k1_20;
      break;
    default:
      return std::nullopt;
  }
  if (cursor.U16() != 0) return std::nullopt;
  header.quantum = cursor.U8();
  header.pointer_bytes = cursor.U8();
  const bool quantum_ok = header.quantum == 1 || header.quantum == 2 || header.quantum == 4;
  if (!quantum_ok || (header.pointer_bytes != 4 && header.pointer_bytes != 8)) return std::nullopt;
  const auto word = [&] {
    return header.pointer_bytes == 8 ? cursor.U64() : uint64_t{cursor.U32()};
  };
  const auto part = [&](uint64_t offset) {
    return offset <= table.size() ? table.subspan(offset) : Bytes();
  };
  header.functions = word();
  if (header.version == GoVersion::k1_2) {
    header.functab = cursor.Rest();
    header.names = header.pc_values = table;
    const uint64_t files_at = header.functions < kFunctionsMax
                                  ? (header.functions * 2 + 1) * header.pointer_bytes
                                  : header.functab.size();
    ByteCursor files(SubspanOrEmpty(header.functab, files_at, 4), order);
    header.files = part(files.U32());
  } else {
    word();  // number of files
    if (header.version >= GoVersion::k1_18) header.text_start = word();
    header.names = part(word());
    header.units = part(word());
    header.files = part(word());
    header.pc_values = part(word());
    header.functab = part(word());
  }
  if (!cursor.ok() || header.functions == 0) return std::nullopt;
  header.functions = std::min(header.functions, kFunctionsMax);
  return header;
}

std::string_view StringAt(Bytes strings, uint64_t offset) {
  if (offset >= strings.size()) return {};
  const Bytes rest = strings.subspan(offset).first(
      std::min<size_t>(strings.size() - offset, SymbolRows::kStringBytesMax));
  return ByteCursor(rest).CString();
}

struct FoundTable {
  Bytes bytes;
  FileVaddr vaddr;
};

// The section of that name, or (external linkers fold it into others) the first place in the read-only data that
// looks like the header.
std::optional<FoundTable> FindTable(const ElfFile& object) {
  for (const std::string_view name :
       {".gopclntab", ".data.rel.ro.gopclntab", ".gopclntab.data.rel.ro"}) {
    const ElfSection* section = object.FindSection(name);
    if (section == nullptr) continue;
    const Bytes bytes = object.RawContent(*section);
    if (ParseHeader(bytes, object.byte_order())) return FoundTable{bytes, section->vaddr};
  }
  const bool is_go = object.FindSection(".go.buildinfo") != nullptr ||
                     object.FindSection(".note.go.buildid") != nullptr;
  if (!is_go) return std::nullopt;
  for (const ElfSection& section : object.sections()) {
    if (section.name != ".rodata" && section.name != ".data.rel.ro") continue;
    const Bytes bytes = object.RawContent(section);
    for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      if (!ParseHeader(bytes.subspan(at, std::min<size_t>(bytes.size() - at, 128)),
                       object.byte_order())) {
        continue;
      }
      const Bytes rest = bytes.subspan(at);
      const auto header = ParseHeader(rest, object.byte_order());
      // A chance hit would hardly have its first function's name inside the table.
      if (header && !header->names.empty() && header->functions * 8 < rest.size()) {
        return FoundTable{rest, section.vaddr + at};
      }
    }
  }
  return std::nullopt;
}

class GoTable {
 public:
  GoTable(const ElfFile& object, const FoundTable& table, GoHeader header)
      : object_(object), table_(table), header_(header) {
    steps_left_ = kStepsMin + kGoStepsPerByte * table.bytes.size();
    ReadRelocations();
    if (header_.version >= GoVersion::k1_18) FixTextStart();
    FindInlineTrees();
  }

  uint64_t functions() const { return header_.functions; }
  bool has_inline_trees() const { return inline_base_.has_value(); }
  bool out_of_steps() const { return steps_left_ == 0; }
  // Reading a name of this size counts as steps.
  void Charge(size_t name_bytes) {
    steps_left_ -= std::min<uint64_t>(steps_left_, name_bytes / 16);
  }
  // The start of function `index`; that of functions() is the end of the last one. Nothing if it lies outside.
  std::optional<uint64_t> Entry(uint64_t index) const { return FunctabWord(index, 0); }
  std::optional<GoFunction> Function(uint64_t index) const;
  // Nothing for a damaged table. `end` bounds the last run.
  std::vector<Run> Runs(uint32_t offset, uint64_t entry, uint64_t end);
  std::string_view FileName(const GoFunction& function, int32_t file) const;
  std::optional<InlinedCall> Inlined(const GoFunction& function, int32_t index) const;

 private:
  uint64_t FunctabFieldBytes() const {
    return header_.version >= GoVersion::k1_18 ? 4 : header_.pointer_bytes;
  }
  std::optional<uint64_t> FunctabWord(uint64_t index, uint64_t field) const {
    const uint64_t bytes = FunctabFieldBytes();
    ByteCursor cursor(SubspanOrEmpty(header_.functab, (index * 2 + field) * bytes, bytes),
                      header_.order);
    const uint64_t value = bytes == 8 ? cursor.U64() : cursor.U32();
    if (!cursor.ok()) return std::nullopt;
    return field == 0 && header_.version >= GoVersion::k1_18 ? header_.text_start + value : value;
  }
  void ReadRelocations();
  void FixTextStart();
  void FindInlineTrees();
  uint64_t PointerAt(uint64_t vaddr) const;

  const ElfFile& object_;
  FoundTable table_;
  GoHeader header_;
  uint64_t steps_left_;
  // Position-independent code: what the loader writes, by place.
  std::unordered_map<uint64_t, uint64_t> relative_;
  std::optional<uint64_t> inline_base_;  // vaddr of go:func.*
};

void GoTable::ReadRelocations() {
  constexpr size_t kRelocationsMax = size_t{1} << 22;
  const ElfSection* section = object_.FindSection(".rela.dyn");
  if (section == nullptr || !object_.is_64_bit()) section = object_.FindSection(".rela");
  if (section == nullptr || !object_.is_64_bit()) return;
  ByteCursor cursor(object_.RawContent(*section), object_.byte_order());
  while (cursor.remaining() >= sizeof(Elf64_Rela) && relative_.size() < kRelocationsMax) {
    const uint64_t place = cursor.U64();
    const uint64_t type = ELF64_R_TYPE(cursor.U64());
    const uint64_t addend = cursor.U64();
    const bool relative =
        object_.arch() == Arch::kArm64 ? type == R_AARCH64_RELATIVE : type == R_X86_64_RELATIVE;
    if (relative) relative_.emplace(place, addend);
  }
}

uint64_t GoTable::PointerAt(uint64_t vaddr) const {
  const auto relocated = relative_.find(vaddr);
  if (relocated != relative_.end()) return relocated->second;
  ByteCursor cursor(object_.ReadAt({vaddr}, header_.pointer_bytes), header_.order);
  return header_.pointer_bytes == 8 ? cursor.U64() : cursor.U32();
}

// The header's text start is written by the loader in position-independent files, and zero on purpose in the newest
// versions.
void GoTable::FixTextStart() {
  const auto relocated =
      relative_.find(table_.vaddr.value + 8 + uint64_t{2} * header_.pointer_bytes);
  if (relocated != relative_.end()) header_.text_start = relocated->second;
  if (header_.text_start != 0) return;
  const ElfSection* text = object_.FindSection(".text");
  if (text == nullptr) return;
  header_.text_start = text->vaddr.value;
  const auto by_name = [&](const ElfSymbol& symbol) {
    if (symbol.name == "runtime.text") header_.text_start = symbol.value.value;
  };
  object_.ForEachSymbol(".symtab", by_name);
}

// go:func.* has a symbol in unstripped files. Otherwise runtime.moduledata tells: it starts with a pointer to this
// table, and its last pointers are rodata and gofunc (word 37 and 38 in Go 1.18 and 1.19, 39 and 40 since 1.20).
void GoTable::FindInlineTrees() {
  if (header_.version < GoVersion::k1_18) return;
  object_.ForEachSymbol(".symtab", [&](const ElfSymbol& symbol) {
    if (symbol.name == "go:func.*" || symbol.name == "go.func.*") inline_base_ = symbol.value.value;
  });
  if (inline_base_) return;
  const uint64_t word_bytes = header_.pointer_bytes;
  const uint64_t gofunc_word = header_.version >= GoVersion::k1_20 ? 40 : 38;
  const auto accept = [&](uint64_t module) {
    const uint64_t min_pc = PointerAt(module + 20 * word_bytes);
    const uint64_t max_pc = PointerAt(module + 21 * word_bytes);
    const uint64_t text = PointerAt(module + 22 * word_bytes);
    const uint64_t rodata = PointerAt(module + (gofunc_word - 1) * word_bytes);
    const uint64_t gofunc = PointerAt(module + gofunc_word * word_bytes);
    const auto first = Entry(0);
    if (!first || min_pc != *first || max_pc <= min_pc || text > min_pc) return false;
    if (gofunc < rodata || object_.ReadAt({gofunc}, 1).empty()) return false;
    inline_base_ = gofunc;
    return true;
  };
  for (const auto& [place, target] : relative_) {
    if (target == table_.vaddr.value && accept(place)) return;
  }
  for (const ElfSection& section : object_.sections()) {
    if (section.type != SHT_PROGBITS || (section.flags & SHF_WRITE) == 0) continue;
    const Bytes bytes = object_.RawContent(section);
    for (uint64_t at = 0; at + word_bytes <= bytes.size(); at += word_bytes) {
      ByteCursor cursor(bytes.subspan(at, word_bytes), header_.order);
      const uint64_t value = word_bytes == 8 ? cursor.U64() : cursor.U32();
      if (value == table_.vaddr.value && accept(section.vaddr.value + at)) return;
    }
  }
}

std::optional<GoFunction> GoTable::Function(uint64_t index) const {
  const auto entry = Entry(index);
  const auto offset = FunctabWord(index, 1);
  if (!entry || !offset) return std::nullopt;
  // 1.2 counts the offset from the table's start, later versions from the functab's.
  const Bytes base = header_.version == GoVersion::k1_2 ? table_.bytes : header_.functab;
  if (*offset >= base.size()) return std::nullopt;
  const Bytes structure = base.subspan(*offset);
  ByteCursor cursor(structure, header_.order);
  GoFunction function;
  function.entry = *entry;
  const bool short_entry = header_.version >= GoVersion::k1_18;
  cursor.Skip(short_entry ? 4 : header_.pointer_bytes);
  const uint32_t name_offset = cursor.U32();
  cursor.U32();  // args
  cursor.U32();  // deferreturn (1.2: frame size)
  cursor.U32();  // pcsp
  function.pc_file = cursor.U32();
  function.pc_line = cursor.U32();
  const uint32_t pcdata_count = cursor.U32();
  if (header_.version >= GoVersion::k1_16) function.unit_offset = cursor.U32();
  if (header_.version >= GoVersion::k1_20) function.start_line = cursor.U32();
  if (!cursor.ok()) return std::nullopt;
  function.name = StringAt(header_.names, name_offset);
  // What follows is needed for inline trees only, whose layout is known since 1.18.
  if (!short_entry) return function;
  cursor.U8();  // funcID
  cursor.U8();  // flag
  cursor.U8();
  const uint8_t funcdata_count = cursor.U8();
  for (uint32_t i = 0; i < pcdata_count && i < function.pcdata.size(); ++i) {
    function.pcdata[i] = cursor.U32();
    function.pcdata_count = i + 1;
  }
  if (!cursor.ok()) function.pcdata_count = 0;
  if (funcdata_count > kFuncdataInlineTree && function.pcdata_count == function.pcdata.size()) {
    ByteCursor funcdata(structure, header_.order);
    funcdata.Seek(cursor.position());
    funcdata.Skip((uint64_t{pcdata_count} - function.pcdata_count) * 4 + kFuncdataInlineTree * 4);
    const uint32_t tree = funcdata.U32();
    if (funcdata.ok()) function.inline_tree = tree;
  }
  return function;
}

// golang.org/s/go12symtab, "pc-value tables": pairs of (value delta, zigzag; pc delta in quanta), ended by a value
// delta of 0; the value starts at -1, and the first delta may be 0.
std::vector<Run> GoTable::Runs(uint32_t offset, uint64_t entry, uint64_t end) {
  std::vector<Run> runs;
  if (offset == 0 || offset >= header_.pc_values.size()) return runs;
  ByteCursor cursor(header_.pc_values.subspan(offset));
  uint64_t pc = entry;
  uint32_t value = UINT32_MAX;
  while (pc < end && steps_left_ > 0) {
    --steps_left_;
    const uint64_t zigzag = cursor.Uleb128();
    if (!cursor.ok() || (zigzag == 0 && pc != entry)) break;
    const uint32_t half = static_cast<uint32_t>(zigzag >> 1);
    value += (zigzag & 1) != 0 ? ~half : half;
    const uint64_t delta = cursor.Uleb128();
    if (!cursor.ok() || delta > (end - pc) / header_.quantum) break;
    if (delta == 0) break;
    runs.push_back({pc, pc + delta * header_.quantum, static_cast<int32_t>(value)});
    pc += delta * header_.quantum;
  }
  return runs;
}

std::string_view GoTable::FileName(const GoFunction& function, int32_t file) const {
  if (file < 0) return {};
  const uint64_t index = static_cast<uint32_t>(file);
  if (header_.version == GoVersion::k1_2) {
    ByteCursor cursor(SubspanOrEmpty(header_.files, index * 4, 4), header_.order);
    const uint32_t offset = cursor.U32();
    return index == 0 || !cursor.ok() ? std::string_view() : StringAt(table_.bytes, offset);
  }
  ByteCursor cursor(SubspanOrEmpty(header_.units, (function.unit_offset + index) * 4, 4),
                    header_.order);
  const uint32_t offset = cursor.U32();
  return cursor.ok() && offset != kNoOffset ? StringAt(header_.files, offset) : std::string_view();
}

std::optional<InlinedCall> GoTable::Inlined(const GoFunction& function, int32_t index) const {
  if (index < 0 || !inline_base_ || function.inline_tree == kNoOffset) return std::nullopt;
  const bool since_1_20 = header_.version >= GoVersion::k1_20;
  const uint64_t entry_bytes = since_1_20 ? 16 : 20;
  const uint64_t at =
      *inline_base_ + function.inline_tree + static_cast<uint32_t>(index) * entry_bytes;
  ByteCursor cursor(object_.ReadAt({at}, entry_bytes), header_.order);
  InlinedCall call;
  uint32_t name_offset = 0;
  if (since_1_20) {
    cursor.U32();  // funcID, padding
    name_offset = cursor.U32();
    call.parent_pc = cursor.U32();
    call.start_line = cursor.U32();
  } else {
    cursor.U32();  // parent, funcID, padding
    cursor.U32();  // file of the call
    cursor.U32();  // line of the call
    name_offset = cursor.U32();
    call.parent_pc = cursor.U32();
  }
  if (!cursor.ok()) return std::nullopt;
  call.name = StringAt(header_.names, name_offset);
  return call;
}

// Adds one function: its scope, its inlined calls, its lines.
class GoFunctionAdder {
 public:
  GoFunctionAdder(GoTable* table, SymbolRows* rows) : table_(*table), rows_(*rows) {}

  // False if nothing was added.
  bool Add(const GoFunction& function, uint64_t end);

 private:
  SymbolRows::ScopeId InlineScope(int32_t index, unsigned depth);
  void AddLines(uint64_t end);
  SymbolRows::StringId FileId(int32_t file) {
    if (file != last_file_ || function_.unit_offset != last_unit_) {
      last_file_ = file;
      last_unit_ = function_.unit_offset;
      const std::string_view name = table_.FileName(function_, file);
      table_.Charge(name.size());
      last_file_id_ = rows_.Intern(name);
    }
    return last_file_id_;
  }

  GoTable& table_;
  SymbolRows& rows_;
  // Of the function being added.
  GoFunction function_;
  std::vector<Run> files_;
  std::vector<Run> lines_;
  std::vector<Run> inlined_;
  SymbolRows::ScopeId root_ = SymbolRows::kNone;
  std::unordered_map<int32_t, SymbolRows::ScopeId> scopes_;
  std::vector<SymbolRows::LineRow> rows_of_lines_;
  int32_t last_file_ = -1;
  uint32_t last_unit_ = 0;
  SymbolRows::StringId last_file_id_ = 0;
};

// The scope of inline tree entry `index`; kNone where the tree is damaged.
SymbolRows::ScopeId GoFunctionAdder::InlineScope(int32_t index, unsigned depth) {
  const auto known = scopes_.find(index);
  if (known != scopes_.end()) return known->second;
  scopes_[index] = SymbolRows::kNone;  // a cycle ends here
  const auto call = table_.Inlined(function_, index);
  if (!call || call->name.empty() || depth >= SymbolRows::kInlineDepthMax) return SymbolRows::kNone;
  const uint64_t call_pc = function_.entry + call->parent_pc;
  const int32_t parent_index = ValueAt(inlined_, call_pc);
  const SymbolRows::ScopeId parent =
      parent_index < 0 ? root_ : InlineScope(parent_index, depth + 1);
  if (parent == SymbolRows::kNone) return SymbolRows::kNone;
  SymbolRows::FunctionIds ids;
  ids.system_name = ids.name = rows_.Intern(call->name);
  ids.start_line = call->start_line;
  SymbolRows::CallSiteIds site;
  site.file = FileId(ValueAt(files_, call_pc));
  site.line = static_cast<uint32_t>(std::max(ValueAt(lines_, call_pc), 0));
  const SymbolRows::ScopeId scope = rows_.AddInlineScope(parent, rows_.DefineFunction(ids), site);
  scopes_[index] = scope;
  return scope;
}

void GoFunctionAdder::AddLines(uint64_t end) {
  rows_of_lines_.clear();
  size_t file_run = 0;
  size_t line_run = 0;
  uint64_t pc = function_.entry;
  while (pc < end && line_run < lines_.size()) {
    while (file_run < files_.size() && files_[file_run].end <= pc) ++file_run;
    const bool in_file = file_run < files_.size();
    SymbolRows::LineRow row;
    row.start = {pc};
    row.file = in_file ? FileId(files_[file_run].value) : 0;
    row.line = static_cast<uint32_t>(std::max(lines_[line_run].value, 0));
    rows_of_lines_.push_back(row);
    const uint64_t file_end = in_file ? files_[file_run].end : end;
    pc = std::min(lines_[line_run].end, file_end);
    if (lines_[line_run].end <= pc) ++line_run;
  }
  if (!rows_of_lines_.empty()) rows_.AddLines(SymbolSource::kGoTable, rows_of_lines_, {pc});
}

bool GoFunctionAdder::Add(const GoFunction& function, uint64_t end) {
  if (function.name.empty()) return false;
  function_ = function;
  last_file_ = -1;
  scopes_.clear();
  files_ = table_.Runs(function.pc_file, function.entry, end);
  lines_ = table_.Runs(function.pc_line, function.entry, end);
  inlined_.clear();
  if (function.inline_tree != kNoOffset && table_.has_inline_trees()) {
    inlined_ = table_.Runs(function.pcdata[kPcdataInlineTreeIndex], function.entry, end);
  }
  SymbolRows::FunctionIds ids;
  ids.system_name = ids.name = rows_.Intern(function.name);
  ids.file = FileId(ValueAt(files_, function.entry));
  ids.start_line = function.start_line;
  root_ = rows_.AddRootScope(SymbolSource::kGoTable, rows_.DefineFunction(ids));
  if (root_ == SymbolRows::kNone) return false;
  rows_.AddRange(root_, {{function.entry}, {end}});
  for (const Run& run : inlined_) {
    if (run.value < 0) continue;
    const SymbolRows::ScopeId scope = InlineScope(run.value, 0);
    if (scope != SymbolRows::kNone) rows_.AddRange(scope, {{run.start}, {run.end}});
  }
  AddLines(end);
  return true;
}

}  // namespace

uint64_t AddGoFunctions(const ElfFile& object, SymbolRows* rows) {
  const auto found = FindTable(object);
  if (!found) return 0;
  const auto header = ParseHeader(found->bytes, object.byte_order());
  if (!header) return 0;
  const Coverage described(*rows, SymbolSource::kDwarf);
  GoTable table(object, *found, *header);
  GoFunctionAdder adder(&table, rows);
  uint64_t added = 0;
  uint64_t damaged = 0;
  for (uint64_t i = 0; i < table.functions() && !table.out_of_steps(); ++i) {
    const auto function = table.Function(i);
    const auto end = table.Entry(i + 1);
    if (!function || !end || *end <= function->entry) {
      ++damaged;
      if (!table.Entry(i)) break;  // the table ends here
      continue;
    }
    if (described.Contains({function->entry})) continue;
    if (adder.Add(*function, *end)) ++added;
  }
  if (damaged > 0) rows->AddNote(StrFormat("Go symbol table: {} functions are damaged", damaged));
  if (table.out_of_steps()) rows->AddNote("Go symbol table: too large for what it describes; cut");
  if (added > 0 && !table.has_inline_trees()) {
    rows->AddNote("Go symbol table: inlined calls are not known");
  }
  return added;
}

}  // namespace ptarmigan::internal
