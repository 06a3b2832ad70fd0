// AddressSpace: the executable mappings of one process (or of the kernel) at a point in time, and
// the only converter from run-time addresses to places in files. ProcessTable keeps one per process
// through mmap, fork, exec and exit, so that events applied in time order always see the state of
// their moment.
//
// Hardware traces are decoded later than the events around them arrive. With KeepHistory, FindTaskAt and LookupAt
// answer for a moment that has passed; what is kept for that is bounded, the oldest goes first.
//
// fork shares the map until one side changes it. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/address.h"
#include "model/build_id.h"
#include "model/event.h"

namespace ptarmigan {

// An object that mappings refer to: an ELF file, the kernel, a module, [vdso], anonymous or JIT
// code. Interned: the same (path, build id, file identity) gives the same pointer for the life of
// the ObjectTable.
struct CodeObject {
  enum class Kind : uint8_t {
    kFile,
    kKernel,        // [kernel.kallsyms]
    kKernelModule,  // [name] or a .ko path
    kBpf,           // a BPF program from KSYMBOL
    kVdso,
    kAnonymous,  // //anon, [heap], [stack], memfd and dmabuf names: JIT code, symbolized by perf
                 // maps
    kUnknown,    // no mapping: addresses kept by CPU mode
  };
  uint32_t index = 0;  // dense, from 0
  Kind kind = Kind::kFile;
  std::string path;    // as recorded
  BuildId build_id;    // may become known later, from the recording's header
  uint64_t inode = 0;  // with device: tells apart replaced files where no build id is known
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  int32_t pid = 0;  // kAnonymous only: the process whose perf map names it; else 0

  // The first mapping seen, for addresses of objects that cannot be opened.
  VirtAddr first_start;
  FileOffset first_offset;
};

CodeObject::Kind ClassifyPath(std::string_view path, bool kernel_side);

class ObjectTable {
 public:
  ObjectTable();
  CodeObject* Intern(const MmapEvent& event);
  // The catch-all for addresses of `mode` that no mapping covers: "[unknown]", "[kernel.kallsyms]",
  // "[guest.kernel]", ...
  CodeObject* Unmapped(CpuMode mode);
  // Sets the build id of every object with this path that has none. Returns how many.
  size_t AssignBuildId(std::string_view path, const BuildId& build_id);
  const std::deque<CodeObject>& objects() const { return objects_; }
  // Later Intern calls for `path` that bring no build id use this one.
  void RememberBuildId(const std::string& path, const BuildId& build_id);

 private:
  struct Key {
    std::string path;
    BuildId build_id;
    uint64_t inode;
    uint64_t device;
    int32_t pid;
    auto operator<=>(const Key&) const = default;
  };
  // Files mapped lately, by path: every process maps the same few again.
  static constexpr size_t kRecentObjects = 64;
  struct RecentObject {
    CodeObject* object = nullptr;
    BuildId build_id;  // as the event had it

    bool IsOf(const MmapEvent& event) const;
  };
  std::deque<CodeObject> objects_;  // stable addresses
  std::array<RecentObject, kRecentObjects> recent_;
  std::map<Key, CodeObject*> by_key_;
  std::map<CpuMode, CodeObject*> unmapped_;
  std::unordered_map<std::string, BuildId> known_build_ids_;
};

struct CodeMapping {
  VirtAddr start;
  VirtAddr end;            // exclusive
  FileOffset file_offset;  // of `start`
  CodeObject* object = nullptr;
  uint64_t since_ns = 0;  // when it was mapped; 0: before the recording, or times are not recorded

  bool Contains(VirtAddr address) const { return address >= start && address < end; }
  FileOffset ToFileOffset(VirtAddr address) const {
    return {file_offset.value + (address.value - start.value)};
  }
};

class AddressSpace {
 public:
  // Mappings that are gone and still remembered.
  static constexpr size_t kPastMax = 1024;

  AddressSpace();
  // Inserts a mapping; what it overlaps is cut or removed (an munmap is only seen through what
  // replaces it). An empty or wrapping range is ignored and false is returned.
  bool Map(const CodeMapping& mapping);
  void Unmap(VirtAddr start, VirtAddr end, uint64_t time_ns);
  void Clear();
  // Null if nothing is mapped there. Valid until the next change.
  const CodeMapping* Find(VirtAddr address) const;
  // The mapping at a moment that may have passed, as far as KeepPast remembers. Where there was none, but is one now:
  // that one (code can run before the record of its mapping is written). Valid until the next change.
  const CodeMapping* FindAt(VirtAddr address, uint64_t time_ns) const;
  // From now on what a mapping replaces is remembered with the time at which it went.
  void KeepPast();
  const std::vector<CodeMapping>& mappings() const { return *mappings_; }
  // A copy that shares storage until either side changes.
  AddressSpace Fork() const;
  // Changes with every change of the mappings and is never reused within the program: a cache key.
  uint64_t generation() const { return generation_; }

 private:
  struct PastMapping {
    CodeMapping mapping;
    uint64_t until_ns = 0;
  };
  std::vector<CodeMapping>& Mutable();

  std::shared_ptr<std::vector<CodeMapping>> mappings_;  // sorted by start, not overlapping
  std::unique_ptr<std::deque<PastMapping>> past_;       // in order of `until_ns`; null: not kept
  uint64_t generation_;
  mutable size_t last_hit_ = 0;
};

// One life of a pid. A pid that is reused inside the recording gets a new Process.
struct Process {
  int32_t pid = 0;
  uint64_t life = 0;           // distinct for every Process of a table, in order of appearance
  uint64_t start_time_ns = 0;  // of the FORK record; 0 if it was running before
  uint64_t since_ns = 0;       // of this life: of the FORK, or of the exec that replaced everything
  std::string comm;
  AddressSpace space;
};

struct Thread {
  // Changes whenever anything below does and is never reused within a table: a cache key.
  uint64_t version = 0;
  int32_t tid = 0;
  uint64_t start_time_ns = 0;
  std::string comm;
};

class ProcessTable {
 public:
  // Exited processes are kept for late samples, up to this many; then the oldest are forgotten.
  static constexpr size_t kExitedMax = 4096;
  // Lives of one pid before the present one (exec, reuse) that KeepHistory remembers.
  static constexpr size_t kPastLivesMax = 8;

  // From now on FindTaskAt and LookupAt can be asked about the past.
  void KeepHistory();

  void Apply(const MmapEvent& event);
  void Apply(const CommEvent& event);
  void ApplyFork(const TaskEvent& event);
  void ApplyExit(const TaskEvent& event);
  void Apply(const KsymbolEvent& event);

  // The process that has `pid` now; made (empty) if not known. Valid until the next Apply.
  Process& Find(int32_t pid);
  // The thread's name and start; the process's name where the thread has none of its own.
  Thread& FindThread(int32_t pid, int32_t tid);
  // Both, for the common case of a sample of a task that had one lately. Valid until the next Apply.
  struct Task {
    Process& process;
    Thread& thread;
  };
  Task FindTask(int32_t pid, int32_t tid);
  // The task that had these ids at a moment that may have passed (as its thread was called last in that life).
  Task FindTaskAt(int32_t pid, int32_t tid, uint64_t time_ns);
  AddressSpace& kernel() { return kernel_; }
  // Moves on with every event that can change what FindTaskAt or LookupAt answer.
  uint64_t changes() const { return changes_; }
  ObjectTable& objects() { return objects_; }
  const ObjectTable& objects() const { return objects_; }

  // The mapping that covers `address` as seen in `mode` by `process`: user addresses never fall
  // through to the kernel's map. Null if none.
  const CodeMapping* Lookup(Process& process, VirtAddr address, CpuMode mode);
  // The same at a moment that may have passed.
  const CodeMapping* LookupAt(Process& process, VirtAddr address, CpuMode mode, uint64_t time_ns);

 private:
  struct PastLife {
    std::unique_ptr<Process> process;
    std::unordered_map<int32_t, Thread> threads;
  };
  struct Entry {
    std::unique_ptr<Process> process;
    std::unordered_map<int32_t, Thread> threads;
    std::deque<PastLife> past;  // oldest first; KeepHistory only
    bool exited = false;
  };
  // Tasks found lately, by tid; forgotten whenever a process or its threads may have gone.
  static constexpr size_t kRecentTasks = 64;
  struct RecentTask {
    int32_t pid = 0;
    int32_t tid = 0;
    Process* process = nullptr;
    Thread* thread = nullptr;
  };
  Entry& FindEntry(int32_t pid);
  Entry& StartLife(int32_t pid, uint64_t time_ns);
  Thread& FindThreadOf(const Process& process, int32_t tid,
                       std::unordered_map<int32_t, Thread>* threads);

  ObjectTable objects_;
  AddressSpace kernel_;
  AddressSpace guest_kernel_;
  std::unordered_map<int32_t, Entry> by_pid_;
  std::array<RecentTask, kRecentTasks> recent_tasks_ = {};
  std::deque<std::pair<int32_t, uint64_t>> exited_;  // pid, life
  uint64_t lives_ = 0;
  uint64_t thread_versions_ = 0;
  uint64_t changes_ = 0;
  bool keep_history_ = false;
};

}  // namespace ptarmigan
