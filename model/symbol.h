// What a symbol table says about one address, and the interface through which rooms ask for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/address.h"
#include "model/build_id.h"

namespace ptarmigan {

// One source-level frame at an address. Strings are empty and numbers 0 where not known.
struct SourceFrame {
  std::string function;     // demangled
  std::string system_name;  // as linked (mangled)
  std::string file;
  uint32_t line = 0;  // of the instruction, or of the call inside this frame
  uint32_t column = 0;
  uint32_t discriminator = 0;
  uint32_t start_line = 0;  // where the function is declared
};

// Innermost first: [0] is the code at the address, the last is the function that stands in the
// object.
using InlineStack = std::vector<SourceFrame>;

// Address to inline stack, line and discriminator: what reports and PGO formats need.
class LineResolver {
 public:
  virtual ~LineResolver() = default;
  // False where nothing is known; `frames` is then empty. For the address of a caller pass the
  // return address minus one.
  virtual bool Resolve(const BuildId& object, FileVaddr address, InlineStack* frames) = 0;
};

}  // namespace ptarmigan
