// CHECK(condition): a bug in this program, not in its input, if it fails. On in release; aborts
// with the place and the condition. Input that is wrong is a Result or a ledger reason, never a
// CHECK.
#pragma once

namespace ptarmigan {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace ptarmigan

#define CHECK(condition)                                        \
  do {                                                          \
    if (!(condition)) [[unlikely]]                              \
      ::ptarmigan::CheckFailed(__FILE__, __LINE__, #condition); \
  } while (false)
