// The pipeline's side of unwinding: which samples can be unwound, and the walkers' view of a process's code.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "model/address_space.h"
#include "model/recording.h"
#include "model/stack.h"
#include "pipeline/sample_pipeline.h"
#include "symbolize/symbolizer.h"
#include "unwind/stack_walker.h"

namespace ptarmigan::internal {

// Where an object was seen mapped, for finding its file while the process lives; by CodeObject::index.
using ObjectHints = std::vector<LoadHints>;

class UserUnwinder : private ModuleFinder {
 public:
  // All references must outlive the unwinder. `hints` grows while samples arrive.
  UserUnwinder(const RecordingDescription& description, Symbolizer& symbolizer, UnwindMode mode,
               ProcessTable& processes, const ObjectHints& hints);
  ~UserUnwinder() override;

  // Whether the sample has what a walk needs: user registers and a piece of the user stack.
  bool CanUnwind(const CapturedSample& sample) const;
  // User frames, leaf first; `frames` is valid until the next call.
  struct Walk {
    const std::vector<WalkedFrame>& frames;
    StackOrigin origin;
    StackEnd end;
  };
  Walk Unwind(const CapturedSample& sample, Process& process);

  // arm64 recordings made with frame pointers carry the link register alone: the caller of a leaf function that
  // has no frame of its own, or nothing where the chain has it already.
  std::optional<VirtAddr> LeafCaller(const CapturedSample& sample, Process& process);

  // The register that LeafCaller looks at, 0 where it does not.
  uint64_t LinkRegister(const CapturedSample& sample) const;

  // Where the function (or part of one) that holds the address begins, by the object's unwind tables; nothing if not
  // known.
  std::optional<VirtAddr> FunctionStart(VirtAddr address, Process& process);
  // Whether unwind tables say that the function at the address has no caller.
  bool IsOutermost(VirtAddr address, Process& process);
  // Whether the address lies in a stub of the linker (PLT), which jumps on to the function that was meant.
  bool IsLinkageStub(VirtAddr address, Process& process);
  // Whether the address lies in an executable mapping of the process.
  bool IsCode(VirtAddr address, Process& process);

  // Whether the event's branch stacks are call stacks (and not the last branches).
  bool IsLbrCallStack(uint32_t event) const;

 private:
  // An object's file opened for its unwind tables.
  struct OpenedObject {
    std::shared_ptr<const ElfFile> file;
    std::shared_ptr<const ElfFile> debug_file;
    std::unique_ptr<UnwindObject> unwind;
    std::vector<CfiRange> functions;  // sorted; made with the first question
    bool has_functions = false;
  };
  // A place in an object's file.
  struct FilePlace {
    OpenedObject* object = nullptr;
    FileVaddr vaddr;
  };
  std::optional<FilePlace> FindInFile(VirtAddr address, Process& process);

  bool Find(VirtAddr pc, CodeModule* module) override;
  OpenedObject& Open(const CodeObject& object);
  StackWalker& WalkerFor(const CapturedSample& sample);
  Arch ArchOf(const CapturedSample& sample) const;

  const RecordingDescription& description_;
  Symbolizer& symbolizer_;
  UnwindMode mode_;
  ProcessTable& processes_;
  const ObjectHints& hints_;
  std::vector<std::unique_ptr<OpenedObject>> opened_;  // by CodeObject::index
  std::unordered_map<Arch, StackWalker> walkers_;
  Process* process_ = nullptr;  // of the walk that is going on
  std::vector<WalkedFrame> frames_;
};

}  // namespace ptarmigan::internal
