#include "tests/encoders/pt_packets.h"

#include "base/check.h"

namespace ptarmigan {
namespace {

constexpr unsigned kShortBranches = 6;
constexpr unsigned kLongBranches = 47;
constexpr uint8_t kExtension = 0x02;

// How an address packet holds its address: the upper 3 bits of its first byte.
enum AddressForm : uint8_t {
  kSuppressed = 0,
  kUpdate16 = 1,
  kUpdate32 = 2,
  kExtend48 = 3,
  kUpdate48 = 4,
  kFull = 6,
};

uint8_t OpcodeOf(PtPacketKind kind) {
  switch (kind) {
    case PtPacketKind::kTip:
      return 0x0d;
    case PtPacketKind::kTipPge:
      return 0x11;
    case PtPacketKind::kTipPgd:
      return 0x01;
    case PtPacketKind::kFup:
      return 0x1d;
    default:
      CHECK(false);
      return 0;
  }
}

unsigned AddressBytes(AddressForm form) {
  switch (form) {
    case kSuppressed:
      return 0;
    case kUpdate16:
      return 2;
    case kUpdate32:
      return 4;
    case kExtend48:
    case kUpdate48:
      return 6;
    case kFull:
      return 8;
  }
  return 0;
}

bool SignExtends48(uint64_t ip) {
  const uint64_t upper = ip >> 47;
  return upper == 0 || upper == 0x1ffff;
}

}  // namespace

std::string_view PtPacketName(PtPacketKind kind) {
  switch (kind) {
    case PtPacketKind::kPad:
      return "PAD";
    case PtPacketKind::kTntShort:
      return "TNT";
    case PtPacketKind::kTntLong:
      return "TNT long";
    case PtPacketKind::kTip:
      return "TIP";
    case PtPacketKind::kTipPge:
      return "TIP.PGE";
    case PtPacketKind::kTipPgd:
      return "TIP.PGD";
    case PtPacketKind::kFup:
      return "FUP";
    case PtPacketKind::kPsb:
      return "PSB";
    case PtPacketKind::kPsbEnd:
      return "PSBEND";
    case PtPacketKind::kModeExec:
      return "MODE.Exec";
    case PtPacketKind::kModeTsx:
      return "MODE.TSX";
    case PtPacketKind::kTsc:
      return "TSC";
    case PtPacketKind::kTma:
      return "TMA";
    case PtPacketKind::kMtc:
      return "MTC";
    case PtPacketKind::kCyc:
      return "CYC";
    case PtPacketKind::kCbr:
      return "CBR";
    case PtPacketKind::kOvf:
      return "OVF";
    case PtPacketKind::kPip:
      return "PIP";
    case PtPacketKind::kVmcs:
      return "VMCS";
    case PtPacketKind::kMnt:
      return "MNT";
    case PtPacketKind::kPtw:
      return "PTW";
    case PtPacketKind::kExstop:
      return "EXSTOP";
    case PtPacketKind::kMwait:
      return "MWAIT";
    case PtPacketKind::kPwre:
      return "PWRE";
    case PtPacketKind::kPwrx:
      return "PWRX";
    case PtPacketKind::kCfe:
      return "CFE";
    case PtPacketKind::kEvd:
      return "EVD";
    case PtPacketKind::kTrig:
      return "TRIG";
    case PtPacketKind::kStop:
      return "STOP";
  }
  return "?";
}

void PtPacketWriter::Begin(PtPacketKind kind) {
  packets_.push_back({.offset = static_cast<uint32_t>(bytes_.size()), .step = step_, .kind = kind});
}

void PtPacketWriter::End() {
  packets_.back().size_bytes = static_cast<uint16_t>(bytes_.size() - packets_.back().offset);
}

void PtPacketWriter::Number(uint64_t value, unsigned size_bytes) {
  for (unsigned i = 0; i < size_bytes; ++i) Byte(value >> (8 * i));
}

void PtPacketWriter::Extended(PtPacketKind kind, uint8_t opcode, uint64_t payload,
                              unsigned size_bytes) {
  Begin(kind);
  Byte(kExtension);
  Byte(opcode);
  Number(payload, size_bytes);
  End();
}

void PtPacketWriter::Pad(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Begin(PtPacketKind::kPad);
    Byte(0);
    End();
  }
}

// A one stands before the oldest branch.
void PtPacketWriter::TntShort(uint64_t bits, unsigned count) {
  CHECK(count >= 1 && count <= kShortBranches);
  Begin(PtPacketKind::kTntShort);
  Byte((uint64_t{1} << count | bits) << 1);
  End();
}

void PtPacketWriter::TntLong(uint64_t bits, unsigned count) {
  CHECK(count >= 1 && count <= kLongBranches);
  Extended(PtPacketKind::kTntLong, 0xa3, uint64_t{1} << count | bits, 6);
}

void PtPacketWriter::Address(PtPacketKind kind, uint64_t ip) {
  AddressForm form = kFull;
  if (has_last_ip_ && ip >> 16 == last_ip_ >> 16) {
    form = kUpdate16;
  } else if (has_last_ip_ && ip >> 32 == last_ip_ >> 32) {
    form = kUpdate32;
  } else {
    const bool may_keep = has_last_ip_ && ip >> 48 == last_ip_ >> 48;
    keeps_upper_ = form_.vary_compression && !keeps_upper_;
    if (may_keep && (keeps_upper_ || !SignExtends48(ip))) {
      form = kUpdate48;
    } else if (SignExtends48(ip)) {
      form = kExtend48;
    }
  }
  Begin(kind);
  Byte(uint64_t{form} << 5 | OpcodeOf(kind));
  Number(ip, AddressBytes(form));
  End();
  last_ip_ = ip;
  has_last_ip_ = true;
}

void PtPacketWriter::AddressSuppressed(PtPacketKind kind) {
  Begin(kind);
  Byte(uint64_t{kSuppressed} << 5 | OpcodeOf(kind));
  End();
}

void PtPacketWriter::Psb() {
  constexpr unsigned kRepeats = 8;
  Begin(PtPacketKind::kPsb);
  for (unsigned i = 0; i < kRepeats; ++i) Number(0x8202, 2);
  End();
  ForgetLastAddress();
}

void PtPacketWriter::ModeExec(bool is_64_bit) {
  Begin(PtPacketKind::kModeExec);
  Byte(0x99);
  Byte(is_64_bit ? 1 : 2);  // CS.L, CS.D
  End();
}

void PtPacketWriter::ModeTsx(const Transaction& transaction) {
  Begin(PtPacketKind::kModeTsx);
  Byte(0x99);
  Byte(0x20U | (transaction.running ? 1U : 0U) | (transaction.aborted ? 2U : 0U));
  End();
}

void PtPacketWriter::Tsc(uint64_t tsc) {
  Begin(PtPacketKind::kTsc);
  Byte(0x19);
  Number(tsc, 7);
  End();
}

void PtPacketWriter::Mtc(uint64_t ctc_bits) {
  Begin(PtPacketKind::kMtc);
  Byte(0x59);
  Byte(ctc_bits);
  End();
}

void PtPacketWriter::Cyc(uint64_t cycles) {
  Begin(PtPacketKind::kCyc);
  Byte((cycles & 0x1f) << 3 | (cycles >> 5 != 0 ? 4U : 0U) | 3U);
  for (cycles >>= 5; cycles != 0; cycles >>= 7) {
    Byte((cycles & 0x7f) << 1 | (cycles >> 7 != 0 ? 1U : 0U));
  }
  End();
}

void PtPacketWriter::Tma(const Alignment& alignment) {
  constexpr uint64_t kFastCounterMask = 0x1ff;
  Extended(PtPacketKind::kTma, 0x73,
           (alignment.ctc & 0xffff) | (alignment.fast_counter & kFastCounterMask) << 24, 5);
}

void PtPacketWriter::Ptw(const PtWrite& write) {
  const uint8_t opcode =
      static_cast<uint8_t>(0x12U | (write.wide ? 0x20U : 0U) | (write.has_ip ? 0x80U : 0U));
  Extended(PtPacketKind::kPtw, opcode, write.payload, write.wide ? 8 : 4);
}

void PtPacketWriter::Cfe(const ControlEvent& event) {
  Extended(PtPacketKind::kCfe, 0x13,
           event.type | (event.has_ip ? 0x80U : 0U) | uint64_t{event.vector} << 8, 2);
}

void PtPacketWriter::Evd(uint8_t type, uint64_t payload) {
  Extended(PtPacketKind::kEvd, 0x53, type, 1);
  Number(payload, 8);
  End();
}

void PtPacketWriter::Mnt(uint64_t payload) {
  Extended(PtPacketKind::kMnt, 0xc3, 0x88, 1);
  Number(payload, 8);
  End();
}

// Bits of the triggers that fired; no address and no instruction count.
void PtPacketWriter::Trig(uint8_t bits) {
  Begin(PtPacketKind::kTrig);
  Byte(0xd9);
  Byte(0);
  Byte(bits);
  End();
}

void PtPacketWriter::PsbEnd() { Extended(PtPacketKind::kPsbEnd, 0x23, 0, 0); }
void PtPacketWriter::Cbr(unsigned ratio) { Extended(PtPacketKind::kCbr, 0x03, ratio, 2); }
void PtPacketWriter::Ovf() {
  Extended(PtPacketKind::kOvf, 0xf3, 0, 0);
  ForgetLastAddress();
}
// Bits 51:5 of CR3, above the bit that tells of virtual machines.
void PtPacketWriter::Pip(uint64_t cr3) { Extended(PtPacketKind::kPip, 0x43, cr3 >> 5 << 1, 6); }
void PtPacketWriter::Vmcs(uint64_t base) { Extended(PtPacketKind::kVmcs, 0xc8, base >> 12, 5); }
void PtPacketWriter::Exstop(bool has_ip) {
  Extended(PtPacketKind::kExstop, has_ip ? 0xe2 : 0x62, 0, 0);
}
void PtPacketWriter::Mwait(uint32_t hints, uint32_t extensions) {
  Extended(PtPacketKind::kMwait, 0xc2, hints | uint64_t{extensions} << 32, 8);
}
void PtPacketWriter::Pwre(uint16_t states) { Extended(PtPacketKind::kPwre, 0x22, states, 2); }
void PtPacketWriter::Pwrx(uint64_t states) { Extended(PtPacketKind::kPwrx, 0xa2, states, 5); }
void PtPacketWriter::Stop() { Extended(PtPacketKind::kStop, 0x83, 0, 0); }

}  // namespace ptarmigan
