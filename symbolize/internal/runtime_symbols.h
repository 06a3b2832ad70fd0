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
#include "symbolize/internal/kernel_cache.h"
#include "symbolize/internal/table_cache.h"
#include "symbolize/jit_maps.h"
#include "symbolize/kernel_symbols.h"
#include "symbolize/object_locator.h"
#include "symbolize/symbol_miss.h"

namespace ptarmigan::internal {

// The running kernel's list as it is now, read when it is needed for the first time: for addresses that a kept table
// (kernel_cache.h) cannot answer for.
class KernelNow {
 public:
  explicit KernelNow(std::string proc_root) : proc_root_(std::move(proc_root)) {}
  // Null if it cannot be read.
  const KernelSymbols* Symbols() const;

 private:
  const std::string proc_root_;
  mutable std::once_flag once_;
  mutable std::optional<KernelSymbols> symbols_;
};

// The one kernel of a recording or of this machine. Immutable once made.
struct KernelState {
  std::optional<KernelSymbols> symbols;
  std::unique_ptr<const KernelNow> now;  // set if `symbols` is not whole
  // The symbol of an address, from either; `table` (if given) is the one that it is from.
  bool Find(VirtAddr address, KernelSymbols::Symbol* symbol,
            const KernelSymbols** table = nullptr) const;
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
  std::string copy;  // a directory with the recorded kernel's own kallsyms; empty: none
};

// Finds the symbols of the right kernel: never those of another build.
KernelState LoadKernel(const KernelChoice& choice, const ObjectLocator& locator, TableCache* tables,
                       const KernelCache& cache);

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
