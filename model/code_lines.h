// CodeLines: what stands in one object, address by address: what profile-guided optimization formats need beyond
// LineResolver. Symbolizer makes them; export reads them.
//
// Addresses are ELF virtual addresses. One thread at a time; lives as long as what made it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/address.h"
#include "model/symbol.h"

namespace ptarmigan {

// A function symbol of the object's symbol table.
struct LinkedSymbol {
  std::string_view name = {};  // as linked, with a version if it has one
  // Of a local symbol: the source file's name before it (STT_FILE); may be empty.
  std::string_view file = {};
  FileVaddr start = {};
  uint64_t size_bytes = 0;
  bool is_local = false;
};

// One source-level function at an address, as DWARF describes it.
struct CodeFrame {
  static constexpr uint32_t kNoFunction = UINT32_MAX;
  // Of CodeLines::Function; kNoFunction where DWARF knows none. Equal numbers are the same function; the reverse does
  // not hold.
  uint32_t function = kNoFunction;
  uint32_t line = 0;  // of the instruction, or of the call inside this frame; 0: code of no line
  uint32_t discriminator = 0;
};

class CodeLines {
 public:
  struct FunctionFacts {
    std::string_view name;  // linkage name, else plain name; empty: not from DWARF
    uint32_t start_line = 0;
  };
  // A contiguous piece of a function that stands in the object.
  struct FunctionPiece {
    FileVaddr start;
    FileVaddr end;  // exclusive
    uint32_t function = 0;
  };

  virtual ~CodeLines() = default;

  // The frames at an address, innermost first, and where they end: every address before *end (which may be null if
  // it is not wanted) has the same ones. Empty where nothing is known.
  virtual void FramesAt(FileVaddr address, std::vector<CodeFrame>* frames, FileVaddr* end) = 0;
  virtual FunctionFacts Function(uint32_t function) = 0;
  // All that DWARF knows, by address.
  virtual std::span<const FunctionPiece> Functions() = 0;
  // Function symbols by address; of those at one address in the order of the table.
  virtual std::span<const LinkedSymbol> Symbols() = 0;
  // Whether discriminators carry flow-sensitive bits (LLVM marks such objects with a symbol).
  virtual bool HasFlowSensitiveDiscriminators() = 0;
};

}  // namespace ptarmigan
