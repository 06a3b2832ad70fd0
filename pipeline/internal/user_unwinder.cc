#include "pipeline/internal/user_unwinder.h"

namespace ptarmigan::internal {
namespace {

constexpr unsigned kArm64LinkRegister =
    30;  // perf's number (arch/arm64/include/uapi/asm/perf_regs.h)

}  // namespace

UserUnwinder::UserUnwinder(const RecordingDescription& description, Symbolizer& symbolizer,
                           UnwindMode mode, ProcessTable& processes, const ObjectHints& hints)
    : description_(description),
      symbolizer_(symbolizer),
      mode_(mode),
      processes_(processes),
      hints_(hints) {}

UserUnwinder::~UserUnwinder() = default;

Arch UserUnwinder::ArchOf(const CapturedSample& sample) const {
  const Arch arch = description_.arch == Arch::kUnknown ? NativeArch() : description_.arch;
  if (sample.user_regs.abi != RegisterSet::Abi::k32) return arch;
  if (arch == Arch::kX86_64) return Arch::kX86;
  if (arch == Arch::kArm64) return Arch::kArm;
  return arch;
}

bool UserUnwinder::CanUnwind(const CapturedSample& sample) const {
  return sample.user_regs.abi != RegisterSet::Abi::kNone && sample.user_stack_requested_bytes > 0 &&
         StackWalker::Supports(ArchOf(sample));
}

StackWalker& UserUnwinder::WalkerFor(const CapturedSample& sample) {
  WalkOptions options;
  if (mode_ == UnwindMode::kFramePointer) options.method = WalkOptions::Method::kFramePointer;
  return walkers_.try_emplace(ArchOf(sample), ArchOf(sample), options).first->second;
}

UserUnwinder::Walk UserUnwinder::Unwind(const CapturedSample& sample, Process& process) {
  process_ = &process;
  const WalkInput input{
      .registers = sample.user_regs,
      .stack = sample.user_stack,
      .stack_is_whole = sample.user_stack.size() < sample.user_stack_requested_bytes};
  const WalkResult result = WalkerFor(sample).Walk(input, *this, &frames_);
  return {frames_, result.origin, result.end};
}

uint64_t UserUnwinder::LinkRegister(const CapturedSample& sample) const {
  if (sample.user_stack_requested_bytes > 0 || sample.cpumode != CpuMode::kUser ||
      ArchOf(sample) != Arch::kArm64 || !sample.user_regs.Has(kArm64LinkRegister)) {
    return 0;
  }
  return sample.user_regs.values[kArm64LinkRegister];
}

std::optional<VirtAddr> UserUnwinder::LeafCaller(const CapturedSample& sample, Process& process) {
  const uint64_t link_register = LinkRegister(sample);
  if (link_register == 0) return std::nullopt;
  process_ = &process;
  return WalkerFor(sample).LeafCaller(sample.ip, link_register, *this);
}

bool UserUnwinder::IsLbrCallStack(uint32_t event) const {
  return event < description_.events.size() &&
         (description_.events[event].attr.branch_sample_type & kBranchCallStack) != 0;
}

bool UserUnwinder::Find(VirtAddr pc, CodeModule* module) {
  const CodeMapping* mapping = processes_.Lookup(*process_, pc, CpuMode::kUser);
  if (mapping == nullptr) return false;
  *module = {.object = nullptr,
             .bias = 0,
             .start = mapping->start,
             .end = mapping->end,
             .is_vdso = mapping->object->kind == CodeObject::Kind::kVdso};
  if (mapping->object->kind != CodeObject::Kind::kFile && !module->is_vdso) return true;
  const OpenedObject& opened = Open(*mapping->object);
  if (opened.unwind == nullptr) return true;
  const auto vaddr = opened.file->ToVaddr(mapping->ToFileOffset(pc));
  if (!vaddr) return true;
  module->object = opened.unwind.get();
  module->bias = pc.value - vaddr->value;
  return true;
}

UserUnwinder::OpenedObject& UserUnwinder::Open(const CodeObject& object) {
  if (object.index >= opened_.size()) opened_.resize(object.index + 1);
  std::unique_ptr<OpenedObject>& opened = opened_[object.index];
  if (opened == nullptr) {
    opened = std::make_unique<OpenedObject>();
    const LoadHints hints = object.index < hints_.size() ? hints_[object.index] : LoadHints{};
    opened->file = symbolizer_.OpenObject(object, hints);
    if (opened->file != nullptr) {
      opened->debug_file = symbolizer_.OpenDebugFile(object, hints);
      opened->unwind = std::make_unique<UnwindObject>(*opened->file, opened->debug_file.get());
    }
  }
  return *opened;
}

}  // namespace ptarmigan::internal
