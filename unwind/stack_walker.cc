#include "unwind/stack_walker.h"

#include "unwind/internal/registers.h"
#include "unwind/internal/walk.h"

namespace ptarmigan {

StackWalker::StackWalker(Arch arch, const WalkOptions& options) : arch_(arch), options_(options) {}

bool StackWalker::Supports(Arch arch) { return internal::FindArchRegisters(arch) != nullptr; }

WalkResult StackWalker::Walk(const WalkInput& input, ModuleFinder& finder,
                             std::vector<WalkedFrame>* frames) {
  Arch arch = arch_;
  if (input.registers.abi == RegisterSet::Abi::k32) {
    // A 32-bit process on a 64-bit kernel. perf numbers the registers of i386 as those of x86_64; arm32's cannot be
    // walked.
    if (arch == Arch::kX86_64) arch = Arch::kX86;
    if (arch == Arch::kArm64) arch = Arch::kArm;
  }
  const internal::ArchRegisters* names = internal::FindArchRegisters(arch);
  if (names == nullptr) {
    frames->clear();
    return {.end = StackEnd::kUnsupportedArch};
  }
  internal::Walk walk(arch, *names, options_, finder);
  return walk.Run(input, frames);
}

std::optional<VirtAddr> StackWalker::LeafCaller(VirtAddr pc, uint64_t lr,
                                                ModuleFinder& finder) const {
  CodeModule module;
  if (arch_ != Arch::kArm64 || !finder.Find(pc, &module) || module.object == nullptr) {
    return std::nullopt;
  }
  const UnwindRow* row = module.object->FindRow(FileVaddr{pc.value - module.bias});
  if (row == nullptr || row->signal_frame) return std::nullopt;
  for (const RegisterRule& rule : row->rules) {
    if (rule.register_number == row->return_register) return std::nullopt;
  }
  const uint64_t mask = (uint64_t{1} << options_.arm64_address_bits) - 1;
  const VirtAddr caller{lr & mask};
  if (caller.value == 0 || !finder.Find(caller - 1, &module)) return std::nullopt;
  return caller;
}

}  // namespace ptarmigan
