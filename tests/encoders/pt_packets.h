// PtPacketWriter: Intel PT packets as bytes (Intel SDM volume 3, chapter "Intel Processor Trace", packet definitions), with
// a list of which packet lies where. Knows nothing of when a processor sends which: that is pt_trace.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ptarmigan {

enum class PtPacketKind : uint8_t {
  kPad,
  kTntShort,
  kTntLong,
  kTip,
  kTipPge,
  kTipPgd,
  kFup,
  kPsb,
  kPsbEnd,
  kModeExec,
  kModeTsx,
  kTsc,
  kTma,
  kMtc,
  kCyc,
  kCbr,
  kOvf,
  kPip,
  kVmcs,
  kMnt,
  kPtw,
  kExstop,
  kMwait,
  kPwre,
  kPwrx,
  kCfe,
  kEvd,
  kTrig,
  kStop,
};
// "TIP.PGE"
std::string_view PtPacketName(PtPacketKind kind);

struct PtPacketPlace {
  uint32_t offset = 0;
  uint32_t step = 0;  // whose execution, or beginning, it tells; as the writer was told
  uint16_t size_bytes = 0;
  PtPacketKind kind = PtPacketKind::kPad;
};

class PtPacketWriter {
 public:
  struct Form {
    // Of two ways to compress an address to 48 bits (sign-extended, or keeping the last address's upper 16) take
    // now this, now that; processors use the first.
    bool vary_compression = false;
  };
  explicit PtPacketWriter(const Form& form) : form_(form) {}

  // Of the packets to come.
  void SetStep(uint32_t step) { step_ = step; }

  void Pad(size_t count);
  // The oldest of `count` (1 to 6; long: 1 to 47) branches is the highest of the bits.
  void TntShort(uint64_t bits, unsigned count);
  void TntLong(uint64_t bits, unsigned count);
  // kTip, kTipPge, kTipPgd, kFup.
  void Address(PtPacketKind kind, uint64_t ip);
  void AddressSuppressed(PtPacketKind kind);
  // The next address does not depend on those before.
  void ForgetLastAddress() { has_last_ip_ = false; }
  void Psb();  // forgets the last address
  void PsbEnd();
  void ModeExec(bool is_64_bit);
  struct Transaction {
    bool running = false;
    bool aborted = false;
  };
  void ModeTsx(const Transaction& transaction);
  void Tsc(uint64_t tsc);
  struct Alignment {
    uint64_t ctc = 0;           // its low 16 bits are written
    uint64_t fast_counter = 0;  // TSC ticks since it changed; 9 bits
  };
  void Tma(const Alignment& alignment);
  void Mtc(uint64_t ctc_bits);
  void Cyc(uint64_t cycles);
  void Cbr(unsigned ratio);
  void Ovf();
  void Pip(uint64_t cr3);
  void Vmcs(uint64_t base);
  void Mnt(uint64_t payload);
  struct PtWrite {
    uint64_t payload = 0;
    bool wide = false;    // 8 bytes
    bool has_ip = false;  // a FUP follows
  };
  void Ptw(const PtWrite& write);
  void Exstop(bool has_ip);
  void Mwait(uint32_t hints, uint32_t extensions);
  void Pwre(uint16_t states);
  void Pwrx(uint64_t states);
  struct ControlEvent {
    uint8_t type = 0;
    uint8_t vector = 0;
    bool has_ip = false;  // a FUP follows
  };
  void Cfe(const ControlEvent& event);
  void Evd(uint8_t type, uint64_t payload);
  void Trig(uint8_t bits);
  void Stop();

  uint64_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }
  const std::vector<PtPacketPlace>& packets() const { return packets_; }
  std::string TakeBytes() { return std::move(bytes_); }
  std::vector<PtPacketPlace> TakePackets() { return std::move(packets_); }

 private:
  void Begin(PtPacketKind kind);
  void End();
  void Byte(uint64_t value) { bytes_ += static_cast<char>(value & 0xff); }
  void Number(uint64_t value, unsigned size_bytes);
  void Extended(PtPacketKind kind, uint8_t opcode, uint64_t payload, unsigned size_bytes);

  Form form_;
  std::string bytes_;
  std::vector<PtPacketPlace> packets_;
  uint32_t step_ = 0;
  uint64_t last_ip_ = 0;
  bool has_last_ip_ = false;
  bool keeps_upper_ = false;
};

}  // namespace ptarmigan
