// Walk: one walk of StackWalker in progress.
#pragma once

#include <optional>
#include <vector>

#include "unwind/internal/registers.h"
#include "unwind/internal/walk_memory.h"
#include "unwind/stack_walker.h"

namespace ptarmigan::internal {

class Walk {
 public:
  Walk(Arch arch, const ArchRegisters& names, const WalkOptions& options, ModuleFinder& finder)
      : arch_(arch), names_(names), options_(options), finder_(finder) {}

  WalkResult Run(const WalkInput& input, std::vector<WalkedFrame>* frames);

 private:
  using Status = WalkMemory::Status;
  enum class Method : uint8_t { kCfi, kFramePointer, kOther };
  // What a step found: the caller's pc, or why there is none.
  struct Step {
    static Step Stop(StackEnd end) { return {.stopped = true, .end = end}; }
    bool stopped = false;
    StackEnd end = StackEnd::kComplete;
    Method method = Method::kCfi;
    uint64_t pc = 0;
    bool is_return_address = true;
  };

  Step StepToCaller();
  Step StepByCfi(const UnwindRow& row);
  // The steps that need no row; nothing if they do not apply.
  std::optional<Step> StepThroughBadCall();
  std::optional<Step> StepByCode();
  std::optional<Step> StepThroughSignal();
  Step StepByFramePointer();
  Step StepToReturnAddressAt(uint64_t address);

  std::optional<uint64_t> ComputeCfa(const UnwindRow& row) const;
  // The value of a rule; *status says what was missing if there is none.
  std::optional<uint64_t> RuleValue(const UnwindRow& row, const RegisterRule& rule, uint64_t cfa,
                                    Status* status) const;
  // Moves the registers to the caller. False if the stack pointer went the wrong way.
  bool MoveTo(uint64_t stack_pointer, bool through_signal);
  uint64_t StripPointer(uint64_t address) const;
  // Finds the module of the frame at `lookup` and keeps it. False if nothing executable is mapped there.
  bool EnterModule(VirtAddr lookup);
  bool IsExecutable(VirtAddr address);
  FileVaddr InFile(uint64_t address) const { return {address - module_.bias}; }
  StackEnd EndFor(Status status) const;
  void Count(Method method);
  StackOrigin Origin() const;
  WalkResult Finish(StackEnd end);

  const Arch arch_;
  const ArchRegisters& names_;
  const WalkOptions& options_;
  ModuleFinder& finder_;

  WalkMemory memory_;
  bool stack_is_whole_ = false;
  RegisterFile registers_;
  CodeModule module_;
  bool has_module_ = false;
  WalkedFrame frame_;                // the current one
  uint64_t lowest_frame_ = 0;        // callers' frames lie at or above this
  bool same_stack_pointer_ = false;  // the last step did not move it
  bool through_signal_ = false;      // the last step was through a signal frame
  WalkResult result_;
};

}  // namespace ptarmigan::internal
