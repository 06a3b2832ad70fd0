// TableCache: the `.sym` tables of a user's symbol cache, built by the symbol worker where they are missing or made
// from other files than those at hand.
//
//   <directory>/ab/cdef….sym      table of the object with build id abcdef…
//   <directory>/ab/cdef….none     why no table could be built, so that it is not tried again for kNegativeDays
//   <directory>/no-id/<hash>.sym  objects without build id, by path, size and time of change
//
// Any thread; two threads that want one table wait for one build.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "model/address.h"
#include "model/build_id.h"
#include "symbolize/object_locator.h"
#include "symbolize/symbol_miss.h"
#include "symbolize/symbol_table.h"

namespace ptarmigan::internal {

// A loadable segment: enough to turn file offsets into addresses when the file itself is gone.
struct SegmentPlace {
  uint64_t offset = 0;
  uint64_t vaddr = 0;
  uint64_t size_bytes = 0;
  bool operator==(const SegmentPlace&) const = default;
};

std::vector<SegmentPlace> ExecutableSegments(const ElfFile& file);
std::optional<FileVaddr> ToVaddr(const std::vector<SegmentPlace>& segments, FileOffset offset);

// What a table was made from, as it stands in the table (SymbolTable::identity).
struct TableIdentity {
  static constexpr size_t kSegmentsMax = 32;

  std::string
      object;  // "<size>", with the time of change where there is no build id; "-" if there is no file
  std::string debug;  // "-", "file <size>" or "debuginfod <size>"
  std::string alt;    // "-" or "<size>"
  std::vector<SegmentPlace> segments;

  std::string ToText() const;
  static std::optional<TableIdentity> FromText(std::string_view text);
  bool SameFiles(const TableIdentity& other) const {
    return object == other.object && debug == other.debug && alt == other.alt;
  }
};

class TableCache {
 public:
  static constexpr int kNegativeDays = 7;

  // `directory` empty: tables are built into memory.
  TableCache(std::string directory, std::chrono::milliseconds build_timeout)
      : directory_(std::move(directory)), build_timeout_(build_timeout) {}

  struct Outcome {
    std::shared_ptr<const SymbolTable> table;  // null: see miss
    std::vector<SegmentPlace> segments;
    SymbolMiss miss = SymbolMiss::kNone;
    std::string reason;
  };

  struct GetOptions {
    bool from_debuginfod = false;
    bool may_build = true;
    std::shared_ptr<const Outcome> cached = nullptr;  // what GetCached gave, if it was asked
  };
  // The table of an object whose files were found. `build_id` empty: by the object's path and time of change. Null only
  // if it would have to be built and may not.
  std::shared_ptr<const Outcome> Get(const BuildId& build_id, const LocatedObject& located,
                                     const GetOptions& options);
  // A table made earlier: of an object whose files are gone, or whose debug file came from debuginfod before.
  std::shared_ptr<const Outcome> GetCached(const BuildId& build_id) const;
  // Tables that were built, not read.
  uint64_t builds() const;

 private:
  struct Slot {
    std::mutex mutex;
    std::shared_ptr<const Outcome> outcome;
  };
  std::string PathOf(const BuildId& build_id, const LocatedObject* located) const;
  std::shared_ptr<const Outcome> Load(const BuildId& build_id, const LocatedObject& located,
                                      const TableIdentity& identity, const GetOptions& options);
  std::shared_ptr<const Outcome> Build(const LocatedObject& located, const TableIdentity& identity,
                                       const std::string& path);

  const std::string directory_;
  const std::chrono::milliseconds build_timeout_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Slot>> slots_;
  uint64_t builds_ = 0;
};

}  // namespace ptarmigan::internal
