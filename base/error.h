// Error: why an operation failed. Callers branch on `code`, users read `message`.
#pragma once

#include <string>
#include <string_view>

namespace ptarmigan {

enum class ErrorCode {
  kInvalidInput,  // the bytes or the arguments are wrong
  kTruncated,     // the bytes end too early
  kUnsupported,   // understood, but not something this build or format can do
  kNotFound,
  kPermission,
  kResourceLimit,  // a bound of ours or of the system was reached
  kIo,
  kUnavailable,  // may work later or elsewhere
  kInternal,
};

// kInvalidInput -> "invalid input".
std::string_view ErrorCodeName(ErrorCode code);

struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // one sentence for the user, without a final full stop
  int errno_value = 0;  // 0 where no system call failed

  // The same error with `context: ` before its message; used at room borders.
  Error WithContext(std::string_view context) &&;
};

// Error of a failed system call: code chosen from `errno_value`, message "<what>: <strerror>".
Error ErrnoError(std::string_view what, int errno_value);

}  // namespace ptarmigan
