// What is true of some steps of a PtWalk: the tables that a decoder's results are compared with. Terms are those of
// pt_walk.h.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tests/encoders/pt_trace.h"

namespace ptarmigan {

// FNV-1a, 64 bits, over addresses of instructions as 8 little-endian bytes each.
class PtDigest {
 public:
  void Add(uint64_t address) {
    for (unsigned shift = 0; shift < 64; shift += 8) {
      value_ = (value_ ^ (address >> shift & 0xff)) * 0x100000001b3;
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

struct PtTruth {
  struct Edge {
    uint64_t from = 0;
    uint64_t to = 0;
    X86Flow flow = X86Flow::kJump;
    auto operator<=>(const Edge&) const = default;
  };
  struct Function {
    uint64_t instructions = 0;
    uint64_t calls = 0;  // direct ones
    uint64_t indirect_calls = 0;
    uint64_t jumps = 0;    // from other functions: tail calls, PLT stubs
    uint64_t signals = 0;  // that it handled
    bool operator==(const Function&) const = default;
  };

  uint64_t instructions = 0;
  uint64_t digest = 0;
  uint64_t calls = 0;  // without those to the next instruction
  uint64_t returns = 0;
  // Taken branches. System calls, interrupts and signals are none.
  std::map<Edge, uint64_t> edges;
  std::map<uint32_t, Function> functions;  // by index
  std::map<std::string, uint64_t> folded;  // instructions by stack
};

// Of visible steps of one thread, in order.
PtTruth TruthOf(const PtWalk& walk, std::span<const uint32_t> steps);

// The addresses, in order.
std::vector<uint64_t> PtAddresses(const PtWalk& walk, std::span<const uint32_t> steps);

}  // namespace ptarmigan
