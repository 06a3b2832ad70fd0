// WindowJoin: windows of an AUX buffer that samples brought, joined where they overlap.
//
//   sample 1   ├──────────────┤
//   sample 2           ├──────────────┤        begins with what sample 1 ends with
//   run        ├──────────────────────┤
//
// A window does not say where in the buffer it lay; that two overlap is seen by their bytes. Bytes of loops repeat, so an
// overlap counts only if it holds a synchronisation point (PSB, A-Sync), which time stamps follow. Where it holds none,
// nothing is lost and nothing counted twice by leaving the windows apart: a decoder starts at the second one's first
// synchronisation point, behind the overlap. Windows of one thread on one CPU come in the order of time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/byte_cursor.h"
#include "model/event.h"

namespace ptarmigan::internal {

class WindowJoin {
 public:
  struct Run {
    RecordIdentity identity;  // of its last window's sample
    std::vector<std::byte> bytes;
    size_t last_window = 0;  // where the window added last begins
  };
  struct Joined {
    size_t new_bytes = 0;
    bool continues = false;
  };

  // What a synchronisation point looks like; not empty.
  void SetSync(Bytes sync) { sync_ = sync; }
  Joined Add(const RecordIdentity& identity, Bytes window);
  size_t size() const { return runs_.size(); }
  // In order of first appearance.
  std::vector<Run> Take() { return std::move(runs_); }

 private:
  Bytes sync_;
  std::vector<Run> runs_;
  std::map<std::pair<int32_t, uint32_t>, size_t> last_run_;  // by thread and CPU
};

// How many bytes at the start of `window` are the last ones of `before`: the most that fit. Linear in both.
size_t OverlapBytes(Bytes before, Bytes window);

}  // namespace ptarmigan::internal
