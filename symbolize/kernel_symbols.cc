#include "symbolize/kernel_symbols.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "base/file.h"
#include "base/str_format.h"
#include "elf/elf_file.h"

namespace ptarmigan {
namespace {

constexpr std::string_view kAnchors[] = {"_text", "_stext", "_etext", "_end"};
constexpr uint64_t kPageBytes = 4096;

struct Line {
  uint64_t address = 0;
  char type = 0;
  std::string_view name;
  std::string_view module;  // without brackets
};

// "ffffffff81000000 T _text\t[module]"
bool ParseLine(std::string_view text, Line* line) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), line->address, 16);
  if (parsed.ec != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(parsed.ptr - text.data()));
  if (text.size() < 4 || text[0] != ' ' || text[2] != ' ') return false;
  line->type = text[1];
  text.remove_prefix(3);
  const size_t end = std::min(text.find_first_of("\t "), text.size());
  line->name = text.substr(0, end);
  text.remove_prefix(end);
  const size_t open = text.find('[');
  const size_t close = text.find(']');
  line->module = open != std::string_view::npos && close != std::string_view::npos && open < close
                     ? text.substr(open + 1, close - open - 1)
                     : std::string_view();
  return !line->name.empty();
}

bool IsCode(char type) { return type == 't' || type == 'T' || type == 'w' || type == 'W'; }

// Of aliases at one address the one that perf shows (tools/perf/util/symbol.c, choose_best_symbol): not weak, global,
// fewer leading underscores, longer, then the first.
bool IsBetter(char type_a, std::string_view a, char type_b, std::string_view b) {
  const auto weak = [](char type) { return type == 'w' || type == 'W'; };
  if (weak(type_a) != weak(type_b)) return !weak(type_a);
  const auto global = [](char type) { return std::isupper(static_cast<unsigned char>(type)) != 0; };
  if (global(type_a) != global(type_b)) return global(type_a);
  const auto underscores = [](std::string_view name) {
    return std::min(name.find_first_not_of('_'), name.size());
  };
  if (underscores(a) != underscores(b)) return underscores(a) < underscores(b);
  return a.size() > b.size();
}

}  // namespace

Result<KernelSymbols> KernelSymbols::Parse(std::string_view text) {
  text = text.substr(0, kTextBytesMax);
  KernelSymbols table;
  table.modules_.emplace_back();
  std::unordered_map<std::string_view, uint16_t> module_ids = {{"", 0}};
  std::vector<Entry> entries;
  entries.reserve(std::min<size_t>(text.size() / 48, kSymbolsMax));
  bool all_zero = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line_text = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line_text.empty()) continue;
    Line line;
    if (!ParseLine(line_text, &line) || entries.size() >= kSymbolsMax) {
      ++table.malformed_;
      continue;
    }
    all_zero = all_zero && line.address == 0;
    // Absolute symbols are numbers, not places (offsets within per-CPU areas among them).
    if (line.type == 'a' || line.type == 'A') continue;
    auto module = module_ids.find(line.module);
    if (module == module_ids.end()) {
      if (table.modules_.size() > UINT16_MAX) continue;
      module = module_ids.emplace(line.module, static_cast<uint16_t>(table.modules_.size())).first;
      table.modules_.emplace_back(line.module);
    }
    if (line.module.empty()) {
      const auto anchor = std::find(std::begin(kAnchors), std::end(kAnchors), line.name);
      if (anchor != std::end(kAnchors)) table.anchors_.emplace_back(*anchor, line.address);
    }
    Entry entry;
    entry.start = line.address;
    entry.module = module->second;
    if (IsCode(line.type)) {
      const std::string_view name = line.name.substr(0, kNameBytesMax);
      entry.type = line.type;
      entry.name_at = static_cast<uint32_t>(table.text_.size());
      entry.name_bytes = static_cast<uint16_t>(name.size());
      table.text_.append(name);
    }
    entries.push_back(entry);
  }
  if (entries.empty()) {
    return Error{ErrorCode::kInvalidInput, "kallsyms: no line is a symbol"};
  }
  if (all_zero) {
    return Error{ErrorCode::kPermission,
                 "kallsyms shows only zeros, so kernel addresses cannot be named: run as root or "
                 "with CAP_SYSLOG, or "
                 "set kernel.kptr_restrict to 0 (with kernel.perf_event_paranoid at most 1)"};
  }
  table.Finish(std::move(entries));
  return table;
}

void KernelSymbols::Finish(std::vector<Entry> entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.start < b.start; });
  symbols_.clear();
  symbols_.reserve(entries.size());
  for (const Entry& entry : entries) {
    if (symbols_.empty() || symbols_.back().start != entry.start) {
      symbols_.push_back(entry);
      continue;
    }
    Entry& known = symbols_.back();
    if (entry.type == 0) continue;
    if (known.type == 0 || IsBetter(entry.type, NameOf(entry), known.type, NameOf(known)))
      known = entry;
  }
  symbols_.shrink_to_fit();
}

Result<KernelSymbols> KernelSymbols::OfRunningKernel(const std::string& proc_root) {
  TRY_ASSIGN(const std::string text, ReadFile(JoinPath(proc_root, "kallsyms"), kTextBytesMax));
  return Parse(text);
}

bool KernelSymbols::Find(VirtAddr address, Symbol* symbol) const {
  const auto after =
      std::upper_bound(symbols_.begin(), symbols_.end(), address.value,
                       [](uint64_t wanted, const Entry& entry) { return wanted < entry.start; });
  if (after == symbols_.begin()) return false;
  const Entry& entry = *std::prev(after);
  if (entry.type == 0) return false;
  // The last symbol of the kernel, of a module or of the list reaches to the end of the page behind its start: there
  // is no telling how far it goes, but not across the gap to the next module.
  const uint64_t last_page_end = (entry.start / kPageBytes + 2) * kPageBytes;
  const bool has_next = after != symbols_.end();
  uint64_t end = has_next ? after->start : last_page_end;
  if (has_next && after->module != entry.module) end = std::min(end, last_page_end);
  if (address.value >= end) return false;
  symbol->start = {entry.start};
  symbol->end = {end};
  symbol->name = NameOf(entry);
  symbol->module = modules_[entry.module];
  return true;
}

std::optional<VirtAddr> KernelSymbols::AddressOf(std::string_view name) const {
  for (const auto& [anchor, address] : anchors_) {
    if (anchor == name) return VirtAddr{address};
  }
  for (const Entry& entry : symbols_) {
    if (entry.module == 0 && entry.type != 0 && NameOf(entry) == name) return VirtAddr{entry.start};
  }
  return std::nullopt;
}

bool KernelSymbols::MoveTo(std::string_view name, VirtAddr address) {
  const auto known = AddressOf(name);
  if (!known) return false;
  const uint64_t delta = address - *known;
  if (delta == 0) return true;
  const auto in_module = [](const Entry& entry) { return entry.module != 0; };
  symbols_.erase(std::remove_if(symbols_.begin(), symbols_.end(), in_module), symbols_.end());
  for (Entry& entry : symbols_) entry.start += delta;
  for (auto& [anchor, place] : anchors_) place += delta;
  Finish(std::move(symbols_));
  return true;
}

BuildId RunningKernelBuildId(const std::string& sys_root) {
  constexpr uint64_t kNotesBytesMax = uint64_t{1} << 20;
  const auto notes = ReadFile(JoinPath(sys_root, "kernel/notes"), kNotesBytesMax);
  return notes ? BuildIdFromNotes(AsBytes(*notes), std::endian::native) : BuildId();
}

std::string_view KernelReferenceSymbol(std::string_view mapping_path) {
  const size_t close = mapping_path.find(']');
  return close == std::string_view::npos ? std::string_view() : mapping_path.substr(close + 1);
}

bool IsGuestKernelPath(std::string_view mapping_path) {
  return mapping_path.starts_with("[guest.kernel");
}

}  // namespace ptarmigan
