// Traces of Arm trace units for tests: a random A64 program, a run through it, and the packets that an ETMv4 or ETE writes
// for that run, with the truth of what ran. Shares no code with the decoders.
//
// Packets: Arm ETM Architecture Specification (IHI 0064), chapter D5 "instruction trace packets"; frames: CoreSight
// Architecture Specification (IHI 0029), chapter D4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace ptarmigan {

// Writes packets one after the other.
class EtmPackets {
 public:
  const std::string& bytes() const { return bytes_; }
  void Sync();  // A-Sync and Trace Info
  void TraceOn();
  void AddressWithContext(uint64_t address);  // A64, EL0, non-secure
  void Address(uint64_t address);             // A64
  void Atom(bool taken);
  // `type`: 2 is a system call, 14 an interrupt. `return_address` is the preferred one.
  void Exception(unsigned type, uint64_t return_address);
  void Timestamp(uint64_t ticks);
  void Overflow();

 private:
  void Byte(unsigned value) { bytes_ += static_cast<char>(value); }
  void AddressBytes(uint64_t address);
  std::string bytes_;
};

// One unit's bytes in the 16-byte frames of a formatter, with its trace id. The end is filled up with id 0.
std::string InFrames(const std::string& bytes, uint8_t trace_id);

// Functions of random code; each calls only later ones, so that a run comes to an end.
class A64Program {
 public:
  enum class Kind : uint8_t {
    kPlain,
    kConditional,
    kJump,
    kIndirectJump,  // to another function: a tail call
    kCall,
    kIndirectCall,
    kReturn,
    kSystemCall,
  };
  struct Instruction {
    Kind kind = Kind::kPlain;
    std::vector<size_t> targets;  // indexes of instructions; of indirect branches any of them
    size_t function = 0;
  };
  static constexpr uint64_t kBase = 0x400000;

  explicit A64Program(uint64_t seed);

  const std::vector<Instruction>& instructions() const { return instructions_; }
  const std::vector<size_t>& functions() const { return functions_; }  // first instructions
  static uint64_t AddressOf(size_t instruction) { return kBase + 4 * instruction; }
  const std::string& code() const { return code_; }

 private:
  std::vector<Instruction> instructions_;
  std::vector<size_t> functions_;
  std::string code_;
};

struct EtmRunOptions {
  uint64_t seed = 1;
  size_t instructions_max = 2000;
  size_t interrupts_apart = 0;  // about so many instructions; 0: none
  size_t timestamps_apart = 0;  // the same, branches
  size_t syncs_apart = 0;       // the same, branches
};

// A run from the first instruction of function 0 until that returns or enough has run.
struct EtmRun {
  EtmRun(const A64Program& program, const EtmRunOptions& options);

  std::string bytes;
  std::vector<uint64_t> path;                                  // the address of every instruction
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> branches;  // taken, (from, to)
  std::map<uint64_t, uint64_t> calls;                          // by callee's first address
  // Instructions by stack: the first addresses of functions, outermost first. A tail call replaces its caller.
  std::map<std::vector<uint64_t>, uint64_t> stacks;
  std::vector<uint64_t> timestamps;
};

}  // namespace ptarmigan
