#include "pipeline/internal/user_unwinder.h"

#include <algorithm>
#include <iterator>

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

std::optional<UserUnwinder::FilePlace> UserUnwinder::FindInFile(VirtAddr address,
                                                                Process& process) {
  const CodeMapping* mapping = processes_.Lookup(process, address, CpuMode::kUser);
  if (mapping == nullptr || (mapping->object->kind != CodeObject::Kind::kFile &&
                             mapping->object->kind != CodeObject::Kind::kVdso)) {
    return std::nullopt;
  }
  OpenedObject& opened = Open(*mapping->object);
  if (opened.unwind == nullptr) return std::nullopt;
  const auto vaddr = opened.file->ToVaddr(mapping->ToFileOffset(address));
  return vaddr ? std::optional(FilePlace{&opened, *vaddr}) : std::nullopt;
}

std::optional<VirtAddr> UserUnwinder::FunctionStart(VirtAddr address, Process& process) {
  const auto place = FindInFile(address, process);
  if (!place) return std::nullopt;
  OpenedObject& opened = *place->object;
  if (!opened.has_functions) {
    opened.has_functions = true;
    CfiTable(*opened.file).ForEachRange([&](const CfiRange& range) {
      opened.functions.push_back(range);
    });
    std::ranges::sort(opened.functions, {}, &CfiRange::start);
  }
  const auto after = std::ranges::upper_bound(opened.functions, place->vaddr, {}, &CfiRange::start);
  if (after == opened.functions.begin() || place->vaddr >= std::prev(after)->end) {
    return std::nullopt;
  }
  return address - (place->vaddr - std::prev(after)->start);
}

bool UserUnwinder::IsOutermost(VirtAddr address, Process& process) {
  const auto place = FindInFile(address, process);
  if (!place) return false;
  const UnwindRow* row = place->object->unwind->FindRow(place->vaddr);
  if (row == nullptr) return false;
  return std::ranges::any_of(row->rules, [&](const RegisterRule& rule) {
    return rule.register_number == row->return_register && rule.kind == RuleKind::kUndefined;
  });
}

bool UserUnwinder::IsLinkageStub(VirtAddr address, Process& process) {
  const auto place = FindInFile(address, process);
  if (!place) return false;
  for (const char* name : {".plt", ".plt.sec", ".plt.got"}) {
    const ElfSection* section = place->object->file->FindSection(name);
    if (section != nullptr && place->vaddr >= section->vaddr &&
        place->vaddr - section->vaddr < section->size_bytes) {
      return true;
    }
  }
  return false;
}

bool UserUnwinder::IsCode(VirtAddr address, Process& process) {
  return processes_.Lookup(process, address, CpuMode::kUser) != nullptr;
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
