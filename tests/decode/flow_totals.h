// FlowTotals: adds up what a decoder of control flow says, by owner: what the tests compare with the truth.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <ostream>
#include <tuple>
#include <vector>

#include "base/byte_cursor.h"
#include "base/hash.h"
#include "decode/instruction.h"
#include "model/code_image.h"
#include "model/control_flow.h"

namespace ptarmigan {

struct FlowDigest {
  uint64_t instructions = 0;
  uint64_t digest = kFnv1aBasis;
  uint64_t first = 0;
  uint64_t last = 0;

  void Add(uint64_t address) {
    if (instructions++ == 0) first = address;
    last = address;
    for (int shift = 0; shift < 64; shift += 8) {
      digest = Fnv1a64(digest, static_cast<uint8_t>(address >> shift));
    }
  }
  bool operator==(const FlowDigest&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const FlowDigest& digest) {
  return out << digest.instructions << " instructions " << std::hex << digest.first << ".."
             << digest.last << " digest " << digest.digest << std::dec;
}

class FlowTotals : public FlowSink {
 public:
  explicit FlowTotals(const CodeImage& image)
      : image_(image), decoder_64_(Arch::kX86_64), decoder_32_(Arch::kX86) {}

  void OnFlowSegment(const FlowGraph& graph, const FlowSegment& segment) override {
    FlowDigest& whole = whole_[segment.owner];
    std::vector<FlowDigest>& pieces = pieces_[segment.owner];
    if (pieces.empty() || !segment.continues) pieces.emplace_back();
    uint64_t instruction = 0;
    size_t event = 0;
    const auto pass_gaps = [&] {
      for (; event < segment.events.size() && segment.events[event].instruction <= instruction;
           ++event) {
        if (segment.events[event].kind == FlowEvent::Kind::kOverflow) pieces.emplace_back();
      }
    };
    for (const uint32_t edge : segment.path) {
      pass_gaps();
      for (const uint64_t address : AddressesOf(graph, graph.edges[edge].to)) {
        whole.Add(address);
        pieces.back().Add(address);
        ++instruction;
      }
    }
    pass_gaps();
    path_instructions_ok_ = path_instructions_ok_ && instruction == segment.instructions;
    for (const EdgeCount& count : segment.edges) {
      const FlowEdge& edge = graph.edges[count.edge];
      if (!edge.taken) continue;
      edges_[{graph.blocks[edge.from].last.value, graph.blocks[edge.to].start.value, edge.kind}] +=
          count.count;
    }
    instructions_ += segment.instructions;
    bytes_ += segment.bytes;
    ++segments_;
  }

  const std::map<uint32_t, FlowDigest>& whole() const { return whole_; }
  const std::map<uint32_t, std::vector<FlowDigest>>& pieces() const { return pieces_; }
  using Edge = std::tuple<uint64_t, uint64_t, BranchKind>;
  const std::map<Edge, uint64_t>& edges() const { return edges_; }
  uint64_t instructions() const { return instructions_; }
  bool path_agrees() const { return path_instructions_ok_; }
  const FlowBytes& bytes() const { return bytes_; }

 private:
  const std::vector<uint64_t>& AddressesOf(const FlowGraph& graph, uint32_t id) {
    if (addresses_.size() <= id) addresses_.resize(id + 1);
    std::vector<uint64_t>& addresses = addresses_[id];
    const CodeBlock& block = graph.blocks[id];
    uint64_t at = block.start.value;
    while (addresses.size() < block.instructions) {
      addresses.push_back(at);
      std::array<std::byte, kInstructionBytesMax> buffer = {};
      Bytes code = image_.CodeAt({at}, block.epoch);
      size_t size = 0;
      while (size < buffer.size() && !code.empty()) {
        const size_t part = std::min(code.size(), buffer.size() - size);
        std::copy_n(code.begin(), part, buffer.begin() + static_cast<ptrdiff_t>(size));
        size += part;
        code = image_.CodeAt({at + size}, block.epoch);
      }
      at += (block.is_64_bit ? decoder_64_ : decoder_32_)
                .Decode(Bytes(buffer).first(size))
                .size_bytes;
    }
    return addresses;
  }

  const CodeImage& image_;
  InstructionDecoder decoder_64_;
  InstructionDecoder decoder_32_;
  std::vector<std::vector<uint64_t>> addresses_;  // of blocks
  std::map<uint32_t, FlowDigest> whole_;
  std::map<uint32_t, std::vector<FlowDigest>> pieces_;
  std::map<Edge, uint64_t> edges_;
  FlowBytes bytes_;
  uint64_t instructions_ = 0;
  uint64_t segments_ = 0;
  bool path_instructions_ok_ = true;
};

}  // namespace ptarmigan
