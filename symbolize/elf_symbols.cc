#include "symbolize/elf_symbols.h"

#include <elf.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_cursor.h"
#include "base/str_format.h"
#include "symbolize/internal/code_ranges.h"
#include "symbolize/internal/coverage.h"
#include "symbolize/internal/go_pclntab.h"
#include "symbolize/internal/plt_names.h"
#include "symbolize/internal/xz.h"

namespace ptarmigan {
namespace {

constexpr uint64_t kUnwindEntriesMax = uint64_t{1} << 22;

// Executable sections, sorted; a debug file keeps their headers but not their bytes.
std::vector<CodeRange> CodeRangesOf(const ElfFile& file) {
  std::vector<CodeRange> ranges = internal::CodeRanges(file);
  std::sort(ranges.begin(), ranges.end(),
            [](const CodeRange& a, const CodeRange& b) { return a.start < b.start; });
  return ranges;
}

// ELF for the Arm architectures, "Mapping symbols": $x, $d, $a, $t and the same with a suffix.
bool IsMappingSymbol(std::string_view name) {
  if (name.size() < 2 || name[0] != '$') return false;
  const bool kind = name[1] == 'x' || name[1] == 'd' || name[1] == 'a' || name[1] == 't';
  return kind && (name.size() == 2 || name[2] == '.');
}

bool IsLocalLabel(std::string_view name) {
  return name.starts_with(".L") || name.starts_with("L0\001");  // gas's local labels
}

std::string_view WithoutVersion(std::string_view name) {
  const size_t at = name.find('@', 1);  // a leading '@' is part of the name
  return at == std::string_view::npos ? name : name.substr(0, at);
}

uint64_t AddSymbols(const ElfFile& file, std::string_view table, SymbolSource source,
                    SymbolRows* rows) {
  uint64_t added = 0;
  std::string_view source_file;
  const std::vector<ElfSection>& sections = file.sections();
  file.ForEachSymbol(table, [&](const ElfSymbol& symbol) {
    if (symbol.type == STT_FILE) source_file = symbol.name;
    const bool code = symbol.type == STT_NOTYPE || symbol.type == STT_FUNC ||
                      symbol.type == STT_OBJECT || symbol.type == STT_GNU_IFUNC;
    if (!code || symbol.section == SHN_UNDEF || symbol.section >= sections.size()) return;
    if ((sections[symbol.section].flags & SHF_EXECINSTR) == 0) return;
    const std::string_view name = WithoutVersion(symbol.name);
    if (name.empty() || IsMappingSymbol(name) || IsLocalLabel(name)) return;
    FunctionRow row;
    row.start = symbol.value;
    // In relocatable objects (kernel modules) values count from the section's start.
    if (file.type() == ET_REL) {
      row.start = internal::SectionAddress(file, sections[symbol.section]) + symbol.value.value;
    }
    row.size_bytes = symbol.size_bytes;
    row.names.system_name = name;
    if (symbol.binding == STB_LOCAL) row.names.file = source_file;
    row.source = source;
    if (rows->AddFunction(row) != SymbolRows::kNone) ++added;
  });
  return added;
}

// Fedora's mini-debuginfo: the function symbols that .dynsym lacks.
uint64_t AddMiniDebugSymbols(const ElfFile& object, SymbolRows* rows) {
  const ElfSection* section = object.FindSection(".gnu_debugdata");
  if (section == nullptr || section->type == SHT_NOBITS) return 0;
  const auto inflated = internal::InflateXz(object.RawContent(*section), kMiniDebugBytesMax);
  if (!inflated) {
    rows->AddNote(StrFormat(".gnu_debugdata: {}", inflated.error().message));
    return 0;
  }
  const auto mini = ElfFile::FromBytes(AsBytes(*inflated), object.name());
  if (!mini) {
    rows->AddNote(StrFormat(".gnu_debugdata: {}", mini.error().message));
    return 0;
  }
  return AddSymbols(**mini, ".symtab", SymbolSource::kSymtab, rows);
}

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Linux Standard Base, ".eh_frame_hdr": a sorted table of (function start, address of its FDE), both relative to the
// section (encoding 0x3b) in every file that linkers write.
class UnwindEntries {
 public:
  explicit UnwindEntries(const ElfFile& object) : object_(object) {
    const ElfSection* section = object.FindSection(".eh_frame_hdr");
    if (section == nullptr) return;
    base_ = section->vaddr.value;
    ByteCursor cursor(object.RawContent(*section), object.byte_order());
    const uint8_t version = cursor.U8();
    const uint8_t frame_encoding = cursor.U8();
    const uint8_t count_encoding = cursor.U8();
    const uint8_t table_encoding = cursor.U8();
    constexpr uint8_t kUdata4 = 0x03;
    constexpr uint8_t kDatarelSdata4 = 0x3b;
    if (version != 1 || count_encoding != kUdata4 || table_encoding != kDatarelSdata4) return;
    cursor.Skip((frame_encoding & 0x0f) == 0x0c || (frame_encoding & 0x0f) == 0x04 ? 8 : 4);
    const uint64_t count = std::min<uint64_t>(cursor.U32(), kUnwindEntriesMax);
    for (uint64_t i = 0; i < count && cursor.remaining() >= 8; ++i) {
      const uint64_t start = base_ + static_cast<uint64_t>(int64_t{cursor.S32()});
      const uint64_t fde = base_ + static_cast<uint64_t>(int64_t{cursor.S32()});
      entries_.push_back({start, SizeFromFde(start, fde)});
    }
  }

  struct Entry {
    uint64_t start = 0;
    uint64_t size_bytes = 0;  // 0: not known
  };
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  // The usual FDE stores its start relative to the place (pcrel sdata4), and its size behind that: believed if the
  // start agrees.
  uint64_t SizeFromFde(uint64_t start, uint64_t fde) const {
    constexpr uint64_t kStartAt = 8;
    ByteCursor cursor(object_.ReadAt({fde}, 16), object_.byte_order());
    cursor.Skip(kStartAt);
    const uint64_t stored = fde + kStartAt + static_cast<uint64_t>(int64_t{cursor.S32()});
    const uint32_t size_bytes = cursor.U32();
    return cursor.ok() && stored == start ? size_bytes : 0;
  }

  const ElfFile& object_;
  uint64_t base_ = 0;
  std::vector<Entry> entries_;
};

uint64_t AddUnwindEntries(const ElfFile& object, SymbolRows* rows) {
  const UnwindEntries unwind(object);
  if (unwind.entries().empty()) return 0;
  const internal::Coverage named(*rows, SymbolSource::kPlt);
  uint64_t added = 0;
  for (const UnwindEntries::Entry& entry : unwind.entries()) {
    if (named.Contains({entry.start})) continue;
    const std::string name = StrFormat("{}+{:#x}", BaseName(object.name()), entry.start);
    FunctionRow row;
    row.start = {entry.start};
    row.size_bytes = entry.size_bytes;
    row.names.system_name = name;
    row.names.name = name;
    row.source = SymbolSource::kUnwindEntry;
    if (rows->AddFunction(row) != SymbolRows::kNone) ++added;
  }
  return added;
}

}  // namespace

ElfSymbolsSummary CollectElfSymbols(const ElfFile& object, const ElfFile* debug, SymbolRows* rows) {
  if (rows->code_ranges().empty()) rows->SetCodeRanges(CodeRangesOf(object));
  ElfSymbolsSummary summary;
  // The debug file has every symbol of the object it was split from, so one full table is enough.
  if (debug != nullptr) summary.symtab = AddSymbols(*debug, ".symtab", SymbolSource::kSymtab, rows);
  if (summary.symtab == 0 && debug != &object) {
    summary.symtab = AddSymbols(object, ".symtab", SymbolSource::kSymtab, rows);
  }
  if (summary.symtab == 0) {
    summary.symtab = AddMiniDebugSymbols(object, rows);
    summary.dynsym = AddSymbols(object, ".dynsym", SymbolSource::kDynsym, rows);
  }
  summary.plt = internal::AddPltNames(object, rows);
  summary.go_functions = internal::AddGoFunctions(object, rows);
  summary.unwind_entries = AddUnwindEntries(object, rows);
  return summary;
}

}  // namespace ptarmigan
