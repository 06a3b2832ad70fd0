#include "tests/encoders/etm_encoder.h"

#include <algorithm>
#include <array>

namespace ptarmigan {
namespace {

using Kind = A64Program::Kind;

constexpr size_t kFunctions = 12;
constexpr size_t kBlocksMax = 6;
constexpr size_t kPlainMax = 4;

uint32_t Word(Kind kind, int64_t words) {
  const auto field = [words](unsigned bits, unsigned shift) {
    return (static_cast<uint32_t>(words) & ((1U << bits) - 1)) << shift;
  };
  switch (kind) {
    case Kind::kPlain:
      return 0xd503201f;  // NOP
    case Kind::kConditional:
      return 0x54000001 | field(19, 5);  // B.NE
    case Kind::kJump:
      return 0x14000000 | field(26, 0);
    case Kind::kIndirectJump:
      return 0xd61f0100;  // BR X8
    case Kind::kCall:
      return 0x94000000 | field(26, 0);
    case Kind::kIndirectCall:
      return 0xd63f0100;  // BLR X8
    case Kind::kReturn:
      return 0xd65f03c0;
    case Kind::kSystemCall:
      return 0xd4000001;
  }
  return 0;
}

}  // namespace

void EtmPackets::Sync() {
  bytes_.append(11, '\0');
  Byte(0x80);
  // Trace Info: PLCTL says that INFO follows; nothing that it could say is on.
  Byte(0x01);
  Byte(0x01);
  Byte(0x00);
}

void EtmPackets::TraceOn() { Byte(0x04); }

// Long 64-bit address of instruction set 0 (A64, A32): two bytes of seven bits from bit 2 on, then whole ones.
void EtmPackets::AddressBytes(uint64_t address) {
  Byte(address >> 2 & 0x7f);
  Byte(address >> 9 & 0x7f);
  for (unsigned shift = 16; shift < 64; shift += 8) Byte(address >> shift & 0xff);
}

void EtmPackets::AddressWithContext(uint64_t address) {
  Byte(0x85);
  AddressBytes(address);
  Byte(0x30);  // EL0, SF, NS; neither VMID nor context id follow
}

void EtmPackets::Address(uint64_t address) {
  Byte(0x9d);
  AddressBytes(address);
}

void EtmPackets::Atom(bool taken) { Byte(taken ? 0xf7 : 0xf6); }

void EtmPackets::Exception(unsigned type, uint64_t return_address) {
  Byte(0x06);
  Byte((type & 0x1f) << 1 | 1);  // E1:E0 01: the address is the preferred return address
  Address(return_address);
}

void EtmPackets::Timestamp(uint64_t ticks) {
  Byte(0x02);
  for (unsigned i = 0; i < 8; ++i) {
    const bool more = i < 7 && ticks >> 7 * (i + 1) != 0;
    Byte((ticks >> 7 * i & 0x7f) | (more ? 0x80 : 0));
    if (!more) return;
  }
  Byte(static_cast<unsigned>(ticks >> 56));
}

void EtmPackets::Overflow() {
  Byte(0x00);
  Byte(0x05);
}

std::string InFrames(const std::string& bytes, uint8_t trace_id) {
  constexpr size_t kFrame = 16;
  constexpr size_t kPairs = 7;
  std::string frames;
  size_t next = 0;
  uint8_t id = 0;  // of the bytes that follow
  const auto take = [&]() -> uint8_t {
    return next < bytes.size() ? static_cast<uint8_t>(bytes[next++]) : uint8_t{0};
  };
  while (next < bytes.size()) {
    std::array<uint8_t, kFrame> frame = {};
    unsigned low_bits = 0;
    for (size_t pair = 0; pair <= kPairs; ++pair) {
      uint8_t& first = frame[2 * pair];
      const bool is_last = pair == kPairs;  // the last one's second byte holds the low bits
      const uint8_t wanted = next < bytes.size() ? trace_id : uint8_t{0};
      if (wanted != id) {
        id = wanted;
        first = static_cast<uint8_t>(id << 1 | 1);  // with low bit 0: at once
      } else {
        const uint8_t byte = take();
        first = byte & 0xfe;
        low_bits |= static_cast<unsigned>(byte & 1) << pair;
      }
      if (!is_last) frame[2 * pair + 1] = take();
    }
    frame[kFrame - 1] = static_cast<uint8_t>(low_bits);
    frames.append(reinterpret_cast<const char*>(frame.data()), frame.size());
  }
  return frames;
}

A64Program::A64Program(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  struct Fixup {
    size_t instruction;
    size_t block;     // of the same function
    size_t function;  // kFunctions: none
  };
  std::vector<std::vector<size_t>> blocks(kFunctions);
  std::vector<Fixup> fixups;
  for (size_t function = 0; function < kFunctions; ++function) {
    functions_.push_back(instructions_.size());
    const size_t count = 2 + below(kBlocksMax - 1);
    const bool may_call = function + 1 < kFunctions;
    const auto callee = [&] { return function + 1 + below(kFunctions - function - 1); };
    for (size_t block = 0; block < count; ++block) {
      blocks[function].push_back(instructions_.size());
      for (size_t i = below(kPlainMax + 1); i > 0; --i)
        instructions_.emplace_back().function = function;
      Instruction& last = instructions_.emplace_back();
      last.function = function;
      const size_t index = instructions_.size() - 1;
      if (block + 1 == count) {
        // Function 0 goes round for ever.
        last.kind = function == 0 ? Kind::kJump : Kind::kReturn;
        if (function == 0) fixups.push_back({index, 0, kFunctions});
        continue;
      }
      switch (below(8)) {
        case 0:
        case 1:
          last.kind = Kind::kConditional;
          fixups.push_back({index, below(count), kFunctions});
          break;
        case 2:
          last.kind = Kind::kJump;
          fixups.push_back({index, block + 1 + below(count - block - 1), kFunctions});
          break;
        case 3:
          last.kind = Kind::kSystemCall;
          break;
        case 4:
          if (!may_call || function == 0) break;
          last.kind = Kind::kIndirectJump;
          fixups.push_back({index, 0, callee()});
          break;
        case 5:
          if (!may_call) break;
          last.kind = Kind::kIndirectCall;
          fixups.push_back({index, 0, callee()});
          fixups.push_back({index, 0, callee()});
          break;
        default:
          if (!may_call) break;
          last.kind = Kind::kCall;
          fixups.push_back({index, 0, callee()});
          break;
      }
    }
  }
  for (const Fixup& fixup : fixups) {
    Instruction& instruction = instructions_[fixup.instruction];
    const size_t function = fixup.function == kFunctions ? instruction.function : fixup.function;
    instruction.targets.push_back(blocks[function][fixup.block]);
  }
  for (size_t i = 0; i < instructions_.size(); ++i) {
    const Instruction& instruction = instructions_[i];
    const auto target =
        static_cast<int64_t>(instruction.targets.empty() ? i : instruction.targets[0]);
    const uint32_t word = Word(instruction.kind, target - static_cast<int64_t>(i));
    for (unsigned shift = 0; shift < 32; shift += 8)
      code_ += static_cast<char>(word >> shift & 0xff);
  }
}

EtmRun::EtmRun(const A64Program& program, const EtmRunOptions& options) {
  std::mt19937_64 random(options.seed);
  const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  const auto now_and_then = [&](size_t apart) { return apart != 0 && below(apart) == 0; };
  const auto address = [](size_t instruction) { return A64Program::AddressOf(instruction); };
  EtmPackets packets;
  uint64_t ticks = 1000;
  size_t at = 0;
  std::vector<size_t> returns;
  std::vector<uint64_t> stack = {address(0)};
  const auto begin = [&] {
    packets.TraceOn();
    packets.AddressWithContext(address(at));
  };
  packets.Sync();
  begin();
  bool has_branched = false;
  // (Where the last branch led shows only if something runs there.)
  while (path.size() < options.instructions_max || has_branched) {
    has_branched = false;
    if (now_and_then(options.interrupts_apart)) {
      packets.Exception(14, address(at));
      begin();
    }
    const A64Program::Instruction& instruction = program.instructions()[at];
    path.push_back(address(at));
    ++stacks[stack];
    const size_t next = at + 1;
    const auto branch_to = [&](size_t target) {
      // A conditional branch to the next instruction is, by its flow, none.
      const bool falls_through = instruction.kind == Kind::kConditional && target == next;
      if (!falls_through) ++branches[{address(at), address(target)}];
      has_branched = true;
      at = target;
    };
    switch (instruction.kind) {
      case Kind::kPlain:
        at = next;
        continue;
      case Kind::kSystemCall:
        at = next;
        has_branched = true;
        packets.Exception(2, address(at));
        begin();
        continue;
      case Kind::kConditional: {
        const bool taken = below(3) == 0;
        packets.Atom(taken);
        if (taken) {
          branch_to(instruction.targets[0]);
        } else {
          at = next;
        }
        break;
      }
      case Kind::kJump:
        packets.Atom(true);
        branch_to(instruction.targets[0]);
        break;
      case Kind::kIndirectJump:
      case Kind::kCall:
      case Kind::kIndirectCall: {
        const size_t target = instruction.targets[below(instruction.targets.size())];
        packets.Atom(true);
        if (instruction.kind != Kind::kCall) packets.Address(address(target));
        if (instruction.kind == Kind::kIndirectJump) {
          stack.back() = address(target);
        } else {
          returns.push_back(next);
          stack.push_back(address(target));
          ++calls[address(target)];
        }
        branch_to(target);
        break;
      }
      case Kind::kReturn: {
        const size_t target = returns.back();
        returns.pop_back();
        stack.pop_back();
        packets.Atom(true);
        packets.Address(address(target));
        branch_to(target);
        break;
      }
    }
    if (now_and_then(options.timestamps_apart)) {
      ticks += 1 + below(100);
      packets.Timestamp(ticks);
      timestamps.push_back(ticks);
    }
    if (now_and_then(options.syncs_apart)) {
      // Everything is said again, so that a decoder can begin here.
      packets.Sync();
      packets.AddressWithContext(address(at));
    }
  }
  // What ran since the last branch shows only in an exception.
  packets.Exception(14, address(at));
  bytes = packets.bytes();
}

}  // namespace ptarmigan
