// SymbolMiss: the reasons for which an address has no name, as the quality view counts them.
#pragma once

#include <cstdint>
#include <string_view>

namespace ptarmigan {

// Why an object, or one of its addresses, has no name.
enum class SymbolMiss : uint8_t {
  kNone,
  kSymbolsOff,       // not asked for
  kFileNotFound,     // in none of the places
  kBuildIdMismatch,  // files were found, all of another build
  kPermission,       // a file is there but may not be read
  kDamaged,          // the file is no usable ELF object
  kNoSymbols,        // the file has no symbol for any address
  kBuildFailed,      // the table builder failed or took too long
  kKernelHidden,     // kallsyms shows only zeros (kptr_restrict, CAP_SYSLOG)
  kOtherKernel,      // recorded under a kernel whose symbols are not here
  kNoJitMap,         // anonymous code without perf map or jitdump
  kNoMapping,        // the address belonged to no mapping
  kNotInSymbol,      // symbols exist, none covers the address
};
// "file not found", ...: short, stable, for the quality view.
std::string_view SymbolMissName(SymbolMiss miss);

}  // namespace ptarmigan
