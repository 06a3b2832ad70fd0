#include "symbolize/object_locator.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/proc_fs.h"
#include "base/str_format.h"
#include "symbolize/debuginfod_client.h"
#include "symbolize/internal/build_id_index.h"
#include "symbolize/internal/safe_open.h"

namespace ptarmigan {
namespace {

constexpr std::string_view kDeletedSuffix = " (deleted)";

std::string_view WithoutDeleted(std::string_view path) {
  if (path.ends_with(kDeletedSuffix)) path.remove_suffix(kDeletedSuffix.size());
  return path;
}

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string_view DirectoryName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view(".")
                                         : path.substr(0, std::max<size_t>(slash, 1));
}

// "ab/cdef…" as below .build-id; empty for ids of less than two bytes.
std::string BuildIdPath(const BuildId& build_id) {
  const std::string hex = build_id.ToHex();
  return hex.size() < 4 ? std::string() : StrFormat("{}/{}", hex.substr(0, 2), hex.substr(2));
}

// A name from a file must stay a name: no way out of the directory it is joined to.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

SymbolMiss MissFromError(const Error& error) {
  switch (error.code) {
    case ErrorCode::kNotFound:
      return SymbolMiss::kFileNotFound;
    case ErrorCode::kPermission:
      return SymbolMiss::kPermission;
    case ErrorCode::kUnavailable:
      return SymbolMiss::kFileNotFound;
    default:
      return SymbolMiss::kDamaged;
  }
}

int Rank(SymbolMiss miss) {
  switch (miss) {
    case SymbolMiss::kBuildIdMismatch:
      return 4;
    case SymbolMiss::kPermission:
      return 3;
    case SymbolMiss::kDamaged:
      return 2;
    case SymbolMiss::kNone:
      return 0;
    default:
      return 1;
  }
}

}  // namespace

std::string DefaultPerfCache() {
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? JoinPath(home, ".debug") : std::string();
}

void LocateMisses::Add(std::string_view place, SymbolMiss reason, std::string_view sentence) {
  if (Rank(reason) > Rank(miss)) miss = reason;
  if (tried.size() < kMissesMax) tried.push_back(StrFormat("{}: {}", place, sentence));
}

std::string LocateMisses::Sentence() const {
  std::string text;
  for (const std::string& one : tried) {
    if (!text.empty()) text += "; ";
    text += one;
  }
  return text;
}

// One search for one file: what it must be, and what was found and missed so far.
struct ObjectLocator::Search {
  enum class Want { kObject, kDebug };

  BuildId build_id;  // empty: any
  Want want = Want::kObject;
  LocateMisses* misses = nullptr;
  bool ask_debuginfod = true;
  LocatedFile found;
  bool from_debuginfod = false;

  // Each returns true once something was found; then the search is over.
  bool Take(Result<Fd> opened, const std::string& path, std::optional<uint32_t> crc = std::nullopt);
  bool TryPath(const std::string& path) { return Take(internal::OpenRegularFile(path), path); }
  bool TryBuildIdTree(const std::string& directory);
  void Miss(const std::string& path, const Error& error) {
    misses->Add(path, MissFromError(error), ReasonOf(path, error));
  }

 private:
  static std::string ReasonOf(const std::string& path, const Error& error) {
    // Messages of file errors start with the path, which is already said.
    std::string_view text = error.message;
    if (text.starts_with(path)) text.remove_prefix(path.size());
    while (text.starts_with(':') || text.starts_with(' ')) text.remove_prefix(1);
    return std::string(text);
  }
};

bool ObjectLocator::Search::Take(Result<Fd> opened, const std::string& path,
                                 std::optional<uint32_t> crc) {
  if (!opened) {
    Miss(path, opened.error());
    return false;
  }
  auto file = ElfFile::FromFd(opened->get(), path);
  if (!file) {
    Miss(path, file.error());
    return false;
  }
  const BuildId& actual = (*file)->build_id();
  if (!build_id.empty() && actual != build_id) {
    const std::string has =
        actual.empty() ? "no build id" : StrFormat("build id {}", actual.ToHex());
    misses->Add(path, SymbolMiss::kBuildIdMismatch,
                StrFormat("has {}, wanted {}", has, build_id.ToHex()));
    return false;
  }
  if (crc) {
    const auto actual_crc = internal::FileCrc32(opened->get(), path);
    if (!actual_crc || *actual_crc != *crc) {
      misses->Add(path, SymbolMiss::kBuildIdMismatch,
                  "its checksum is not the one in .gnu_debuglink");
      return false;
    }
  }
  if (want == Want::kDebug && !(*file)->HasDwarf() && (*file)->FindSection(".symtab") == nullptr) {
    misses->Add(path, SymbolMiss::kNoSymbols, "has neither debug information nor symbols");
    return false;
  }
  found.file = *std::move(file);
  found.fd = std::make_shared<const Fd>(*std::move(opened));
  found.path = path;
  return true;
}

// Both kinds of file may lie there: "xx/yyyy.debug" is a debug file by convention, "xx/yyyy" the object itself.
bool ObjectLocator::Search::TryBuildIdTree(const std::string& directory) {
  const std::string relative = BuildIdPath(build_id);
  if (relative.empty()) return false;
  const std::string base = JoinPath(directory, relative);
  return TryPath(want == Want::kDebug ? base + ".debug" : base);
}

ObjectLocator::ObjectLocator(LocatorOptions options)
    : options_(std::move(options)), by_build_id_(std::make_unique<internal::BuildIdIndex>()) {}
ObjectLocator::~ObjectLocator() = default;

bool ObjectLocator::TryByBuildId(const std::string& directory, Search* search) const {
  for (const std::string& path : by_build_id_->Find(directory, search->build_id)) {
    if (search->TryPath(path)) return true;
  }
  return false;
}

LocatedFile ObjectLocator::FindObject(const CodeObject& object, const LoadHints& hints,
                                      LocateMisses* misses, bool ask_debuginfod) const {
  Search search;
  search.ask_debuginfod = ask_debuginfod;
  search.build_id = object.build_id;
  search.misses = misses;
  const std::string path(WithoutDeleted(object.path));
  const std::string_view base_name = BaseName(path);
  for (const std::string& directory : options_.binary_paths) {
    if (search.TryBuildIdTree(JoinPath(directory, ".build-id"))) return search.found;
    if (path.starts_with('/') && search.Take(internal::OpenRegularFileIn(directory, path),
                                             JoinPath(directory, path.substr(1)))) {
      return search.found;
    }
    if (IsPlainName(base_name) && search.TryPath(JoinPath(directory, base_name)))
      return search.found;
    if (TryByBuildId(directory, &search)) return search.found;
  }
  if (options_.live && hints.pid > 0 && TryProcess(path, hints, &search)) return search.found;
  if (path.starts_with('/')) {
    // Without a build id the inode is the only sign that the file was replaced since it was mapped.
    struct stat status = {};
    const bool replaced = options_.live && object.build_id.empty() && object.inode != 0 &&
                          ::stat(path.c_str(), &status) == 0 && status.st_ino != object.inode;
    if (replaced) {
      misses->Add(path, SymbolMiss::kBuildIdMismatch, "was replaced since it was mapped");
    } else if (search.TryPath(path)) {
      return search.found;
    }
  }
  if (!options_.perf_cache.empty() && !object.build_id.empty()) {
    const std::string cached =
        JoinPath(JoinPath(options_.perf_cache, ".build-id"), BuildIdPath(object.build_id));
    // A directory with the file "elf" since perf 4.10, the file itself before.
    if (search.TryPath(JoinPath(cached, "elf")) || search.TryPath(cached)) return search.found;
  }
  Fetch(true, &search);
  return search.found;
}

bool ObjectLocator::Fetch(bool executable, Search* search) const {
  if (options_.debuginfod == nullptr || !search->ask_debuginfod || search->build_id.empty())
    return false;
  const auto fetched =
      options_.debuginfod->Find(search->build_id, executable ? DebuginfodClient::Kind::kExecutable
                                                             : DebuginfodClient::Kind::kDebugInfo);
  if (!fetched) {
    search->misses->Add("debuginfod", MissFromError(fetched.error()), fetched.error().message);
    return false;
  }
  search->from_debuginfod = search->TryPath(*fetched);
  return search->from_debuginfod;
}

bool ObjectLocator::TryProcess(const std::string& path, const LoadHints& hints,
                               Search* search) const {
  const ProcFs proc(options_.proc_root);
  const auto maps = proc.Maps(hints.pid);
  if (!maps) {
    search->Miss(proc.PathOf(hints.pid, "maps"), maps.error());
    return false;
  }
  for (const ProcMap& map : *maps) {
    const bool covers = hints.map_start.value >= map.start && hints.map_start.value < map.end;
    if (map.path != path && !(covers && hints.map_start.value != 0)) continue;
    if (map.inode == 0) continue;
    const std::string entry = StrFormat("map_files/{:x}-{:x}", map.start, map.end);
    if (search->TryPath(proc.PathOf(hints.pid, entry))) return true;
    break;
  }
  const std::string exe = proc.PathOf(hints.pid, "exe");
  std::error_code error;
  const std::filesystem::path target = std::filesystem::read_symlink(exe, error);
  if (!error && WithoutDeleted(target.native()) == path && search->TryPath(exe)) return true;
  if (!path.starts_with('/')) return false;
  const std::string root = proc.PathOf(hints.pid, "root");
  return search->Take(internal::OpenRegularFileIn(root, path), root + path);
}

void ObjectLocator::FindDebug(const CodeObject& object, const LocatedFile& found,
                              Search* search) const {
  const BuildId& build_id = search->build_id;
  const std::string path(WithoutDeleted(object.path));
  const std::string_view base_name = BaseName(path);
  const bool absolute = path.starts_with('/');
  for (const std::string& directory : options_.binary_paths) {
    if (search->TryBuildIdTree(JoinPath(directory, ".build-id"))) return;
    // Without a build id nothing says that a file of this name belongs to the object.
    if (build_id.empty()) continue;
    const std::string debug_path = path + ".debug";
    if (absolute && search->Take(internal::OpenRegularFileIn(directory, debug_path),
                                 JoinPath(directory, debug_path.substr(1)))) {
      return;
    }
    if (IsPlainName(base_name) &&
        search->TryPath(JoinPath(directory, std::string(base_name) + ".debug")))
      return;
    if (TryByBuildId(directory, search)) return;
  }
  if (search->TryBuildIdTree(JoinPath(options_.debug_root, ".build-id"))) return;
  if (absolute && !build_id.empty() && search->TryPath(options_.debug_root + path + ".debug"))
    return;
  if (found.file != nullptr) {
    // The object itself before others are asked: it costs nothing more.
    if (found.file->HasDwarf()) return;
    if (TryDebugLink(absolute ? path : found.path, *found.file, search)) return;
  }
  if (!options_.perf_cache.empty() && !build_id.empty()) {
    const std::string cached =
        JoinPath(JoinPath(options_.perf_cache, ".build-id"), BuildIdPath(build_id));
    if (search->TryPath(JoinPath(cached, "debug"))) return;
  }
  Fetch(false, search);
}

// GDB's rules (manual, "Debugging Information in Separate Files").
bool ObjectLocator::TryDebugLink(const std::string& object_path, const ElfFile& object,
                                 Search* search) const {
  const auto link = object.DebugLink();
  if (!link || !IsPlainName(link->file_name)) return false;
  std::vector<std::string> directories = options_.binary_paths;
  const std::string directory(DirectoryName(object_path));
  directories.push_back(directory);
  directories.push_back(JoinPath(directory, ".debug"));
  directories.push_back(options_.debug_root + directory);
  for (const std::string& one : directories) {
    const std::string candidate = JoinPath(one, link->file_name);
    if (candidate == object_path) continue;
    if (search->Take(internal::OpenRegularFile(candidate), candidate, link->crc)) return true;
  }
  return false;
}

// DWARF supplementary files, made by dwz: .gnu_debugaltlink holds a path and the build id.
void ObjectLocator::FindAlt(const LocatedFile& debug, Search* search) const {
  const auto link = debug.file->DebugAltLink();
  if (!link) return;
  const std::string& path = link->first;
  search->build_id = link->second;
  for (const std::string& directory : options_.binary_paths) {
    if (search->TryBuildIdTree(JoinPath(directory, ".build-id"))) return;
  }
  if (search->TryBuildIdTree(JoinPath(options_.debug_root, ".build-id"))) return;
  if (search->build_id.empty() || path.find('\0') != std::string::npos) return;
  if (path.starts_with('/')) {
    for (const std::string& directory : options_.binary_paths) {
      if (search->Take(internal::OpenRegularFileIn(directory, path),
                       JoinPath(directory, path.substr(1))))
        return;
    }
    if (search->TryPath(path)) return;
  } else {
    // Relative to where the debug file really lies, which may be behind a link.
    std::error_code error;
    const std::filesystem::path real = std::filesystem::canonical(debug.path, error);
    const std::string base = error ? debug.path : real.string();
    if (search->TryPath(JoinPath(DirectoryName(base), path))) return;
  }
  const std::string shared = JoinPath(JoinPath(options_.debug_root, ".dwz"), BaseName(path));
  if (IsPlainName(BaseName(path)) && search->TryPath(shared)) return;
  Fetch(false, search);
}

LocatedObject ObjectLocator::Locate(const CodeObject& object, const LoadHints& hints,
                                    bool ask_debuginfod) const {
  LocatedObject located;
  located.name = WithoutDeleted(object.path);
  // The object's own file is asked of debuginfod only if its debug file, which is worth more, is found nowhere either.
  located.object = FindObject(object, hints, &located.object_misses, false);

  LocateMisses misses;
  Search debug;
  debug.want = Search::Want::kDebug;
  debug.misses = &misses;
  debug.ask_debuginfod = ask_debuginfod;
  debug.build_id = object.build_id;
  if (debug.build_id.empty() && located.object.file != nullptr)
    debug.build_id = located.object.file->build_id();
  FindDebug(object, located.object, &debug);
  located.debug = debug.found;
  located.debug_from_debuginfod = debug.from_debuginfod;

  if (located.object.file == nullptr) {
    Search fetched;
    fetched.misses = &located.object_misses;
    fetched.ask_debuginfod = ask_debuginfod;
    fetched.build_id = object.build_id;
    Fetch(true, &fetched);
    located.object = fetched.found;
  }
  const bool own_dwarf = located.object.file != nullptr && located.object.file->HasDwarf();
  if (located.debug.file == nullptr && !own_dwarf) located.debug_misses = misses;

  const LocatedFile& with_debug = located.debug.file != nullptr ? located.debug : located.object;
  if (with_debug.file == nullptr) return located;
  LocateMisses alt_misses;
  Search alt;
  alt.want = Search::Want::kDebug;
  alt.misses = &alt_misses;
  alt.ask_debuginfod = ask_debuginfod;
  FindAlt(with_debug, &alt);
  located.alt = alt.found;
  if (located.alt.file == nullptr) {
    for (const std::string& one : alt_misses.tried) {
      located.debug_misses.Add("dwz file", SymbolMiss::kFileNotFound, one);
    }
  }
  return located;
}

std::string ObjectLocator::FindByBuildId(const BuildId& build_id,
                                         std::string_view cache_name) const {
  const std::string relative = BuildIdPath(build_id);
  if (relative.empty()) return {};
  std::vector<std::string> candidates;
  std::vector<std::string> roots = options_.binary_paths;
  if (!options_.perf_cache.empty()) roots.push_back(options_.perf_cache);
  for (const std::string& directory : roots) {
    const std::string entry = JoinPath(JoinPath(directory, ".build-id"), relative);
    candidates.push_back(JoinPath(entry, cache_name));
    candidates.push_back(entry);  // perf before 4.10
    candidates.push_back(
        JoinPath(JoinPath(JoinPath(directory, "[kernel.kallsyms]"), build_id.ToHex()), cache_name));
  }
  for (const std::string& candidate : candidates) {
    if (internal::OpenRegularFile(candidate)) return candidate;
  }
  return {};
}

}  // namespace ptarmigan
