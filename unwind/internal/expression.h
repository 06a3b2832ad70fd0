// DWARF expressions as call frame information uses them (DWARF 5 sections 2.5 and 6.4.2).
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

#include "base/byte_cursor.h"
#include "unwind/internal/registers.h"
#include "unwind/internal/walk_memory.h"

namespace ptarmigan::internal {

// Bounds: an expression that needs more has no value.
constexpr size_t kExpressionStepsMax = 1024;
constexpr size_t kExpressionDepthMax = 64;

// The value on top of the stack at the end. `first` is pushed before (the CFA, for rules of registers). Nothing if the
// expression is damaged or needs something that was not recorded.
std::optional<uint64_t> EvaluateExpression(Bytes expression, std::optional<uint64_t> first,
                                           const RegisterFile& registers, const WalkMemory& memory);

}  // namespace ptarmigan::internal
