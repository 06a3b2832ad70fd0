// What a single wrong bit does to an Intel PT trace, and who notices: libipt alone, the checks of our decoder, or nobody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/encoders/pt_decoding.h"
#include "tests/encoders/pt_oracle.h"

namespace ptarmigan {

// A trace that decodes without error. References must outlive the calls.
struct PtFlipSubject {
  std::string bytes;
  PtConfig config;
  std::vector<CodeOccupant> occupants;
  const CodeImage* image = nullptr;  // whose newest epoch holds for libipt
};

struct PtFlips {
  uint64_t flips = 0;
  // By libipt alone.
  uint64_t errors = 0;
  uint64_t harmless = 0;
  uint64_t silent = 0;  // wrong flow without an error
  // By our decoder.
  uint64_t silent_caught = 0;     // no segment with wrong flow is verified
  uint64_t silent_unseeable = 0;  // same packets, and no return or call contradicts another
  uint64_t verified_but_wrong = 0;
  uint64_t undamaged_bytes = 0;  // of segments without the flipped bit
  uint64_t undamaged_verified_bytes = 0;

  PtFlips& operator+=(const PtFlips& other);
  std::string Text() const;
};

// Flips `count` bits, one at a time. kUnsupported without libipt.
Result<PtFlips> FlipPtBits(const PtFlipSubject& subject, uint64_t seed, size_t count);

}  // namespace ptarmigan
