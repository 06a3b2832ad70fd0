// From SymbolRows to the bytes of a `.sym` table (docs/formats/sym.md): who wins at each address is
// decided here, by the rules in symbol_rows.h. The same rows give the same bytes.
//
// Works on foreign data (names from debug files), so it runs in the symbol worker. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "symbolize/symbol_rows.h"

namespace ptarmigan {

struct SymbolTableWriterOptions {
  // Makes readable names of system names that have none; empty: none are made.
  std::function<std::string(std::string_view)> demangle = {};
  // Kept in the table as it is: what its user wants to find again (at most kIdentityBytesMax).
  std::string identity = {};
  static constexpr size_t kIdentityBytesMax = 4096;
  uint64_t table_bytes_max = uint64_t{1} << 31;  // kResourceLimit above it
};

Result<std::string> WriteSymbolTable(const SymbolRows& rows,
                                     const SymbolTableWriterOptions& options);

}  // namespace ptarmigan
