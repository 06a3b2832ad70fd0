// ObjectLocator: which files on this machine hold the code, the debug information and the dwz part of an object that
// a recording or a running process names. Places, in this order:
//
//   1. each given directory: by build id (.build-id/xx/yyyy[.debug]), by recorded path below it (perf's --symfs), by
//      base name
//   2. live only: the process's own view: /proc/PID/map_files (also deleted and overlaid files), /proc/PID/exe,
//      /proc/PID/root + path (other mount namespaces)
//   3. the recorded path
//   4. debug files: /usr/lib/debug/.build-id, /usr/lib/debug/<path>.debug, .gnu_debuglink (same directory, .debug/,
//      /usr/lib/debug/<directory>; its CRC checked)
//   5. perf's build-id cache (~/.debug)
//   6. debuginfod, if it was given
//
// A file of another build is never used: build ids must be equal where both sides have one. Every place that was tried
// and failed is remembered with its reason. Files are opened without following FIFOs and devices (never blocks on
// them), and only regular ones are taken.
//
// Const methods may be called from any thread; debuginfod queries of several threads run one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "elf/elf_file.h"
#include "model/address.h"
#include "model/address_space.h"
#include "model/build_id.h"
#include "symbolize/symbol_miss.h"

namespace ptarmigan {

class DebuginfodClient;
namespace internal {
class BuildIdIndex;
}

// Where the object is in use right now; makes deleted files and other mount namespaces readable
// (live only).
struct LoadHints {
  int32_t pid = 0;  // 0: unknown
  // One of its mappings there: for /proc/PID/map_files and for the image of [vdso].
  VirtAddr map_start = {};
  VirtAddr map_end = {};
};

struct LocatorOptions {
  std::vector<std::string> binary_paths;
  bool live = false;  // processes named by hints are of this machine
  std::string debug_root = "/usr/lib/debug";
  std::string perf_cache;  // empty: no perf build-id cache; see DefaultPerfCache
  std::string proc_root = "/proc";
  DebuginfodClient* debuginfod = nullptr;  // borrowed; null: not asked
};

// ~/.debug; empty without $HOME.
std::string DefaultPerfCache();

// Where looking stopped short: at most kMissesMax sentences "<place>: <reason>".
struct LocateMisses {
  static constexpr size_t kMissesMax = 24;
  std::vector<std::string> tried;
  // The most telling of the reasons: a file of another build before one without permission before none.
  SymbolMiss miss = SymbolMiss::kNone;

  void Add(std::string_view place, SymbolMiss reason, std::string_view sentence);
  std::string Sentence() const;
};

// An open ELF file and where it was found. `file` is null if none was.
struct LocatedFile {
  std::shared_ptr<const ElfFile> file;
  std::shared_ptr<const Fd> fd;  // open for reading, for as long as anyone needs it
  std::string path;
};

struct LocatedObject {
  std::string name;    // the recorded path
  LocatedFile object;  // the file that is mapped, with its code
  LocatedFile
      debug;  // a separate file with debug information or symbols; null if the object has its own
  LocatedFile alt;  // the dwz file that `debug` (or the object) refers to
  bool debug_from_debuginfod = false;
  LocateMisses object_misses;
  LocateMisses debug_misses;  // empty if debug information was found
};

class ObjectLocator {
 public:
  explicit ObjectLocator(LocatorOptions options);
  ~ObjectLocator();

  // The object's own file.
  LocatedFile FindObject(const CodeObject& object, const LoadHints& hints, LocateMisses* misses,
                         bool ask_debuginfod = true) const;
  // The object's file and everything that belongs to it.
  LocatedObject Locate(const CodeObject& object, const LoadHints& hints,
                       bool ask_debuginfod = true) const;
  // A file with this build id in the places that are ordered by build id: `name` is "kallsyms", "vmlinux" or the like
  // in perf's cache, below a given directory or beside it. Empty path if there is none.
  std::string FindByBuildId(const BuildId& build_id, std::string_view cache_name) const;

  const LocatorOptions& options() const { return options_; }

 private:
  struct Search;
  bool TryProcess(const std::string& path, const LoadHints& hints, Search* search) const;
  // Each leaves what it found in the search.
  void FindDebug(const CodeObject& object, const LocatedFile& found, Search* search) const;
  void FindAlt(const LocatedFile& debug, Search* search) const;
  bool TryDebugLink(const std::string& object_path, const ElfFile& object, Search* search) const;
  bool Fetch(bool executable, Search* search) const;

  // A file directly in the directory, whatever its name.
  bool TryByBuildId(const std::string& directory, Search* search) const;

  LocatorOptions options_;
  std::unique_ptr<internal::BuildIdIndex> by_build_id_;
};

}  // namespace ptarmigan
