#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace ptarmigan {

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "ptarmigan: bug: %s:%d: CHECK(%s) failed\n", file, line, condition);
  std::abort();
}

}  // namespace ptarmigan
