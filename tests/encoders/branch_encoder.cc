#include "tests/encoders/branch_encoder.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "tests/support/byte_writer.h"
#include "tests/support/elf_bytes.h"
#include "tests/support/perf_bytes.h"

namespace ptarmigan {
namespace {

constexpr size_t kBlocksMax = 12;  // of a function
constexpr size_t kCallDepthMax = 60;
constexpr uint32_t kCyclesMax = 0xffff;

// PERF_BR_*
constexpr uint8_t kTypeConditional = 1;
constexpr uint8_t kTypeJump = 2;
constexpr uint8_t kTypeIndirectJump = 3;
constexpr uint8_t kTypeCall = 4;
constexpr uint8_t kTypeIndirectCall = 5;
constexpr uint8_t kTypeReturn = 6;
// PERF_BR_SPEC_*
constexpr uint8_t kSpecWrongPath = 1;
constexpr uint8_t kNonSpecCorrect = 2;
constexpr uint8_t kSpecCorrect = 3;

// x86-64 instructions that go on to the next, of many lengths; among them bytes that look like branches.
constexpr std::array<std::string_view, 14> kX86Fillers = {
    std::string_view("\x90", 1),
    std::string_view("\x55", 1),
    std::string_view("\x48\x89\xe5", 3),
    std::string_view("\x31\xc0", 2),
    std::string_view("\x48\x8b\x44\x24\xe8", 5),                       // mov rax,[rsp-24]
    std::string_view("\xb8\xe9\xe9\xe9\xe9", 5),                       // mov eax,imm32
    std::string_view("\x0f\x1f\x84\x00\xeb\xc3\xe8\xff", 8),           // nop with displacement
    std::string_view("\x48\xb8\xc3\xc3\xc3\xc3\xe8\xe8\xe8\xe8", 10),  // movabs
    std::string_view("\xff\x00", 2),                                   // inc dword [rax] (group 5)
    std::string_view("\x66\x0f\x6f\xc1", 4),                           // movdqa xmm0,xmm1
    std::string_view("\xc5\xfd\x6f\xc1", 4),                           // vmovdqa ymm0,ymm1 (VEX)
    std::string_view("\x62\xf1\xfd\x48\x6f\xc1", 6),                   // vmovdqa64 (EVEX)
    std::string_view("\xf0\x48\x0f\xb1\x0f", 5),                       // lock cmpxchg
    std::string_view("\x0f\x05", 2),                                   // syscall
};
// nop; add; ldr; str; mov; svc
constexpr std::array<uint32_t, 6> kArmFillers = {0xd503201f, 0x8b010000, 0xf9400021,
                                                 0xf9000021, 0xaa0103e0, 0xd4000001};

}  // namespace

BranchProgram::BranchProgram(const BranchProgramOptions& options)
    : options_(options), random_(options.seed) {
  Generate();
  Patch();
}

void BranchProgram::AppendWord(uint32_t word) {
  for (unsigned shift = 0; shift < 32; shift += 8) code_ += static_cast<char>(word >> shift & 0xff);
}

void BranchProgram::GenerateFiller(Block* block) {
  const size_t count = Random(7);
  for (size_t i = 0; i < count; ++i) {
    if (is_arm()) {
      AppendWord(kArmFillers[Random(kArmFillers.size())]);
    } else {
      code_ += kX86Fillers[Random(kX86Fillers.size())];
    }
  }
  block->instructions += static_cast<uint32_t>(count);
}

void BranchProgram::GenerateBranch(Block* block) {
  block->branch = kBase + code_.size();
  ++block->instructions;
  if (is_arm()) {
    AppendWord(0);  // patched
  } else {
    switch (block->kind) {
      case Kind::kConditional:
        code_ += std::string("\x0f\x84\0\0\0\0", 6);
        break;
      case Kind::kJump:
        code_ += std::string("\xe9\0\0\0\0", 5);
        break;
      case Kind::kCall:
        code_ += std::string("\xe8\0\0\0\0", 5);
        break;
      case Kind::kIndirectJump:
        code_ += Random(2) == 0 ? "\xff\xe0" : "\x3e\xff\xe0";  // jmp rax, notrack jmp rax
        break;
      case Kind::kIndirectCall:
        code_ += Random(2) == 0 ? "\xff\xd0" : "\x41\xff\xd3";  // call rax, call r11
        break;
      case Kind::kReturn:
        code_ += Random(2) == 0 ? "\xc3" : "\xf3\xc3";
        break;
    }
  }
  block->after = kBase + code_.size();
}

// The last block returns, so that no run goes on into the next function.
BranchProgram::Kind BranchProgram::ChooseKind(size_t function, bool is_last) {
  if (is_last) return Kind::kReturn;
  constexpr std::array kKinds = {Kind::kConditional, Kind::kConditional,  Kind::kConditional,
                                 Kind::kJump,        Kind::kIndirectJump, Kind::kCall,
                                 Kind::kIndirectCall};
  const bool may_call = function + 1 < options_.functions;
  return kKinds[Random(may_call ? kKinds.size() : kKinds.size() - 2)];
}

void BranchProgram::Generate() {
  for (size_t function = 0; function < options_.functions; ++function) {
    function_starts_.push_back(kBase + code_.size());
    const size_t first = blocks_.size();
    const size_t count = 2 + Random(kBlocksMax - 1);
    std::vector<size_t>& ids = function_blocks_.emplace_back();
    for (size_t i = 0; i < count; ++i) {
      const bool is_last = i + 1 == count;
      Block block;
      block.start = kBase + code_.size();
      block.function = function;
      block.kind = ChooseKind(function, is_last);
      const bool is_call = block.kind == Kind::kCall || block.kind == Kind::kIndirectCall;
      const bool is_indirect =
          block.kind == Kind::kIndirectCall || block.kind == Kind::kIndirectJump;
      const size_t targets = block.kind == Kind::kReturn ? 0 : is_indirect ? 1 + Random(4) : 1;
      // Only conditional branches go back, and those not for ever; calls go to later functions: every function returns.
      const size_t first_target = block.kind == Kind::kConditional ? 0 : i + 1;
      for (size_t t = 0; t < targets; ++t) {
        block.targets.push_back(is_call ? function + 1 + Random(options_.functions - function - 1)
                                        : first + first_target + Random(count - first_target));
      }
      GenerateFiller(&block);
      GenerateBranch(&block);
      ids.push_back(blocks_.size());
      blocks_.push_back(std::move(block));
    }
    // Bytes between functions that are no part of either.
    while (code_.size() % 16 != 0) code_ += is_arm() ? '\0' : '\x90';
  }
}

void BranchProgram::Patch() {
  for (const Block& block : blocks_) {
    const bool is_call = block.kind == Kind::kCall;
    const bool is_direct = is_call || block.kind == Kind::kConditional || block.kind == Kind::kJump;
    uint64_t target = 0;
    if (is_direct) {
      target = is_call ? function_starts_[block.targets[0]] : blocks_[block.targets[0]].start;
    }
    const size_t at = static_cast<size_t>(block.branch - kBase);
    if (is_arm()) {
      const uint64_t words = (target - block.branch) / 4;
      uint32_t word = 0;
      switch (block.kind) {
        case Kind::kConditional:
          word = 0x54000000 | static_cast<uint32_t>(words & 0x7ffff) << 5;
          break;
        case Kind::kJump:
          word = 0x14000000 | static_cast<uint32_t>(words & 0x3ffffff);
          break;
        case Kind::kCall:
          word = 0x94000000 | static_cast<uint32_t>(words & 0x3ffffff);
          break;
        case Kind::kIndirectJump:
          word = 0xd61f0200;
          break;
        case Kind::kIndirectCall:
          word = 0xd63f0200;
          break;
        case Kind::kReturn:
          word = 0xd65f03c0;
          break;
      }
      code_.replace(at, 4, ByteWriter().U32(word).bytes());
      continue;
    }
    if (!is_direct) continue;
    code_.replace(static_cast<size_t>(block.after - kBase) - 4, 4,
                  ByteWriter().U32((target - block.after) & 0xffffffff).bytes());
  }
}

std::string BranchProgram::Elf() const {
  ElfBytes elf(
      {.machine = static_cast<uint16_t>(is_arm() ? EM_AARCH64 : EM_X86_64), .type = ET_EXEC});
  const uint32_t text = elf.Add({.name = ".text",
                                 .flags = SHF_ALLOC | SHF_EXECINSTR,
                                 .vaddr = kBase,
                                 .content = code_,
                                 .alignment = 4096});
  elf.AddSegment(PT_LOAD, PF_R | PF_X, {text, text}, 4096);
  std::vector<ElfBytes::Symbol> symbols;
  for (size_t i = 0; i < function_starts_.size(); ++i) {
    const uint64_t end =
        i + 1 < function_starts_.size() ? function_starts_[i + 1] : kBase + code_.size();
    symbols.push_back({.name = "f" + std::to_string(i),
                       .value = function_starts_[i],
                       .size_bytes = end - function_starts_[i],
                       .section = static_cast<uint16_t>(text)});
  }
  elf.AddSymbols(".symtab", symbols);
  return elf.Build();
}

void BranchProgram::Start() {
  block_ = 0;
  entered_at_ = blocks_[0].start;
  calls_.clear();
  last_.clear();
  truth_ = BranchTruth();
}

// Runs to the next branch that is taken.
BranchProgram::Taken BranchProgram::Step() {
  Taken taken;
  if (options_.interruptions_per_mille > 0 && Random(1000) < options_.interruptions_per_mille) {
    const size_t here = blocks_[block_].function;
    const size_t other = (here + 1 + Random(options_.functions - 1)) % options_.functions;
    block_ = function_blocks_[other][Random(function_blocks_[other].size())];
    entered_at_ = blocks_[block_].start;
    taken.broken = true;
  }
  for (;;) {
    const Block& block = blocks_[block_];
    taken.instructions += block.instructions;
    const bool is_call = block.kind == Kind::kCall || block.kind == Kind::kIndirectCall;
    const bool goes_on = block.kind == Kind::kConditional && Random(3) != 0;
    if (goes_on) {
      ++block_;  // a function's last block returns: there is a next one
      continue;
    }
    taken.from = block.branch;
    taken.cycles = Random(50) == 0 ? kCyclesMax : 1 + static_cast<uint32_t>(Random(40));
    taken.mispredicted = Random(5) == 0;
    if (block.kind == Kind::kReturn || (is_call && calls_.size() >= kCallDepthMax)) {
      // Where the stack is empty or full the program goes on with the function behind this one, as if by a return or a
      // call, so that it comes to all of them and not only to the few that its start leads to.
      size_t next = 0;
      if (block.kind == Kind::kReturn && !calls_.empty()) {
        next = calls_.back().first;
        calls_.pop_back();
      } else {
        next = function_blocks_[(block.function + 1) % options_.functions].front();
        calls_.clear();
      }
      taken.type = block.kind == Kind::kReturn ? kTypeReturn : kTypeCall;
      block_ = next;
    } else {
      const size_t target = block.targets[Random(block.targets.size())];
      if (is_call) calls_.emplace_back(block_ + 1, block.after);
      block_ = is_call ? function_blocks_[target].front() : target;
      taken.type = block.kind == Kind::kConditional    ? kTypeConditional
                   : block.kind == Kind::kJump         ? kTypeJump
                   : block.kind == Kind::kIndirectJump ? kTypeIndirectJump
                   : block.kind == Kind::kCall         ? kTypeCall
                                                       : kTypeIndirectCall;
    }
    taken.to = blocks_[block_].start;
    return taken;
  }
}

// The hardware's view of the last branches, newest first.
std::vector<BranchProgram::Entry> BranchProgram::Snapshot() {
  std::vector<Entry> entries;
  for (auto taken = last_.rbegin(); taken != last_.rend() && entries.size() < options_.depth;
       ++taken) {
    if (options_.vendor == BranchVendor::kAmd && Random(8) == 0) {
      Entry wrong{.branch = {.from = kBase + Random(code_.size()),
                             .to = kBase + Random(code_.size()),
                             .mispredicted = Random(2) == 0},
                  .wrong_path = true,
                  .spec = kSpecWrongPath};
      entries.push_back(wrong);
    }
    Entry entry{.branch = *taken};
    switch (options_.vendor) {
      case BranchVendor::kAmd:
        entry.spec = Random(3) == 0 ? kSpecCorrect : kNonSpecCorrect;
        [[fallthrough]];
      case BranchVendor::kAmdBrs:
      case BranchVendor::kIntelNoCycles:
        entry.has_cycles = false;
        break;
      case BranchVendor::kArm:
        if (Random(10) == 0) (Random(2) == 0 ? entry.has_from : entry.has_to) = false;
        [[fallthrough]];
      case BranchVendor::kIntelArchitectural:
        entry.has_cycles = Random(6) != 0;
        break;
      case BranchVendor::kIntel:
        break;
    }
    entries.push_back(entry);
  }
  entries.resize(std::min(entries.size(), options_.depth));
  return entries;
}

void BranchProgram::CountTruth(const std::vector<Entry>& entries) {
  const Entry* newer = nullptr;
  for (const Entry& entry : entries) {
    ++truth_.entries;
    if (entry.wrong_path) {
      ++truth_.wrong_path;
      continue;
    }
    const uint64_t from = entry.has_from ? entry.branch.from : 0;
    const uint64_t to = entry.has_to ? entry.branch.to : 0;
    truth_.half += from == 0 || to == 0 ? 1 : 0;
    BranchTruth::Edge& edge = truth_.edges[{from, to}];
    ++edge.count;
    if (options_.vendor != BranchVendor::kAmdBrs) {
      ++(entry.branch.mispredicted ? edge.mispredicted : edge.predicted);
    }
    if (entry.has_cycles) edge.cycles_sum += entry.branch.cycles;
    if (newer != nullptr && to != 0 && newer->has_from) {
      if (newer->branch.broken) {
        ++truth_.rejected;
      } else {
        BranchTruth::Block& block = truth_.blocks[{to, newer->branch.from}];
        ++block.count;
        block.instructions = newer->branch.instructions;
        if (newer->has_cycles) ++block.cycles[newer->branch.cycles];
      }
    }
    newer = &entry;
  }
}

uint64_t BranchProgram::FlagsOf(const Entry& entry) const {
  const bool has_outcome = options_.vendor != BranchVendor::kAmdBrs;
  const bool has_type = options_.vendor == BranchVendor::kIntel ||
                        options_.vendor == BranchVendor::kIntelArchitectural || is_arm();
  const uint64_t cycles = entry.has_cycles ? entry.branch.cycles : 0;
  return (has_outcome && entry.branch.mispredicted ? 1U : 0U) |
         (has_outcome && !entry.branch.mispredicted ? 2U : 0U) | cycles << 4 |
         uint64_t{has_type ? entry.branch.type : uint8_t{0}} << 20 | uint64_t{entry.spec} << 24;
}

std::string BranchProgram::SampleBody(const std::vector<Entry>& entries, uint64_t ip,
                                      uint64_t time_ns) const {
  ByteWriter body;
  body.U64(ip).U32(4242).U32(4242).U64(time_ns).U32(0).U32(0).U64(1000);
  body.U64(entries.size());
  if (options_.hw_index) body.U64(time_ns % options_.depth);
  for (const Entry& entry : entries) {
    body.U64(entry.has_from ? entry.branch.from : 0).U64(entry.has_to ? entry.branch.to : 0);
    body.U64(FlagsOf(entry));
  }
  if (options_.vendor == BranchVendor::kIntelArchitectural) {
    for (size_t i = 0; i < entries.size(); ++i) body.U64(i * 3);
  }
  return body.bytes();
}

std::string BranchProgram::Record(const std::string& elf_path) {
  constexpr uint64_t kBranchStackBit = uint64_t{1} << 11;
  constexpr unsigned kFeatureArch = 6;
  constexpr unsigned kFeatureCpuid = 9;
  // USER, ANY; HW_INDEX; COUNTERS
  const uint64_t branch_type =
      1U | 1U << 3 | (options_.hw_index ? 1U << 17 : 0U) |
      (options_.vendor == BranchVendor::kIntelArchitectural ? 1U << 19 : 0U);
  const bool is_amd =
      options_.vendor == BranchVendor::kAmd || options_.vendor == BranchVendor::kAmdBrs;

  Start();
  PerfFileBuilder file;
  PerfAttr attr;
  attr.sample_type = PerfAttr::kDefaultSampleType | kBranchStackBit;
  attr.branch_sample_type = branch_type;
  attr.size_bytes = 128;  // perf 6.1 knows no more
  file.AddAttr(attr);
  file.AddFeature(kFeatureArch, HeaderString(is_arm() ? "aarch64" : "x86_64"));
  file.AddFeature(kFeatureCpuid, HeaderString(is_arm() ? "0x00000000410fd4f0"
                                              : is_amd ? "AuthenticAMD,25,17,1"
                                                       : "GenuineIntel,6,143,8"));
  const PerfWho who{.pid = 4242, .tid = 4242, .time_ns = 1};
  file.AddComm(who, "program");
  // .text lies at the first page of the file.
  file.AddMmap({.who = who,
                .start = kBase,
                .length = (code_.size() + 4095) / 4096 * 4096,
                .file_offset = 4096,
                .path = elf_path});
  uint64_t time_ns = 1000;
  for (size_t i = 0; i < options_.samples; ++i) {
    const size_t steps = 1 + Random(options_.branches_apart * 2);
    for (size_t step = 0; step < steps; ++step) last_.push_back(Step());
    if (last_.size() > options_.depth) {
      last_.erase(last_.begin(), last_.end() - static_cast<ptrdiff_t>(options_.depth));
    }
    const std::vector<Entry> entries = Snapshot();
    CountTruth(entries);
    time_ns += 1000;
    file.AddRecord(9, 2, SampleBody(entries, last_.back().to, time_ns));
  }
  return file.File();
}

}  // namespace ptarmigan
