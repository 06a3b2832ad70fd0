// Names of code that programs make while they run, by the two conventions that exist:
//
//   perf map   /tmp/perf-PID.map: text, one line "START SIZE name" (hexadecimal) per piece of code, appended while
//              the program runs; no times, so the last word on an address holds (Linux tools/perf/Documentation/
//              jit-interface.txt)
//   jitdump    jit-PID.dump: binary, with times, code bytes and lines; code that moved or was replaced is told apart
//              by time (tools/perf/Documentation/jitdump-specification.txt, version 1)
//
// Both are written by the profiled program, so their content is hostile input: bounded, what is malformed is counted,
// what is good is used. Files are taken only if the process's user or root owns them.
//
// Immutable after parsing; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_cursor.h"
#include "base/proc_fs.h"
#include "base/result.h"
#include "model/address.h"

namespace ptarmigan {

class PerfMap {
 public:
  static constexpr uint64_t kFileBytesMax = uint64_t{256} << 20;
  static constexpr size_t kLinesMax = size_t{4} << 20;
  static constexpr size_t kNameBytesMax = 4096;  // longer names are cut

  struct Symbol {
    VirtAddr start;  // of the line that named it, even where a later line took its beginning away
    uint64_t size_bytes = 0;
    std::string_view name;  // lives as long as the map
  };

  // Never fails: lines that cannot be read are counted. `text` is copied.
  static PerfMap Parse(std::string_view text);

  // The symbol that the last line covering `address` gave. False if no line does.
  bool Find(VirtAddr address, Symbol* symbol) const;
  bool empty() const { return pieces_.empty(); }
  uint64_t lines() const { return lines_; }  // read as symbols
  uint64_t malformed_lines() const { return malformed_; }
  uint64_t lines_beyond_limit() const { return beyond_limit_; }

 private:
  struct Piece {
    uint64_t start = 0;
    uint64_t end = 0;
    uint32_t line = 0;  // in symbols_
  };
  struct Line {
    uint64_t start = 0;
    uint64_t size_bytes = 0;
    uint32_t name_at = 0;  // in text_
    uint32_t name_bytes = 0;
  };
  std::unique_ptr<std::string> text_;  // by pointer: names stay valid when the map moves
  std::vector<Line> symbols_;
  std::vector<Piece> pieces_;  // sorted, disjoint
  uint64_t lines_ = 0;
  uint64_t malformed_ = 0;
  uint64_t beyond_limit_ = 0;
};

class JitDump {
 public:
  static constexpr uint64_t kFileBytesMax = uint64_t{512} << 20;
  static constexpr size_t kLoadsMax = size_t{1} << 21;
  static constexpr size_t kLinesMax = size_t{1} << 23;
  static constexpr size_t kNameBytesMax = 4096;
  static constexpr uint64_t kLatest = ~uint64_t{0};

  struct Line {
    uint64_t offset = 0;  // from the start of its code
    uint32_t line = 0;
    uint32_t discriminator = 0;
    std::string_view file;
  };
  struct Symbol {
    VirtAddr start;  // at the time asked for
    uint64_t size_bytes = 0;
    std::string_view name;
    uint64_t code_index = 0;  // the writer's number for this piece of code
    // What stands at the address, where the file has lines for it; line 0 if not.
    Line line;
    // The code as it was written; empty unless kept.
    Bytes code;
  };

  // `keep_code`: keeps the machine code of every load, for decoding traces through it. kInvalidInput if the header is
  // not that of a jitdump, kUnsupported for other versions. A damaged or cut tail is counted, not an error.
  static Result<JitDump> Parse(Bytes bytes, bool keep_code = false);

  // What stood at `address` at `time_ns` (the dump's clock: perf needs -k mono for the same). Code is known from its
  // load on; the first code at an address also before, since clocks differ a little.
  bool Find(VirtAddr address, uint64_t time_ns, Symbol* symbol) const;
  // One load where and while it stood, all of it.
  struct PieceOfCode {
    VirtAddr start;
    uint64_t from_ns = 0;
    std::string_view name;
    Bytes code;  // empty unless kept
  };
  // Every load in the order of the file, moves too.
  void ForEachPiece(const std::function<void(const PieceOfCode&)>& visit) const;
  // The dump's times become those of another clock, which must not run backwards.
  void ConvertTimes(const std::function<uint64_t(uint64_t)>& convert);
  int32_t pid() const { return pid_; }
  // Times are of the architecture's counter, not of CLOCK_MONOTONIC.
  bool has_arch_timestamps() const { return arch_timestamps_; }
  size_t loads() const { return loads_.size(); }
  uint64_t damaged_records() const { return damaged_; }
  uint64_t unknown_records() const { return unknown_; }

 private:
  struct Load {
    uint64_t size_bytes = 0;
    uint64_t code_index = 0;
    uint32_t name_at = 0;  // in text_
    uint32_t name_bytes = 0;
    size_t first_line = 0;
    size_t line_count = 0;
    size_t code_at = 0;
    bool has_code = false;
  };
  struct StoredLine {
    uint64_t offset = 0;
    uint32_t line = 0;
    uint32_t discriminator = 0;
    uint32_t file_at = 0;
    uint32_t file_bytes = 0;
  };
  // A rectangle of addresses and times in which one load stands; they do not overlap.
  struct Piece {
    uint64_t start = 0;
    uint64_t end = 0;
    uint64_t from_ns = 0;
    uint64_t until_ns = kLatest;
    uint64_t origin = 0;  // address of the load's first byte in this piece's time
    uint32_t load = 0;
  };
  // Static interval tree: each node holds the pieces that contain its centre, by time.
  struct Node {
    uint64_t centre = 0;
    size_t first = 0;  // in pieces_
    size_t count = 0;
    uint32_t left = 0;  // 0: none
    uint32_t right = 0;
  };
  class Reader;
  class Timeline;
  void BuildTree(std::vector<Piece> pieces);
  uint32_t BuildNode(std::vector<Piece> pieces);

  std::unique_ptr<std::string> text_;
  std::unique_ptr<std::string> code_;
  std::vector<Load> loads_;
  std::vector<StoredLine> lines_;
  std::vector<Piece> pieces_;
  std::vector<Node> nodes_;  // [0] is unused; the root is 1
  int32_t pid_ = 0;
  bool arch_timestamps_ = false;
  uint64_t damaged_ = 0;
  uint64_t unknown_ = 0;
};

// The perf map of a running process: /proc/PID/root/tmp/perf-NSPID.map, where the process itself sees it. kNotFound,
// kPermission (owned by someone else, with the owner in the sentence; not a regular file) or kResourceLimit.
Result<PerfMap> ReadPerfMapOf(const ProcFs& proc, int32_t pid);
// The same for a process that has ended or that a recording of this machine names: `directory`/perf-PID.map, owned by
// this user or root.
Result<PerfMap> ReadPerfMapIn(const std::string& directory, int32_t pid);
// The jitdump that a running process has mapped (the file's name is jit-<pid>.dump). kNotFound if it has none.
Result<JitDump> ReadJitDumpOf(const ProcFs& proc, int32_t pid, bool keep_code = false);
// A jitdump at the path that a recording's MMAP record gives, owned by this user or root.
Result<JitDump> ReadJitDumpAt(const std::string& path, bool keep_code = false);
// Whether a mapped file's path is that of a jitdump; the pid in its name goes to `pid`.
bool IsJitDumpPath(std::string_view path, int32_t* pid);

}  // namespace ptarmigan
