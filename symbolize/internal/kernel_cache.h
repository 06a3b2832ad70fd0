// KernelCache: tables of kernels' symbols (docs/formats/ksym.md) in the user's symbol cache, so that the kernel does not
// write its list anew, and we do not read it anew, for every recording.
//
//   <directory>/kernel/<build id>.ksym        the running kernel with its modules
//   <directory>/kernel/<build id>-copy.ksym   a copy of kallsyms
//
// A table is used only if everything that changes what the kernel would say is as it was: build, boot, where the kernel
// was loaded, and of every module name, size, state, place and build. BPF programs and trampolines come and go without
// a trace of that kind, so the running kernel's table does not hold them (KernelNames, runtime_symbols.h). Where
// addresses are hidden (kernel.kptr_restrict) nothing is kept, and what was kept before is not shown. Files tell where
// the kernel lies: only their owner may read them, and those of others are not believed.
//
// Any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/build_id.h"
#include "symbolize/kernel_symbols.h"

namespace ptarmigan::internal {

// What the running kernel's list depends on.
struct RunningKernelState {
  std::string identity;
  std::vector<std::string> modules;
  bool operator==(const RunningKernelState&) const = default;
};

// Nothing where something about it cannot be told, or where addresses are hidden.
std::optional<RunningKernelState> DescribeRunningKernel(const BuildId& build_id,
                                                        const std::string& proc_root,
                                                        const std::string& sys_root);

class KernelCache {
 public:
  // `directory` empty: nothing is kept.
  explicit KernelCache(std::string directory) : directory_(std::move(directory)) {}

  Result<KernelSymbols> OfRunningKernel(const BuildId& build_id, const std::string& proc_root,
                                        const std::string& sys_root) const;
  Result<KernelSymbols> OfCopy(const BuildId& build_id, const std::string& path) const;

 private:
  std::string PathOf(const BuildId& build_id, std::string_view suffix) const;

  const std::string directory_;
};

}  // namespace ptarmigan::internal
