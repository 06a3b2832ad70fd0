// Names for addresses that belong to no file: the kernel's, and code that processes make while they run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "model/address_space.h"
#include "symbolize/internal/table_cache.h"
#include "symbolize/jit_maps.h"
#include "symbolize/kernel_symbols.h"
#include "symbolize/object_locator.h"
#include "symbolize/symbol_miss.h"

namespace ptarmigan::internal {

// The one kernel of a recording or of this machine. Immutable once made.
struct KernelState {
  std::optional<KernelSymbols> symbols;
  // vmlinux with debug information, if one was found by build id; its addresses plus the shift are run-time ones.
  std::shared_ptr<const TableCache::Outcome> vmlinux;
  uint64_t vmlinux_shift = 0;
  std::string vmlinux_path;
  SymbolMiss miss = SymbolMiss::kNone;
  std::string reason;
};

struct KernelChoice {
  bool live = false;
  // As recorded; null for live, or where a recording has none.
  const CodeObject* kernel = nullptr;
  std::string proc_root = "/proc";
  std::string sys_root = "/sys";
};

// Finds the symbols of the right kernel: never those of another build.
KernelState LoadKernel(const KernelChoice& choice, const ObjectLocator& locator,
                       TableCache* tables);

// What one process said about its code. Immutable once made.
struct JitState {
  std::optional<PerfMap> map;
  std::optional<JitDump> dump;
  std::string reason;  // why there is neither
};

struct JitChoice {
  bool live = false;
  bool recorded_here = false;
  std::vector<std::string> directories;  // to look for perf-PID.map in (also in tmp/ below them)
  std::string proc_root = "/proc";
};

JitState LoadJit(const JitChoice& choice, int32_t pid);

// The image of this process's own vdso in a file, for recordings of this kernel; empty where there is none.
LocatedFile OwnVdso();

}  // namespace ptarmigan::internal
