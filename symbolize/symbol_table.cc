#include "symbolize/symbol_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "base/str_format.h"
#include "symbolize/internal/page_arena.h"
#include "symbolize/internal/page_columns.h"
#include "symbolize/internal/sym_format.h"

namespace ptarmigan {
namespace {

using internal::Column;
using internal::ColumnPacker;
using internal::ColumnReader;
using internal::CountAtOrBefore;
using internal::PageArena;
using internal::PageEntry;
using internal::Unpacker;
using internal::UnZigZag;

using Kind = ColumnPacker::Kind;

}  // namespace

// Functions and their inlined copies, and lines, of a range of addresses, column by column as they are packed; all zero:
// says nothing. Lives in a PageArena, as all pages do.
struct SymbolTable::CodePage {
  bool Decode(Bytes file, const PageEntry& entry, bool with_pieces, PageArena* arena);
  bool DecodeNodes(ColumnPacker* packer, uint32_t count, bool with_pieces);

  // The place of an outermost node in the columns of pieces; that of an inlined one in those of calls is calls_before.
  uint32_t PieceOf(uint32_t node) const { return node - calls_before[node]; }

  uint32_t nodes;
  Column parents;  // distance back to it, 0: none
  Column functions;
  Column calls_before;  // inlined nodes before this one
  Column call_files, call_lines, call_columns, call_discriminators;
  // Of the outermost nodes; only if they were asked for.
  bool has_pieces;
  Column piece_starts;  // zigzag distance from the page's start
  Column piece_bytes;
  std::span<uint32_t> segment_starts;
  Column segment_nodes;  // index + 1; 0: no function
  std::span<uint32_t> line_starts;
  Column files, lines, columns, discriminators;
};

struct SymbolTable::FunctionPage {
  bool Decode(Bytes file, const PageEntry& entry, uint32_t count, PageArena* arena);
  uint32_t count;
  Column system_names;  // string numbers
  Column names;         // zigzag distance from those
  Column files;
  Column start_lines;
  Column debug_names;
};

// As FunctionPage has it.
struct SymbolTable::Function {
  uint32_t system_name = 0;
  uint32_t name = 0;
  uint32_t file = 0;
  uint32_t start_line = 0;
  uint32_t debug_name = 0;
};

struct SymbolTable::StringPage {
  bool Decode(Bytes file, const PageEntry& entry, uint32_t count, PageArena* arena);
  uint32_t count;
  const char* text;
  Column ends;  // in `text`
};

struct SymbolTable::Directory {
  template <typename Page>
  struct Pages {
    std::vector<PageEntry> entries;
    std::vector<const Page*> unpacked;  // null: not yet

    void Resize(size_t count) {
      entries.resize(count);
      unpacked.resize(count);
    }
  };

  std::unique_ptr<PageArena> arena = std::make_unique<PageArena>();
  uint32_t flags = 0;
  uint32_t functions = 0;
  uint32_t strings = 0;
  std::vector<uint64_t> code_starts;
  size_t last_code_page = 0;  // where the last address was
  Pages<CodePage> code;
  Pages<FunctionPage> function;
  Pages<StringPage> string;
};

bool SymbolTable::CodePage::DecodeNodes(ColumnPacker* packer, uint32_t count, bool with_pieces) {
  size_t inlined = 0;
  nodes = count;
  if (!packer->ReadParents(count, &parents, &calls_before, &inlined) ||
      !packer->Read<Kind::kDifferences>(count, &functions)) {
    return false;
  }
  const size_t outermost = count - inlined;
  has_pieces = with_pieces;
  if (with_pieces) {
    if (!packer->Read<Kind::kPlain>(outermost, &piece_starts) ||
        !packer->Read<Kind::kPlain>(outermost, &piece_bytes)) {
      return false;
    }
  } else if (!packer->Skip(outermost) || !packer->Skip(outermost)) {
    return false;
  }
  return packer->Read<Kind::kDifferences>(inlined, &call_files) &&
         packer->Read<Kind::kDifferences>(inlined, &call_lines) &&
         packer->Read<Kind::kPlain>(inlined, &call_columns) &&
         packer->Read<Kind::kPlain>(inlined, &call_discriminators);
}

bool SymbolTable::CodePage::Decode(Bytes file, const PageEntry& entry, bool with_pieces,
                                   PageArena* arena) {
  const auto raw = Unpacker::OfThisThread().Unpack(file, entry);
  if (!raw) return false;
  ByteCursor header(std::as_bytes(*raw), std::endian::little);
  const uint32_t node_count = header.U32();
  const uint32_t segment_count = header.U32();
  const uint32_t line_count = header.U32();
  if (!header.ok() || node_count > internal::kSymNodesMax ||
      segment_count > internal::kSymCodeItemsMax || line_count > internal::kSymCodeItemsMax) {
    return false;
  }
  ColumnPacker packer(raw->data() + header.position(), header.remaining(), arena);
  if (!DecodeNodes(&packer, node_count, with_pieces) ||
      !packer.ReadStarts(segment_count, &segment_starts) ||
      !packer.Read<Kind::kDifferences>(segment_count, &segment_nodes, node_count)) {
    return false;
  }
  return packer.ReadStarts(line_count, &line_starts) &&
         packer.Read<Kind::kDifferences>(line_count, &files) &&
         packer.Read<Kind::kDifferences>(line_count, &lines) &&
         packer.Read<Kind::kPlain>(line_count, &columns) &&
         packer.Read<Kind::kPlain>(line_count, &discriminators) && packer.remaining() == 0;
}

bool SymbolTable::FunctionPage::Decode(Bytes file, const PageEntry& entry, uint32_t functions,
                                       PageArena* arena) {
  const auto raw = Unpacker::OfThisThread().Unpack(file, entry);
  if (!raw) return false;
  ColumnPacker packer(raw->data(), raw->size(), arena);
  count = functions;
  return packer.Read<Kind::kDifferences>(count, &system_names) &&
         packer.Read<Kind::kPlain>(count, &names) &&
         packer.Read<Kind::kDifferences>(count, &files) &&
         packer.Read<Kind::kPlain>(count, &start_lines) &&
         packer.Read<Kind::kPlain>(count, &debug_names);
}

bool SymbolTable::StringPage::Decode(Bytes file, const PageEntry& entry, uint32_t strings,
                                     PageArena* arena) {
  // The texts stay where they are unpacked.
  const std::span raw = arena->Make<uint8_t>(entry.raw_bytes + ColumnReader::kPadding);
  if (!Unpacker::OfThisThread().Unpack(file, entry, raw)) return false;
  ColumnPacker packer(raw.data(), entry.raw_bytes, arena);
  count = strings;
  if (!packer.Read<Kind::kRising>(count, &ends)) return false;
  text = reinterpret_cast<const char*>(raw.data() + (entry.raw_bytes - packer.remaining()));
  return count == 0 || ends[count - 1] <= packer.remaining();
}

SymbolTable::SymbolTable() : directory_(std::make_unique<Directory>()) {}
SymbolTable::~SymbolTable() = default;

Result<std::unique_ptr<SymbolTable>> SymbolTable::Open(const std::string& path) {
  std::unique_ptr<SymbolTable> table(new SymbolTable);
  TRY_ASSIGN(table->mapped_, MappedFile::Open(path));
  table->bytes_ = table->mapped_.bytes();
  TRY(table->Parse(path));
  return table;
}

Result<std::unique_ptr<SymbolTable>> SymbolTable::FromFd(int fd, const std::string& name) {
  std::unique_ptr<SymbolTable> table(new SymbolTable);
  TRY_ASSIGN(table->mapped_, MappedFile::FromFd(fd, name));
  table->bytes_ = table->mapped_.bytes();
  TRY(table->Parse(name));
  return table;
}

Result<std::unique_ptr<SymbolTable>> SymbolTable::FromBytes(Bytes bytes, const std::string& name) {
  std::unique_ptr<SymbolTable> table(new SymbolTable);
  table->bytes_ = bytes;
  TRY(table->Parse(name));
  return table;
}

Result<std::unique_ptr<SymbolTable>> SymbolTable::FromString(std::string bytes,
                                                             const std::string& name) {
  std::unique_ptr<SymbolTable> table(new SymbolTable);
  table->owned_ = std::move(bytes);
  table->bytes_ = AsBytes(table->owned_);
  TRY(table->Parse(name));
  return table;
}

Status SymbolTable::Parse(const std::string& name) {
  const auto bad = [&](std::string_view what) {
    return Error{ErrorCode::kInvalidInput, StrFormat("{}: {}", name, what)};
  };
  ByteCursor cursor(bytes_, std::endian::little);
  const Bytes magic = cursor.Take(sizeof(internal::kSymMagic));
  if (AsText(magic) != std::string_view(internal::kSymMagic, sizeof(internal::kSymMagic))) {
    return bad("not a symbol table");
  }
  const uint32_t version = cursor.U32();
  if (cursor.ok() && version != internal::kSymVersion) {
    return Error{ErrorCode::kUnsupported,
                 StrFormat("{}: symbol table of version {}, this program reads version {}", name,
                           version, internal::kSymVersion)};
  }
  const uint32_t directory_bytes = cursor.U32();
  const uint64_t file_bytes = cursor.U64();
  const uint64_t checksum = cursor.U64();
  directory_->flags = cursor.U32();
  directory_->functions = cursor.U32();
  directory_->strings = cursor.U32();
  const uint32_t code_pages = cursor.U32();
  const uint32_t function_pages = cursor.U32();
  const uint32_t string_pages = cursor.U32();
  const uint32_t notes_bytes = cursor.U32();
  cursor.U32();
  if (!cursor.ok() || file_bytes != bytes_.size() || directory_bytes > file_bytes) {
    return bad("symbol table is cut");
  }
  std::string directory(AsText(bytes_.first(directory_bytes)));
  if (directory.size() < internal::kSymHeaderBytes) return bad("symbol table has no directory");
  std::memset(directory.data() + internal::kSymChecksumOffset, 0, sizeof(checksum));
  if (HashBytes64(AsBytes(directory)) != checksum) return bad("symbol table is damaged");

  // From here on damage is malice; everything is checked all the same.
  const uint64_t expected =
      internal::kSymHeaderBytes + uint64_t{code_pages} * internal::kSymCodeEntryBytes +
      (uint64_t{function_pages} + string_pages) * internal::kSymPageEntryBytes + notes_bytes;
  const auto pages_for = [](uint64_t count, uint64_t per_page) {
    return (count + per_page - 1) / per_page;
  };
  if (expected != directory_bytes || notes_bytes > internal::kSymNotesBytesMax ||
      function_pages != pages_for(directory_->functions, internal::kSymFunctionsPerPage) ||
      string_pages != pages_for(directory_->strings, internal::kSymStringsPerPage)) {
    return bad("symbol table contradicts itself");
  }
  directory_->code_starts.resize(code_pages);
  directory_->code.Resize(code_pages);
  directory_->function.Resize(function_pages);
  directory_->string.Resize(string_pages);
  bool good = true;
  const auto read = [&](std::vector<PageEntry>* entries, uint32_t raw_bytes_max, bool has_start) {
    for (size_t i = 0; i < entries->size(); ++i) {
      if (has_start) {
        directory_->code_starts[i] = cursor.U64();
        good &= i == 0 || directory_->code_starts[i - 1] < directory_->code_starts[i];
      }
      PageEntry& entry = (*entries)[i];
      entry.offset = cursor.U64();
      entry.packed_bytes = cursor.U32();
      entry.raw_bytes = cursor.U32();
      good &= entry.raw_bytes <= raw_bytes_max && entry.offset >= directory_bytes &&
              SubspanOrEmpty(bytes_, entry.offset, entry.packed_bytes).size() == entry.packed_bytes;
    }
  };
  read(&directory_->code.entries, internal::kSymCodeRawBytesMax, true);
  read(&directory_->function.entries, internal::kSymFunctionRawBytesMax, false);
  read(&directory_->string.entries, internal::kSymStringRawBytesMax, false);
  if (!good || !cursor.ok()) return bad("symbol table has a page outside of its bounds");

  std::string_view notes = AsText(cursor.Take(notes_bytes));
  for (bool is_first = true;; is_first = false) {
    const size_t end = std::min(notes.find('\0'), notes.size());
    if (is_first) {
      identity_ = notes.substr(0, end);
    } else if (notes_.size() < SymbolRows::kNotesMax) {
      notes_.emplace_back(notes.substr(0, end));
    }
    if (end == notes.size()) break;
    notes.remove_prefix(end + 1);
  }
  return OkStatus();
}

namespace {

// The page at `index`, unpacked by `decode(page)` when it is asked for the first time; one that is damaged is empty.
template <typename Page, typename Decode>
const Page* GetPage(std::vector<const Page*>* unpacked, size_t index, PageArena* arena,
                    std::atomic<bool>* damaged, Decode decode) {
  const Page*& known = (*unpacked)[index];
  if (known != nullptr) return known;
  Page* page = arena->Make<Page>(1).data();
  *page = {};
  if (!decode(page)) {
    *page = {};
    damaged->store(true, std::memory_order_relaxed);
  }
  known = page;
  return page;
}

// Of `total` entries in pages of `per_page`, those in the page at `index`.
uint32_t CountInPage(uint32_t total, uint32_t per_page, size_t index) {
  return std::min(per_page, total - static_cast<uint32_t>(index * per_page));
}

}  // namespace

const SymbolTable::CodePage* SymbolTable::GetCodePage(size_t index, bool with_pieces) const {
  auto& pages = directory_->code;
  const CodePage* known = pages.unpacked[index];
  if (known != nullptr && with_pieces && !known->has_pieces) pages.unpacked[index] = nullptr;
  return GetPage(&pages.unpacked, index, directory_->arena.get(), &damaged_, [&](CodePage* page) {
    return page->Decode(bytes_, pages.entries[index], with_pieces, directory_->arena.get());
  });
}

const SymbolTable::FunctionPage* SymbolTable::GetFunctionPage(size_t index) const {
  auto& pages = directory_->function;
  const uint32_t count = CountInPage(directory_->functions, internal::kSymFunctionsPerPage, index);
  return GetPage(
      &pages.unpacked, index, directory_->arena.get(), &damaged_, [&](FunctionPage* page) {
        return page->Decode(bytes_, pages.entries[index], count, directory_->arena.get());
      });
}

const SymbolTable::StringPage* SymbolTable::GetStringPage(size_t index) const {
  auto& pages = directory_->string;
  const uint32_t count = CountInPage(directory_->strings, internal::kSymStringsPerPage, index);
  return GetPage(&pages.unpacked, index, directory_->arena.get(), &damaged_, [&](StringPage* page) {
    return page->Decode(bytes_, pages.entries[index], count, directory_->arena.get());
  });
}

void SymbolTable::DropPages() const {
  const std::lock_guard lock(mutex_);
  if (directory_->arena->bytes() == 0) return;
  std::ranges::fill(directory_->code.unpacked, nullptr);
  std::ranges::fill(directory_->function.unpacked, nullptr);
  std::ranges::fill(directory_->string.unpacked, nullptr);
  directory_->arena = std::make_unique<PageArena>();
  unpacked_bytes_.store(0, std::memory_order_relaxed);
}

namespace {

// The string's number.
uint32_t DebugNameOf(uint32_t coded, uint32_t system_name) {
  if (coded == internal::kSymDebugNameNone) return 0;
  if (coded == internal::kSymDebugNameLinked) return system_name;
  return coded - internal::kSymDebugNameString;
}

}  // namespace

SymbolTable::Function SymbolTable::FunctionOf(uint32_t number) const {
  if (number >= directory_->functions) return {};
  const FunctionPage& page = *GetFunctionPage(number / internal::kSymFunctionsPerPage);
  const size_t slot = number % internal::kSymFunctionsPerPage;
  if (slot >= page.count) return {};
  const uint32_t system_name = page.system_names[slot];
  return {.system_name = system_name,
          .name = system_name + UnZigZag(page.names[slot]),
          .file = page.files[slot],
          .start_line = page.start_lines[slot],
          .debug_name = DebugNameOf(page.debug_names[slot], system_name)};
}

std::string_view SymbolTable::Text(uint32_t number) const {
  if (number == 0 || number >= directory_->strings) return {};
  const StringPage& page = *GetStringPage(number / internal::kSymStringsPerPage);
  const size_t slot = number % internal::kSymStringsPerPage;
  if (slot >= page.count) return {};
  const uint32_t start = slot == 0 ? 0 : page.ends[slot - 1];
  return {page.text + start, page.ends[slot] - start};
}

bool SymbolTable::has_functions() const {
  return (directory_->flags & internal::kSymHasFunctions) != 0;
}
bool SymbolTable::has_files() const { return (directory_->flags & internal::kSymHasFiles) != 0; }
bool SymbolTable::has_lines() const { return (directory_->flags & internal::kSymHasLines) != 0; }
bool SymbolTable::has_inlines() const {
  return (directory_->flags & internal::kSymHasInlines) != 0;
}
uint64_t SymbolTable::function_count() const { return directory_->functions; }

namespace {

// The page that holds an address and the address within it.
struct PagePlace {
  size_t index = 0;
  uint32_t offset = 0;
};

// `last` is the index found the time before.
std::optional<PagePlace> FindPage(const std::vector<uint64_t>& starts, FileVaddr address,
                                  size_t* last) {
  const bool is_same = *last < starts.size() && starts[*last] <= address.value &&
                       (*last + 1 == starts.size() || address.value < starts[*last + 1]);
  if (!is_same) {
    const auto after = std::upper_bound(starts.begin(), starts.end(), address.value);
    if (after == starts.begin()) return std::nullopt;
    *last = static_cast<size_t>(after - starts.begin()) - 1;
  }
  const uint64_t offset = address.value - starts[*last];
  if (offset > UINT32_MAX) return std::nullopt;
  return PagePlace{.index = *last, .offset = static_cast<uint32_t>(offset)};
}

}  // namespace

template <typename Visit>
void SymbolTable::Walk(FileVaddr address, Visit visit) const {
  const auto place = FindPage(directory_->code_starts, address, &directory_->last_code_page);
  if (!place.has_value()) return;
  const CodePage& page = *GetCodePage(place->index, false);
  FrameNumbers frame;
  if (const size_t count = CountAtOrBefore(page.line_starts, place->offset); count != 0) {
    frame.file = page.files[count - 1];
    frame.line = page.lines[count - 1];
    frame.column = page.columns[count - 1];
    frame.discriminator = page.discriminators[count - 1];
  }
  const bool has_line = frame.file != 0 || frame.line != 0;
  uint32_t node = 0;  // index + 1
  if (const size_t count = CountAtOrBefore(page.segment_starts, place->offset); count != 0) {
    node = page.segment_nodes[count - 1];
  }
  if (node == 0) {
    if (has_line) visit(frame);
    return;
  }
  --node;
  frame.function = page.functions[node];
  if (!has_line) {
    // A symbol's own file stands in where no line program covers the address.
    const Function function = FunctionOf(frame.function);
    if (function.start_line == 0) frame.file = function.file;
  }
  for (;;) {
    visit(frame);
    const uint32_t distance = page.parents[node];
    if (distance == 0) return;
    const uint32_t call = page.calls_before[node];
    frame = {.function = page.functions[node - distance],
             .file = page.call_files[call],
             .line = page.call_lines[call],
             .column = page.call_columns[call],
             .discriminator = page.call_discriminators[call]};
    node -= distance;
  }
}

bool SymbolTable::FindNumbers(FileVaddr address, std::vector<FrameNumbers>* frames) const {
  const std::lock_guard lock(mutex_);
  const size_t before = frames->size();
  Walk(address, [&](const FrameNumbers& numbers) { frames->push_back(numbers); });
  unpacked_bytes_.store(directory_->arena->bytes(), std::memory_order_relaxed);
  return frames->size() != before;
}

FileVaddr SymbolTable::NextChange(FileVaddr address) const {
  const std::lock_guard lock(mutex_);
  const std::vector<uint64_t>& starts = directory_->code_starts;
  const auto after = std::upper_bound(starts.begin(), starts.end(), address.value);
  uint64_t next = after == starts.end() ? UINT64_MAX : *after;
  const auto place = FindPage(starts, address, &directory_->last_code_page);
  if (!place.has_value()) return {next};
  const CodePage& page = *GetCodePage(place->index, false);
  unpacked_bytes_.store(directory_->arena->bytes(), std::memory_order_relaxed);
  for (const std::span<const uint32_t> changes : {std::span<const uint32_t>(page.segment_starts),
                                                  std::span<const uint32_t>(page.line_starts)}) {
    const size_t count = CountAtOrBefore(changes, place->offset);
    uint64_t change = 0;
    if (count < changes.size() && CheckedAdd(starts[place->index], changes[count], &change)) {
      next = std::min(next, change);
    }
  }
  return {next};
}

void SymbolTable::ForEachFunction(
    const std::function<void(CodeRange, uint32_t function)>& visit) const {
  using Found = std::pair<CodeRange, uint32_t>;
  std::vector<Found> found, before;
  for (size_t index = 0; index < directory_->code_starts.size(); ++index) {
    before.swap(found);
    found.clear();
    {
      const std::lock_guard lock(mutex_);
      const CodePage& page = *GetCodePage(index, true);
      unpacked_bytes_.store(directory_->arena->bytes(), std::memory_order_relaxed);
      for (uint32_t node = 0; node < page.nodes; ++node) {
        if (page.parents[node] != 0) continue;
        const CodeRange range = PieceRange(page, index, node);
        if (range.start < range.end) found.emplace_back(range, page.functions[node]);
      }
    }
    for (const Found& piece : found) {
      // One that goes on behind its page stands in the next one again.
      if (std::ranges::find(before, piece) == before.end()) visit(piece.first, piece.second);
    }
  }
}

void SymbolTable::DescribeFunction(uint32_t function, DebugFunction* described) const {
  const std::lock_guard lock(mutex_);
  const Function found = FunctionOf(function);
  described->name = Text(found.debug_name);
  described->start_line = found.start_line;
  unpacked_bytes_.store(directory_->arena->bytes(), std::memory_order_relaxed);
}

void SymbolTable::Describe(const FrameNumbers& numbers, SourceFrame* frame) const {
  const std::lock_guard lock(mutex_);
  const Function function = FunctionOf(numbers.function);
  frame->function = Text(function.name);
  frame->system_name = Text(function.system_name);
  frame->file = Text(numbers.file);
  frame->line = numbers.line;
  frame->column = numbers.column;
  frame->discriminator = numbers.discriminator;
  frame->start_line = function.start_line;
  unpacked_bytes_.store(directory_->arena->bytes(), std::memory_order_relaxed);
}

bool SymbolTable::Find(FileVaddr address, InlineStack* frames) const {
  std::vector<FrameNumbers> found;
  FindNumbers(address, &found);
  frames->resize(found.size());
  for (size_t i = 0; i < found.size(); ++i) Describe(found[i], &(*frames)[i]);
  return !found.empty();
}

size_t SymbolTable::FindFrames(FileVaddr address, std::span<FrameRef> frames) const {
  if (frames.empty()) return 0;
  const std::lock_guard lock(mutex_);
  size_t count = 0;
  Walk(address, [&](const FrameNumbers& numbers) {
    const Function function = FunctionOf(numbers.function);
    if (count == frames.size()) --count;
    frames[count++] = {.function = Text(function.name),
                       .system_name = Text(function.system_name),
                       .file = Text(numbers.file),
                       .line = numbers.line,
                       .column = numbers.column,
                       .discriminator = numbers.discriminator,
                       .start_line = function.start_line,
                       .function_id = numbers.function};
  });
  unpacked_bytes_.store(directory_->arena->bytes(), std::memory_order_relaxed);
  return count;
}

std::optional<CodeRange> SymbolTable::FindFunction(FileVaddr address) const {
  const std::lock_guard lock(mutex_);
  const auto place = FindPage(directory_->code_starts, address, &directory_->last_code_page);
  if (!place.has_value()) return std::nullopt;
  const CodePage& page = *GetCodePage(place->index, true);
  unpacked_bytes_.store(directory_->arena->bytes(), std::memory_order_relaxed);
  const size_t segments = CountAtOrBefore(page.segment_starts, place->offset);
  if (segments == 0 || page.segment_nodes[segments - 1] == 0) return std::nullopt;
  uint32_t node = page.segment_nodes[segments - 1] - 1;
  while (page.parents[node] != 0) node -= page.parents[node];
  const CodeRange range = PieceRange(page, place->index, node);
  return range.start < range.end ? std::optional(range) : std::nullopt;
}

CodeRange SymbolTable::PieceRange(const CodePage& page, size_t page_index, uint32_t node) const {
  const uint32_t piece = page.PieceOf(node);
  const auto distance = static_cast<int32_t>(UnZigZag(page.piece_starts[piece]));
  const FileVaddr start = {directory_->code_starts[page_index] +
                           static_cast<uint64_t>(int64_t{distance})};
  return {.start = start, .end = start + page.piece_bytes[piece]};
}

}  // namespace ptarmigan
