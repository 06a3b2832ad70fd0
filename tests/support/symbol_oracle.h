// SymbolOracle: what llvm-symbolizer, a program made by others, says about addresses of an object; our tables must say
// the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/symbol.h"

namespace ptarmigan {

// The name of the installed llvm-symbolizer (version 19 preferred); empty if there is none.
std::string SymbolOracleProgram();

// Frames of each address, innermost first, with linkage names in `system_name` (and `function`); empty where it knows
// nothing. Lines are 0 where it gives none. `object` is the path of the ELF file; `debug_directory`, if not empty, is
// searched for .build-id files.
std::vector<InlineStack> AskSymbolOracle(const std::string& object,
                                         const std::vector<uint64_t>& addresses,
                                         const std::string& debug_directory = "");

struct OracleComparison {
  size_t asked = 0;
  size_t known = 0;  // where the oracle knows something
  size_t equal = 0;  // of the known: same functions, files and lines, frame by frame
  std::vector<std::string> differences;  // the first few, for people
  double EqualShare() const {
    return known == 0 ? 0 : static_cast<double>(equal) / static_cast<double>(known);
  }
};

struct OracleOptions {
  bool lines = true;  // compare files and lines too
  size_t differences_max = 5;
};

// `ours` and `theirs` in the same order as `addresses`.
OracleComparison CompareWithOracle(const std::vector<uint64_t>& addresses,
                                   const std::vector<InlineStack>& ours,
                                   const std::vector<InlineStack>& theirs,
                                   const OracleOptions& options = {});

// PLTs are left out: llvm-symbolizer names their entries after whatever symbol stands before them.
// `count` addresses spread evenly at random (always the same ones) over the executable sections of an ELF file.
std::vector<uint64_t> SampleCodeAddresses(const std::string& object, size_t count);

}  // namespace ptarmigan
