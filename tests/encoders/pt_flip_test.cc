// What a single wrong bit does to a trace, and who notices. libipt alone takes every tenth for another, plausible flow;
// the checks of our decoder have to see most of those, leave the rest of the trace alone, and not see ghosts.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/str_format.h"
#include "tests/encoders/pt_decoding.h"
#include "tests/encoders/pt_oracle.h"
#include "tests/encoders/pt_truth.h"

namespace ptarmigan {
namespace {

constexpr size_t kTraces = 20;
constexpr size_t kFlipsPerTrace = 50;

struct FlipCase {
  std::unique_ptr<PtProgram> program;
  std::unique_ptr<PtWalk> walk;
  PtTraceSettings settings;
  PtTrace trace;
};

// Half of them with compressed returns; all kinds of timing.
FlipCase CaseOf(uint64_t number) {
  FlipCase flip;
  flip.program = std::make_unique<PtProgram>(
      PtProgramOptions{.seed = 1000 + number, .functions = 8 + number % 9, .jit_slots = 0});
  flip.walk = std::make_unique<PtWalk>(
      *flip.program, PtWalkOptions{.seed = number,
                                   .steps = 12000,
                                   .signals_apart = number % 3 == 0 ? 800U : 0U,
                                   .interrupts_apart = number % 4 == 0 ? 500U : 0U});
  flip.settings.seed = number;
  flip.settings.return_compression = number % 2 == 0;
  flip.settings.cyc = number % 4 >= 2;
  flip.settings.tsc = number % 5 != 4;
  flip.settings.psb_bytes = 1024;
  flip.trace = EncodePt(*flip.walk, flip.walk->StepsOfThread(0), flip.settings);
  return flip;
}

struct Flips {
  uint64_t flips = 0;
  // By libipt alone.
  uint64_t errors = 0;
  uint64_t harmless = 0;
  uint64_t silent = 0;
  // By our decoder.
  uint64_t silent_caught = 0;
  uint64_t silent_unseeable = 0;  // of those not caught: nothing in the flow contradicts itself
  uint64_t verified_but_wrong = 0;
  uint64_t undamaged_bytes = 0;  // of segments without the flipped bit
  uint64_t undamaged_verified_bytes = 0;

  std::string Text() const {
    const auto percent = [](uint64_t part, uint64_t whole) {
      return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
    };
    return StrFormat(
        "{} flips: libipt alone: {} errors, {} harmless, {} silently wrong ({:.1f} %)\n"
        "  of the silent ones {} caught ({:.1f} %), {} that no check can see ({:.1f} %)\n"
        "  verified but wrong: {} ({:.1f} % of all flips)\n"
        "  undamaged segments still verified: {:.2f} % of their bytes\n",
        flips, errors, harmless, silent, percent(silent, flips), silent_caught,
        percent(silent_caught, silent), silent_unseeable, percent(silent_unseeable, silent),
        verified_but_wrong, percent(verified_but_wrong, flips),
        percent(undamaged_verified_bytes, undamaged_bytes));
  }
};

// Transfers that a sequence of addresses shows and that do not explain each other.
struct FlowOddities {
  uint64_t returns_elsewhere = 0;  // to where no call on the stack came from
  uint64_t calls_elsewhere = 0;    // not to a function's start
  bool operator==(const FlowOddities&) const = default;
};

class FlowReader {
 public:
  explicit FlowReader(const PtProgram& program) {
    for (const X86Instruction& instruction : program.instructions()) {
      instructions_[instruction.address] = instruction;
    }
    for (const PtFunction& function : program.functions()) starts_[function.start] = true;
  }

  FlowOddities Read(const std::vector<uint64_t>& addresses) const {
    FlowOddities oddities;
    std::vector<uint64_t> stack;
    for (size_t i = 0; i + 1 < addresses.size(); ++i) {
      const auto found = instructions_.find(addresses[i]);
      if (found == instructions_.end()) continue;
      const X86Instruction& instruction = found->second;
      const uint64_t next = addresses[i + 1];
      const bool is_call =
          instruction.flow == X86Flow::kCall || instruction.flow == X86Flow::kIndirectCall;
      if (is_call && !instruction.is_call_to_next()) {
        stack.push_back(instruction.end());
        if (starts_.find(next) == starts_.end()) ++oddities.calls_elsewhere;
      } else if (instruction.flow == X86Flow::kReturn) {
        const auto frame = std::find(stack.rbegin(), stack.rend(), next);
        if (frame == stack.rend()) {
          ++oddities.returns_elsewhere;
        } else {
          stack.erase(std::prev(frame.base()), stack.end());
        }
      }
    }
    return oddities;
  }

 private:
  std::unordered_map<uint64_t, X86Instruction> instructions_;
  std::unordered_map<uint64_t, bool> starts_;
};

void JudgeSegments(const FlipCase& flip, const PtDecoding& decoding, uint64_t flipped_offset,
                   bool silent, Flips* flips) {
  bool wrong = false;
  std::vector<PtSegmentRange> verified;
  for (const PtDecoding::Segment& segment : decoding.segments) {
    if (segment.trust != FlowTrust::kVerified) continue;
    verified.push_back({segment.begin_offset, segment.end_offset});
    const PtSegmentTruth truth =
        TruthOfSegment(*flip.walk, flip.trace, {segment.begin_offset, segment.end_offset});
    if (!truth.known || truth.addresses != segment.addresses) wrong = true;
  }
  flips->verified_but_wrong += wrong ? 1U : 0U;
  flips->silent_caught += silent && !wrong ? 1U : 0U;
  for (size_t i = 0; i < flip.trace.syncs.size(); ++i) {
    const uint64_t begin = flip.trace.syncs[i].offset;
    const uint64_t end =
        i + 1 < flip.trace.syncs.size() ? flip.trace.syncs[i + 1].offset : flip.trace.bytes.size();
    if (begin <= flipped_offset && flipped_offset < end) continue;
    flips->undamaged_bytes += end - begin;
    for (const PtSegmentRange& range : verified) {
      if (range.begin_offset <= begin && end <= range.end_offset) {
        flips->undamaged_verified_bytes += end - begin;
        break;
      }
    }
  }
}

class PtFlips : public testing::Test {
 protected:
  // False if there is no decoder to judge.
  bool FlipBits(const FlipCase& flip, uint64_t seed, Flips* flips) {
    const PtWalkDecoder decoder(*flip.walk, flip.settings);
    const std::vector<uint64_t> truth = PtAddresses(*flip.walk, flip.trace.visible);
    const FlowReader reader(*flip.program);
    const FlowOddities odd_in_truth = reader.Read(truth);
    std::mt19937_64 random(seed);
    for (size_t i = 0; i < kFlipsPerTrace; ++i) {
      const uint64_t offset = random() % flip.trace.bytes.size();
      std::string damaged = flip.trace.bytes;
      damaged[offset] = static_cast<char>(damaged[offset] ^ (1 << random() % 8));
      const PtOracleResult oracle = DecodeByLibipt(damaged, *flip.walk, flip.trace.visible);
      const bool silent = oracle.errors.empty() && oracle.addresses != truth;
      ++flips->flips;
      flips->errors += oracle.errors.empty() ? 0U : 1U;
      flips->harmless += oracle.errors.empty() && !silent ? 1U : 0U;
      flips->silent += silent ? 1U : 0U;
      const Result<PtDecoding> decoding = decoder.Decode(damaged);
      if (!decoding) {
        reason_ = decoding.error().message;
        return false;
      }
      const uint64_t wrong_before = flips->verified_but_wrong;
      JudgeSegments(flip, *decoding, offset, silent, flips);
      if (silent && flips->verified_but_wrong > wrong_before &&
          reader.Read(oracle.addresses) == odd_in_truth) {
        ++flips->silent_unseeable;
      }
    }
    return true;
  }

  std::string reason_;
};

TEST_F(PtFlips, MostWrongBitsAreNoticedAndTheRestOfTheTraceStaysTrusted) {
  Flips compressed;
  Flips uncompressed;
  for (uint64_t number = 0; number < kTraces; ++number) {
    const FlipCase flip = CaseOf(number);
    Flips* flips = flip.settings.return_compression ? &compressed : &uncompressed;
    if (!FlipBits(flip, number, flips)) GTEST_SKIP() << reason_;
  }
  printf("returns compressed: %snot compressed: %s", compressed.Text().c_str(),
         uncompressed.Text().c_str());
  const auto both = [&](uint64_t Flips::*count) { return compressed.*count + uncompressed.*count; };
  EXPECT_EQ(both(&Flips::flips), kTraces * kFlipsPerTrace);
  EXPECT_LE(both(&Flips::verified_but_wrong) * 100, both(&Flips::flips) * 5);
  EXPECT_GE(both(&Flips::silent_caught) * 100, both(&Flips::silent) * 60);
  EXPECT_GE(both(&Flips::undamaged_verified_bytes) * 100, both(&Flips::undamaged_bytes) * 95);
}

TEST_F(PtFlips, IntactTracesRaiseNoAlarm) {
  for (uint64_t number = 0; number < kTraces; ++number) {
    const FlipCase flip = CaseOf(number);
    const PtWalkDecoder decoder(*flip.walk, flip.settings);
    const Result<PtDecoding> decoding = decoder.Decode(flip.trace.bytes);
    if (!decoding) GTEST_SKIP() << decoding.error().message;
    for (const PtDecoding::Segment& segment : decoding->segments) {
      EXPECT_EQ(segment.trust, FlowTrust::kVerified)
          << "trace " << number << ", offset " << segment.begin_offset << ", reasons "
          << segment.reasons;
    }
    EXPECT_EQ(decoding->Addresses(), PtAddresses(*flip.walk, flip.trace.visible)) << number;
  }
}

}  // namespace
}  // namespace ptarmigan
