// Names as people wrote them from names as linkers know them: C++ (Itanium ABI), Rust (legacy and
// v0), D.
//
// Symbol names come from foreign files, and a few dozen mangled bytes can stand for gigabytes of
// text (every substitution may repeat the last one twice). So the input, the depth and the output
// are bounded here and the work stops at the bound; nothing else in Ptarmigan calls a demangler.
//
// Stateless; any thread. Needs up to about 3 MiB of stack for the longest names.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ptarmigan {

// Longer mangled names are left as they are.
inline constexpr size_t kMangledBytesMax = 4096;
// Longer results are cut there and end in "...".
inline constexpr size_t kDemangledBytesMax = size_t{16} << 10;

// The name to show for `system_name`; `system_name` itself if it is not mangled, is damaged or is
// too long. Parameters are kept ("f(int)"), Rust hashes ("::h0123456789abcdef", "crate[1a2b]") are
// left out, suffixes that compilers add stay visible (" [clone .cold]").
std::string Demangle(std::string_view system_name);

// Whether the name starts like a mangled one: then Demangle may be worth its time.
bool LooksMangled(std::string_view system_name);

}  // namespace ptarmigan
