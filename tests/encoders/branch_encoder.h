// BranchEncoder: random programs whose every branch is known. A program is generated as machine code (functions of basic
// blocks: conditional and unconditional branches, calls, jump tables, returns), executed by its own interpreter with a
// seeded generator, and sampled as branch hardware would: the last N branches, with what each vendor records about them
// and what it leaves out. The result is a perf.data file, the program's ELF file, and the truth about both.
//
// Shares no code with the decoders: record layouts come from tests/support/perf_bytes.h, instructions are written here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace ptarmigan {

enum class BranchVendor {
  kIntel,               // outcome, cycles, types
  kIntelNoCycles,       // before Skylake
  kIntelArchitectural,  // as kIntel; some entries without valid cycles; branch counters
  kAmd,                 // LbrExtV2: spec, with wrong-path entries; no cycles
  kAmdBrs,              // Zen 3: addresses only
  kArm,                 // BRBE: some entries with one side only; arm64 code
};

struct BranchProgramOptions {
  uint64_t seed = 1;
  BranchVendor vendor = BranchVendor::kIntel;
  size_t functions = 8;  // at least 2
  size_t samples = 200;
  size_t depth = 32;            // entries of a sample
  size_t branches_apart = 100;  // between samples, on average
  // Of 1000 branches: how many are followed by a transfer that is not recorded (a signal, an exec of another thread),
  // always into another function.
  unsigned interruptions_per_mille = 0;
  bool hw_index = false;
};

struct BranchTruth {
  struct Edge {
    uint64_t count = 0;
    uint64_t mispredicted = 0;
    uint64_t predicted = 0;
    uint64_t cycles_sum = 0;
    bool operator==(const Edge&) const = default;
  };
  struct Block {
    uint64_t count = 0;
    uint32_t instructions = 0;
    std::map<uint32_t, uint64_t> cycles;  // cycles -> executions; unknown ones are left out
    bool operator==(const Block&) const = default;
  };
  using Run = std::pair<uint64_t, uint64_t>;
  std::map<Run, Edge> edges;  // (from, to); 0 is a side that was not recorded
  std::map<Run, Block> blocks;
  uint64_t rejected = 0;    // runs that an interruption broke
  uint64_t wrong_path = 0;  // entries
  uint64_t half = 0;
  uint64_t entries = 0;  // all of them
};

class BranchProgram {
 public:
  static constexpr uint64_t kBase = 0x400000;  // where the program is mapped; vaddr = address

  explicit BranchProgram(const BranchProgramOptions& options);

  // The program as an ELF file with symbols f0, f1, ...
  std::string Elf() const;
  // Runs the program from its start; one recording with PID 4242, whose mapping has `elf_path`. Fills truth().
  std::string Record(const std::string& elf_path);
  const BranchTruth& truth() const { return truth_; }
  // Start addresses of the functions.
  const std::vector<uint64_t>& functions() const { return function_starts_; }

 private:
  enum class Kind { kConditional, kJump, kIndirectJump, kCall, kIndirectCall, kReturn };
  struct Block {
    uint64_t start = 0;
    uint64_t branch = 0;        // address of the branch at its end
    uint64_t after = 0;         // of the next instruction
    uint32_t instructions = 0;  // with the branch
    Kind kind = Kind::kReturn;
    size_t function = 0;
    std::vector<size_t> targets;  // blocks; of calls: functions
  };
  // A branch that was taken.
  struct Taken {
    uint64_t from = 0;
    uint64_t to = 0;
    uint32_t cycles = 0;
    bool mispredicted = false;
    bool broken = false;  // the run that led to `from` did not begin at the branch before's target
    uint32_t instructions = 0;  // of that run
    uint8_t type = 0;           // PERF_BR_*
  };
  // As a sample holds it.
  struct Entry {
    Taken branch;
    bool has_from = true;
    bool has_to = true;
    bool has_cycles = true;
    bool wrong_path = false;
    uint8_t spec = 0;
  };

  bool is_arm() const { return options_.vendor == BranchVendor::kArm; }
  uint64_t Random(uint64_t below) { return random_() % below; }
  void Generate();
  Kind ChooseKind(size_t function, bool is_last);
  void GenerateFiller(Block* block);
  void GenerateBranch(Block* block);
  void Patch();
  void AppendWord(uint32_t word);

  void Start();
  Taken Step();
  std::vector<Entry> Snapshot();
  void CountTruth(const std::vector<Entry>& entries);
  std::string SampleBody(const std::vector<Entry>& entries, uint64_t ip, uint64_t time_ns) const;
  uint64_t FlagsOf(const Entry& entry) const;

  BranchProgramOptions options_;
  std::mt19937_64 random_;
  std::string code_;
  std::vector<Block> blocks_;
  std::vector<std::vector<size_t>> function_blocks_;
  std::vector<uint64_t> function_starts_;

  // The interpreter's state.
  size_t block_ = 0;
  uint64_t entered_at_ = 0;                         // where in the block
  std::vector<std::pair<size_t, uint64_t>> calls_;  // block and address to return to
  std::vector<Taken> last_;                         // oldest first
  BranchTruth truth_;
};

}  // namespace ptarmigan
