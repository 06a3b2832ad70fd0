#include "symbolize/jit_maps.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/file.h"
#include "base/str_format.h"
#include "symbolize/internal/safe_open.h"

namespace ptarmigan {
namespace {

// A hexadecimal number (some writers put 0x before it) and the blank behind it; nothing if there is none.
std::optional<uint64_t> TakeHex(std::string_view* text) {
  std::string_view rest = *text;
  if (rest.starts_with("0x") || rest.starts_with("0X")) rest.remove_prefix(2);
  uint64_t value = 0;
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), value, 16);
  if (parsed.ec != std::errc() || parsed.ptr == rest.data()) return std::nullopt;
  rest.remove_prefix(static_cast<size_t>(parsed.ptr - rest.data()));
  const size_t blanks = std::min(rest.find_first_not_of(" \t"), rest.size());
  if (blanks == 0) return std::nullopt;
  rest.remove_prefix(blanks);
  *text = rest;
  return value;
}

// Disjoint ranges to which later ranges are added on top: what they cover is cut away.
template <typename Value>
class Layers {
 public:
  struct Entry {
    uint64_t end = 0;
    Value value{};
  };
  using Map = std::map<uint64_t, Entry>;

  // `cut` sees every part that is taken away: (start, end, value).
  template <typename Cut>
  void Erase(uint64_t start, uint64_t end, const Cut& cut) {
    auto at = map_.upper_bound(start);
    if (at != map_.begin() && std::prev(at)->second.end > start) --at;
    while (at != map_.end() && at->first < end) {
      const uint64_t old_start = at->first;
      const Entry old = at->second;
      cut(std::max(old_start, start), std::min(old.end, end), old.value);
      if (old_start < start) {
        at->second.end = start;
        ++at;
      } else {
        at = map_.erase(at);
      }
      if (old.end > end) {
        map_.insert(at, {end, {old.end, old.value}});
        break;
      }
    }
  }
  void Insert(uint64_t start, uint64_t end, const Value& value) { map_[start] = {end, value}; }
  const Map& map() const { return map_; }

 private:
  Map map_;
};

}  // namespace

PerfMap PerfMap::Parse(std::string_view text) {
  PerfMap map;
  map.text_ = std::make_unique<std::string>(text.substr(0, kFileBytesMax));
  std::string_view rest = *map.text_;
  Layers<uint32_t> layers;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (map.symbols_.size() >= kLinesMax) {
      ++map.beyond_limit_;
      continue;
    }
    const auto start = TakeHex(&line);
    const auto size = start ? TakeHex(&line) : std::nullopt;
    uint64_t stop = 0;
    if (!size || line.empty() || *size == 0 || !CheckedAdd(*start, *size, &stop)) {
      ++map.malformed_;
      continue;
    }
    Line symbol;
    symbol.start = *start;
    symbol.size_bytes = *size;
    symbol.name_at = static_cast<uint32_t>(line.data() - map.text_->data());
    symbol.name_bytes = static_cast<uint32_t>(std::min(line.size(), kNameBytesMax));
    layers.Erase(*start, stop, [](uint64_t, uint64_t, uint32_t) {});
    layers.Insert(*start, stop, static_cast<uint32_t>(map.symbols_.size()));
    map.symbols_.push_back(symbol);
  }
  map.lines_ = map.symbols_.size();
  map.pieces_.reserve(layers.map().size());
  for (const auto& [start, entry] : layers.map()) {
    map.pieces_.push_back({start, entry.end, entry.value});
  }
  return map;
}

bool PerfMap::Find(VirtAddr address, Symbol* symbol) const {
  const auto after =
      std::upper_bound(pieces_.begin(), pieces_.end(), address.value,
                       [](uint64_t wanted, const Piece& piece) { return wanted < piece.start; });
  if (after == pieces_.begin() || address.value >= std::prev(after)->end) return false;
  const Line& line = symbols_[std::prev(after)->line];
  symbol->start = {line.start};
  symbol->size_bytes = line.size_bytes;
  symbol->name = std::string_view(*text_).substr(line.name_at, line.name_bytes);
  return true;
}

// --- jitdump ---

// Turns loads and moves, in the order of the file, into pieces.
class JitDump::Timeline {
 public:
  void Load(uint64_t start, uint64_t end, uint64_t origin, uint64_t time_ns, uint32_t load) {
    End(start, end, time_ns);
    AddFirst(start, end, origin, time_ns, load);
    current_.Insert(start, end, {origin, time_ns, load});
  }
  void End(uint64_t start, uint64_t end, uint64_t time_ns) {
    current_.Erase(start, end, [&](uint64_t from, uint64_t to, const Standing& old) {
      pieces_.push_back({from, to, old.since_ns, time_ns, old.origin, old.load});
    });
  }
  // The load that stands at `address` now; nothing if none does.
  std::optional<uint32_t> At(uint64_t address) const {
    const auto& map = current_.map();
    auto after = map.upper_bound(address);
    if (after == map.begin() || std::prev(after)->second.end <= address) return std::nullopt;
    return std::prev(after)->second.value.load;
  }
  std::vector<Piece> Finish() {
    for (const auto& [start, entry] : current_.map()) {
      pieces_.push_back(
          {start, entry.end, entry.value.since_ns, kLatest, entry.value.origin, entry.value.load});
    }
    return std::move(pieces_);
  }

 private:
  struct Standing {
    uint64_t origin = 0;
    uint64_t since_ns = 0;
    uint32_t load = 0;
  };
  // Where no code was known before, the first one also holds for the time before it.
  void AddFirst(uint64_t start, uint64_t end, uint64_t origin, uint64_t time_ns, uint32_t load) {
    if (time_ns == 0) return;
    uint64_t at = start;
    ever_.Erase(start, end, [&](uint64_t from, uint64_t to, bool) {
      if (from > at) pieces_.push_back({at, from, 0, time_ns, origin, load});
      at = to;
    });
    if (end > at) pieces_.push_back({at, end, 0, time_ns, origin, load});
    ever_.Insert(start, end, true);
  }

  Layers<Standing> current_;
  Layers<bool> ever_;
  std::vector<Piece> pieces_;
};

class JitDump::Reader {
 public:
  Reader(Bytes bytes, bool keep_code, JitDump* dump)
      : bytes_(bytes), keep_code_(keep_code), dump_(*dump) {}

  Status Read();

 private:
  enum RecordId : uint32_t { kLoad = 0, kMove = 1, kDebugInfo = 2, kClose = 3, kUnwindingInfo = 4 };
  struct PendingLines {
    uint64_t code_addr = 0;
    size_t first = 0;
    size_t count = 0;
  };

  // False if the record's content does not fit its size.
  bool ReadRecord(uint32_t id, uint64_t time_ns, ByteCursor cursor);
  bool ReadLoad(uint64_t time_ns, ByteCursor cursor);
  bool ReadMove(uint64_t time_ns, ByteCursor cursor);
  bool ReadDebugInfo(ByteCursor cursor);
  void FixLineOffsets();
  bool AddText(std::string_view text, uint32_t* at, uint32_t* bytes) {
    text = text.substr(0, kNameBytesMax);
    if (dump_.text_->size() + text.size() > UINT32_MAX) return false;
    *at = static_cast<uint32_t>(dump_.text_->size());
    *bytes = static_cast<uint32_t>(text.size());
    dump_.text_->append(text);
    return true;
  }

  Bytes bytes_;
  bool keep_code_;
  JitDump& dump_;
  std::endian order_ = std::endian::little;
  Timeline timeline_;
  std::optional<PendingLines> pending_;
};

Status JitDump::Reader::Read() {
  constexpr uint32_t kMagic = 0x4A695444;  // "JiTD"
  constexpr uint32_t kHeaderBytes = 40;
  constexpr uint64_t kArchTimestamp = 1;
  const uint32_t magic = ByteCursor(bytes_, std::endian::little).U32();
  if (magic != kMagic && magic != ByteSwap(kMagic)) {
    return Error{ErrorCode::kInvalidInput, "not a jitdump: the magic number is missing"};
  }
  order_ = magic == kMagic ? std::endian::little : std::endian::big;
  ByteCursor cursor(bytes_, order_);
  cursor.U32();
  const uint32_t version = cursor.U32();
  const uint32_t header_bytes = cursor.U32();
  cursor.U32();  // ELF machine
  cursor.U32();  // padding
  dump_.pid_ = cursor.S32();
  cursor.U64();  // time of creation
  dump_.arch_timestamps_ = (cursor.U64() & kArchTimestamp) != 0;
  if (!cursor.ok()) return Error{ErrorCode::kTruncated, "the jitdump ends within its header"};
  if (version != 1) {
    return Error{ErrorCode::kUnsupported,
                 StrFormat("jitdump version {} is not known (1 is)", version)};
  }
  if (header_bytes < kHeaderBytes || header_bytes > bytes_.size()) {
    return Error{ErrorCode::kInvalidInput, "the jitdump's header has an impossible size"};
  }
  cursor.Seek(header_bytes);
  constexpr uint32_t kPrefixBytes = 16;
  while (cursor.remaining() >= kPrefixBytes) {
    const uint32_t id = cursor.U32();
    const uint32_t total_bytes = cursor.U32();
    const uint64_t time_ns = cursor.U64();
    if (total_bytes < kPrefixBytes || total_bytes - kPrefixBytes > cursor.remaining()) {
      ++dump_.damaged_;  // nothing behind it can be found
      break;
    }
    if (id == kClose) break;
    const Bytes content = cursor.Take(total_bytes - kPrefixBytes);
    if (!ReadRecord(id, time_ns, ByteCursor(content, order_))) ++dump_.damaged_;
  }
  FixLineOffsets();
  dump_.BuildTree(timeline_.Finish());
  return OkStatus();
}

bool JitDump::Reader::ReadRecord(uint32_t id, uint64_t time_ns, ByteCursor cursor) {
  switch (id) {
    case kLoad:
      return ReadLoad(time_ns, cursor);
    case kMove:
      return ReadMove(time_ns, cursor);
    case kDebugInfo:
      return ReadDebugInfo(cursor);
    case kUnwindingInfo:
      return true;
    default:
      ++dump_.unknown_;
      return true;
  }
}

bool JitDump::Reader::ReadLoad(uint64_t time_ns, ByteCursor cursor) {
  cursor.U32();  // pid
  cursor.U32();  // tid
  cursor.U64();  // vma: the same as the code's address for now, says the specification
  const uint64_t start = cursor.U64();
  JitDump::Load load;
  load.size_bytes = cursor.U64();
  load.code_index = cursor.U64();
  const std::string_view name = cursor.CString();
  uint64_t end = 0;
  if (!cursor.ok() || load.size_bytes == 0 || !CheckedAdd(start, load.size_bytes, &end))
    return false;
  if (dump_.loads_.size() >= kLoadsMax || !AddText(name, &load.name_at, &load.name_bytes))
    return false;
  if (keep_code_ && cursor.remaining() >= load.size_bytes) {
    load.code_at = dump_.code_->size();
    load.has_code = true;
    dump_.code_->append(AsText(cursor.Take(load.size_bytes)));
  }
  if (pending_ && pending_->code_addr == start) {
    load.first_line = pending_->first;
    load.line_count = pending_->count;
  }
  pending_.reset();
  timeline_.Load(start, end, start, time_ns, static_cast<uint32_t>(dump_.loads_.size()));
  dump_.loads_.push_back(load);
  return true;
}

bool JitDump::Reader::ReadMove(uint64_t time_ns, ByteCursor cursor) {
  cursor.U32();  // pid
  cursor.U32();  // tid
  cursor.U64();  // vma
  const uint64_t old_start = cursor.U64();
  const uint64_t new_start = cursor.U64();
  const uint64_t size = cursor.U64();
  cursor.U64();  // code index
  uint64_t old_end = 0;
  uint64_t new_end = 0;
  if (!cursor.ok() || size == 0 || !CheckedAdd(old_start, size, &old_end) ||
      !CheckedAdd(new_start, size, &new_end)) {
    return false;
  }
  const auto load = timeline_.At(old_start);
  if (!load) return false;
  timeline_.End(old_start, old_end, time_ns);
  timeline_.Load(new_start, new_end, new_start, time_ns, *load);
  return true;
}

bool JitDump::Reader::ReadDebugInfo(ByteCursor cursor) {
  constexpr std::string_view kSameFile = "\xff";
  const uint64_t code_addr = cursor.U64();
  const uint64_t count = cursor.U64();
  PendingLines pending;
  pending.code_addr = code_addr;
  pending.first = dump_.lines_.size();
  StoredLine stored;
  for (uint64_t i = 0; i < count && cursor.remaining() > 0; ++i) {
    const uint64_t address = cursor.U64();
    stored.line = cursor.U32();
    stored.discriminator = cursor.U32();
    const std::string_view file = cursor.CString();
    if (!cursor.ok() || dump_.lines_.size() >= kLinesMax) return false;
    // "\xff": the same file as the entry before, which some writers spell out instead.
    const std::string_view before =
        std::string_view(*dump_.text_).substr(stored.file_at, stored.file_bytes);
    const bool same = file == kSameFile || file == before;
    if (!same && !AddText(file, &stored.file_at, &stored.file_bytes)) return false;
    if (address < code_addr) continue;
    stored.offset = address - code_addr;
    dump_.lines_.push_back(stored);
  }
  pending.count = dump_.lines_.size() - pending.first;
  const auto by_offset = [](const StoredLine& a, const StoredLine& b) {
    return a.offset < b.offset;
  };
  std::stable_sort(dump_.lines_.begin() + static_cast<std::ptrdiff_t>(pending.first),
                   dump_.lines_.end(), by_offset);
  pending_ = pending;
  return cursor.ok();
}

// `perf inject` puts each piece of code behind an ELF header of 64 bytes, and V8 adds those to every address of its
// line records for perf's sake; other writers do not. A whole file without one line in the first 64 bytes of any code
// is of the first kind.
void JitDump::Reader::FixLineOffsets() {
  constexpr uint64_t kElfHeaderBytes = 64;
  const auto above = [](const StoredLine& line) { return line.offset >= kElfHeaderBytes; };
  if (!std::all_of(dump_.lines_.begin(), dump_.lines_.end(), above)) return;
  for (StoredLine& line : dump_.lines_) line.offset -= kElfHeaderBytes;
}

void JitDump::BuildTree(std::vector<Piece> pieces) {
  nodes_.assign(1, Node());
  const auto is_empty = [](const Piece& piece) {
    return piece.from_ns >= piece.until_ns || piece.start >= piece.end;
  };
  pieces.erase(std::remove_if(pieces.begin(), pieces.end(), is_empty), pieces.end());
  pieces_.reserve(pieces.size());
  if (!pieces.empty()) BuildNode(std::move(pieces));
}

// Recursion halves the pieces' starts, so it is as deep as their count has bits.
uint32_t JitDump::BuildNode(std::vector<Piece> pieces) {
  const auto middle = pieces.begin() + static_cast<std::ptrdiff_t>(pieces.size() / 2);
  std::nth_element(pieces.begin(), middle, pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.start < b.start; });
  Node node;
  node.centre = middle->start;
  const uint32_t index = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back(node);
  std::vector<Piece> left;
  std::vector<Piece> right;
  node.first = pieces_.size();
  for (const Piece& piece : pieces) {
    if (piece.end <= node.centre) {
      left.push_back(piece);
    } else if (piece.start > node.centre) {
      right.push_back(piece);
    } else {
      pieces_.push_back(piece);
    }
  }
  node.count = pieces_.size() - node.first;
  std::sort(pieces_.begin() + static_cast<std::ptrdiff_t>(node.first), pieces_.end(),
            [](const Piece& a, const Piece& b) { return a.from_ns < b.from_ns; });
  pieces.clear();
  pieces.shrink_to_fit();
  if (!left.empty()) node.left = BuildNode(std::move(left));
  if (!right.empty()) node.right = BuildNode(std::move(right));
  nodes_[index] = node;
  return index;
}

void JitDump::ForEachPiece(const std::function<void(const PieceOfCode&)>& visit) const {
  // Where a load's first byte stands says since when it does; its other bytes may be known from longer ago, since
  // nothing stood there before.
  std::vector<const Piece*> firsts;
  for (const Piece& piece : pieces_) {
    if (piece.start == piece.origin) firsts.push_back(&piece);
  }
  const auto key = [](const Piece* piece) {
    return std::tuple(piece->load, piece->origin, piece->from_ns);
  };
  std::sort(firsts.begin(), firsts.end(),
            [&key](const Piece* a, const Piece* b) { return key(a) < key(b); });
  const Piece* last = nullptr;
  for (const Piece* piece : firsts) {
    if (last != nullptr && last->load == piece->load && last->origin == piece->origin) continue;
    last = piece;
    const Load& load = loads_[piece->load];
    const Bytes code =
        load.has_code ? AsBytes(*code_).subspan(load.code_at, load.size_bytes) : Bytes();
    visit({.start = {piece->origin},
           .from_ns = piece->from_ns,
           .name = std::string_view(*text_).substr(load.name_at, load.name_bytes),
           .code = code});
  }
}

void JitDump::ConvertTimes(const std::function<uint64_t(uint64_t)>& convert) {
  for (Piece& piece : pieces_) {
    // (The first code at an address is known from the beginning of time.)
    if (piece.from_ns != 0) piece.from_ns = convert(piece.from_ns);
    if (piece.until_ns != kLatest) piece.until_ns = convert(piece.until_ns);
  }
}

bool JitDump::Find(VirtAddr address, uint64_t time_ns, Symbol* symbol) const {
  if (time_ns == kLatest) --time_ns;  // pieces are half-open in time
  for (uint32_t at = nodes_.size() > 1 ? 1 : 0; at != 0;) {
    const Node& node = nodes_[at];
    const auto first = pieces_.begin() + static_cast<std::ptrdiff_t>(node.first);
    const auto last = first + static_cast<std::ptrdiff_t>(node.count);
    // All contain the centre and none overlap, so they follow each other in time.
    auto after = std::upper_bound(first, last, time_ns, [](uint64_t wanted, const Piece& piece) {
      return wanted < piece.from_ns;
    });
    if (after != first) {
      const Piece& piece = *std::prev(after);
      if (time_ns < piece.until_ns && address.value >= piece.start && address.value < piece.end) {
        const Load& load = loads_[piece.load];
        symbol->start = {piece.origin};
        symbol->size_bytes = load.size_bytes;
        symbol->name = std::string_view(*text_).substr(load.name_at, load.name_bytes);
        symbol->code_index = load.code_index;
        symbol->code =
            load.has_code ? AsBytes(*code_).subspan(load.code_at, load.size_bytes) : Bytes();
        symbol->line = {};
        const auto lines = lines_.begin() + static_cast<std::ptrdiff_t>(load.first_line);
        const auto lines_end = lines + static_cast<std::ptrdiff_t>(load.line_count);
        const uint64_t offset = address.value - piece.origin;
        const auto next = std::upper_bound(
            lines, lines_end, offset,
            [](uint64_t wanted, const StoredLine& line) { return wanted < line.offset; });
        if (next != lines) {
          const StoredLine& line = *std::prev(next);
          symbol->line = {line.offset, line.line, line.discriminator,
                          std::string_view(*text_).substr(line.file_at, line.file_bytes)};
        }
        return true;
      }
    }
    at = address.value < node.centre ? node.left : node.right;
  }
  return false;
}

Result<JitDump> JitDump::Parse(Bytes bytes, bool keep_code) {
  if (bytes.size() > kFileBytesMax) {
    return Error{ErrorCode::kResourceLimit, "the jitdump is too large"};
  }
  JitDump dump;
  dump.text_ = std::make_unique<std::string>();
  dump.code_ = std::make_unique<std::string>();
  Reader reader(bytes, keep_code, &dump);
  TRY(reader.Read());
  return dump;
}

// --- files ---

namespace {

// Before any of it is read.
Status CheckSize(const Fd& fd, const std::string& name, uint64_t bytes_max) {
  TRY_ASSIGN(const FileIdentity identity, IdentifyFile(fd.get()));
  if (identity.size_bytes <= bytes_max) return OkStatus();
  return Error{ErrorCode::kResourceLimit, StrFormat("{}: larger than {} bytes", name, bytes_max)};
}

Result<PerfMap> ReadPerfMap(const Fd& fd, const std::string& name, uint32_t uid) {
  TRY(internal::CheckOwner(fd, name, uid));
  TRY(CheckSize(fd, name, PerfMap::kFileBytesMax));
  TRY_ASSIGN(const std::string text, ReadFd(fd.get(), name, PerfMap::kFileBytesMax));
  return PerfMap::Parse(text);
}

Result<JitDump> ReadJitDump(const Fd& fd, const std::string& name, uint32_t uid, bool keep_code) {
  TRY(internal::CheckOwner(fd, name, uid));
  TRY(CheckSize(fd, name, JitDump::kFileBytesMax));
  // Not mapped: the program may cut the file while we read.
  TRY_ASSIGN(const std::string bytes, ReadFd(fd.get(), name, JitDump::kFileBytesMax));
  auto dump = JitDump::Parse(AsBytes(bytes), keep_code);
  if (!dump) return std::move(dump).error().WithContext(name);
  return dump;
}

}  // namespace

Result<PerfMap> ReadPerfMapOf(const ProcFs& proc, int32_t pid) {
  TRY_ASSIGN(const ProcStatus status, proc.Status(pid));
  const int32_t inner_pid = status.namespace_pid > 0 ? status.namespace_pid : pid;
  const std::string root = proc.PathOf(pid, "root");
  const std::string path = StrFormat("tmp/perf-{}.map", inner_pid);
  TRY_ASSIGN(const Fd fd, internal::OpenRegularFileIn(root, path));
  return ReadPerfMap(fd, JoinPath(root, path), status.effective_uid);
}

Result<PerfMap> ReadPerfMapIn(const std::string& directory, int32_t pid) {
  const std::string path = JoinPath(directory, StrFormat("perf-{}.map", pid));
  TRY_ASSIGN(const Fd fd, internal::OpenRegularFile(path));
  return ReadPerfMap(fd, path, ::geteuid());
}

bool IsJitDumpPath(std::string_view path, int32_t* pid) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (!name.starts_with("jit-") || !name.ends_with(".dump")) return false;
  const std::string_view digits = name.substr(4, name.size() - 9);
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), *pid);
  return parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size() && *pid > 0;
}

Result<JitDump> ReadJitDumpOf(const ProcFs& proc, int32_t pid, bool keep_code) {
  TRY_ASSIGN(const ProcStatus status, proc.Status(pid));
  TRY_ASSIGN(const std::vector<ProcMap> maps, proc.Maps(pid));
  for (const ProcMap& map : maps) {
    int32_t dump_pid = 0;
    if (!IsJitDumpPath(map.path, &dump_pid)) continue;
    if (dump_pid != pid && dump_pid != status.namespace_pid) continue;
    const std::string root = proc.PathOf(pid, "root");
    TRY_ASSIGN(const Fd fd, internal::OpenRegularFileIn(root, map.path));
    return ReadJitDump(fd, JoinPath(root, map.path), status.effective_uid, keep_code);
  }
  return Error{ErrorCode::kNotFound, StrFormat("process {} has no jitdump mapped", pid)};
}

Result<JitDump> ReadJitDumpAt(const std::string& path, bool keep_code) {
  TRY_ASSIGN(const Fd fd, internal::OpenRegularFile(path));
  return ReadJitDump(fd, path, ::geteuid(), keep_code);
}

}  // namespace ptarmigan
