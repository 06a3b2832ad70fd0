#include "tests/encoders/pt_flips.h"

#include <algorithm>
#include <random>

#include "base/check.h"
#include "base/str_format.h"
#include "decode/instruction.h"

namespace ptarmigan {
namespace {

// Transfers that a flow shows and that do not explain each other.
struct Oddities {
  uint64_t returns_elsewhere = 0;  // to where no call came from
  uint64_t calls_elsewhere = 0;    // into the middle of a function
  bool operator==(const Oddities&) const = default;
};

class Flipper {
 public:
  Flipper(const PtFlipSubject& subject, PtDecoding clean)
      : subject_(subject),
        epoch_(subject.image->Epochs() - 1),
        instructions_(Arch::kX86_64),
        clean_(std::move(clean)) {}

  Result<PtFlips> Flip(uint64_t seed, size_t count) {
    std::mt19937_64 random(seed);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t offset = random() % subject_.bytes.size();
      TRY(FlipOne(offset, static_cast<unsigned>(random() % 8)));
    }
    return flips_;
  }

 private:
  PtOracleResult ByLibipt(std::string_view trace) const {
    return DecodeByLibipt(trace, [this](uint64_t address, size_t /*decoded*/) {
      return AsText(subject_.image->CodeAt({address}, epoch_));
    });
  }
  Status FlipOne(uint64_t offset, unsigned bit);
  void Judge(const PtDecoding& decoding, uint64_t offset, bool silent);
  bool IsTrue(const PtDecoding::Segment& segment) const;
  Oddities OdditiesOf(const std::vector<uint64_t>& addresses) const;

  const PtFlipSubject& subject_;
  size_t epoch_;
  InstructionDecoder instructions_;
  PtDecoding clean_;
  PtFlips flips_;
};

Oddities Flipper::OdditiesOf(const std::vector<uint64_t>& addresses) const {
  constexpr size_t kSearchedMax = 256;
  Oddities oddities;
  std::vector<uint64_t> stack;
  for (size_t i = 0; i + 1 < addresses.size(); ++i) {
    const uint64_t next = addresses[i + 1];
    const Instruction instruction =
        instructions_.Decode(subject_.image->CodeAt({addresses[i]}, epoch_));
    const uint64_t behind = addresses[i] + instruction.size_bytes;
    if (instruction.is_call() && next != behind) {
      stack.push_back(behind);
      const CodeFunction function = subject_.image->FunctionContaining({next}, epoch_);
      if (!function.empty() && function.start.value != next) ++oddities.calls_elsewhere;
    } else if (instruction.kind == Instruction::Kind::kReturn) {
      const size_t searched = std::min(stack.size(), kSearchedMax);
      const auto end = stack.rbegin() + static_cast<ptrdiff_t>(searched);
      const auto frame = std::find(stack.rbegin(), end, next);
      if (frame == end) {
        ++oddities.returns_elsewhere;
      } else {
        stack.erase(std::prev(frame.base()), stack.end());
      }
    }
  }
  return oddities;
}

// Whether what a segment shows is what the intact trace shows between the same offsets; if it says that code is missing,
// up to there.
bool Flipper::IsTrue(const PtDecoding::Segment& segment) const {
  std::vector<uint64_t> expected;
  bool begins = false;
  bool ends = false;
  for (const PtDecoding::Segment& clean : clean_.segments) {
    if (clean.begin_offset < segment.begin_offset || clean.end_offset > segment.end_offset)
      continue;
    begins = begins || clean.begin_offset == segment.begin_offset;
    ends = ends || clean.end_offset == segment.end_offset;
    expected.insert(expected.end(), clean.addresses.begin(), clean.addresses.end());
  }
  if (!begins || !ends) return false;
  if ((segment.reasons & FlowChecks::kMissingCode) == 0) return expected == segment.addresses;
  return segment.addresses.size() <= expected.size() &&
         std::equal(segment.addresses.begin(), segment.addresses.end(), expected.begin());
}

void Flipper::Judge(const PtDecoding& decoding, uint64_t offset, bool silent) {
  const bool wrong = std::any_of(decoding.segments.begin(), decoding.segments.end(),
                                 [this](const PtDecoding::Segment& seen) {
                                   return seen.trust == FlowTrust::kVerified && !IsTrue(seen);
                                 });
  flips_.verified_but_wrong += wrong ? 1U : 0U;
  flips_.silent_caught += silent && !wrong ? 1U : 0U;
  for (const PtDecoding::Segment& clean : clean_.segments) {
    if (clean.begin_offset <= offset && offset < clean.end_offset) continue;
    flips_.undamaged_bytes += clean.end_offset - clean.begin_offset;
    const bool verified = std::any_of(decoding.segments.begin(), decoding.segments.end(),
                                      [&clean](const PtDecoding::Segment& seen) {
                                        return seen.trust == FlowTrust::kVerified &&
                                               seen.begin_offset <= clean.begin_offset &&
                                               clean.end_offset <= seen.end_offset;
                                      });
    if (verified) flips_.undamaged_verified_bytes += clean.end_offset - clean.begin_offset;
  }
}

// libipt sees the segment with the bit and two more: a wrong bit reaches no further than the next PSB, or if it is in
// that, the one behind it.
Status Flipper::FlipOne(uint64_t offset, unsigned bit) {
  std::string damaged = subject_.bytes;
  damaged[offset] = static_cast<char>(damaged[offset] ^ (1 << bit));
  auto segment = std::find_if(
      clean_.segments.begin(), clean_.segments.end(),
      [offset](const PtDecoding::Segment& clean) { return offset < clean.end_offset; });
  if (segment == clean_.segments.end()) segment = std::prev(clean_.segments.end());
  const uint64_t begin = segment->begin_offset;
  const auto after = std::min<ptrdiff_t>(2, clean_.segments.end() - segment - 1);
  const uint64_t end = (segment + after)->end_offset;
  const auto slice = [&](std::string_view trace) { return trace.substr(begin, end - begin); };
  const std::vector<uint64_t> truth = ByLibipt(slice(subject_.bytes)).addresses;
  const PtOracleResult oracle = ByLibipt(slice(damaged));
  const bool silent = oracle.errors.empty() && oracle.addresses != truth;
  ++flips_.flips;
  flips_.errors += oracle.errors.empty() ? 0U : 1U;
  flips_.harmless += oracle.errors.empty() && !silent ? 1U : 0U;
  flips_.silent += silent ? 1U : 0U;
  TRY_ASSIGN(const PtDecoding decoding,
             DecodePt(subject_.config,
                      {.bytes = AsBytes(damaged), .occupants = subject_.occupants, .breaks = {}},
                      *subject_.image));
  Judge(decoding, offset, silent);
  if (silent && OdditiesOf(oracle.addresses) == OdditiesOf(truth)) ++flips_.silent_unseeable;
  return {};
}

double Percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

PtFlips& PtFlips::operator+=(const PtFlips& other) {
  for (const auto count :
       {&PtFlips::flips, &PtFlips::errors, &PtFlips::harmless, &PtFlips::silent,
        &PtFlips::silent_caught, &PtFlips::silent_unseeable, &PtFlips::verified_but_wrong,
        &PtFlips::undamaged_bytes, &PtFlips::undamaged_verified_bytes}) {
    this->*count += other.*count;
  }
  return *this;
}

std::string PtFlips::Text() const {
  return StrFormat(
      "{} flips; libipt alone: {} errors, {} harmless, {} silently wrong ({:.1f} %)\n"
      "  of the silent ones {} caught ({:.1f} %), {} that no check can see ({:.1f} %)\n"
      "  verified but wrong: {} ({:.1f} % of all flips)\n"
      "  undamaged segments still verified: {:.2f} % of their bytes\n",
      flips, errors, harmless, silent, Percent(silent, flips), silent_caught,
      Percent(silent_caught, silent), silent_unseeable, Percent(silent_unseeable, silent),
      verified_but_wrong, Percent(verified_but_wrong, flips),
      Percent(undamaged_verified_bytes, undamaged_bytes));
}

Result<PtFlips> FlipPtBits(const PtFlipSubject& subject, uint64_t seed, size_t count) {
  TRY_ASSIGN(
      PtDecoding clean,
      DecodePt(subject.config,
               {.bytes = AsBytes(subject.bytes), .occupants = subject.occupants, .breaks = {}},
               *subject.image));
  return Flipper(subject, std::move(clean)).Flip(seed, count);
}

}  // namespace ptarmigan
