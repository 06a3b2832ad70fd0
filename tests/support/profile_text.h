// Small profiles from text, for tests: one line per stack, "root;…;leaf VALUE". Functions of the object before a
// colon: "kernel:schedule" stands in "[kernel.kallsyms]_text" if the object is "kernel", else in "/bin/<object>".
// A frame "a>b" is one location with b inlined into a. "?" is a location without symbols.
#pragma once

#include <string_view>

#include "model/profile.h"

namespace ptarmigan {

// Sample types samples/count (1 per line) and cpu/nanoseconds (VALUE), default cpu.
Profile ProfileFromText(std::string_view text);

}  // namespace ptarmigan
