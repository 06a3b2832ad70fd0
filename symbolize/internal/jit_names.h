// What JIT compilers write into perf maps and jitdumps as a name, taken apart.
#pragma once

#include <string_view>

#include "model/symbol.h"

namespace ptarmigan::internal {

// Sets `system_name` to the name as written, and `function`, `file`, `line` and `column` to what it says. V8 writes
// "JS:*add /app/x.js:12:5": the kind of code, a mark for the tier (~ interpreted, ^ baseline, + and * optimized), the
// function and its place. One function has several such names in its life, and is one function in a profile.
void SplitJitName(std::string_view name, SourceFrame* frame);

}  // namespace ptarmigan::internal
