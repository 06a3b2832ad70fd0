// PtTrace: the Intel PT packets that a processor would have sent while steps of a PtWalk were executed, and what a decoder
// can know of them. Rules of the Intel SDM, volume 3, chapter "Intel Processor Trace"; shares no code with any decoder.
//
//   PSB+ │ TIP.PGE │ TNT TIP MTC … PSB+ … │ FUP TIP.PGD │ … │ TIP.PGE │ … OVF FUP … │ FUP TIP.PGD
//    start  user code                       interrupt         goes on     loss          end
//
// What no decoder can know is kept apart from the truth: an overflow here always comes right behind a packet that ends an
// instruction's run, so that `visible` holds exactly what the bytes say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/encoders/pt_packets.h"
#include "tests/encoders/pt_walk.h"

namespace ptarmigan {

// Decoders disagree on what a return that was not compressed does with the stack of return addresses: libipt's leaves it
// alone, perf's takes the top away.
enum class PtReturnReading : uint8_t {
  kBoth,  // traces that mean the same to both: such a return empties the processor's stack
  kEveryReturnPops,  // as perf
  kCompressedPops,   // as libipt
};

struct PtTraceSettings {
  static constexpr uint64_t kTscPerCtc = 125;  // CPUID 15H as 250:2
  static constexpr unsigned kNominalRatio = 30;

  uint64_t seed = 1;
  bool return_compression = true;
  PtReturnReading reading = PtReturnReading::kBoth;
  bool tsc = true;
  bool mtc = true;          // only with tsc
  unsigned mtc_period = 3;  // every 2^n ticks of the CTC
  bool cyc = false;
  uint64_t cyc_threshold = 0;  // cycles
  bool frequency_changes = false;
  size_t psb_bytes = 2048;  // 0: only where tracing begins
  bool long_tnt = false;
  bool padding = false;
  bool vary_compression = false;
  bool ptwrite = false;
  bool transactions = false;
  bool paging = false;         // PIP, VMCS
  bool power = false;          // EXSTOP, PWRE, PWRX
  bool event_trace = false;    // CFE and EVD, which older decoders do not know
  bool triggers = false;       // TRIG, as new
  bool modes = false;          // the mode of execution wherever tracing begins
  bool kernel = false;         // the kernel's steps too
  size_t overflows_apart = 0;  // steps, about; 0: none
  size_t lost_max = 1000;      // steps of one overflow
  size_t restarts_apart =
      0;  // tracing ends and begins again, as after a buffer that was full; 0: never
  bool stop_at_end = false;  // TraceStop
};

struct PtTrace {
  // What was lost before a visible step.
  struct Gap {
    enum class Kind : uint8_t { kOverflow, kRestart };
    Kind kind = Kind::kOverflow;
    size_t visible = 0;   // index of the first step behind it
    uint32_t offset = 0;  // of the OVF, or where the new trace begins
  };
  struct Sync {
    uint32_t offset = 0;  // of the PSB
    size_t visible = 0;   // index of the next step
    bool has_ip = false;  // PSB+ says where
  };
  // Tracing paused behind a visible step.
  struct Pause {
    uint32_t offset = 0;  // where the bytes so far end
    size_t visible = 0;   // steps so far
    bool interrupt = false;
    uint64_t next = 0;  // address that was not executed yet
  };

  std::string bytes;
  std::vector<PtPacketPlace> packets;
  std::vector<uint32_t> visible;  // steps of the walk
  std::vector<Gap> gaps;
  std::vector<Sync> syncs;
  std::vector<Pause> pauses;
  uint64_t overflows = 0;
};

// `steps`: of one thread or CPU, in order.
PtTrace EncodePt(const PtWalk& walk, const std::vector<uint32_t>& steps,
                 const PtTraceSettings& settings);

}  // namespace ptarmigan
