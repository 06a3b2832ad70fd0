// The recording of tools/bench's part "spe": what a machine with Arm SPE records of a few busy threads, with times, thread
// ids and loads, stores and branches of a few thousand hot instructions.
//
//   spe_recording AUX-MEBIBYTES RECORDING
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
constexpr int32_t kThreads = 16;
constexpr uint64_t kInstructions = 4000;
constexpr uint64_t kFragmentBytes = 64 << 10;
constexpr uint64_t kTicksPerRecord = 25;
constexpr uint64_t kNanosecondsPerTick = 10;
constexpr uint64_t kCode = 0xaaaac0000000;
constexpr uint64_t kUserSpace = uint64_t{1} << 63;  // non-secure, EL0

class Machine {
 public:
  // A whole number of records of 64 bytes, as much as fits a fragment.
  std::string Fragment(uint32_t cpu, uint64_t aux_offset) {
    SpeEncoder encoder(aux_offset);
    const auto tid = static_cast<uint32_t>(100 + cpu * kThreads / kCpus + Below(kThreads / kCpus));
    while (encoder.offset() < aux_offset + kFragmentBytes) AddRecord(tid, &encoder);
    return encoder.bytes();
  }
  uint64_t ticks() const { return ticks_; }

 private:
  uint64_t Below(uint64_t end) { return random_() % end; }
  uint16_t Cycles() { return static_cast<uint16_t>(Below(8) == 0 ? Below(600) : Below(40)); }

  void AddRecord(uint32_t tid, SpeEncoder* encoder) {
    // Few instructions take most of the time.
    const uint64_t instruction = Below(kInstructions) * Below(kInstructions) / kInstructions;
    ticks_ += kTicksPerRecord;
    encoder->Address(0, kUserSpace | (kCode + instruction * 4));
    encoder->Context(1, tid);
    const uint16_t issue = Cycles();
    const uint64_t kind = instruction % 4;
    if (kind == 3) {
      encoder->Operation(2, 1).Events(Below(20) == 0 ? 0x82 : 0x02, 2).Counter(1, issue);
      encoder->Counter(0, static_cast<uint16_t>(issue + 2));
      encoder->Address(1, kUserSpace | (kCode + Below(kInstructions) * 4));
    } else {
      const bool is_miss = Below(6) == 0;
      encoder->Operation(1, kind == 2 ? 1 : 0).Events(is_miss ? 0x1e : 0x16, 2).Counter(1, issue);
      encoder->Counter(0, static_cast<uint16_t>(issue + Cycles()));
      encoder->Address(2, 0xffff00000000 + Below(uint64_t{1} << 22) * 8);
      encoder->Counter(2, static_cast<uint16_t>(Below(4)));
      if (kind != 2) encoder->DataSource(is_miss ? (Below(2) == 0 ? 8 : 14) : 0, 1);
    }
    encoder->PadTo(1).Timestamp(ticks_).PadTo(64);
  }

  std::mt19937_64 random_{1};
  uint64_t ticks_ = 1'000'000;
};

std::string Recording(uint64_t aux_bytes) {
  PerfFileBuilder file;
  PerfAttr attr;
  attr.type = kPmuType;
  attr.config = 1;  // ts_enable
  attr.period = 1024;
  attr.sample_type |= kSampleIdentifier;
  attr.ids = {1};
  attr.size_bytes = 128;
  file.AddAttr(attr);
  Machine machine;
  const auto trailer = [&](const PerfWho& who) {
    return file.Writer().Text(file.Trailer(who)).U64(1).bytes();
  };
  const auto now = [&] { return machine.ticks() * kNanosecondsPerTick; };
  file.AddRecord(kRecordTimeConv, 0, file.Writer().U64(0).U64(kNanosecondsPerTick).U64(0).bytes());
  file.AddRecord(kRecordAuxtraceInfo, 0, file.Writer().U32(4).U32(0).U64(kPmuType).U64(1).bytes());
  for (int32_t tid = 100; tid < 100 + kThreads; ++tid) {
    file.AddRecord(kRecordComm, 0,
                   file.Writer()
                       .U32(100)
                       .U32(static_cast<uint32_t>(tid))
                       .Text(PaddedName("worker"))
                       .Text(trailer({.pid = 100, .tid = tid}))
                       .bytes());
  }
  file.AddRecord(kRecordMmap, 2,
                 file.Writer()
                     .U32(100)
                     .U32(100)
                     .U64(kCode)
                     .U64(1 << 20)
                     .U64(0)
                     .Text(PaddedName("/bin/worker"))
                     .Text(trailer({.pid = 100, .tid = 100}))
                     .bytes());
  std::vector<uint64_t> offsets(kCpus);
  for (uint64_t written = 0; written < aux_bytes; written += kCpus * kFragmentBytes) {
    for (uint32_t cpu = 0; cpu < kCpus; ++cpu) {
      const std::string bytes = machine.Fragment(cpu, offsets[cpu]);
      const PerfWho who{.pid = 100, .tid = 100, .time_ns = now(), .cpu = cpu};
      file.AddRecord(
          kRecordAux, 0,
          file.Writer().U64(offsets[cpu]).U64(bytes.size()).U64(0).Text(trailer(who)).bytes());
      file.AddRecord(kRecordAuxtrace, 0,
                     file.Writer()
                         .U64(bytes.size())
                         .U64(offsets[cpu])
                         .U64(1)
                         .U32(cpu)
                         .U32(UINT32_MAX)
                         .U32(cpu)
                         .U32(0)
                         .bytes());
      file.AddBytes(bytes);
      offsets[cpu] += bytes.size();
    }
    file.AddFinishedRound();
  }
  return file.File();
}

}  // namespace
}  // namespace ptarmigan

int main(int argc, char** argv) {
  uint64_t mebibytes = 0;
  if (argc == 3) {
    const std::string_view text = argv[1];
    std::from_chars(text.data(), text.data() + text.size(), mebibytes);
  }
  if (mebibytes == 0) {
    std::fprintf(stderr, "usage: spe_recording AUX-MEBIBYTES RECORDING\n");
    return 2;
  }
  std::ofstream(argv[2], std::ios::binary) << ptarmigan::Recording(mebibytes << 20);
  return 0;
}
