#include "symbolize/symbol_table_writer.h"

#define ZSTD_STATIC_LINKING_ONLY  // for ZSTD_c_literalCompressionMode
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/str_format.h"
#include "symbolize/internal/flat_symbols.h"
#include "symbolize/internal/sym_format.h"

namespace ptarmigan {
namespace {

using internal::AppendColumn;
using internal::FlatSymbols;
using internal::ZigZag;

constexpr uint32_t kNone = SymbolRows::kNone;
// A page is closed at the next function once it holds this many segments and lines, and anywhere at twice as many.
constexpr size_t kPageItems = 2048;
constexpr int kZstdLevel = 5;

struct ZstdFree {
  void operator()(ZSTD_CCtx* compressor) const { ZSTD_freeCCtx(compressor); }
};

template <typename T>
void PutLe(std::string* out, T value) {
  if constexpr (std::endian::native == std::endian::big) value = ByteSwap(value);
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out->append(bytes, sizeof(T));
}

// Numbers for strings or functions in the order of their first use.
class FirstUse {
 public:
  explicit FirstUse(size_t count) : number_(count, kNone) {}
  uint32_t Number(uint32_t id) {
    uint32_t& number = number_[id];
    if (number == kNone) {
      number = static_cast<uint32_t>(order_.size());
      order_.push_back(id);
    }
    return number;
  }
  const std::vector<uint32_t>& order() const { return order_; }

 private:
  std::vector<uint32_t> number_;
  std::vector<uint32_t> order_;
};

struct PackedPage {
  uint64_t start = 0;  // code pages only
  std::string packed;
  uint32_t raw_bytes = 0;
};

class TableWriter {
 public:
  TableWriter(const SymbolRows& rows, const SymbolTableWriterOptions& options)
      : rows_(rows),
        options_(options),
        flat_(internal::Flatten(rows)),
        functions_(flat_.functions.size()),
        files_(rows.string_count()),
        compressor_(ZSTD_createCCtx()) {
    ZSTD_CCtx_setParameter(compressor_.get(), ZSTD_c_compressionLevel, kZstdLevel);
    ZSTD_CCtx_setParameter(compressor_.get(), ZSTD_c_checksumFlag, 1);
    // Huffman codes save a sixth and take half of the time of unpacking. A libzstd without this parameter refuses it,
    // which costs only that time.
    ZSTD_CCtx_setParameter(compressor_.get(), ZSTD_c_literalCompressionMode, ZSTD_lcm_uncompressed);
    files_.Number(0);  // file 0 is no file
  }

  Result<std::string> Run();

 private:
  // The nodes of one code page.
  struct PageNodes {
    std::unordered_map<uint64_t, uint32_t> index;  // by scope and piece
    std::vector<uint32_t> parent, function, call_file, call_line, call_column, discriminator;
    std::vector<uint32_t> piece_start, piece_bytes;
  };

  void WriteCodePages();
  void WriteCodePage(uint64_t start, uint64_t last_address);
  uint32_t NodeOf(const FlatSymbols::Segment& segment, uint64_t page_start, PageNodes* nodes);
  void WriteFunctionPages();
  void WriteStringPages();
  PackedPage Pack(const std::string& raw);
  std::string Assemble() const;

  const SymbolRows& rows_;
  const SymbolTableWriterOptions& options_;
  FlatSymbols flat_;
  FirstUse functions_;
  FirstUse files_;
  std::unique_ptr<ZSTD_CCtx, ZstdFree> compressor_;
  size_t next_segment_ = 0;
  size_t next_line_ = 0;
  std::vector<PackedPage> code_pages_;
  std::vector<PackedPage> function_pages_;
  std::vector<PackedPage> string_pages_;
  // The strings of the table: files by number first, then names.
  std::vector<std::string_view> strings_;
  std::vector<std::unique_ptr<std::string>> demangled_;
  uint32_t flags_ = 0;
  bool failed_ = false;
};

PackedPage TableWriter::Pack(const std::string& raw) {
  PackedPage page;
  page.raw_bytes = static_cast<uint32_t>(raw.size());
  page.packed.resize(ZSTD_compressBound(raw.size()));
  const size_t packed_bytes = ZSTD_compress2(compressor_.get(), page.packed.data(),
                                             page.packed.size(), raw.data(), raw.size());
  if (ZSTD_isError(packed_bytes) != 0) {
    failed_ = true;
    return {};
  }
  page.packed.resize(packed_bytes);
  page.packed.shrink_to_fit();
  return page;
}

void TableWriter::WriteCodePages() {
  const auto& segments = flat_.segments;
  const auto& lines = flat_.lines;
  while (next_segment_ < segments.size() || next_line_ < lines.size()) {
    // Find the page's end: walk both lists in order of address.
    size_t segment = next_segment_;
    size_t line = next_line_;
    const uint64_t start =
        std::min(segment < segments.size() ? segments[segment].start : UINT64_MAX,
                 line < lines.size() ? lines[line].start : UINT64_MAX);
    uint64_t last_address = UINT64_MAX;  // where something may start, too
    size_t items = 0;
    while (segment < segments.size() || line < lines.size()) {
      const bool take_segment =
          line >= lines.size() ||
          (segment < segments.size() && segments[segment].start <= lines[line].start);
      const uint64_t at = take_segment ? segments[segment].start : lines[line].start;
      const bool is_function_start =
          take_segment && (segment == 0 || segments[segment].piece != segments[segment - 1].piece);
      if (at > start && ((items >= kPageItems && is_function_start) || items >= 2 * kPageItems ||
                         at - start > UINT32_MAX)) {
        last_address = at - 1;
        break;
      }
      // Deep chains weigh more, so that the page's nodes stay below their bound.
      if (take_segment && segments[segment].scope != kNone) {
        items += rows_.scopes()[segments[segment].scope].depth / 16U;
      }
      ++items;
      ++(take_segment ? segment : line);
    }
    WriteCodePage(start, last_address);
  }
}

uint32_t TableWriter::NodeOf(const FlatSymbols::Segment& segment, uint64_t page_start,
                             PageNodes* nodes) {
  // The chain from the innermost scope to the first one that has a node, then nodes for it from outside in.
  std::vector<uint32_t> missing;
  uint32_t parent_node = kNone;
  for (uint32_t scope = segment.scope; scope != kNone; scope = rows_.scopes()[scope].parent) {
    const auto known = nodes->index.find(uint64_t{segment.piece} << 32 | scope);
    if (known != nodes->index.end()) {
      parent_node = known->second;
      break;
    }
    missing.push_back(scope);
  }
  for (size_t i = missing.size(); i-- > 0;) {
    const uint32_t id = missing[i];
    const SymbolRows::Scope& scope = rows_.scopes()[id];
    const auto node = static_cast<uint32_t>(nodes->parent.size());
    const bool is_root = parent_node == kNone;
    nodes->parent.push_back(is_root ? 0 : node - parent_node);
    nodes->function.push_back(
        functions_.Number(is_root ? flat_.pieces[segment.piece].function : scope.function));
    if (is_root) {
      const CodeRange& range = flat_.pieces[segment.piece].range;
      const auto distance = static_cast<int64_t>(range.start.value - page_start);
      const bool fits =
          distance >= INT32_MIN && distance <= INT32_MAX && range.end - range.start <= UINT32_MAX;
      nodes->piece_start.push_back(fits ? ZigZag(static_cast<uint32_t>(distance)) : 0);
      nodes->piece_bytes.push_back(fits ? static_cast<uint32_t>(range.end - range.start) : 0);
    } else {
      nodes->call_file.push_back(files_.Number(scope.call.file));
      nodes->call_line.push_back(scope.call.line);
      nodes->call_column.push_back(scope.call.column);
      nodes->discriminator.push_back(scope.call.discriminator);
      flags_ |= internal::kSymHasInlines;
    }
    nodes->index.emplace(uint64_t{segment.piece} << 32 | id, node);
    parent_node = node;
  }
  return parent_node;
}

// Appends `values` as differences between neighbours.
void AppendDeltas(const std::vector<uint32_t>& values, std::string* out) {
  std::vector<uint32_t> deltas;
  deltas.reserve(values.size());
  uint32_t last = 0;
  for (const uint32_t value : values) {
    deltas.push_back(ZigZag(value - last));
    last = value;
  }
  AppendColumn(deltas, out);
}

void TableWriter::WriteCodePage(uint64_t start, uint64_t last_address) {
  PageNodes nodes;
  std::vector<uint32_t> segment_starts, segment_nodes;
  std::vector<uint32_t> line_starts, files, lines, columns, discriminators;
  uint64_t last = start;
  const auto add_segment = [&](const FlatSymbols::Segment& segment, uint64_t at) {
    segment_starts.push_back(static_cast<uint32_t>(at - last));
    last = at;
    segment_nodes.push_back(segment.scope == kNone ? 0 : NodeOf(segment, start, &nodes) + 1);
  };
  const auto& all_segments = flat_.segments;
  // What holds at the page's start began before it.
  if (next_segment_ > 0 &&
      (next_segment_ >= all_segments.size() || all_segments[next_segment_].start > start)) {
    add_segment(all_segments[next_segment_ - 1], start);
  }
  for (; next_segment_ < all_segments.size() && all_segments[next_segment_].start <= last_address;
       ++next_segment_) {
    add_segment(all_segments[next_segment_], all_segments[next_segment_].start);
  }
  last = start;
  const auto add_line = [&](const FlatSymbols::Line& line, uint64_t at) {
    line_starts.push_back(static_cast<uint32_t>(at - last));
    last = at;
    const SymbolRows::LineRow row =
        line.row == kNone ? SymbolRows::LineRow() : rows_.lines()[line.row];
    files.push_back(files_.Number(row.file));
    lines.push_back(row.line);
    columns.push_back(row.column);
    discriminators.push_back(row.discriminator);
    if (row.line != 0) flags_ |= internal::kSymHasLines;
  };
  const auto& all_lines = flat_.lines;
  if (next_line_ > 0 && (next_line_ >= all_lines.size() || all_lines[next_line_].start > start)) {
    add_line(all_lines[next_line_ - 1], start);
  }
  for (; next_line_ < all_lines.size() && all_lines[next_line_].start <= last_address;
       ++next_line_) {
    add_line(all_lines[next_line_], all_lines[next_line_].start);
  }

  std::string raw;
  PutLe(&raw, static_cast<uint32_t>(nodes.parent.size()));
  PutLe(&raw, static_cast<uint32_t>(segment_starts.size()));
  PutLe(&raw, static_cast<uint32_t>(line_starts.size()));
  AppendColumn(nodes.parent, &raw);
  AppendDeltas(nodes.function, &raw);
  AppendColumn(nodes.piece_start, &raw);
  AppendColumn(nodes.piece_bytes, &raw);
  AppendDeltas(nodes.call_file, &raw);
  AppendDeltas(nodes.call_line, &raw);
  AppendColumn(nodes.call_column, &raw);
  AppendColumn(nodes.discriminator, &raw);
  AppendColumn(segment_starts, &raw);
  AppendDeltas(segment_nodes, &raw);
  AppendColumn(line_starts, &raw);
  AppendDeltas(files, &raw);
  AppendDeltas(lines, &raw);
  AppendColumn(columns, &raw);
  AppendColumn(discriminators, &raw);
  PackedPage page = Pack(raw);
  page.start = start;
  code_pages_.push_back(std::move(page));
}

void TableWriter::WriteFunctionPages() {
  // Declaration files get their numbers before the names, which follow the files.
  for (const uint32_t id : functions_.order()) files_.Number(flat_.functions[id].file);
  for (const uint32_t id : files_.order()) strings_.push_back(rows_.Text(id));
  if (strings_.size() > 1) flags_ |= internal::kSymHasFiles;
  if (!functions_.order().empty()) flags_ |= internal::kSymHasFunctions;

  std::unordered_map<uint32_t, std::pair<uint32_t, uint32_t>> known;  // by the ids of the names
  std::unordered_map<uint32_t, uint32_t> numbers;
  const auto number_of = [&](uint32_t id) {
    if (id == 0) return uint32_t{0};
    const auto [entry, is_new] = numbers.try_emplace(id, static_cast<uint32_t>(strings_.size()));
    if (is_new) strings_.push_back(rows_.Text(id));
    return entry->second;
  };
  const auto demangled_number = [&](uint32_t id, uint32_t system_number) {
    const auto [entry, is_new] = known.try_emplace(id, 0, 0);
    if (is_new) {
      std::string readable(options_.demangle(rows_.Text(id)));
      if (readable.size() > SymbolRows::kStringBytesMax) {
        readable.resize(SymbolRows::kStringBytesMax);
      }
      entry->second.second = system_number;
      if (!readable.empty() && readable != rows_.Text(id)) {
        demangled_.push_back(std::make_unique<std::string>(std::move(readable)));
        entry->second.second = static_cast<uint32_t>(strings_.size());
        strings_.push_back(*demangled_.back());
      }
    }
    return entry->second.second;
  };

  const auto& order = functions_.order();
  for (size_t first = 0; first < order.size(); first += internal::kSymFunctionsPerPage) {
    std::vector<uint32_t> system_names, names, files, start_lines, debug_names;
    const size_t end = std::min<size_t>(order.size(), first + internal::kSymFunctionsPerPage);
    for (size_t i = first; i < end; ++i) {
      const SymbolRows::FunctionIds& function = flat_.functions[order[i]];
      const uint32_t system_name = number_of(function.system_name);
      uint32_t name = system_name;
      if (function.name != 0) {
        name = number_of(function.name);
      } else if (function.system_name != 0 && options_.demangle) {
        name = demangled_number(function.system_name, system_name);
      }
      system_names.push_back(system_name);
      names.push_back(ZigZag(name - system_name));
      files.push_back(files_.Number(function.file));
      start_lines.push_back(function.start_line);
      debug_names.push_back(function.debug_name == 0 ? internal::kSymDebugNameNone
                            : function.debug_name == function.system_name
                                ? internal::kSymDebugNameLinked
                                : internal::kSymDebugNameString + number_of(function.debug_name));
    }
    std::string raw;
    AppendDeltas(system_names, &raw);
    AppendColumn(names, &raw);
    AppendDeltas(files, &raw);
    AppendColumn(start_lines, &raw);
    AppendColumn(debug_names, &raw);
    function_pages_.push_back(Pack(raw));
  }
}

void TableWriter::WriteStringPages() {
  for (size_t first = 0; first < strings_.size(); first += internal::kSymStringsPerPage) {
    const size_t end = std::min<size_t>(strings_.size(), first + internal::kSymStringsPerPage);
    std::vector<uint32_t> lengths;
    for (size_t i = first; i < end; ++i) {
      lengths.push_back(static_cast<uint32_t>(strings_[i].size()));
    }
    std::string raw;
    AppendColumn(lengths, &raw);
    for (size_t i = first; i < end; ++i) raw.append(strings_[i]);
    string_pages_.push_back(Pack(raw));
  }
}

std::string TableWriter::Assemble() const {
  std::string notes = options_.identity.substr(0, SymbolTableWriterOptions::kIdentityBytesMax);
  std::replace(notes.begin(), notes.end(), '\0', ' ');
  constexpr size_t kNoteBytesMax = 4096;
  for (const std::string& note : rows_.notes()) {
    notes.push_back('\0');
    for (const char c : std::string_view(note).substr(0, kNoteBytesMax)) {
      notes.push_back(c == '\0' ? ' ' : c);
    }
  }
  const size_t directory_bytes =
      internal::kSymHeaderBytes + code_pages_.size() * internal::kSymCodeEntryBytes +
      (function_pages_.size() + string_pages_.size()) * internal::kSymPageEntryBytes + notes.size();
  uint64_t file_bytes = directory_bytes;
  for (const auto* pages : {&code_pages_, &function_pages_, &string_pages_}) {
    for (const PackedPage& page : *pages) file_bytes += page.packed.size();
  }
  std::string out;
  out.reserve(file_bytes);
  out.append(internal::kSymMagic, sizeof(internal::kSymMagic));
  PutLe(&out, internal::kSymVersion);
  PutLe(&out, static_cast<uint32_t>(directory_bytes));
  PutLe(&out, file_bytes);
  PutLe<uint64_t>(&out, 0);  // checksum, below
  PutLe(&out, flags_);
  PutLe(&out, static_cast<uint32_t>(functions_.order().size()));
  PutLe(&out, static_cast<uint32_t>(strings_.size()));
  PutLe(&out, static_cast<uint32_t>(code_pages_.size()));
  PutLe(&out, static_cast<uint32_t>(function_pages_.size()));
  PutLe(&out, static_cast<uint32_t>(string_pages_.size()));
  PutLe(&out, static_cast<uint32_t>(notes.size()));
  PutLe<uint32_t>(&out, 0);
  uint64_t offset = directory_bytes;
  for (const auto* pages : {&code_pages_, &function_pages_, &string_pages_}) {
    for (const PackedPage& page : *pages) {
      if (pages == &code_pages_) PutLe(&out, page.start);
      PutLe(&out, offset);
      PutLe(&out, static_cast<uint32_t>(page.packed.size()));
      PutLe(&out, page.raw_bytes);
      offset += page.packed.size();
    }
  }
  out += notes;
  uint64_t checksum = HashBytes64(AsBytes(out));
  if constexpr (std::endian::native == std::endian::big) checksum = ByteSwap(checksum);
  std::memcpy(out.data() + internal::kSymChecksumOffset, &checksum, sizeof(checksum));
  for (const auto* pages : {&code_pages_, &function_pages_, &string_pages_}) {
    for (const PackedPage& page : *pages) out += page.packed;
  }
  return out;
}

Result<std::string> TableWriter::Run() {
  WriteCodePages();
  WriteFunctionPages();
  WriteStringPages();
  if (failed_) return Error{ErrorCode::kInternal, "a page of the symbol table did not compress"};
  std::string table = Assemble();
  if (table.size() > options_.table_bytes_max) {
    return Error{ErrorCode::kResourceLimit,
                 StrFormat("the symbol table would have {} bytes, more than the {} allowed",
                           table.size(), options_.table_bytes_max)};
  }
  return table;
}

}  // namespace

Result<std::string> WriteSymbolTable(const SymbolRows& rows,
                                     const SymbolTableWriterOptions& options) {
  return TableWriter(rows, options).Run();
}

}  // namespace ptarmigan
