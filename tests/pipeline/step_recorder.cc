#include "tests/pipeline/step_recorder.h"

#include <elf.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_map>

#include "base/byte_cursor.h"
#include "decode/instruction.h"
#include "elf/elf_file.h"
#include "tests/support/byte_writer.h"
#include "tests/support/perf_bytes.h"

namespace ptarmigan {
namespace {

constexpr uint64_t kPage = 4096;

// Ends the child whatever happens.
class Stepped {
 public:
  explicit Stepped(pid_t pid) : pid_(pid) {}
  ~Stepped() {
    if (is_running_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  // False once the program has ended.
  bool Wait() {
    int status = 0;
    if (::waitpid(pid_, &status, 0) != pid_ || !WIFSTOPPED(status)) is_running_ = false;
    return is_running_;
  }
  bool Step() { return ::ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr) == 0 && Wait(); }

 private:
  const pid_t pid_;
  bool is_running_ = true;
};

#if defined(__x86_64__)
uint64_t ProgramCounter(pid_t pid) {
  user_regs_struct registers = {};
  return ::ptrace(PTRACE_GETREGS, pid, nullptr, &registers) == 0 ? registers.rip : 0;
}
#else
uint64_t ProgramCounter(pid_t) { return 0; }
#endif

}  // namespace

Result<StepRecording> RecordBySteps(const std::string& program, size_t steps_max) {
  TRY_ASSIGN(const auto file, ElfFile::Open(program));
  const InstructionDecoder decoder(file->arch());
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::personality(ADDR_NO_RANDOMIZE);
    ::execl(program.c_str(), program.c_str(), nullptr);
    ::_exit(127);
  }
  if (pid < 0) return Error{ErrorCode::kUnavailable, "fork failed"};
  Stepped stepped(pid);
  uint64_t at = 0;
  if (!stepped.Wait() || (at = ProgramCounter(pid)) == 0) {
    return Error{ErrorCode::kUnavailable, "programs cannot be stepped here"};
  }
  StepRecording recording;
  // By address: where control goes if the instruction is not a branch that is taken; 0 if it is always taken.
  constexpr uint64_t kNoBranch = UINT64_MAX;
  std::unordered_map<uint64_t, uint64_t> not_taken;
  for (size_t step = 0; step < steps_max; ++step) {
    const auto [known, is_new] = not_taken.try_emplace(at, kNoBranch);
    if (is_new) {
      const Instruction instruction = decoder.Decode(file->ReadAt({at}, kInstructionBytesMax));
      if (instruction.leaves()) known->second = 0;
      if (instruction.kind == Instruction::Kind::kConditionalJump) {
        known->second = at + instruction.size_bytes;
      }
    }
    if (!stepped.Step()) {
      recording.finished = true;
      break;
    }
    const uint64_t next = ProgramCounter(pid);
    if (known->second != kNoBranch && next != known->second) {
      recording.branches.push_back({at, next});
    }
    at = next;
  }
  return recording;
}

std::string PerfDataOf(const StepRecording& recording, const std::string& program,
                       const StepSampling& sampling) {
  constexpr int32_t kPid = 4242;
  constexpr unsigned kFeatureArch = 6;
  constexpr uint16_t kUser = 2;  // PERF_RECORD_MISC_USER
  constexpr uint64_t kBranchStackBit = uint64_t{1} << 11;
  PerfFileBuilder file;
  PerfAttr attr;
  attr.sample_type = PerfAttr::kDefaultSampleType | kBranchStackBit;
  attr.size_bytes = 128;                   // PERF_ATTR_SIZE_VER7: perf 6.1 refuses more
  attr.branch_sample_type = 1U | 1U << 3;  // USER, ANY
  file.AddAttr(attr);
  file.AddFeature(kFeatureArch, HeaderString("x86_64"));
  const PerfWho who{.pid = kPid, .tid = kPid, .time_ns = 1};
  file.AddComm(who, "program");
  const auto elf = ElfFile::Open(program);
  for (const ElfSegment& segment : (*elf)->segments()) {
    if (segment.type != PT_LOAD || (segment.flags & PF_X) == 0) continue;
    const uint64_t skip = segment.vaddr.value % kPage;
    // MMAP2, as perf record asks for: perf2bolt knows no other.
    constexpr uint32_t kMmap2 = 10;
    constexpr uint32_t kReadExecute = 5;
    ByteWriter body;
    body.U32(kPid).U32(kPid).U64(segment.vaddr.value - skip);
    body.U64((segment.memory_bytes + skip + kPage - 1) / kPage * kPage);
    body.U64(segment.offset.value - skip).U32(8).U32(1).U64(99).U64(0);
    body.U32(kReadExecute).U32(2).Text(PaddedName(program)).Text(file.Trailer(who));
    file.AddRecord(kMmap2, kUser, body.bytes());
  }
  uint64_t time_ns = 1000;
  const auto& branches = recording.branches;
  const size_t once = branches.size() / sampling.apart;
  const size_t samples = sampling.samples == 0 ? once : sampling.samples;
  for (size_t sample = 0; sample < samples; ++sample) {
    const size_t end = (sample % once + 1) * sampling.apart;
    const size_t count = std::min(end, sampling.depth);
    time_ns += 1000;
    ByteWriter body;
    body.U64(branches[end - 1].to).U32(kPid).U32(kPid).U64(time_ns).U32(0).U32(0).U64(1000);
    body.U64(count);
    for (size_t i = 0; i < count; ++i) {
      const size_t index = end - 1 - i;
      // Every seventh was mispredicted, every eleventh says nothing.
      const uint64_t flags = index % 7 == 0 ? 1 : index % 11 == 0 ? 0 : 2;
      body.U64(branches[index].from).U64(branches[index].to).U64(flags);
    }
    constexpr uint32_t kSample = 9;
    file.AddRecord(kSample, kUser, body.bytes());
  }
  return file.File();
}

}  // namespace ptarmigan
