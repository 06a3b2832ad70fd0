// CodeImages: the code of every process of a recording by time, for decoders of control-flow traces. Mappings are noted
// while events arrive; files are opened when a process's image is asked for, after the last event.
//
//   mmap /bin/a     time 0 ──┐
//   mmap libfoo     time 5 ──┼─▶ epoch 0: [a][libfoo]        code that was not there before needs no new epoch
//   mmap libbar     time 9 ──┘   epoch 1: [a][libbar]        (where libfoo was) code that replaces other code does
//
// The kernel's code, where it is traced, is part of every image: from a copy that was made when it was recorded (kcore), or
// as its file has it (vmlinux), moved to where it was loaded.
// Not thread-safe; the images are (CodeImage).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "decode/call_stack_builder.h"
#include "elf/elf_file.h"
#include "model/address_space.h"
#include "model/code_image.h"
#include "pipeline/internal/place_numbers.h"
#include "pipeline/internal/user_unwinder.h"
#include "symbolize/jit_maps.h"
#include "symbolize/symbolizer.h"

namespace ptarmigan::internal {

// Where an object's functions are, by its symbols and PLT sections; sorted, not overlapping.
class FunctionTable {
 public:
  struct Function {
    FileVaddr start;
    FileVaddr end;
    FileVaddr whole;  // FunctionTraits::whole
    bool resumes_unwinding = false;
  };
  FunctionTable() = default;
  // Either may be null.
  FunctionTable(const ElfFile* object, const ElfFile* debug);
  // Sorted, not overlapping.
  explicit FunctionTable(std::vector<Function> functions);
  // Null where no function holds the address.
  const Function* Find(FileVaddr address) const;
  size_t size() const { return functions_.size(); }

 private:
  void AddSymbols(const ElfFile& file, std::string_view table);
  void AddPltEntries(const ElfFile& file);

  std::vector<Function> functions_;
};

class CodeImages {
 public:
  // Epochs of one process; what replaces code later goes into the last one.
  static constexpr size_t kEpochsMax = 4096;

  // One life of a pid: from an exec or a fork to the next.
  struct Life {
    uint64_t id = 0;
    uint64_t since_ns = 0;
    const CodeImage* image = nullptr;
  };

  // All references must outlive the object.
  CodeImages(Symbolizer& symbolizer, const ObjectHints& hints);
  ~CodeImages();

  // `process` has just mapped `mapping` at `time_ns` (0: before the recording).
  void OnMmap(const Process& process, const CodeMapping& mapping, uint64_t time_ns);
  // `child` has just got what `parent` has.
  void OnFork(const Process& parent, const Process& child);
  // The kernel was traced, too. Its modules' code is only in copies: modules are relocated when they are loaded.
  void SetKernel(const AddressSpace& kernel) { kernel_ = kernel.mappings(); }
  // Code that a JIT compiler wrote down; times in ns of the recording's clock.
  void AddJitCode(int32_t pid, const JitDump& dump);

  // In order of time. Of a pid that nothing is known of: none, or, with a kernel, one of id 0 that has that alone. Valid
  // until the object is changed.
  std::span<const Life> LivesOf(int32_t pid);
  // The one that holds at a time, or the first; null if nothing is known of the pid.
  const Life* LifeAt(int32_t pid, uint64_t time_ns);
  // Where an address of one of these images lies; nothing if nothing is mapped there in that epoch.
  static std::optional<FoundPlace> PlaceOf(const CodeImage& image, VirtAddr address, size_t epoch);
  static FunctionTraits TraitsOf(const CodeImage& image, const CodeBlock& block);

 private:
  class Image;
  struct TimedMapping {
    CodeMapping mapping;
    uint64_t time_ns = 0;
  };
  struct History {
    uint64_t life = 0;
    uint64_t since_ns = 0;
    std::vector<TimedMapping> mappings;
  };
  struct LoadedObject {
    bool tried = false;
    std::shared_ptr<const ElfFile> file;
    std::shared_ptr<const FunctionTable> functions;
  };
  struct JitCode {
    VirtAddr start;
    uint64_t from_ns = 0;
    std::vector<std::byte> bytes;
  };

  History& HistoryOf(const Process& process);
  const LoadedObject& Load(const CodeObject& object);
  std::unique_ptr<Image> MakeImage(int32_t pid, const History& history);
  void AddKernel(Image* image);
  std::shared_ptr<const FunctionTable> KernelFunctions(VirtAddr begin, VirtAddr end);
  static uint64_t KernelMovedBy(const CodeMapping& mapping, const ElfFile& vmlinux);

  Symbolizer& symbolizer_;
  const ObjectHints& hints_;
  std::vector<CodeMapping> kernel_;
  std::unordered_map<int32_t, std::vector<History>> histories_;  // by pid, in order of life
  std::unordered_map<int32_t, std::vector<JitCode>> jit_code_;   // by pid, in order of time
  std::vector<LoadedObject> objects_;                            // by CodeObject::index
  std::unordered_map<int32_t, std::vector<Life>> lives_;
  std::vector<std::unique_ptr<Image>> images_;
};

}  // namespace ptarmigan::internal
