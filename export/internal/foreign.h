// Names what a file is when it is not what was asked for, so that the error can say so.
#pragma once

#include <string_view>

#include "base/byte_cursor.h"

namespace ptarmigan::internal {

// "a Go execution trace (open it with `go tool trace`)"; empty if the bytes give no hint.
std::string_view DescribeForeign(Bytes bytes);

// Whether the first 4 KiB are printable text (UTF-8 allowed).
bool LooksLikeText(Bytes bytes);

}  // namespace ptarmigan::internal
