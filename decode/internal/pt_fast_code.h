// PtFastCode: the code that has run, as a graph of blocks by id. A block is decoded when it first runs, up to the branch that
// ends it; what it leads to is linked when it first does, so that following flow that has been seen is an array access.
//
//   block    start ── straight-line code ── branch       next[0]: not taken     edge[i]: the recorder's edge that leads to
//            (space: image and epoch; mode)              next[1]: taken         next[i]
//
// Where the target is not part of the code (returns, indirect branches), both are the targets that were seen lately. One per
// worker; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compact_index.h"
#include "base/large_pages.h"
#include "decode/instruction.h"
#include "decode/internal/flow_recorder.h"

namespace ptarmigan::internal {

struct PtFastBlock {
  // How it ends. Those before kConditional lead on by themselves.
  enum class Kind : uint8_t {
    kJump,
    kCall,
    kConditional,
    kReturn,
    kIndirect,
    kIndirectCall,
    kFar,  // into the kernel and back, between segments: indirect ones that no return is compressed for
    kOdd,  // cannot be followed further: no code, no instruction, or one that binds to special packets
  };
  uint64_t start = 0;
  uint64_t end = 0;  // behind the last instruction
  uint64_t target[2] = {0, 0};
  uint32_t next[2] = {0, 0};
  uint32_t edge[2] = {0, 0};  // 0: not linked
  uint32_t instructions = 0;
  uint32_t space = 0;
  Kind kind = Kind::kOdd;
  uint8_t last_bytes = 0;  // size of the last instruction
  bool is_64_bit = true;

  bool leads_on() const { return kind <= Kind::kCall; }
  uint64_t last() const { return end - last_bytes; }
};

class PtFastCode {
 public:
  PtFastCode();

  // The block that begins at an address of the code that `recorder` looks at; 0 if there is no instruction.
  uint32_t Find(const FlowRecorder& recorder, uint64_t address, bool is_64_bit) {
    const CompactIndex::Key key = {address,
                                   recorder.space() << 1 | static_cast<uint32_t>(is_64_bit)};
    const auto next = static_cast<uint32_t>(blocks_.size());
    const uint32_t id = index_.FindOrInsert(key, next);
    if (id == next) Decode(recorder, address, is_64_bit);
    return blocks_[id].instructions == 0 ? 0 : id;
  }
  // Valid until the next Find.
  PtFastBlock& operator[](uint32_t id) { return blocks_[id]; }

 private:
  void Decode(const FlowRecorder& recorder, uint64_t address, bool is_64_bit);

  LargeVector<PtFastBlock> blocks_;  // 0: none
  CompactIndex index_;
};

}  // namespace ptarmigan::internal
