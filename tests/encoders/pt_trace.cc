#include "tests/encoders/pt_trace.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/check.h"

namespace ptarmigan {
namespace {

constexpr size_t kReturnStackMax = 64;  // SDM: CALLs that RET compression looks back to
constexpr unsigned kShortBranches = 6;
constexpr unsigned kLongBranches = 47;
constexpr uint64_t kCr3 = 0x12345000;

class PtTraceEncoder {
 public:
  PtTraceEncoder(const PtWalk& walk, const std::vector<uint32_t>& steps,
                 const PtTraceSettings& settings)
      : walk_(walk),
        steps_(steps),
        settings_(settings),
        random_(settings.seed),
        writer_({.vary_compression = settings.vary_compression}),
        until_overflow_(AfterSome(settings.overflows_apart)),
        until_restart_(AfterSome(settings.restarts_apart)) {}

  PtTrace Encode();

 private:
  uint64_t Random(uint64_t below) { return random_() % below; }
  bool OneIn(uint64_t count) { return Random(count) == 0; }
  size_t AfterSome(size_t apart) { return apart == 0 ? SIZE_MAX : apart / 2 + Random(apart) + 1; }
  const PtStep& StepAt(size_t position) const { return walk_.steps()[steps_[position]]; }
  bool IsVisible(const PtStep& step) const { return settings_.kernel || !step.Is(PtStep::kKernel); }
  uint64_t Ip(const PtStep& step) const { return walk_.AddressOf(step); }

  // Whether tracing pauses behind the step, and goes on with a TIP.PGE.
  bool PausesAfter(size_t position) const;
  void Begin(const PtStep& step);
  void Execute(const PtStep& step);
  void Branch(const PtStep& step);
  void Pause(const PtStep& step);
  void EnterKernel(const PtStep& step, const PtStep& kernel_step);
  void Return(uint64_t next);
  void Push(uint64_t address);
  void Branched(bool taken);
  void FlushTnt();
  void Transfer(PtPacketKind kind, uint64_t ip);
  void Psb(const PtStep* step);
  void Time(uint64_t tsc);
  void Cycles();
  void Extras(const PtStep& step);
  void InPause();
  bool Overflow();
  bool Restart();

  const PtWalk& walk_;
  const std::vector<uint32_t>& steps_;
  const PtTraceSettings& settings_;
  std::mt19937_64 random_;
  PtPacketWriter writer_;
  PtTrace trace_;

  size_t position_ = 0;  // in steps_
  bool enabled_ = false;
  bool fresh_ = true;  // nothing was sent since tracing began
  bool in_transaction_ = false;
  bool sent_branch_ = false;  // for the present step
  uint64_t tnt_ = 0;
  unsigned tnt_count_ = 0;
  std::vector<uint64_t> return_stack_;
  size_t last_psb_ = 0;
  uint64_t now_ = 0;
  uint64_t mtcs_ = 0;  // CTC >> period, at the last one
  uint64_t cycles_tsc_ = 0;
  uint64_t cycles_left_ = 0;  // parts of kNominalRatio
  unsigned ratio_ = PtTraceSettings::kNominalRatio;
  size_t until_overflow_;
  size_t until_restart_;
};

bool PtTraceEncoder::PausesAfter(size_t position) const {
  const PtStep& step = StepAt(position);
  if (!step.Is(PtStep::kBreakAfter)) return false;
  return !settings_.kernel || position + 1 == steps_.size();
}

void PtTraceEncoder::Cycles() {
  if (!settings_.cyc) return;
  const uint64_t parts = (now_ - cycles_tsc_) * ratio_ + cycles_left_;
  const uint64_t cycles = parts / PtTraceSettings::kNominalRatio;
  if (cycles == 0 || cycles < settings_.cyc_threshold) return;
  cycles_tsc_ = now_;
  cycles_left_ = parts % PtTraceSettings::kNominalRatio;
  writer_.Cyc(cycles);
}

void PtTraceEncoder::FlushTnt() {
  if (tnt_count_ == 0) return;
  Cycles();
  if (tnt_count_ > kShortBranches || (settings_.long_tnt && OneIn(8))) {
    writer_.TntLong(tnt_, tnt_count_);
  } else {
    writer_.TntShort(tnt_, tnt_count_);
  }
  tnt_ = 0;
  tnt_count_ = 0;
}

void PtTraceEncoder::Branched(bool taken) {
  tnt_ = tnt_ << 1 | (taken ? 1U : 0U);
  sent_branch_ = true;
  if (++tnt_count_ == (settings_.long_tnt ? kLongBranches : kShortBranches)) FlushTnt();
}

void PtTraceEncoder::Transfer(PtPacketKind kind, uint64_t ip) {
  FlushTnt();
  Cycles();
  writer_.Address(kind, ip);
  sent_branch_ = true;
}

// MTCs for every multiple of the period that passed.
void PtTraceEncoder::Time(uint64_t tsc) {
  if (settings_.mtc && settings_.tsc && !fresh_) {
    const uint64_t mtcs = tsc / PtTraceSettings::kTscPerCtc >> settings_.mtc_period;
    if (mtcs != mtcs_) FlushTnt();
    while (mtcs_ < mtcs) {
      ++mtcs_;
      now_ = (mtcs_ << settings_.mtc_period) * PtTraceSettings::kTscPerCtc;
      Cycles();
      writer_.Mtc(mtcs_);
    }
  }
  now_ = tsc;
}

// `step`: the next one, if tracing is enabled.
void PtTraceEncoder::Psb(const PtStep* step) {
  FlushTnt();
  last_psb_ = writer_.size();
  trace_.syncs.push_back({.offset = static_cast<uint32_t>(writer_.size()),
                          .visible = trace_.visible.size(),
                          .has_ip = step != nullptr});
  writer_.Psb();
  if (settings_.tsc) {
    writer_.Tsc(now_);
    if (settings_.mtc) {
      const uint64_t ctc = now_ / PtTraceSettings::kTscPerCtc;
      writer_.Tma({.ctc = ctc, .fast_counter = now_ % PtTraceSettings::kTscPerCtc});
      mtcs_ = ctc >> settings_.mtc_period;
    }
  }
  if (settings_.padding && OneIn(4)) writer_.Pad(1 + Random(3));
  writer_.Cbr(ratio_);
  writer_.ModeExec(walk_.program().options().is_64_bit);
  if (settings_.transactions) writer_.ModeTsx({.running = in_transaction_});
  if (settings_.paging) writer_.Pip(kCr3);
  if (step != nullptr) writer_.Address(PtPacketKind::kFup, Ip(*step));
  writer_.PsbEnd();
  return_stack_.clear();
  if (fresh_) {
    cycles_tsc_ = now_;
    cycles_left_ = 0;
  }
  fresh_ = false;
}

// Tracing begins, or goes on, at the step.
void PtTraceEncoder::Begin(const PtStep& step) {
  const bool due = settings_.psb_bytes > 0 && writer_.size() >= last_psb_ + settings_.psb_bytes;
  if (fresh_ || (due && OneIn(2))) Psb(nullptr);
  Cycles();
  if (settings_.modes) writer_.ModeExec(walk_.program().options().is_64_bit);
  writer_.Address(PtPacketKind::kTipPge, Ip(step));
  return_stack_.clear();
  enabled_ = true;
}

void PtTraceEncoder::Push(uint64_t address) {
  if (return_stack_.size() == kReturnStackMax) return_stack_.erase(return_stack_.begin());
  return_stack_.push_back(address);
}

void PtTraceEncoder::Return(uint64_t next) {
  if (settings_.return_compression && !return_stack_.empty() && return_stack_.back() == next) {
    return_stack_.pop_back();
    Branched(true);
    return;
  }
  if (settings_.reading == PtReturnReading::kBoth) return_stack_.clear();
  if (settings_.reading == PtReturnReading::kEveryReturnPops && !return_stack_.empty()) {
    return_stack_.pop_back();
  }
  Transfer(PtPacketKind::kTip, next);
}

void PtTraceEncoder::Branch(const PtStep& step) {
  const X86Instruction& instruction = walk_.InstructionOf(step);
  switch (instruction.flow) {
    case X86Flow::kNext:
    case X86Flow::kJump:
    case X86Flow::kSyscall:
      break;
    case X86Flow::kPtWrite:
      if (settings_.ptwrite) {
        FlushTnt();
        Cycles();
        const bool has_ip = OneIn(2);
        writer_.Ptw({.payload = Random(UINT32_MAX), .wide = OneIn(2), .has_ip = has_ip});
        if (has_ip) writer_.Address(PtPacketKind::kFup, instruction.address);
      }
      break;
    case X86Flow::kConditional:
      Branched(step.Is(PtStep::kTaken));
      break;
    case X86Flow::kCall:
      if (!instruction.is_call_to_next()) Push(instruction.end());
      break;
    case X86Flow::kIndirectCall:
      Push(instruction.end());
      [[fallthrough]];
    case X86Flow::kIndirectJump:
    case X86Flow::kSystemReturn:
      Transfer(PtPacketKind::kTip, step.next);
      break;
    case X86Flow::kReturn:
      Return(step.next);
      break;
  }
}

void PtTraceEncoder::Pause(const PtStep& step) {
  if (walk_.InstructionOf(step).flow == X86Flow::kSyscall) {
    FlushTnt();
    Cycles();
  } else {
    Transfer(PtPacketKind::kFup, step.next);
  }
  writer_.AddressSuppressed(PtPacketKind::kTipPgd);
  enabled_ = false;
  trace_.pauses.push_back({.offset = static_cast<uint32_t>(writer_.size()),
                           .visible = trace_.visible.size(),
                           .interrupt = step.Is(PtStep::kInterrupt),
                           .next = step.next});
}

// A system call or interrupt leads to the kernel, which is traced too.
void PtTraceEncoder::EnterKernel(const PtStep& step, const PtStep& kernel_step) {
  if (walk_.InstructionOf(step).flow != X86Flow::kSyscall) {
    Transfer(PtPacketKind::kFup, step.next);
  }
  Transfer(PtPacketKind::kTip, Ip(kernel_step));
}

void PtTraceEncoder::Execute(const PtStep& step) {
  trace_.visible.push_back(steps_[position_]);
  sent_branch_ = false;
  Branch(step);
  if (PausesAfter(position_)) {
    Pause(step);
  } else if (step.Is(PtStep::kBreakAfter)) {
    EnterKernel(step, StepAt(position_ + 1));
  }
}

// What is neither flow nor time, before the step.
void PtTraceEncoder::Extras(const PtStep& step) {
  if (settings_.padding && OneIn(40)) writer_.Pad(1 + Random(9));
  if (settings_.frequency_changes && OneIn(400)) {
    FlushTnt();
    Cycles();
    ratio_ = 10 + static_cast<unsigned>(Random(27));
    writer_.Cbr(ratio_);
  }
  if (settings_.triggers && OneIn(300)) {
    FlushTnt();
    writer_.Trig(static_cast<uint8_t>(1 + Random(15)));
  }
  const bool may_run = !step.Is(PtStep::kBreakAfter);
  if (settings_.transactions && (in_transaction_ ? OneIn(20) || !may_run : may_run && OneIn(200))) {
    in_transaction_ = !in_transaction_;
    FlushTnt();
    Cycles();
    writer_.ModeTsx({.running = in_transaction_});
    writer_.Address(PtPacketKind::kFup, Ip(step));
  }
}

// While tracing is paused.
void PtTraceEncoder::InPause() {
  if (settings_.event_trace && OneIn(3)) {
    if (OneIn(3)) writer_.Evd(0, 0x7f0000001000 + 8 * Random(1000));
    writer_.Cfe({.type = 1, .vector = static_cast<uint8_t>(32 + Random(200))});
  }
  if (settings_.power && OneIn(4)) {
    writer_.Pwre(0x0200);
    writer_.Exstop(false);
    writer_.Pwrx(1);
  }
  if (settings_.paging && OneIn(3)) {
    writer_.Pip(kCr3 + 0x1000 * Random(3));
    if (OneIn(4)) writer_.Vmcs(0x5000);
  }
}

// Packets are lost from behind the present step to a later one; returns whether.
bool PtTraceEncoder::Overflow() {
  const size_t resume = position_ + 2 + Random(settings_.lost_max);
  if (resume + 1 >= steps_.size()) return false;
  until_overflow_ = AfterSome(settings_.overflows_apart);
  FlushTnt();
  position_ = resume;
  while (position_ + 1 < steps_.size() && !IsVisible(StepAt(position_))) ++position_;
  if (!IsVisible(StepAt(position_))) return false;
  const PtStep& step = StepAt(position_);
  writer_.SetStep(steps_[position_]);
  trace_.gaps.push_back({.kind = PtTrace::Gap::Kind::kOverflow,
                         .visible = trace_.visible.size(),
                         .offset = static_cast<uint32_t>(writer_.size())});
  ++trace_.overflows;
  writer_.Ovf();
  now_ = cycles_tsc_ = step.tsc;
  cycles_left_ = 0;
  mtcs_ = now_ / PtTraceSettings::kTscPerCtc >> settings_.mtc_period;
  return_stack_.clear();
  enabled_ = IsVisible(StepAt(position_ - 1)) && !PausesAfter(position_ - 1);
  if (enabled_) {
    writer_.Address(PtPacketKind::kFup, Ip(step));
    if (OneIn(2)) Psb(&step);
  }
  return true;
}

// Tracing ends behind the present step and begins again later; returns whether.
bool PtTraceEncoder::Restart() {
  const size_t resume = position_ + 1 + Random(settings_.lost_max);
  if (resume + 1 >= steps_.size()) return false;
  until_restart_ = AfterSome(settings_.restarts_apart);
  Pause(StepAt(position_));
  if (settings_.stop_at_end) writer_.Stop();
  position_ = resume;
  fresh_ = true;
  trace_.gaps.push_back({.kind = PtTrace::Gap::Kind::kRestart,
                         .visible = trace_.visible.size(),
                         .offset = static_cast<uint32_t>(writer_.size())});
  return true;
}

PtTrace PtTraceEncoder::Encode() {
  while (position_ < steps_.size()) {
    const PtStep& step = StepAt(position_);
    if (!IsVisible(step)) {
      ++position_;
      continue;
    }
    writer_.SetStep(steps_[position_]);
    Time(step.tsc);
    if (!enabled_) {
      Begin(step);
    } else if (settings_.psb_bytes > 0 && writer_.size() >= last_psb_ + settings_.psb_bytes) {
      Psb(&step);
    }
    Extras(step);
    Execute(step);
    for (size_t* until : {&until_overflow_, &until_restart_}) {
      if (*until > 0 && *until != SIZE_MAX) --*until;
    }
    if (!enabled_) {
      InPause();
    } else if (!in_transaction_ && !step.Is(PtStep::kBreakAfter)) {
      if (until_overflow_ == 0 && sent_branch_ && Overflow()) continue;
      if (until_restart_ == 0 && !step.Is(PtStep::kKernel) && Restart()) continue;
    }
    ++position_;
  }
  if (settings_.stop_at_end) writer_.Stop();
  trace_.bytes = writer_.TakeBytes();
  trace_.packets = writer_.TakePackets();
  return std::move(trace_);
}

}  // namespace

PtTrace EncodePt(const PtWalk& walk, const std::vector<uint32_t>& steps,
                 const PtTraceSettings& settings) {
  CHECK(!settings.kernel || walk.program().options().kernel);
  return PtTraceEncoder(walk, steps, settings).Encode();
}

}  // namespace ptarmigan
