#include "symbolize/symbol_table.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "base/str_format.h"
#include "symbolize/internal/page_arena.h"
#include "symbolize/internal/sym_format.h"

namespace ptarmigan {
namespace {

using internal::ColumnReader;
using internal::PageArena;
using internal::UnZigZag;

// One packed page as the directory describes it; checked to lie inside the file.
struct PageEntry {
  uint64_t offset = 0;
  uint32_t packed_bytes = 0;
  uint32_t raw_bytes = 0;
};

// Unpacks a page into `raw`, which has room for it and for ColumnReader behind it.
bool Unpack(Bytes file, const PageEntry& entry, std::span<uint8_t> raw) {
  std::memset(raw.data() + entry.raw_bytes, 0, ColumnReader::kPadding);
  const Bytes packed = SubspanOrEmpty(file, entry.offset, entry.packed_bytes);
  const size_t unpacked =
      ZSTD_decompress(raw.data(), entry.raw_bytes, packed.data(), packed.size());
  return ZSTD_isError(unpacked) == 0 && unpacked == entry.raw_bytes;
}

// A page's bytes, unpacked, for as long as it takes to decode them.
class RawPage {
 public:
  bool Unpack(Bytes file, const PageEntry& entry) {
    const size_t room = entry.raw_bytes + ColumnReader::kPadding;
    bytes_ = std::make_unique_for_overwrite<uint8_t[]>(room);
    size_ = entry.raw_bytes;
    return ptarmigan::Unpack(file, entry, {bytes_.get(), room});
  }
  const uint8_t* data() const { return bytes_.get(); }
  size_t size() const { return size_; }

 private:
  std::unique_ptr<uint8_t[]> bytes_;
  size_t size_ = 0;
};

// Differences between neighbours to values.
void Accumulate(std::span<uint32_t> values) {
  uint32_t sum = 0;
  for (uint32_t& value : values) {
    sum += UnZigZag(value);
    value = sum;
  }
}

// Rising offsets from differences; false if they leave 32 bits.
bool AccumulateRising(std::span<uint32_t> values) {
  uint32_t sum = 0;
  for (uint32_t& value : values) {
    if (__builtin_add_overflow(sum, value, &sum)) return false;
    value = sum;
  }
  return true;
}

// The number of entries at or before `offset` in a rising list. Without branches on the values: which way they go
// is random here, and a wrong guess costs more than the comparisons.
size_t CountAtOrBefore(std::span<const uint32_t> starts, uint32_t offset) {
  const uint32_t* first = starts.data();
  size_t count = starts.size();
  while (count > 1) {
    const size_t half = count / 2;
    first += first[half - 1] <= offset ? half : 0;
    count -= half;
  }
  const auto before = static_cast<size_t>(first - starts.data());
  return before + (count == 1 && *first <= offset ? 1 : 0);
}

}  // namespace

// Functions and their inlined copies, and lines, of a range of addresses. Default: says nothing.
struct SymbolTable::CodePage {
  static constexpr uint32_t kOutermost = UINT32_MAX;
  struct Node {
    uint32_t parent = kOutermost;
    uint32_t function = 0;
    union {
      uint32_t call_file = 0;  // where it has a parent
      uint32_t piece_start;    // else, zigzag distance from the page's start
    };
    union {
      uint32_t call_line = 0;
      uint32_t piece_bytes;
    };
    uint32_t call_column = 0;
    uint32_t discriminator = 0;
  };
  struct Line {
    uint32_t file = 0;
    uint32_t line = 0;
    uint32_t column = 0;
    uint32_t discriminator = 0;
  };

  bool Decode(Bytes file, const PageEntry& entry, PageArena* arena);
  bool DecodeNodes(ColumnReader* reader);

  std::span<Node> nodes;
  std::span<uint32_t> segment_starts;
  std::span<uint32_t> segment_nodes;  // index + 1; 0: no function
  std::span<uint32_t> line_starts;
  std::span<Line> lines;
};

struct SymbolTable::FunctionPage {
  struct Function {
    std::string_view system_name;
    std::string_view name;
    uint32_t file = 0;
    uint32_t start_line = 0;
  };
  bool Decode(const SymbolTable& table, const PageEntry& entry, uint32_t count, PageArena* arena);
  std::span<Function> functions;
};

struct SymbolTable::StringPage {
  bool Decode(Bytes file, const PageEntry& entry, uint32_t count, PageArena* arena);
  std::span<std::string_view> texts;
};

struct SymbolTable::Directory {
  template <typename Page>
  struct Pages {
    std::vector<PageEntry> entries;
    std::unique_ptr<std::atomic<const Page*>[]> unpacked;
    Page empty;  // stands for pages that do not unpack

    void Resize(size_t count) {
      entries.resize(count);
      unpacked = std::make_unique<std::atomic<const Page*>[]>(count);
    }
    ~Pages() {
      for (size_t i = 0; i < entries.size(); ++i) {
        const Page* page = unpacked[i].load(std::memory_order_relaxed);
        if (page != &empty) delete page;
      }
    }
  };

  PageArena arena;
  uint32_t flags = 0;
  uint32_t functions = 0;
  uint32_t strings = 0;
  std::vector<uint64_t> code_starts;
  Pages<CodePage> code;
  Pages<FunctionPage> function;
  Pages<StringPage> string;
};

bool SymbolTable::CodePage::DecodeNodes(ColumnReader* reader) {
  const auto count = static_cast<uint32_t>(nodes.size());
  std::vector<uint32_t> parents(count), values(count);
  if (!reader->Read(parents)) return false;
  uint32_t inlined = 0;
  for (const uint32_t parent : parents) inlined += parent != 0 ? 1 : 0;
  for (uint32_t i = 0; i < count; ++i) {
    nodes[i] = {};
    if (parents[i] > i) return false;  // a parent stands before its children, so chains end
    nodes[i].parent = parents[i] == 0 ? kOutermost : i - parents[i];
  }
  // Reads a column that only inlined or only outermost nodes have.
  const auto read = [&](bool of_inlined, bool deltas, uint32_t Node::*member) {
    const std::span column(values.data(), of_inlined ? inlined : count - inlined);
    if (!reader->Read(column)) return false;
    if (deltas) Accumulate(column);
    size_t next = 0;
    for (uint32_t i = 0; i < count; ++i) {
      if ((parents[i] != 0) == of_inlined) nodes[i].*member = column[next++];
    }
    return true;
  };
  if (!reader->Read(values)) return false;
  Accumulate(values);
  for (uint32_t i = 0; i < count; ++i) nodes[i].function = values[i];
  return read(false, false, &Node::piece_start) && read(false, false, &Node::piece_bytes) &&
         read(true, true, &Node::call_file) && read(true, true, &Node::call_line) &&
         read(true, false, &Node::call_column) && read(true, false, &Node::discriminator);
}

bool SymbolTable::CodePage::Decode(Bytes file, const PageEntry& entry, PageArena* arena) {
  RawPage raw;
  if (!raw.Unpack(file, entry)) return false;
  ByteCursor header(std::as_bytes(std::span(raw.data(), raw.size())), std::endian::little);
  const uint32_t node_count = header.U32();
  const uint32_t segment_count = header.U32();
  const uint32_t line_count = header.U32();
  if (!header.ok() || node_count > internal::kSymNodesMax ||
      segment_count > internal::kSymCodeItemsMax || line_count > internal::kSymCodeItemsMax) {
    return false;
  }
  nodes = arena->Make<Node>(node_count);
  segment_starts = arena->Make<uint32_t>(segment_count);
  segment_nodes = arena->Make<uint32_t>(segment_count);
  line_starts = arena->Make<uint32_t>(line_count);
  lines = arena->Make<Line>(line_count);
  ColumnReader reader(raw.data() + header.position(), header.remaining());
  if (!DecodeNodes(&reader)) return false;
  if (!reader.Read(segment_starts) || !reader.Read(segment_nodes)) return false;
  Accumulate(segment_nodes);
  if (!reader.Read(line_starts)) return false;
  if (!AccumulateRising(segment_starts) || !AccumulateRising(line_starts)) return false;
  for (const uint32_t node : segment_nodes) {
    if (node > node_count) return false;
  }
  std::vector<uint32_t> values(line_count);
  const auto read = [&](bool deltas, uint32_t Line::*member) {
    if (!reader.Read(values)) return false;
    if (deltas) Accumulate(values);
    for (uint32_t i = 0; i < line_count; ++i) lines[i].*member = values[i];
    return true;
  };
  return read(true, &Line::file) && read(true, &Line::line) && read(false, &Line::column) &&
         read(false, &Line::discriminator) && reader.remaining() == 0;
}

bool SymbolTable::FunctionPage::Decode(const SymbolTable& table, const PageEntry& entry,
                                       uint32_t count, PageArena* arena) {
  RawPage raw;
  if (!raw.Unpack(table.bytes_, entry)) return false;
  ColumnReader reader(raw.data(), raw.size());
  std::vector<uint32_t> system_names(count), names(count), files(count), start_lines(count);
  if (!reader.Read(system_names) || !reader.Read(names) || !reader.Read(files) ||
      !reader.Read(start_lines)) {
    return false;
  }
  Accumulate(system_names);
  Accumulate(files);
  functions = arena->Make<Function>(count);
  for (uint32_t i = 0; i < count; ++i) {
    // Texts are looked up once for all frames to come.
    functions[i] = {.system_name = table.Text(system_names[i]),
                    .name = table.Text(system_names[i] + UnZigZag(names[i])),
                    .file = files[i],
                    .start_line = start_lines[i]};
  }
  return true;
}

bool SymbolTable::StringPage::Decode(Bytes file, const PageEntry& entry, uint32_t count,
                                     PageArena* arena) {
  // The texts stay where they are unpacked.
  const std::span raw = arena->Make<uint8_t>(entry.raw_bytes + ColumnReader::kPadding);
  if (!Unpack(file, entry, raw)) return false;
  ColumnReader reader(raw.data(), entry.raw_bytes);
  std::vector<uint32_t> lengths(count);
  if (!reader.Read(lengths)) return false;
  std::string_view left(reinterpret_cast<const char*>(reader.position()), reader.remaining());
  texts = arena->Make<std::string_view>(count);
  for (uint32_t i = 0; i < count; ++i) {
    if (lengths[i] > left.size()) return false;
    texts[i] = left.substr(0, lengths[i]);
    left.remove_prefix(lengths[i]);
  }
  return true;
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

// Publishes a page that was just decoded, or finds that another thread was faster.
template <typename Page>
static const Page* Publish(std::atomic<const Page*>* slot, const Page* page, const Page* empty) {
  const Page* expected = nullptr;
  if (slot->compare_exchange_strong(expected, page, std::memory_order_acq_rel)) return page;
  if (page != empty) delete page;
  return expected;
}

const SymbolTable::CodePage* SymbolTable::GetCodePage(size_t index) const {
  auto& pages = directory_->code;
  if (const CodePage* page = pages.unpacked[index].load(std::memory_order_acquire)) return page;
  auto page = std::make_unique<CodePage>();
  const bool good = page->Decode(bytes_, pages.entries[index], &directory_->arena);
  if (!good) damaged_.store(true, std::memory_order_relaxed);
  return Publish<CodePage>(&pages.unpacked[index], good ? page.release() : &pages.empty,
                           &pages.empty);
}

const SymbolTable::FunctionPage* SymbolTable::GetFunctionPage(size_t index) const {
  auto& pages = directory_->function;
  if (const FunctionPage* page = pages.unpacked[index].load(std::memory_order_acquire)) {
    return page;
  }
  auto page = std::make_unique<FunctionPage>();
  const auto first = static_cast<uint32_t>(index * internal::kSymFunctionsPerPage);
  const bool good = page->Decode(
      *this, pages.entries[index],
      std::min(internal::kSymFunctionsPerPage, directory_->functions - first), &directory_->arena);
  if (!good) damaged_.store(true, std::memory_order_relaxed);
  return Publish<FunctionPage>(&pages.unpacked[index], good ? page.release() : &pages.empty,
                               &pages.empty);
}

const SymbolTable::StringPage* SymbolTable::GetStringPage(size_t index) const {
  auto& pages = directory_->string;
  if (const StringPage* page = pages.unpacked[index].load(std::memory_order_acquire)) return page;
  auto page = std::make_unique<StringPage>();
  const auto first = static_cast<uint32_t>(index * internal::kSymStringsPerPage);
  const bool good = page->Decode(
      bytes_, pages.entries[index],
      std::min(internal::kSymStringsPerPage, directory_->strings - first), &directory_->arena);
  if (!good) damaged_.store(true, std::memory_order_relaxed);
  return Publish<StringPage>(&pages.unpacked[index], good ? page.release() : &pages.empty,
                             &pages.empty);
}

std::string_view SymbolTable::Text(uint32_t id) const {
  if (id == 0 || id >= directory_->strings) return {};
  const StringPage* page = GetStringPage(id / internal::kSymStringsPerPage);
  const size_t slot = id % internal::kSymStringsPerPage;
  return slot < page->texts.size() ? page->texts[slot] : std::string_view();
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

std::optional<PagePlace> FindPage(const std::vector<uint64_t>& starts, FileVaddr address) {
  const auto after = std::upper_bound(starts.begin(), starts.end(), address.value);
  if (after == starts.begin()) return std::nullopt;
  const uint64_t offset = address.value - *std::prev(after);
  if (offset > UINT32_MAX) return std::nullopt;
  return PagePlace{.index = static_cast<size_t>(after - starts.begin()) - 1,
                   .offset = static_cast<uint32_t>(offset)};
}

}  // namespace

size_t SymbolTable::FindFrames(FileVaddr address, std::span<FrameRef> frames) const {
  const auto place = FindPage(directory_->code_starts, address);
  if (!place.has_value() || frames.empty()) return 0;
  const CodePage& page = *GetCodePage(place->index);
  CodePage::Line line;
  if (const size_t count = CountAtOrBefore(page.line_starts, place->offset); count != 0) {
    line = page.lines[count - 1];
  }
  const bool has_line = line.file != 0 || line.line != 0;
  uint32_t node = 0;  // index + 1
  if (const size_t count = CountAtOrBefore(page.segment_starts, place->offset); count != 0) {
    node = page.segment_nodes[count - 1];
  }
  if (node == 0 && !has_line) return 0;

  size_t count = 0;
  FrameRef frame;
  frame.file = Text(line.file);
  frame.line = line.line;
  frame.column = line.column;
  frame.discriminator = line.discriminator;
  if (node == 0) {
    frame.function_id = FrameRef::kNoFunction;
    frames[count++] = frame;
    return count;
  }
  for (uint32_t index = node - 1;;) {
    const CodePage::Node& at = page.nodes[index];
    frame.function_id = at.function;
    frame.function = frame.system_name = {};
    frame.start_line = 0;
    if (at.function < directory_->functions) {
      const FunctionPage* functions = GetFunctionPage(at.function / internal::kSymFunctionsPerPage);
      const size_t slot = at.function % internal::kSymFunctionsPerPage;
      if (slot < functions->functions.size()) {
        const FunctionPage::Function& function = functions->functions[slot];
        frame.system_name = function.system_name;
        frame.function = function.name;
        frame.start_line = function.start_line;
        // A symbol's own file stands in where no line program covers the address.
        if (count == 0 && !has_line && function.start_line == 0) frame.file = Text(function.file);
      }
    }
    const bool is_outermost = at.parent == CodePage::kOutermost;
    if (count < frames.size() - 1 || is_outermost) {
      frames[count] = frame;
      if (is_outermost) return count + 1;
      ++count;
    }
    frame.file = Text(at.call_file);
    frame.line = at.call_line;
    frame.column = at.call_column;
    frame.discriminator = at.discriminator;
    index = at.parent;
  }
}

bool SymbolTable::Find(FileVaddr address, InlineStack* frames) const {
  FrameRef found[kFramesMax];
  const size_t count = FindFrames(address, found);
  frames->clear();
  frames->reserve(count);
  for (const FrameRef& frame : std::span(found, count)) {
    frames->push_back({.function = std::string(frame.function),
                       .system_name = std::string(frame.system_name),
                       .file = std::string(frame.file),
                       .line = frame.line,
                       .column = frame.column,
                       .discriminator = frame.discriminator,
                       .start_line = frame.start_line});
  }
  return count != 0;
}

std::optional<CodeRange> SymbolTable::FindFunction(FileVaddr address) const {
  const auto place = FindPage(directory_->code_starts, address);
  if (!place.has_value()) return std::nullopt;
  const CodePage& page = *GetCodePage(place->index);
  const size_t segments = CountAtOrBefore(page.segment_starts, place->offset);
  if (segments == 0 || page.segment_nodes[segments - 1] == 0) return std::nullopt;
  uint32_t index = page.segment_nodes[segments - 1] - 1;
  while (page.nodes[index].parent != CodePage::kOutermost) index = page.nodes[index].parent;
  const CodePage::Node& outermost = page.nodes[index];
  if (outermost.piece_bytes == 0) return std::nullopt;
  const auto distance = static_cast<int32_t>(UnZigZag(outermost.piece_start));
  const FileVaddr start = {directory_->code_starts[place->index] +
                           static_cast<uint64_t>(int64_t{distance})};
  return CodeRange{.start = start, .end = start + outermost.piece_bytes};
}

}  // namespace ptarmigan
