// The recordings of tools/bench's part "spe": what a machine with four CPUs and Arm SPE records, with times, thread ids,
// loads, stores and branches of user code and of the kernel.
//
//   spe_recording KIND AUX-MEBIBYTES RECORDING
//
// KIND says how the records spread:
//   service  As a busy program's: 16384 sampled instructions of which the n-th hottest has a share of 1/n (Zipf's law: the
//            first 1 % takes 60 %), sixteen threads of which each CPU runs one for a few hundred records, each instruction
//            with its own odds to miss. The one that the bar is for.
//   loop     One thread per CPU in 64 instructions: all tables stay in the processor's cache. Flatters us and perf alike.
//   spread   4096 instructions and sixteen threads, all as likely as each other: hardly a record has an equal. No program
//            runs like that; it shows what a new kind of record costs.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "decode/record_types.h"
#include "model/event_attr.h"
#include "tests/encoders/spe_encoder.h"
#include "tests/support/perf_bytes.h"

namespace ptarmigan {
namespace {

constexpr uint32_t kPmuType = 9;
constexpr uint32_t kCpus = 4;
constexpr int32_t kPid = 100;
constexpr uint64_t kFragmentBytes = 64 << 10;
constexpr uint64_t kTicksPerRecord = 25;
constexpr uint64_t kNanosecondsPerTick = 10;
constexpr uint64_t kProgram = 0xaaaac0000000;
constexpr uint64_t kLibrary = 0xffff90000000;
constexpr uint64_t kKernel = 0xffff800008000000;
constexpr uint64_t kCodeBytes = 16 << 20;
constexpr uint64_t kUserSpace = uint64_t{1} << 63;                        // non-secure, EL0
constexpr uint64_t kKernelSpace = uint64_t{1} << 63 | uint64_t{2} << 61;  // non-secure, EL2
constexpr uint64_t kAddressBits = (uint64_t{1} << 56) - 1;

struct Law {
  std::string_view name;
  uint64_t instructions;
  int32_t threads;
  bool is_zipf;
  uint64_t records_per_turn;  // on average, before another thread runs
};
constexpr Law kLaws[] = {{"service", 16384, 16, true, 300},
                         {"loop", 64, kCpus, false, 1 << 20},
                         {"spread", 4096, 16, false, 1}};

// What a sampled instruction is like.
struct Instruction {
  uint64_t pc = 0;  // with its exception level
  uint64_t kind = 0;
  uint64_t miss_one_in = 1;
};

class Machine {
 public:
  explicit Machine(const Law& law) : law_(law), turns_(kCpus) {
    double sum = 0;
    for (uint64_t rank = 0; rank < law.instructions; ++rank) {
      sum += law.is_zipf ? 1.0 / static_cast<double>(rank + 1) : 1.0;
      shares_.push_back(sum);
      instructions_.push_back(MakeInstruction());
    }
  }

  std::string Fragment(uint32_t cpu, uint64_t aux_offset) {
    SpeEncoder encoder(aux_offset);
    while (encoder.offset() < aux_offset + kFragmentBytes) {
      AddRecord(ThreadOn(cpu), &encoder);
    }
    return encoder.bytes();
  }
  uint64_t ticks() const { return ticks_; }

 private:
  struct Turn {
    uint32_t tid = 0;
    uint64_t records_left = 0;
  };

  uint64_t Below(uint64_t end) { return random_() % end; }
  uint16_t Cycles() { return static_cast<uint16_t>(Below(8) == 0 ? Below(600) : Below(40)); }

  // Three of four in the program, the others in a library and in the kernel.
  Instruction MakeInstruction() {
    const uint64_t object = Below(8);
    const uint64_t position = Below(kCodeBytes / 4) * 4;
    uint64_t pc = kUserSpace | (kProgram + position);
    if (object == 6) pc = kUserSpace | (kLibrary + position);
    if (object == 7) pc = kKernelSpace | ((kKernel + position) & kAddressBits);
    return {.pc = pc, .kind = Below(4), .miss_one_in = 2 + Below(60)};
  }

  const Instruction& PickInstruction() {
    const double share = shares_.back() * static_cast<double>(Below(1 << 30)) / (1 << 30);
    return instructions_[static_cast<size_t>(std::ranges::upper_bound(shares_, share) -
                                             shares_.begin())];
  }

  uint32_t ThreadOn(uint32_t cpu) {
    Turn& turn = turns_[cpu];
    if (turn.records_left == 0) {
      const uint64_t threads = static_cast<uint64_t>(law_.threads) / kCpus;
      turn.tid = static_cast<uint32_t>(kPid + cpu * threads + Below(threads));
      turn.records_left = 1 + Below(2 * law_.records_per_turn);
    }
    --turn.records_left;
    return turn.tid;
  }

  void AddRecord(uint32_t tid, SpeEncoder* encoder) {
    const Instruction& instruction = PickInstruction();
    ticks_ += kTicksPerRecord;
    encoder->Address(0, instruction.pc);
    encoder->Context(1, tid);
    const uint16_t issue = Cycles();
    const bool is_miss = Below(instruction.miss_one_in) == 0;
    if (instruction.kind == 3) {
      encoder->Operation(2, 1).Events(is_miss ? 0x82 : 0x02, 2).Counter(1, issue);
      encoder->Counter(0, static_cast<uint16_t>(issue + 2));
      encoder->Address(1, PickInstruction().pc);
    } else {
      const bool is_store = instruction.kind == 2;
      encoder->Operation(1, is_store ? 1 : 0).Events(is_miss ? 0x1e : 0x16, 2).Counter(1, issue);
      encoder->Counter(0, static_cast<uint16_t>(issue + Cycles()));
      encoder->Address(2, 0xffff00000000 + Below(uint64_t{1} << 22) * 8);
      encoder->Counter(2, static_cast<uint16_t>(Below(4)));
      if (!is_store) encoder->DataSource(is_miss ? (Below(2) == 0 ? 8 : 14) : 0, 1);
    }
    encoder->PadTo(1).Timestamp(ticks_).PadTo(64);
  }

  const Law& law_;
  std::mt19937_64 random_{1};
  std::vector<double> shares_;  // of the instruction and those before it
  std::vector<Instruction> instructions_;
  std::vector<Turn> turns_;  // by CPU
  uint64_t ticks_ = 1'000'000;
};

class RecordingWriter {
 public:
  explicit RecordingWriter(const Law& law) : law_(law), machine_(law) {}

  std::string Write(uint64_t aux_bytes) {
    PerfAttr attr;
    attr.type = kPmuType;
    attr.config = 1;  // ts_enable
    attr.period = 1024;
    attr.sample_type |= kSampleIdentifier;
    attr.ids = {1};
    attr.size_bytes = 128;
    file_.AddAttr(attr);
    AddSideBand();
    std::vector<uint64_t> offsets(kCpus);
    for (uint64_t written = 0; written < aux_bytes; written += kCpus * kFragmentBytes) {
      for (uint32_t cpu = 0; cpu < kCpus; ++cpu) {
        const std::string bytes = machine_.Fragment(cpu, offsets[cpu]);
        AddFragment(cpu, offsets[cpu], bytes);
        offsets[cpu] += bytes.size();
      }
      file_.AddFinishedRound();
    }
    return file_.File();
  }

 private:
  std::string Trailer(const PerfWho& who) {
    return file_.Writer().Text(file_.Trailer(who)).U64(1).bytes();
  }

  void AddSideBand() {
    file_.AddRecord(kRecordTimeConv, 0,
                    file_.Writer().U64(0).U64(kNanosecondsPerTick).U64(0).bytes());
    file_.AddRecord(kRecordAuxtraceInfo, 0,
                    file_.Writer().U32(4).U32(0).U64(kPmuType).U64(1).bytes());
    for (int32_t tid = kPid; tid < kPid + law_.threads; ++tid) {
      file_.AddRecord(kRecordComm, 0,
                      file_.Writer()
                          .U32(kPid)
                          .U32(static_cast<uint32_t>(tid))
                          .Text(PaddedName("worker"))
                          .Text(Trailer({.pid = kPid, .tid = tid}))
                          .bytes());
    }
    AddMapping(kPid, kProgram, 0, "/bin/worker");
    AddMapping(kPid, kLibrary, 0, "/lib/libworker.so");
    AddMapping(-1, kKernel, kKernel, "[kernel.kallsyms]_text");
  }

  void AddMapping(int32_t pid, uint64_t start, uint64_t offset, std::string_view path) {
    const bool is_kernel = pid < 0;
    file_.AddRecord(kRecordMmap, is_kernel ? 1 : 2,
                    file_.Writer()
                        .U32(static_cast<uint32_t>(pid))
                        .U32(is_kernel ? 0U : static_cast<uint32_t>(pid))
                        .U64(start)
                        .U64(kCodeBytes)
                        .U64(offset)
                        .Text(PaddedName(std::string(path)))
                        .Text(Trailer({.pid = pid, .tid = is_kernel ? 0 : pid}))
                        .bytes());
  }

  void AddFragment(uint32_t cpu, uint64_t offset, const std::string& bytes) {
    const PerfWho who{
        .pid = kPid, .tid = kPid, .time_ns = machine_.ticks() * kNanosecondsPerTick, .cpu = cpu};
    file_.AddRecord(kRecordAux, 0,
                    file_.Writer().U64(offset).U64(bytes.size()).U64(0).Text(Trailer(who)).bytes());
    file_.AddRecord(kRecordAuxtrace, 0,
                    file_.Writer()
                        .U64(bytes.size())
                        .U64(offset)
                        .U64(1)
                        .U32(cpu)
                        .U32(UINT32_MAX)
                        .U32(cpu)
                        .U32(0)
                        .bytes());
    file_.AddBytes(bytes);
  }

  const Law& law_;
  Machine machine_;
  PerfFileBuilder file_;
};

}  // namespace
}  // namespace ptarmigan

int main(int argc, char** argv) {
  const ptarmigan::Law* law = nullptr;
  uint64_t mebibytes = 0;
  if (argc == 4) {
    for (const ptarmigan::Law& known : ptarmigan::kLaws) {
      if (known.name == argv[1]) law = &known;
    }
    const std::string_view text = argv[2];
    std::from_chars(text.data(), text.data() + text.size(), mebibytes);
  }
  if (law == nullptr || mebibytes == 0) {
    std::fprintf(stderr, "usage: spe_recording service|loop|spread AUX-MEBIBYTES RECORDING\n");
    return 2;
  }
  std::ofstream(argv[3], std::ios::binary)
      << ptarmigan::RecordingWriter(*law).Write(mebibytes << 20);
  return 0;
}
