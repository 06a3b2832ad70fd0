// What `doctor --json` prints; docs/formats/doctor.schema.json says what that may be.
#pragma once

#include <map>
#include <string>

#include "hw/capabilities.h"

namespace ptarmigan::cli {

// What a second of a source showed of the known loop.
struct Verification {
  bool passed = false;
  std::string sentence;
};

// `verified` by source; empty without --verify.
std::string DoctorJson(const Capabilities& found,
                       const std::map<std::string, Verification>& verified);

}  // namespace ptarmigan::cli
