#include "symbolize/dwarf_collector.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <libelf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/str_format.h"
#include "symbolize/internal/dwarf_image.h"
#include "symbolize/internal/line_program.h"

namespace ptarmigan {
namespace {

using internal::DwarfImage;
using internal::LineProgram;
using internal::LineSections;
using FunctionId = SymbolRows::FunctionId;
using ScopeId = SymbolRows::ScopeId;
using StringId = SymbolRows::StringId;

constexpr uint32_t kNone = SymbolRows::kNone;
constexpr size_t kDieDepthMax = 1024;
constexpr int kOriginHopsMax = 16;
constexpr unsigned kAttributeDiscriminator =
    0x2136;  // DW_AT_GNU_discriminator, not in dwarf.h of 0.188

struct DwarfCloser {
  void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
};
struct ElfCloser {
  void operator()(Elf* elf) const { elf_end(elf); }
};

// One file with DWARF, as libdw sees it.
struct OpenDwarf {
  std::unique_ptr<DwarfImage> image;
  LineSections lines;
  std::unique_ptr<Elf, ElfCloser> elf;
  std::unique_ptr<Dwarf, DwarfCloser> dwarf;
};

Result<OpenDwarf> OpenFile(const ElfFile& file, int fd) {
  OpenDwarf open;
  TRY_ASSIGN(open.image, DwarfImage::Make(file));
  open.lines = {.line = open.image->Section(".debug_line"),
                .line_str = open.image->Section(".debug_line_str"),
                .str = open.image->Section(".debug_str"),
                .order = file.byte_order()};
  elf_version(EV_CURRENT);
  if (fd >= 0 && !open.image->rebuilt()) {
    open.elf.reset(elf_begin(fd, ELF_C_READ_MMAP, nullptr));
  } else {
    // libelf takes a writable pointer but does not write when it reads.
    const Bytes bytes = open.image->elf();
    open.elf.reset(
        elf_memory(const_cast<char*>(reinterpret_cast<const char*>(bytes.data())), bytes.size()));
  }
  if (open.elf != nullptr) {
    open.dwarf.reset(dwarf_begin_elf(open.elf.get(), DWARF_C_READ, nullptr));
  }
  if (open.dwarf == nullptr) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("{}: libdw cannot read its DWARF: {}", file.name(), dwarf_errmsg(-1))};
  }
  return open;
}

// The attributes of a function or an inlined copy that matter, found in one pass over the entry.
struct FunctionAttributes {
  enum Slot : unsigned {
    kName,
    kLinkageName,
    kOrigin,
    kSpecification,
    kLowPc,
    kHighPc,
    kRanges,
    kDeclFile,
    kDeclLine,
    kCallFile,
    kCallLine,
    kCallColumn,
    kDiscriminator,
    kDeclaration,
    kSlots,
  };
  Dwarf_Attribute values[kSlots];
  uint32_t present = 0;

  bool Has(Slot slot) const { return (present >> slot & 1U) != 0; }
  Dwarf_Attribute* Get(Slot slot) { return Has(slot) ? &values[slot] : nullptr; }
  uint64_t Number(Slot slot) {
    Dwarf_Word value = 0;
    return Has(slot) && dwarf_formudata(&values[slot], &value) == 0 ? value : 0;
  }
  const char* Text(Slot slot) { return Has(slot) ? dwarf_formstring(&values[slot]) : nullptr; }

  void Read(Dwarf_Die* die) {
    present = 0;
    dwarf_getattrs(die, &FunctionAttributes::Keep, this, 0);
  }

 private:
  static Slot SlotOf(unsigned attribute) {
    switch (attribute) {
      case DW_AT_name:
        return kName;
      case DW_AT_linkage_name:
      case DW_AT_MIPS_linkage_name:
        return kLinkageName;
      case DW_AT_abstract_origin:
        return kOrigin;
      case DW_AT_specification:
        return kSpecification;
      case DW_AT_low_pc:
        return kLowPc;
      case DW_AT_high_pc:
        return kHighPc;
      case DW_AT_ranges:
        return kRanges;
      case DW_AT_decl_file:
        return kDeclFile;
      case DW_AT_decl_line:
        return kDeclLine;
      case DW_AT_call_file:
        return kCallFile;
      case DW_AT_call_line:
        return kCallLine;
      case DW_AT_call_column:
        return kCallColumn;
      case kAttributeDiscriminator:
        return kDiscriminator;
      case DW_AT_declaration:
        return kDeclaration;
      default:
        return kSlots;
    }
  }
  static int Keep(Dwarf_Attribute* attribute, void* self_pointer) {
    auto* self = static_cast<FunctionAttributes*>(self_pointer);
    const Slot slot = SlotOf(attribute->code);
    if (slot != kSlots) {
      self->values[slot] = *attribute;
      self->present |= 1U << slot;
    }
    return DWARF_CB_OK;
  }
};

// Which entries can hold code below them.
bool MayHoldCode(int tag) {
  switch (tag) {
    case DW_TAG_enumeration_type:
    case DW_TAG_array_type:
    case DW_TAG_subroutine_type:
    case DW_TAG_formal_parameter:
    case DW_TAG_variable:
    case DW_TAG_call_site:
    case DW_TAG_GNU_call_site:
    case DW_TAG_GNU_formal_parameter_pack:
    case DW_TAG_GNU_template_parameter_pack:
      return false;
    default:
      return true;
  }
}

class Collector {
 public:
  Collector(OpenDwarf* main, OpenDwarf* alt, SymbolRows* rows)
      : main_(*main), alt_(alt), rows_(*rows) {}

  void Run();
  const DwarfSummary& summary() const { return summary_; }

 private:
  using Attributes = FunctionAttributes;
  // What is known of a function without looking at where it stands.
  struct Description {
    const char* linkage_name = nullptr;
    const char* name = nullptr;
    StringId file = 0;
    uint32_t line = 0;
    FunctionId function = kNone;  // made when asked for
  };
  // The scope around the entries of one level of the tree.
  struct Level {
    ScopeId scope = kNone;
    Dwarf_Die function = {};  // whose scope is made when code is found below; addr null: none
  };

  void AddUnit(Dwarf_Die* unit, Dwarf_Die* split, uint8_t type);
  LineProgram* LinesOf(Dwarf_Die* unit);
  LineProgram* LinesOfUnit(Dwarf_CU* unit);
  const unsigned char* SectionEnd(Dwarf_Die* root);
  const unsigned char* UnitEnd(Dwarf_Die* root);
  void Walk(Dwarf_Die* root);
  bool Visit(Dwarf_Die* die, Level* level);
  bool VisitFunction(Dwarf_Die* die, Level* level);
  bool VisitInlined(Dwarf_Die* die, Level* level);
  void AddRanges(Dwarf_Die* die, Attributes* attributes, ScopeId scope);
  Description& Describe(Dwarf_Die* die, int hops);
  Description Describe(Dwarf_Die* die, Attributes* attributes, int hops);
  FunctionId Define(const Description& description);
  FunctionId FunctionOf(Dwarf_Die* die, Attributes* attributes);
  ScopeId ScopeOf(Level* level);

  OpenDwarf& main_;
  OpenDwarf* alt_;
  SymbolRows& rows_;
  DwarfSummary summary_;
  std::map<std::pair<const Dwarf*, uint64_t>, std::optional<LineProgram>> line_programs_;
  std::unordered_map<const Dwarf_CU*, LineProgram*> unit_lines_;
  std::unordered_map<const void*, Description> descriptions_;  // by the entry's place in memory
  std::map<std::pair<const Dwarf*, uint64_t>, bool> lines_added_;
  LineProgram* lines_ = nullptr;            // of the current unit
  std::span<const unsigned char> section_;  // that the last unit stands in
  std::vector<Level> levels_;
  Attributes attributes_;
};

void Collector::Run() {
  Dwarf_CU* unit = nullptr;
  for (;;) {
    Dwarf_Die root;
    Dwarf_Die split;
    uint8_t type = 0;
    std::memset(&split, 0, sizeof(split));
    const int status =
        dwarf_get_units(main_.dwarf.get(), unit, &unit, nullptr, &type, &root, &split);
    if (status > 0) return;
    if (status < 0) {
      // Without the length of the damaged unit there is no way to the next.
      ++summary_.units_damaged;
      rows_.AddNote(
          StrFormat("DWARF is damaged after unit {}: {}", summary_.units, dwarf_errmsg(-1)));
      return;
    }
    ++summary_.units;
    AddUnit(&root, &split, type);
  }
}

void Collector::AddUnit(Dwarf_Die* unit, Dwarf_Die* split, uint8_t type) {
  if (type == DW_UT_type || type == DW_UT_split_type) return;  // declares, holds no code
  lines_ = LinesOf(unit);
  const int tag = dwarf_tag(unit);
  if (lines_ != nullptr && tag != DW_TAG_partial_unit && tag != DW_TAG_type_unit) {
    Dwarf_Attribute attribute;
    Dwarf_Word offset = 0;
    dwarf_formudata(dwarf_attr(unit, DW_AT_stmt_list, &attribute), &offset);
    // Units may share one program (link-time optimization); its rows are wanted once.
    bool& added = lines_added_[{main_.dwarf.get(), offset}];
    if (!added && !lines_->AddRows(&rows_)) ++summary_.units_damaged;
    added = true;
  }
  if (type == DW_UT_skeleton) {
    ++summary_.split_units;
    if (split->addr != nullptr) {
      unit_lines_[split->cu] = lines_;
      Walk(split);
      return;
    }
    ++summary_.split_units_missing;
  }
  Walk(unit);
}

LineProgram* Collector::LinesOf(Dwarf_Die* unit) {
  Dwarf_Attribute attribute;
  Dwarf_Word offset = 0;
  LineProgram* lines = nullptr;
  if (dwarf_attr(unit, DW_AT_stmt_list, &attribute) != nullptr &&
      dwarf_formudata(&attribute, &offset) == 0) {
    const Dwarf* dwarf = dwarf_cu_getdwarf(unit->cu);
    const bool is_alt = alt_ != nullptr && dwarf == alt_->dwarf.get();
    if (is_alt || dwarf == main_.dwarf.get()) {
      const auto [entry, is_new] = line_programs_.try_emplace({dwarf, offset});
      if (is_new) {
        const char* directory = dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attribute));
        entry->second = LineProgram::Parse((is_alt ? *alt_ : main_).lines, offset,
                                           directory != nullptr ? directory : "");
      }
      if (entry->second.has_value()) lines = &*entry->second;
    }
  }
  unit_lines_[unit->cu] = lines;
  return lines;
}

LineProgram* Collector::LinesOfUnit(Dwarf_CU* unit) {
  const auto known = unit_lines_.find(unit);
  if (known != unit_lines_.end()) return known->second;
  Dwarf_Die root;
  if (dwarf_cu_die(unit, &root, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr) == nullptr) {
    return nullptr;
  }
  return LinesOf(&root);
}

// The end of the section that holds a unit, in memory.
const unsigned char* Collector::SectionEnd(Dwarf_Die* root) {
  const auto* place = static_cast<const unsigned char*>(root->addr);
  if (place >= section_.data() && place < section_.data() + section_.size()) {
    return section_.data() + section_.size();
  }
  Elf* elf = dwarf_getelf(dwarf_cu_getdwarf(root->cu));
  for (Elf_Scn* scn = elf_nextscn(elf, nullptr); scn != nullptr; scn = elf_nextscn(elf, scn)) {
    const Elf_Data* data = elf_rawdata(scn, nullptr);
    if (data == nullptr || data->d_buf == nullptr) continue;
    section_ = {static_cast<const unsigned char*>(data->d_buf), data->d_size};
    if (place >= section_.data() && place < section_.data() + section_.size()) {
      return section_.data() + section_.size();
    }
  }
  return place;
}

// The end of a unit in memory: what its header says, but not beyond its section.
const unsigned char* Collector::UnitEnd(Dwarf_Die* root) {
  const unsigned char* section_end = SectionEnd(root);
  const auto* start = static_cast<const unsigned char*>(root->addr) - dwarf_cuoffset(root);
  ByteCursor header(std::as_bytes(std::span(start, section_end)), main_.image->file().byte_order());
  uint64_t bytes = header.U32();
  if (bytes == 0xffffffff) bytes = header.U64();
  return header.ok() && bytes < header.remaining() ? section_end - header.remaining() + bytes
                                                   : section_end;
}

// Goes through all entries in the order in which they stand. dwarf_siblingof passes over all children of an entry, so
// that calling it for entries whose children were visited would cost a second pass on every level; instead, the end
// of a list of children, which dwarf_siblingof tells in `addr`, leads on to the entry behind the parent.
void Collector::Walk(Dwarf_Die* root) {
  Dwarf_Die die;
  levels_.clear();
  {
    Level first;
    if (!Visit(root, &first) || dwarf_child(root, &die) != 0) return;
    levels_.push_back(first);
  }
  Dwarf_CU* unit = root->cu;
  const unsigned char* unit_end = UnitEnd(root);

  for (;;) {
    Level level = levels_.back();
    Dwarf_Die next;
    if (dwarf_haschildren(&die) > 0 && MayHoldCode(dwarf_tag(&die)) && Visit(&die, &level) &&
        levels_.size() < kDieDepthMax && dwarf_child(&die, &next) == 0) {
      levels_.push_back(level);
      die = next;
      continue;
    }
    if (dwarf_haschildren(&die) == 0 && dwarf_tag(&die) == DW_TAG_subprogram) Visit(&die, &level);
    if (dwarf_haschildren(&die) == 0 && dwarf_tag(&die) == DW_TAG_inlined_subroutine) {
      Visit(&die, &level);
    }
    next.addr = nullptr;
    const int status = dwarf_siblingof(&die, &next);
    if (status == 0) {
      die = next;
      continue;
    }
    if (status < 0 || next.addr == nullptr) {
      if (status < 0) ++summary_.units_damaged;
      return;
    }
    const auto* place = static_cast<const unsigned char*>(next.addr);
    while (place < unit_end && *place == 0) {
      levels_.pop_back();
      ++place;
      if (levels_.empty()) return;
    }
    if (place >= unit_end) return;
    std::memset(&die, 0, sizeof(die));
    die.addr = const_cast<unsigned char*>(place);
    die.cu = unit;
  }
}

// Whether the children shall be visited; `level` becomes theirs.
bool Collector::Visit(Dwarf_Die* die, Level* level) {
  switch (dwarf_tag(die)) {
    case DW_TAG_subprogram:
      return VisitFunction(die, level);
    case DW_TAG_inlined_subroutine:
      return VisitInlined(die, level);
    default:
      return true;
  }
}

bool Collector::VisitFunction(Dwarf_Die* die, Level* level) {
  attributes_.Read(die);
  if (attributes_.Has(Attributes::kDeclaration)) return false;
  *level = {};
  if (!attributes_.Has(Attributes::kLowPc) && !attributes_.Has(Attributes::kRanges)) {
    level->function = *die;
    return true;
  }
  level->scope = rows_.AddRootScope(SymbolSource::kDwarf, FunctionOf(die, &attributes_));
  ++summary_.functions;
  AddRanges(die, &attributes_, level->scope);
  return true;
}

bool Collector::VisitInlined(Dwarf_Die* die, Level* level) {
  attributes_.Read(die);
  const bool has_code = attributes_.Has(Attributes::kLowPc) || attributes_.Has(Attributes::kRanges);
  if (!has_code && level->scope == kNone) return true;  // part of an abstract function
  const FunctionId function = FunctionOf(die, &attributes_);
  const ScopeId parent = ScopeOf(level);
  if (parent == kNone) {
    level->scope = rows_.AddRootScope(SymbolSource::kDwarf, function);
  } else {
    const auto clip = [](uint64_t number) {
      return static_cast<uint32_t>(std::min<uint64_t>(number, UINT32_MAX));
    };
    level->scope = rows_.AddInlineScope(
        parent, function,
        {.file = lines_ != nullptr && attributes_.Has(Attributes::kCallFile)
                     ? lines_->File(attributes_.Number(Attributes::kCallFile), &rows_)
                     : 0,
         .line = clip(attributes_.Number(Attributes::kCallLine)),
         .column = clip(attributes_.Number(Attributes::kCallColumn)),
         .discriminator = clip(attributes_.Number(Attributes::kDiscriminator))});
  }
  ++summary_.inlined;
  AddRanges(die, &attributes_, level->scope);
  return true;
}

// The scope of a level; that of a function without ranges is made now.
ScopeId Collector::ScopeOf(Level* level) {
  if (level->scope != kNone || level->function.addr == nullptr) return level->scope;
  Dwarf_Die function = level->function;
  level->scope = rows_.AddRootScope(SymbolSource::kDwarf, Define(Describe(&function, 0)));
  for (Level& outer : levels_) {
    if (outer.function.addr == function.addr) outer.scope = level->scope;
  }
  return level->scope;
}

void Collector::AddRanges(Dwarf_Die* die, Attributes* attributes, ScopeId scope) {
  Dwarf_Addr low = 0;
  Dwarf_Addr high = 0;
  if (!attributes->Has(Attributes::kRanges)) {
    if (!attributes->Has(Attributes::kHighPc) ||
        dwarf_formaddr(attributes->Get(Attributes::kLowPc), &low) != 0) {
      return;
    }
    Dwarf_Attribute* end = attributes->Get(Attributes::kHighPc);
    // An address, or since DWARF 4 a number of bytes.
    if (dwarf_formaddr(end, &high) != 0) {
      Dwarf_Word bytes = 0;
      if (dwarf_formudata(end, &bytes) != 0 || !CheckedAdd(low, bytes, &high)) return;
    }
    if (low < high) rows_.AddRange(scope, {.start = {low}, .end = {high}});
    return;
  }
  Dwarf_Addr base = 0;
  ptrdiff_t next = 0;
  while ((next = dwarf_ranges(die, next, &base, &low, &high)) > 0) {
    if (low < high) rows_.AddRange(scope, {.start = {low}, .end = {high}});
  }
}

Collector::Description& Collector::Describe(Dwarf_Die* die, int hops) {
  const auto [entry, is_new] = descriptions_.try_emplace(die->addr);
  if (is_new) {
    Attributes attributes;
    attributes.Read(die);
    // References stay valid when the map grows; a cycle ends at the hop bound.
    Description& description = entry->second;
    description = Describe(die, &attributes, hops);
    return description;
  }
  return entry->second;
}

Collector::Description Collector::Describe(Dwarf_Die* die, Attributes* attributes, int hops) {
  Description description;
  if (hops < kOriginHopsMax) {
    for (const auto slot : {Attributes::kSpecification, Attributes::kOrigin}) {
      Dwarf_Die origin;
      if (attributes->Has(slot) && dwarf_formref_die(attributes->Get(slot), &origin) != nullptr) {
        description = Describe(&origin, hops + 1);
        description.function = kNone;
      }
    }
  }
  if (const char* text = attributes->Text(Attributes::kLinkageName))
    description.linkage_name = text;
  if (const char* text = attributes->Text(Attributes::kName)) description.name = text;
  if (attributes->Has(Attributes::kDeclLine)) {
    description.line = static_cast<uint32_t>(
        std::min<uint64_t>(attributes->Number(Attributes::kDeclLine), UINT32_MAX));
  }
  if (attributes->Has(Attributes::kDeclFile)) {
    LineProgram* lines = LinesOfUnit(die->cu);
    description.file =
        lines != nullptr ? lines->File(attributes->Number(Attributes::kDeclFile), &rows_) : 0;
  }
  return description;
}

// The function of a concrete function or inlined copy. Most say nothing of their own beyond where it is described.
FunctionId Collector::FunctionOf(Dwarf_Die* die, Attributes* attributes) {
  constexpr uint32_t kOwn = 1U << Attributes::kName | 1U << Attributes::kLinkageName |
                            1U << Attributes::kDeclFile | 1U << Attributes::kDeclLine |
                            1U << Attributes::kSpecification;
  Dwarf_Die origin;
  if ((attributes->present & kOwn) == 0 && attributes->Has(Attributes::kOrigin) &&
      dwarf_formref_die(attributes->Get(Attributes::kOrigin), &origin) != nullptr) {
    Description& description = Describe(&origin, 1);
    if (description.function == kNone) description.function = Define(description);
    return description.function;
  }
  return Define(Describe(die, attributes, 0));
}

FunctionId Collector::Define(const Description& description) {
  const char* name =
      description.linkage_name != nullptr ? description.linkage_name : description.name;
  const StringId name_id = rows_.Intern(name != nullptr ? name : "");
  return rows_.DefineFunction({.system_name = name_id,
                               .name = 0,
                               .file = description.file,
                               .start_line = description.line,
                               .debug_name = name_id});
}

}  // namespace

bool HasSplitDwarf(const ElfFile& debug) {
  const ElfSection* section = debug.FindSection(".debug_abbrev");
  if (section == nullptr) section = debug.FindSection(".zdebug_abbrev");
  std::string storage;
  if (section == nullptr) return false;
  const auto content = debug.Content(*section, &storage);
  if (!content.has_value()) return false;
  // A list of: code, tag, has-children, then pairs of attribute and form up to 0 0; code 0 ends a unit's list.
  for (ByteCursor cursor(*content, debug.byte_order()); !cursor.AtEnd();) {
    if (cursor.Uleb128() == 0) continue;
    cursor.Uleb128();
    cursor.U8();
    for (;;) {
      const uint64_t attribute = cursor.Uleb128();
      const uint64_t form = cursor.Uleb128();
      if (form == DW_FORM_implicit_const) cursor.Sleb128();
      if (attribute == DW_AT_dwo_name || attribute == DW_AT_GNU_dwo_name) return true;
      if (!cursor.ok() || (attribute == 0 && form == 0)) break;
    }
  }
  return false;
}

Result<DwarfSummary> CollectDwarf(const DwarfInput& input, SymbolRows* rows) {
  const ElfFile& file = *input.debug;
  if (!file.HasDwarf()) {
    return Error{ErrorCode::kNotFound, StrFormat("{}: no DWARF", file.name())};
  }
  TRY_ASSIGN(OpenDwarf main, OpenFile(file, HasSplitDwarf(file) ? input.debug_fd : -1));
  std::optional<OpenDwarf> alt;
  if (input.alt != nullptr) {
    auto opened = OpenFile(*input.alt, -1);
    if (opened.has_value()) {
      alt = std::move(opened).value();
      dwarf_setalt(main.dwarf.get(), alt->dwarf.get());
    } else {
      rows->AddNote(opened.error().message);
    }
  } else if (file.DebugAltLink().has_value()) {
    rows->AddNote(StrFormat("{}: the file of shared DWARF that it needs ({}) was not found",
                            file.name(), file.DebugAltLink()->first));
  }
  // What optimised C++ and Rust need; address space that is not used costs nothing.
  const size_t info_bytes = main.image->Section(".debug_info").size();
  rows->Reserve(
      {.scopes = info_bytes / 64, .ranges = info_bytes / 64, .lines = main.lines.line.size() / 8});
  Collector collector(&main, alt.has_value() ? &*alt : nullptr, rows);
  collector.Run();
  DwarfSummary summary = collector.summary();
  summary.debug_info_bytes = info_bytes;
  summary.line_rows = rows->lines().size();
  if (summary.split_units_missing != 0) {
    rows->AddNote(
        StrFormat("{}: {} of {} .dwo files of split DWARF were not found or not readable "
                  "(.dwp packages are not supported)",
                  file.name(), summary.split_units_missing, summary.split_units));
  }
  if (summary.units_damaged != 0) {
    rows->AddNote(
        StrFormat("{}: {} units of DWARF are damaged", file.name(), summary.units_damaged));
  }
  return summary;
}

}  // namespace ptarmigan
