// What libipt's instruction decoder makes of a trace: an oracle for our encoder (and, through it, for our decoder) that
// shares no code with either.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/encoders/pt_trace.h"

namespace ptarmigan {

struct PtOracleResult {
  struct Error {
    uint64_t offset = 0;
    size_t instructions = 0;  // decoded before it
    int code = 0;             // enum pt_error_code, negative
  };
  std::vector<uint64_t> addresses;  // of the instructions, in order
  std::vector<Error> errors;        // after each, decoding goes on at the next PSB
  uint64_t overflows = 0;
  uint64_t enabled = 0;  // events
  uint64_t disabled = 0;
  uint64_t ptwrites = 0;
  uint64_t transactions = 0;

  std::string ErrorText() const;  // of the first; empty if there is none
};

// The code at an address when so many instructions were decoded; empty where there is none.
using PtCodeReader = std::function<std::string_view(uint64_t address, size_t decoded)>;
PtOracleResult DecodeByLibipt(std::string_view trace, const PtCodeReader& code);

// `visible`: steps of the walk, by which the code is chosen where it changes with time.
PtOracleResult DecodeByLibipt(std::string_view trace, const PtWalk& walk,
                              const std::vector<uint32_t>& visible);

}  // namespace ptarmigan
