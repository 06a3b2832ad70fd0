// ObjectBranches: the control flow of one object as branch records tell it, in its own addresses: what PGO formats are
// made from. The pipeline selects it from a profile's BranchSummary; export writes it.
//
// Plain values, sorted by address.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/address.h"
#include "model/build_id.h"

namespace ptarmigan {

struct ObjectBranches {
  // Stands for an address in another object or in none.
  static constexpr FileVaddr kOutside = {UINT64_MAX};

  // At least one side lies in the object.
  struct Edge {
    FileVaddr from;
    FileVaddr to;
    uint64_t count = 0;
    uint64_t mispredicted = 0;
    bool is_return = false;  // by the instruction at `from`; false where that is not known
    bool operator==(const Edge&) const = default;
  };
  // Code that ran from `start` to the branch at `branch` without another taken branch.
  struct Block {
    FileVaddr start;
    FileVaddr branch;
    FileVaddr
        end;  // behind the branch instruction; `branch` + 1 where the instruction cannot be read
    uint64_t count = 0;
    bool operator==(const Block&) const = default;
  };
  // An edge and the block behind it; without a block (`branch` kOutside) what followed is not known, or is not in the
  // object. `to` is in the object.
  struct Trace {
    FileVaddr from;
    FileVaddr to;
    FileVaddr branch;
    bool is_return = false;  // by the instruction at `from`
    uint64_t count = 0;
    uint64_t mispredicted = 0;
    bool operator==(const Trace&) const = default;
  };

  std::string path;  // as recorded
  std::string file;  // where its code was read from; empty if nowhere
  BuildId build_id;
  std::vector<Edge> edges;
  std::vector<Block> blocks;
  std::vector<Trace> traces;
  // From the last instruction of a basic block to the next basic block, where the code ran on without a taken branch.
  std::vector<Edge> fall_throughs;

  // What the profile holds beyond this object.
  uint64_t edges_elsewhere = 0;  // sum of counts: neither side in the object
  uint64_t objects_elsewhere = 0;
  // Sum of counts that could not be turned into addresses of the object.
  uint64_t branches_unplaced = 0;
  // Executions of straight-line code that the object's code proves impossible, where the profile did not have the code.
  uint64_t ranges_rejected = 0;
};

}  // namespace ptarmigan
