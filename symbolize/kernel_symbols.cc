#include "symbolize/kernel_symbols.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
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

constexpr char kTableMagic[8] = {'\x89', 'P', 'K', 'S', 'Y', 'M', '\r', '\n'};
constexpr uint32_t kTableVersion = 1;
constexpr uint32_t kTableIsWhole = 1U << 0;
constexpr size_t kModulesMax = size_t{UINT16_MAX} + 1;

template <typename T>
std::string_view BytesOf(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// `count` values at the start of `bytes`, which is shortened by them; false if there are fewer.
template <typename T>
bool TakeSpan(Bytes* bytes, uint64_t count, std::span<const T>* values) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (count > bytes->size() / sizeof(T)) return false;
  if (reinterpret_cast<uintptr_t>(bytes->data()) % alignof(T) != 0) return false;
  *values = {reinterpret_cast<const T*>(bytes->data()), static_cast<size_t>(count)};
  *bytes = bytes->subspan(values->size_bytes());
  return true;
}

}  // namespace

// docs/formats/ksym.md
struct KernelSymbols::TableHeader {
  char magic[8] = {};
  uint32_t version = 0;
  uint32_t flags = 0;
  uint64_t malformed = 0;
  uint32_t symbols = 0;
  uint32_t modules = 0;
  uint32_t module_bytes = 0;
  uint32_t identity_bytes = 0;
  uint32_t text_bytes = 0;
  uint32_t known_anchors = 0;  // a bit for each
  uint64_t anchors[kAnchorsCount] = {};
  uint64_t content_hash = 0;  // of everything behind the header
  uint64_t header_hash = 0;   // of everything before this field
};

struct KernelSymbols::Storage {
  MappedFile file;
  std::vector<uint64_t> starts;
  std::vector<Entry> entries;
  std::string text;
};

Result<KernelSymbols> KernelSymbols::Parse(std::string_view text) {
  text = text.substr(0, kTextBytesMax);
  KernelSymbols table;
  table.modules_.emplace_back();
  std::unordered_map<std::string_view, uint16_t> module_ids = {{"", 0}};
  std::vector<Symbolled> symbols;
  symbols.reserve(std::min<size_t>(text.size() / 40, kSymbolsMax));
  std::string names;
  bool all_zero = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line_text = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line_text.empty()) continue;
    Line line;
    if (!ParseLine(line_text, &line) || symbols.size() >= kSymbolsMax) {
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
      if (anchor != std::end(kAnchors)) {
        auto& address = table.anchors_[static_cast<size_t>(anchor - std::begin(kAnchors))];
        if (!address) address = line.address;
      }
    }
    Symbolled symbol;
    symbol.start = line.address;
    symbol.entry.module = module->second;
    if (IsCode(line.type)) {
      const std::string_view name = line.name.substr(0, kNameBytesMax);
      symbol.entry.type = static_cast<uint8_t>(line.type);
      symbol.entry.name_at = static_cast<uint32_t>(names.size());
      symbol.entry.name_bytes = static_cast<uint16_t>(name.size());
      names.append(name);
    }
    symbols.push_back(symbol);
  }
  if (symbols.empty()) {
    return Error{ErrorCode::kInvalidInput, "kallsyms: no line is a symbol"};
  }
  if (all_zero) {
    return Error{ErrorCode::kPermission,
                 "kallsyms shows only zeros, so kernel addresses cannot be named: run as root or "
                 "with CAP_SYSLOG, or "
                 "set kernel.kptr_restrict to 0 (with kernel.perf_event_paranoid at most 1)"};
  }
  table.Finish(std::move(symbols), std::move(names));
  return table;
}

void KernelSymbols::Finish(std::vector<Symbolled> symbols, std::string text) {
  auto storage = std::make_shared<Storage>();
  storage->text = std::move(text);
  text_ = storage->text;
  std::stable_sort(symbols.begin(), symbols.end(),
                   [](const Symbolled& a, const Symbolled& b) { return a.start < b.start; });
  std::vector<uint64_t>& starts = storage->starts;
  std::vector<Entry>& entries = storage->entries;
  starts.reserve(symbols.size());
  entries.reserve(symbols.size());
  for (size_t i = 0; i < symbols.size();) {
    const uint64_t start = symbols[i].start;
    Entry best = symbols[i].entry;
    for (++i; i < symbols.size() && symbols[i].start == start; ++i) {
      const Entry& other = symbols[i].entry;
      if (other.type == 0) continue;
      if (best.type == 0 || IsBetter(static_cast<char>(other.type), NameOf(other),
                                     static_cast<char>(best.type), NameOf(best))) {
        best = other;
      }
    }
    // One end is enough.
    if (best.type == 0 && !entries.empty() && entries.back().type == 0 &&
        entries.back().module == best.module) {
      continue;
    }
    starts.push_back(start);
    entries.push_back(best);
  }
  starts_ = starts;
  entries_ = entries;
  storage_ = std::move(storage);
}

std::string KernelSymbols::ToTable(const TableOptions& options) const {
  static_assert(sizeof(TableHeader) == 96 && sizeof(Entry) == 12);
  CHECK(options.identity.size() <= kIdentityBytesMax);
  std::vector<bool> wanted(modules_.size(), true);
  if (options.modules != nullptr) {
    for (size_t i = 1; i < modules_.size(); ++i) {
      wanted[i] = std::ranges::find(*options.modules, modules_[i]) != options.modules->end();
    }
  }
  std::vector<uint64_t> starts;
  std::vector<Entry> entries;
  std::string names;
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry entry = entries_[i];
    if (entry.module >= wanted.size() || !wanted[entry.module]) continue;
    const std::string_view name = NameOf(entry);
    entry.name_at = static_cast<uint32_t>(names.size());
    names.append(name);
    starts.push_back(starts_[i]);
    entries.push_back(entry);
  }
  std::string modules;
  for (const std::string& module : modules_) modules.append(module).push_back('\0');

  TableHeader header;
  std::memcpy(header.magic, kTableMagic, sizeof(kTableMagic));
  header.version = kTableVersion;
  header.flags = options.modules == nullptr && whole_ ? kTableIsWhole : 0;
  header.malformed = malformed_;
  header.symbols = static_cast<uint32_t>(entries.size());
  header.modules = static_cast<uint32_t>(modules_.size());
  header.module_bytes = static_cast<uint32_t>(modules.size());
  header.identity_bytes = static_cast<uint32_t>(options.identity.size());
  header.text_bytes = static_cast<uint32_t>(names.size());
  for (size_t i = 0; i < kAnchorsCount; ++i) {
    if (!anchors_[i]) continue;
    header.known_anchors |= 1U << i;
    header.anchors[i] = *anchors_[i];
  }
  std::string content;
  content += BytesOf(std::span<const uint64_t>(starts));
  content += BytesOf(std::span<const Entry>(entries));
  content += options.identity;
  content += modules;
  content += names;
  header.content_hash = HashBytes64(AsBytes(content));
  const std::string_view head = BytesOf(std::span<const TableHeader>(&header, 1));
  header.header_hash = HashBytes64(AsBytes(head.substr(0, offsetof(TableHeader, header_hash))));
  return std::string(head) + content;
}

Status KernelSymbols::ReadTable(Bytes bytes, std::string_view identity) {
  const auto bad = [](std::string_view what) {
    return Error{ErrorCode::kInvalidInput, StrFormat("table of the kernel's symbols: {}", what)};
  };
  TableHeader header;
  if (bytes.size() < sizeof(header)) return bad("is cut");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kTableMagic, sizeof(kTableMagic)) != 0 ||
      header.version != kTableVersion ||
      HashBytes64(bytes.first(offsetof(TableHeader, header_hash))) != header.header_hash) {
    return bad("its header is damaged or of another version");
  }
  Bytes rest = bytes.subspan(sizeof(header));
  if (HashBytes64(rest) != header.content_hash) return bad("is damaged");

  // From here on damage is malice; everything is checked all the same.
  std::span<const char> known_identity, modules, text;
  if (header.symbols > kSymbolsMax || header.modules > kModulesMax ||
      !TakeSpan(&rest, header.symbols, &starts_) || !TakeSpan(&rest, header.symbols, &entries_) ||
      !TakeSpan(&rest, header.identity_bytes, &known_identity) ||
      !TakeSpan(&rest, header.module_bytes, &modules) ||
      !TakeSpan(&rest, header.text_bytes, &text) || !rest.empty()) {
    return bad("contradicts itself");
  }
  if (std::string_view(known_identity.data(), known_identity.size()) != identity) {
    return Error{ErrorCode::kNotFound, "table of the kernel's symbols: of another kernel"};
  }
  text_ = {text.data(), text.size()};
  std::string_view names(modules.data(), modules.size());
  for (uint32_t i = 0; i < header.modules; ++i) {
    const size_t end = std::min(names.find('\0'), names.size());
    modules_.emplace_back(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  for (size_t i = 0; i < kAnchorsCount; ++i) {
    if ((header.known_anchors >> i & 1) != 0) anchors_[i] = header.anchors[i];
  }
  malformed_ = header.malformed;
  whole_ = (header.flags & kTableIsWhole) != 0;
  return OkStatus();
}

Result<KernelSymbols> KernelSymbols::FromTable(Bytes bytes, std::string_view identity) {
  KernelSymbols table;
  TRY(table.ReadTable(bytes, identity));
  return table;
}

Result<KernelSymbols> KernelSymbols::FromTable(MappedFile file, std::string_view identity) {
  KernelSymbols table;
  auto storage = std::make_shared<Storage>();
  storage->file = std::move(file);
  TRY(table.ReadTable(storage->file.bytes(), identity));
  table.storage_ = std::move(storage);
  return table;
}

Result<KernelSymbols> KernelSymbols::OfRunningKernel(const std::string& proc_root) {
  TRY_ASSIGN(const std::string text, ReadFile(JoinPath(proc_root, "kallsyms"), kTextBytesMax));
  return Parse(text);
}

bool KernelSymbols::Find(VirtAddr address, Symbol* symbol) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), address.value);
  if (after == starts_.begin()) return false;
  const auto next = static_cast<size_t>(after - starts_.begin());
  const Entry& entry = entries_[next - 1];
  if (entry.type == 0) return false;
  const uint64_t start = starts_[next - 1];
  // The last symbol of the kernel, of a module or of the list reaches to the end of the page behind its start: there
  // is no telling how far it goes, but not across the gap to the next module.
  const uint64_t last_page_end = (start / kPageBytes + 2) * kPageBytes;
  const bool is_last = next == entries_.size() || entries_[next].module != entry.module;
  uint64_t end = next == entries_.size() ? last_page_end : *after;
  if (is_last) end = std::min(end, last_page_end);
  if (address.value >= end) return false;
  symbol->start = {start};
  symbol->end = {end};
  symbol->name = NameOf(entry);
  symbol->module = ModuleOf(entry);
  symbol->index = static_cast<uint32_t>(next - 1);
  symbol->is_guess =
      (is_last || entries_[next].type == 0) && address.value / kPageBytes != start / kPageBytes;
  return true;
}

void KernelSymbols::Describe(const FrameNumbers& numbers, SourceFrame* frame) const {
  *frame = SourceFrame();
  if (numbers.function >= entries_.size()) return;
  frame->function = frame->system_name = NameOf(entries_[numbers.function]);
}

std::optional<VirtAddr> KernelSymbols::AddressOf(std::string_view name) const {
  const auto anchor = std::find(std::begin(kAnchors), std::end(kAnchors), name);
  if (anchor != std::end(kAnchors)) {
    const auto& address = anchors_[static_cast<size_t>(anchor - std::begin(kAnchors))];
    if (address) return VirtAddr{*address};
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.module == 0 && entry.type != 0 && NameOf(entry) == name) return VirtAddr{starts_[i]};
  }
  return std::nullopt;
}

bool KernelSymbols::IsInKernelItself(VirtAddr address) const {
  const auto& [text, stext, etext, end] = anchors_;
  const auto& first = text ? text : stext;
  const auto& last = end ? end : etext;
  return first && last && address.value >= *first && address.value < *last;
}

bool KernelSymbols::MoveTo(std::string_view name, VirtAddr address) {
  const auto known = AddressOf(name);
  if (!known) return false;
  const uint64_t delta = address - *known;
  if (delta == 0) return true;
  std::vector<Symbolled> kernel;
  kernel.reserve(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].module == 0) kernel.push_back({starts_[i] + delta, entries_[i]});
  }
  for (auto& anchor : anchors_) {
    if (anchor) *anchor += delta;
  }
  whole_ = true;  // what is not in it is not known
  Finish(std::move(kernel), std::string(text_));
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
