// SymbolRows with the question "who wins at this address" answered: lists sorted by address, each entry holding from
// its start to the next entry's start.
#pragma once

#include <cstdint>
#include <vector>

#include "symbolize/symbol_rows.h"

namespace ptarmigan::internal {

struct FlatSymbols {
  static constexpr uint32_t kNone = SymbolRows::kNone;

  // The contiguous code of one outermost function, and the function as it shall be named there.
  struct Piece {
    CodeRange range;
    SymbolRows::FunctionId function = 0;  // in `functions`
  };
  struct Segment {
    uint64_t start = 0;
    uint32_t scope = kNone;  // innermost; kNone: no function here
    uint32_t piece = kNone;  // of the outermost
  };
  struct Line {
    uint64_t start = 0;
    uint32_t row = kNone;  // in SymbolRows::lines(); kNone: no line here
  };

  std::vector<Segment> segments;
  std::vector<Line> lines;
  std::vector<Piece> pieces;
  // SymbolRows::functions() and, after them, those that got another name from the symbol table.
  std::vector<SymbolRows::FunctionIds> functions;
};

FlatSymbols Flatten(const SymbolRows& rows);

}  // namespace ptarmigan::internal
