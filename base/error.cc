#include "base/error.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace ptarmigan {

std::string_view ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput:
      return "invalid input";
    case ErrorCode::kTruncated:
      return "truncated";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kNotFound:
      return "not found";
    case ErrorCode::kPermission:
      return "permission denied";
    case ErrorCode::kResourceLimit:
      return "limit reached";
    case ErrorCode::kIo:
      return "input/output error";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kInternal:
      return "internal error";
  }
  return "unknown error";
}

Error Error::WithContext(std::string_view context) && {
  message.insert(0, std::string(context) + ": ");
  return std::move(*this);
}

Error ErrnoError(std::string_view what, int errno_value) {
  ErrorCode code = ErrorCode::kIo;
  switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
    case ESRCH:
    case ENODEV:
      code = ErrorCode::kNotFound;
      break;
    case EACCES:
    case EPERM:
      code = ErrorCode::kPermission;
      break;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case ENOSPC:
      code = ErrorCode::kResourceLimit;
      break;
    case EINVAL:
    case EISDIR:
      code = ErrorCode::kInvalidInput;
      break;
    case EOPNOTSUPP:
    case ENOSYS:
      code = ErrorCode::kUnsupported;
      break;
    case EAGAIN:
    case EBUSY:
      code = ErrorCode::kUnavailable;
      break;
    default:
      break;
  }
  char buffer[128] = {};
  // GNU strerror_r: returns the text, which need not be in the buffer.
  const char* text = strerror_r(errno_value, buffer, sizeof(buffer));
  return Error{code, std::string(what) + ": " + text, errno_value};
}

}  // namespace ptarmigan
