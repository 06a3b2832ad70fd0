#include "symbolize/internal/table_cache.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "base/str_format.h"
#include "symbolize/symbol_worker.h"

namespace ptarmigan::internal {
namespace {

constexpr std::string_view kIdentityHead = "ptarmigan symbols 1";

std::string SizeOf(const LocatedFile& file, bool with_time) {
  if (file.fd == nullptr) return "-";
  const auto identity = IdentifyFile(file.fd->get());
  if (!identity) return "-";
  return with_time ? StrFormat("{} {}", identity->size_bytes, identity->modified_ns)
                   : StrFormat("{}", identity->size_bytes);
}

// "key value" of the next line; false at the end.
bool TakeLine(std::string_view* text, std::string_view* key, std::string_view* value) {
  if (text->empty()) return false;
  const size_t end = std::min(text->find('\n'), text->size());
  const std::string_view line = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  const size_t blank = std::min(line.find(' '), line.size());
  *key = line.substr(0, blank);
  *value = line.substr(std::min(blank + 1, line.size()));
  return true;
}

bool ParseSegment(std::string_view text, SegmentPlace* segment) {
  for (uint64_t* field : {&segment->offset, &segment->vaddr, &segment->size_bytes}) {
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *field, 16);
    if (parsed.ec != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(parsed.ptr - text.data()));
    if (text.starts_with(' ')) text.remove_prefix(1);
  }
  return text.empty();
}

TableIdentity IdentityOf(const BuildId& build_id, const LocatedObject& located,
                         bool from_debuginfod) {
  TableIdentity identity;
  const bool with_time = build_id.empty();
  identity.object = SizeOf(located.object, with_time);
  identity.debug = "-";
  if (located.debug.file != nullptr) {
    identity.debug = StrFormat("{} {}", from_debuginfod ? "debuginfod" : "file",
                               SizeOf(located.debug, with_time));
  }
  identity.alt = SizeOf(located.alt, with_time);
  if (located.object.file != nullptr) {
    identity.segments = ExecutableSegments(*located.object.file);
  } else if (located.debug.file != nullptr) {
    identity.segments = ExecutableSegments(*located.debug.file);
  }
  return identity;
}

// The files were opened as ELF files before, so the worker refuses them only for having nothing to say.
SymbolMiss MissOfFailure(SymbolWorkerFailure failure) {
  return failure == SymbolWorkerFailure::kRefused ? SymbolMiss::kNoSymbols
                                                  : SymbolMiss::kBuildFailed;
}

std::shared_ptr<TableCache::Outcome> FromTable(std::shared_ptr<const SymbolTable> table) {
  auto outcome = std::make_shared<TableCache::Outcome>();
  if (const auto identity = TableIdentity::FromText(table->identity()))
    outcome->segments = identity->segments;
  if (table->function_count() == 0) {
    outcome->miss = SymbolMiss::kNoSymbols;
    outcome->reason = "the file has no symbols";
  }
  outcome->table = std::move(table);
  return outcome;
}

}  // namespace

std::vector<SegmentPlace> ExecutableSegments(const ElfFile& file) {
  std::vector<SegmentPlace> places;
  for (const ElfSegment& segment : file.segments()) {
    if (segment.type != PT_LOAD || (segment.flags & PF_X) == 0) continue;
    if (places.size() >= TableIdentity::kSegmentsMax) break;
    // Debug files keep the sizes in memory but often not those in the file.
    places.push_back({segment.offset.value, segment.vaddr.value,
                      std::max(segment.file_bytes, segment.memory_bytes)});
  }
  return places;
}

std::optional<FileVaddr> ToVaddr(const std::vector<SegmentPlace>& segments, FileOffset offset) {
  for (const SegmentPlace& segment : segments) {
    if (offset.value >= segment.offset && offset.value - segment.offset < segment.size_bytes) {
      return FileVaddr{segment.vaddr + (offset.value - segment.offset)};
    }
  }
  return std::nullopt;
}

std::string TableIdentity::ToText() const {
  std::string text =
      StrFormat("{}\nobject {}\ndebug {}\nalt {}\n", kIdentityHead, object, debug, alt);
  for (const SegmentPlace& segment : segments) {
    text +=
        StrFormat("segment {:x} {:x} {:x}\n", segment.offset, segment.vaddr, segment.size_bytes);
  }
  return text;
}

std::optional<TableIdentity> TableIdentity::FromText(std::string_view text) {
  if (!text.starts_with(kIdentityHead)) return std::nullopt;
  TableIdentity identity;
  std::string_view key;
  std::string_view value;
  while (TakeLine(&text, &key, &value)) {
    if (key == "object") identity.object = value;
    if (key == "debug") identity.debug = value;
    if (key == "alt") identity.alt = value;
    SegmentPlace segment;
    if (key == "segment" && identity.segments.size() < kSegmentsMax &&
        ParseSegment(value, &segment)) {
      identity.segments.push_back(segment);
    }
  }
  return identity;
}

std::string TableCache::PathOf(const BuildId& build_id, const LocatedObject* located) const {
  if (directory_.empty()) return {};
  const std::string hex = build_id.ToHex();
  if (hex.size() > 2) return StrFormat("{}/{}/{}.sym", directory_, hex.substr(0, 2), hex.substr(2));
  if (located == nullptr || located->object.fd == nullptr) return {};
  const auto identity = IdentifyFile(located->object.fd->get());
  if (!identity) return {};
  const std::string name = StrFormat("{}\n{}\n{}\n{}", located->object.path, identity->inode,
                                     identity->size_bytes, identity->modified_ns);
  return StrFormat("{}/no-id/{}.sym", directory_, ToHex(HashBytes128(AsBytes(name))));
}

std::shared_ptr<const TableCache::Outcome> TableCache::GetCached(const BuildId& build_id) const {
  const std::string path = PathOf(build_id, nullptr);
  if (path.empty()) return nullptr;
  auto table = SymbolTable::Open(path);
  if (!table) return nullptr;
  return FromTable(*std::move(table));
}

std::shared_ptr<const TableCache::Outcome> TableCache::Get(const BuildId& build_id,
                                                           const LocatedObject& located,
                                                           const GetOptions& options) {
  const TableIdentity identity = IdentityOf(build_id, located, options.from_debuginfod);
  const std::string key =
      build_id.empty() ? located.object.path + "\n" + identity.ToText() : build_id.ToHex();
  std::shared_ptr<Slot> slot;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Slot>& known = slots_[key];
    if (known == nullptr) known = std::make_shared<Slot>();
    slot = known;
  }
  const std::lock_guard lock(slot->mutex);
  if (slot->outcome == nullptr) slot->outcome = Load(build_id, located, identity, options);
  return slot->outcome;
}

std::shared_ptr<const TableCache::Outcome> TableCache::Load(const BuildId& build_id,
                                                            const LocatedObject& located,
                                                            const TableIdentity& identity,
                                                            const GetOptions& options) {
  const std::string path = PathOf(build_id, &located);
  if (path.empty()) return options.may_build ? Build(located, identity, path) : nullptr;
  auto kept = options.cached;
  if (kept == nullptr) {
    if (auto table = SymbolTable::Open(path)) kept = FromTable(*std::move(table));
  }
  if (kept != nullptr) {
    const auto known = TableIdentity::FromText(kept->table->identity());
    if (known && known->SameFiles(identity)) return kept;
  }
  const std::string negative_path = path.substr(0, path.size() - 4) + ".none";
  constexpr uint64_t kReasonBytesMax = 16 << 10;
  if (auto negative = ReadFile(negative_path, kReasonBytesMax)) {
    const std::string head = identity.ToText() + "\n";
    struct stat status = {};
    const bool fresh = ::stat(negative_path.c_str(), &status) == 0 &&
                       ::time(nullptr) - status.st_mtime < time_t{kNegativeDays} * 24 * 3600;
    if (fresh && negative->starts_with(head)) {
      const std::string_view rest = std::string_view(*negative).substr(head.size());
      int miss = 0;
      const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), miss);
      if (parsed.ec == std::errc() && miss > 0 &&
          miss <= static_cast<int>(SymbolMiss::kNotInSymbol)) {
        auto outcome = std::make_shared<Outcome>();
        outcome->segments = identity.segments;
        outcome->miss = static_cast<SymbolMiss>(miss);
        outcome->reason = rest.substr(
            std::min<size_t>(static_cast<size_t>(parsed.ptr - rest.data()) + 1, rest.size()));
        return outcome;
      }
    }
  }
  if (!options.may_build) return nullptr;
  auto outcome = Build(located, identity, path);
  if (outcome->table == nullptr && outcome->miss != SymbolMiss::kNone) {
    auto file = OutputFile::Create(negative_path, 0600);
    if (file) {
      const std::string text = StrFormat("{}\n{} {}", identity.ToText(),
                                         static_cast<int>(outcome->miss), outcome->reason);
      if (file->Write(text) && !file->Commit()) return outcome;  // the next run tries again
    }
  }
  return outcome;
}

std::shared_ptr<const TableCache::Outcome> TableCache::Build(const LocatedObject& located,
                                                             const TableIdentity& identity,
                                                             const std::string& path) {
  {
    const std::lock_guard lock(mutex_);
    ++builds_;
  }
  auto outcome = std::make_shared<Outcome>();
  outcome->segments = identity.segments;
  const auto fail = [&](SymbolMiss miss, const std::string& reason) {
    outcome->miss = miss;
    outcome->reason = reason;
    return outcome;
  };
  SymbolWorkerJob job;
  if (located.object.fd != nullptr) job.object_fd = located.object.fd->get();
  if (located.debug.fd != nullptr) job.debug_fd = located.debug.fd->get();
  if (located.alt.fd != nullptr) job.alt_fd = located.alt.fd->get();
  job.object_name = located.name;
  job.debug_name = located.debug.path;
  job.alt_name = located.alt.path;
  job.identity = identity.ToText();
  job.timeout = build_timeout_;
  SymbolWorkerFailure failure = SymbolWorkerFailure::kNone;

  std::optional<OutputFile> output;
  if (!path.empty() && MakeDirectories(path.substr(0, path.rfind('/')))) {
    auto created = OutputFile::Create(path, 0600);
    if (created) output.emplace(*std::move(created));
  }
  if (output) {
    if (const Status built = BuildSymbolTable(job, output->fd(), &failure); !built) {
      return fail(MissOfFailure(failure), built.error().message);
    }
    if (output->Commit()) {
      auto table = SymbolTable::Open(path);
      if (!table) return fail(SymbolMiss::kBuildFailed, table.error().message);
      return FromTable(*std::move(table));
    }
    output.reset();
  }
  // No cache, or one that cannot be written: the table lives in memory.
  const Fd memory(::memfd_create("ptarmigan-symbols", MFD_CLOEXEC));
  if (!memory.valid())
    return fail(SymbolMiss::kBuildFailed, ErrnoError("memfd_create", errno).message);
  if (const Status built = BuildSymbolTable(job, memory.get(), &failure); !built) {
    return fail(MissOfFailure(failure), built.error().message);
  }
  auto table = SymbolTable::FromFd(memory.get(), located.name);
  if (!table) return fail(SymbolMiss::kBuildFailed, table.error().message);
  return FromTable(*std::move(table));
}

uint64_t TableCache::builds() const {
  const std::lock_guard lock(mutex_);
  return builds_;
}

}  // namespace ptarmigan::internal
