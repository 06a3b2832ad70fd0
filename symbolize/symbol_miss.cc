#include "symbolize/symbol_miss.h"

namespace ptarmigan {

std::string_view SymbolMissName(SymbolMiss miss) {
  switch (miss) {
    case SymbolMiss::kNone:
      return "none";
    case SymbolMiss::kSymbolsOff:
      return "symbols not asked for";
    case SymbolMiss::kFileNotFound:
      return "file not found";
    case SymbolMiss::kBuildIdMismatch:
      return "build id mismatch";
    case SymbolMiss::kPermission:
      return "permission";
    case SymbolMiss::kDamaged:
      return "damaged file";
    case SymbolMiss::kNoSymbols:
      return "no symbols";
    case SymbolMiss::kBuildFailed:
      return "table not built";
    case SymbolMiss::kKernelHidden:
      return "kernel symbols hidden";
    case SymbolMiss::kOtherKernel:
      return "other kernel";
    case SymbolMiss::kNoJitMap:
      return "no perf map or jitdump";
    case SymbolMiss::kNoMapping:
      return "no mapping";
    case SymbolMiss::kNotInSymbol:
      return "in no symbol";
  }
  return "unknown";
}

}  // namespace ptarmigan
