// Symbolizer: from (object, address) to functions, inline frames and lines, whatever the object is.
// It finds the object's files (object_locator.h), reads its table from the symbol cache or has one
// built by a confined child (symbol_worker.h), and answers for what has no file from the kernel's
// symbols, the vdso's image, perf maps and jitdumps. What cannot be named has a reason.
//
//   CodeObject --Load--> ObjectSymbols --Resolve(FileVaddr)---------> InlineStack     files, vdso
//                                      --ResolveRuntime(VirtAddr)---> InlineStack     kernel,
//                                      modules, BPF, JIT
//
// Threads: every public function may be called from any thread at any time. Load of one object
// blocks the callers that ask for the same object; Resolve blocks only others in the same table.
// ObjectSymbols live as long as the Symbolizer, which must not outlive the CodeObjects it was given.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "elf/elf_file.h"
#include "model/address.h"
#include "model/address_space.h"
#include "model/build_id.h"
#include "model/code_image.h"
#include "model/code_lines.h"
#include "model/symbol.h"
#include "symbolize/frame_numbers.h"
#include "symbolize/object_locator.h"
#include "symbolize/symbol_miss.h"

namespace ptarmigan {

struct SymbolizerOptions {
  bool symbols = true;  // false: nothing is opened, every object says kSymbolsOff
  bool inlines =
      true;  // false: only the function that stands in the object, with the line of the address
  bool demangle = true;  // false: `function` is the system name
  // The samples come from this machine while their processes run: /proc, the running kernel and
  // perf maps may be asked. False for recordings; then this machine's kernel is used only if its
  // build id is the recorded one.
  bool live = false;
  // Directories to look in first: by build id, by recorded path below them, by base name.
  std::vector<std::string> binary_paths;
  std::vector<std::string> debuginfod_urls;  // empty: debuginfod is never asked
  // What `perf record --kcore` left of the recorded kernel: a directory with kcore and kallsyms. Empty: nothing.
  std::string kernel_copy;
  // Where tables are kept; empty: DefaultSymbolCacheDirectory(). "-": no cache, tables live in
  // memory only.
  std::string cache_directory;
  size_t threads = 0;  // for Prefetch; 0: the processors this process may use
  std::chrono::milliseconds build_timeout = std::chrono::minutes(5);  // of one table
  std::chrono::milliseconds debuginfod_timeout = std::chrono::seconds(20);
  // Of recordings: made on this machine (same host name), so that perf maps left in /tmp may be theirs.
  bool recorded_here = false;
  std::string proc_root = "/proc";
  std::string sys_root = "/sys";
};

// $PTARMIGAN_CACHE/symbols, else $XDG_CACHE_HOME/ptarmigan/symbols, else
// ~/.cache/ptarmigan/symbols; empty if none of the variables is set.
std::string DefaultSymbolCacheDirectory();

// Call first in main of every program that has a Symbolizer: table builds and debuginfod queries run as children of
// this very program. True: this process was such a child; return *exit_code from main.
bool RunSymbolizerChildIfAsked(int argc, char** argv, int* exit_code);

class JitDump;

// What is known about one object. Made by Symbolizer::Load, immutable afterwards.
class ObjectSymbols {
 public:
  virtual ~ObjectSymbols() = default;

  const CodeObject& object() const { return object_; }
  // kNone if the object has symbols; else why it has none.
  SymbolMiss miss() const { return miss_; }
  // One sentence for the user with the places that were tried; empty if nothing is missing. May be
  // non-empty beside symbols, e.g. when names are known and lines are not.
  const std::string& reason() const { return reason_; }
  // The file that the code came from and the file that its names and lines came from; empty if none
  // or not a file.
  const std::string& file() const { return file_; }
  const std::string& debug_file() const { return debug_file_; }
  // The build id that was found in the object's file where the recording brought none.
  const BuildId& build_id() const { return build_id_; }
  // True if addresses are resolved as run-time addresses (ResolveRuntime) and not as FileVaddr.
  bool by_runtime_address() const { return by_runtime_address_; }

 protected:
  explicit ObjectSymbols(const CodeObject& object) : object_(object) {}

  const CodeObject& object_;
  SymbolMiss miss_ = SymbolMiss::kNone;
  std::string reason_;
  std::string file_;
  std::string debug_file_;
  BuildId build_id_;
  bool by_runtime_address_ = false;
};

class Symbolizer : public LineResolver {
 public:
  explicit Symbolizer(SymbolizerOptions options);
  ~Symbolizer() override;
  Symbolizer(const Symbolizer&) = delete;
  Symbolizer& operator=(const Symbolizer&) = delete;

  // Never fails: an object that cannot be symbolized has a miss() and a reason(). The first call
  // may take as long as building its table; later ones are a look-up, whatever hints they bring.
  ObjectSymbols* Load(const CodeObject& object, const LoadHints& hints = {});

  struct Request {
    const CodeObject* object = nullptr;
    LoadHints hints;
  };
  // Loads many objects on several threads and returns when all are loaded.
  void Prefetch(std::span<const Request> requests);

  // The object's file itself (not its debug file), found by the same rules; also for unwinding.
  // Null with a sentence in `reason` (if given) where there is none.
  std::shared_ptr<const ElfFile> OpenObject(const CodeObject& object, const LoadHints& hints = {},
                                            std::string* reason = nullptr);
  // A file with unwind or debug sections for the object: its debug file if it has one, else the
  // object.
  std::shared_ptr<const ElfFile> OpenDebugFile(const CodeObject& object,
                                               const LoadHints& hints = {},
                                               std::string* reason = nullptr);

  // The ELF virtual address of a place in the object's file; nothing if no segment holds it or the
  // file is unknown.
  std::optional<FileVaddr> ToVaddr(const ObjectSymbols& symbols, FileOffset offset) const;

  // Innermost first. False (and no frames) where nothing is known: then MissOf tells the reason to
  // count. For callers pass the return address minus one.
  bool Resolve(const ObjectSymbols& symbols, FileVaddr address, InlineStack* frames) const;
  // For objects with by_runtime_address(). `time_ns` in the recording's clock chooses among JIT
  // code that was replaced or moved; pass ~0 for "the last known".
  bool ResolveRuntime(const ObjectSymbols& symbols, VirtAddr address, uint64_t time_ns,
                      InlineStack* frames) const;
  // The same in numbers, for those who resolve many addresses; Describe gives the texts of a frame.
  bool Resolve(const ObjectSymbols& symbols, FileVaddr address, NumberedStack* stack) const;
  bool ResolveRuntime(const ObjectSymbols& symbols, VirtAddr address, uint64_t time_ns,
                      NumberedStack* stack) const;
  void Describe(const FrameNames& names, const FrameNumbers& numbers, SourceFrame* frame) const;
  // Frees what look-ups keep to be faster next time, if it is more than `bytes_max`; mappings of tables do not count.
  // Numbers and names stay valid.
  void TrimMemory(size_t bytes_max) const;
  // What to count for an address that Resolve did not name.
  static SymbolMiss MissOf(const ObjectSymbols& symbols) {
    return symbols.miss() == SymbolMiss::kNone ? SymbolMiss::kNotInSymbol : symbols.miss();
  }
  // Where the function that holds `address` starts in the object, for "function+0x12"; nothing if
  // not known.
  std::optional<FileVaddr> FunctionStart(const ObjectSymbols& symbols, FileVaddr address) const;
  std::optional<VirtAddr> FunctionStartRuntime(const ObjectSymbols& symbols, VirtAddr address,
                                               uint64_t time_ns) const;

  // What stands in an object of Kind::kFile, address by address; lives as long as the Symbolizer. Null if the object
  // has no symbol table.
  std::unique_ptr<CodeLines> MakeCodeLines(const ObjectSymbols& symbols) const;

  // LineResolver: only objects that were loaded and have a build id.
  bool Resolve(const BuildId& object, FileVaddr address, InlineStack* frames) override;

  // The kernel of a recording: its build id, and where it was loaded. Call before loading modules and BPF programs,
  // whose names come from the same list; loading a kKernel object does it too. Only the first call counts.
  void UseKernel(const CodeObject& kernel);
  // The function of the kernel, or of a module, that holds a run-time address, by kallsyms. Nothing if none does or the
  // kernel's symbols are not at hand.
  std::optional<CodeFunction> FindKernelFunction(VirtAddr address) const;
  // For archives and for recordings with MMAP records of jit-PID.dump: before loading that process's anonymous code.
  // Bytes are copied. An error is one sentence; nothing is changed then.
  Status AddJitDump(int32_t pid, Bytes bytes);
  struct JitDumpOptions {
    bool keep_code = false;  // for JitDumpOf
    // Dumps whose times are of the architecture's counter: how those become the recording's. Null: as they are.
    std::function<uint64_t(uint64_t)> counter_to_ns;
  };
  // `path` as recorded; looked for below the directories of `binary_paths` too.
  Status AddJitDumpFile(int32_t pid, const std::string& path, const JitDumpOptions& options);
  // What was added last for the process; null if nothing was.
  std::shared_ptr<const JitDump> JitDumpOf(int32_t pid) const;
  void AddPerfMap(int32_t pid, std::string_view text);

  // Tables that had to be built, for progress and benchmarks.
  uint64_t tables_built() const;

 private:
  InlineStack TextsOf(NumberedStack stack) const;

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ptarmigan
