#include "model/address_space.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/hash.h"

namespace ptarmigan {
namespace {

uint64_t NextGeneration() {
  static std::atomic<uint64_t> next = 1;
  return next.fetch_add(1, std::memory_order_relaxed);
}

bool IsKernelSide(CpuMode mode, int32_t pid) {
  return pid == -1 || mode == CpuMode::kKernel || mode == CpuMode::kGuestKernel;
}

}  // namespace

CodeObject::Kind ClassifyPath(std::string_view path, bool kernel_side) {
  if (kernel_side) {
    // "[kernel.kallsyms]_text", "[guest.kernel.kallsyms]", "[kernel.kallsyms]", "[kernel]"
    if (path.starts_with("[kernel") || path.starts_with("[guest.kernel"))
      return CodeObject::Kind::kKernel;
    if (path.starts_with("[") || path.ends_with(".ko") ||
        path.find(".ko.") != std::string_view::npos) {
      return CodeObject::Kind::kKernelModule;
    }
    return CodeObject::Kind::kKernel;
  }
  if (path == "[vdso]" || path == "[vdso32]" || path == "[vdsox32]") return CodeObject::Kind::kVdso;
  if (path.empty() || path.starts_with("[") || path.starts_with("//anon") ||
      path.starts_with("/anon_hugepage") || path.starts_with("/memfd:") ||
      path.starts_with("/dev/zero") || path.starts_with("/SYSV") ||
      path.starts_with("anon_inode:") || path.starts_with("/dev/ashmem")) {
    return CodeObject::Kind::kAnonymous;
  }
  return CodeObject::Kind::kFile;
}

namespace {

// Mappings call the kernel "[kernel.kallsyms]_text" (after their reference symbol), build id tables
// "[kernel.kallsyms]".
std::string BuildIdPath(const std::string& path, CodeObject::Kind kind) {
  const size_t bracket = path.find(']');
  if (kind != CodeObject::Kind::kKernel || bracket == std::string::npos) return path;
  return path.substr(0, bracket + 1);
}

}  // namespace

ObjectTable::ObjectTable() = default;

bool ObjectTable::RecentObject::IsOf(const MmapEvent& event) const {
  return object != nullptr && object->path == event.path && build_id == event.build_id &&
         object->inode == event.inode && object->device_major == event.device_major &&
         object->device_minor == event.device_minor;
}

CodeObject* ObjectTable::Intern(const MmapEvent& event) {
  const bool kernel_side = IsKernelSide(event.cpumode, event.pid);
  RecentObject& recent = recent_[HashBytes64(AsBytes(event.path)) % kRecentObjects];
  if (!kernel_side && recent.IsOf(event)) return recent.object;
  const CodeObject::Kind kind = ClassifyPath(event.path, kernel_side);
  Key key{.path = event.path, .build_id = event.build_id, .inode = 0, .device = 0, .pid = 0};
  if (key.build_id.empty()) {
    const auto known = known_build_ids_.find(BuildIdPath(key.path, kind));
    if (known != known_build_ids_.end()) key.build_id = known->second;
  }
  if (key.build_id.empty() && kind == CodeObject::Kind::kFile) {
    key.inode = event.inode;
    key.device = uint64_t{event.device_major} << 32 | event.device_minor;
  }
  if (kind == CodeObject::Kind::kAnonymous) {
    key.pid = event.pid;
    if (key.path.empty()) key.path = "//anon";
  }
  CodeObject*& object = by_key_[key];
  if (object == nullptr) {
    object = &objects_.emplace_back();
    object->index = static_cast<uint32_t>(objects_.size() - 1);
    object->kind = kind;
    object->path = key.path;
    object->build_id = key.build_id;
    object->inode = event.inode;
    object->device_major = event.device_major;
    object->device_minor = event.device_minor;
    object->pid = key.pid;
    object->first_start = event.start;
    object->first_offset = event.file_offset;
  }
  // (Anonymous memory is its process's own.)
  if (!kernel_side && kind != CodeObject::Kind::kAnonymous) recent = {object, event.build_id};
  return object;
}

CodeObject* ObjectTable::Unmapped(CpuMode mode) {
  CodeObject*& object = unmapped_[mode];
  if (object == nullptr) {
    object = &objects_.emplace_back();
    object->index = static_cast<uint32_t>(objects_.size() - 1);
    object->kind = CodeObject::Kind::kUnknown;
    switch (mode) {
      case CpuMode::kKernel:
        object->path = "[kernel]";
        break;
      case CpuMode::kHypervisor:
        object->path = "[hypervisor]";
        break;
      case CpuMode::kGuestKernel:
        object->path = "[guest.kernel]";
        break;
      case CpuMode::kGuestUser:
        object->path = "[guest.user]";
        break;
      case CpuMode::kUser:
      case CpuMode::kUnknown:
        object->path = "[unknown]";
        break;
    }
  }
  return object;
}

size_t ObjectTable::AssignBuildId(std::string_view path, const BuildId& build_id) {
  size_t assigned = 0;
  for (CodeObject& object : objects_) {
    if (object.build_id.empty() && BuildIdPath(object.path, object.kind) == path) {
      object.build_id = build_id;
      ++assigned;
    }
  }
  return assigned;
}

void ObjectTable::RememberBuildId(const std::string& path, const BuildId& build_id) {
  known_build_ids_[path] = build_id;
  recent_ = {};
}

AddressSpace::AddressSpace()
    : mappings_(std::make_shared<std::vector<CodeMapping>>()), generation_(NextGeneration()) {}

std::vector<CodeMapping>& AddressSpace::Mutable() {
  if (mappings_.use_count() > 1) mappings_ = std::make_shared<std::vector<CodeMapping>>(*mappings_);
  generation_ = NextGeneration();
  last_hit_ = 0;
  return *mappings_;
}

void AddressSpace::KeepPast() {
  if (past_ == nullptr) past_ = std::make_unique<std::deque<PastMapping>>();
}

void AddressSpace::Unmap(VirtAddr start, VirtAddr end, uint64_t time_ns) {
  if (end <= start) return;
  const auto overlaps = [start, end](const CodeMapping& mapping) {
    return mapping.start < end && mapping.end > start;
  };
  if (std::none_of(mappings_->begin(), mappings_->end(), overlaps)) return;
  std::vector<CodeMapping>& mappings = Mutable();
  std::vector<CodeMapping> rest;
  rest.reserve(mappings.size() + 1);
  for (const CodeMapping& mapping : mappings) {
    if (!overlaps(mapping)) {
      rest.push_back(mapping);
      continue;
    }
    if (past_ != nullptr) {
      if (past_->size() == kPastMax) past_->pop_front();
      past_->push_back({.mapping = mapping, .until_ns = time_ns});
    }
    if (mapping.start < start) {
      rest.push_back(mapping);
      rest.back().end = start;
    }
    if (mapping.end > end) {
      rest.push_back(mapping);
      rest.back().start = end;
      rest.back().file_offset = mapping.ToFileOffset(end);
    }
  }
  mappings = std::move(rest);
}

bool AddressSpace::Map(const CodeMapping& mapping) {
  if (mapping.end <= mapping.start) return false;
  Unmap(mapping.start, mapping.end, mapping.since_ns);
  std::vector<CodeMapping>& mappings = Mutable();
  const auto place = std::upper_bound(
      mappings.begin(), mappings.end(), mapping.start,
      [](VirtAddr start, const CodeMapping& other) { return start < other.start; });
  mappings.insert(place, mapping);
  return true;
}

void AddressSpace::Clear() {
  mappings_ = std::make_shared<std::vector<CodeMapping>>();
  generation_ = NextGeneration();
  last_hit_ = 0;
}

const CodeMapping* AddressSpace::Find(VirtAddr address) const {
  const std::vector<CodeMapping>& mappings = *mappings_;
  if (last_hit_ < mappings.size() && mappings[last_hit_].Contains(address))
    return &mappings[last_hit_];
  const auto after = std::upper_bound(
      mappings.begin(), mappings.end(), address,
      [](VirtAddr wanted, const CodeMapping& other) { return wanted < other.start; });
  if (after == mappings.begin()) return nullptr;
  const CodeMapping& candidate = *(after - 1);
  if (!candidate.Contains(address)) return nullptr;
  last_hit_ = static_cast<size_t>(&candidate - mappings.data());
  return &candidate;
}

const CodeMapping* AddressSpace::FindAt(VirtAddr address, uint64_t time_ns) const {
  const CodeMapping* now = Find(address);
  if (past_ == nullptr || past_->empty() || (now != nullptr && now->since_ns <= time_ns))
    return now;
  for (auto past = past_->rbegin(); past != past_->rend() && past->until_ns > time_ns; ++past) {
    if (past->mapping.Contains(address) && past->mapping.since_ns <= time_ns) return &past->mapping;
  }
  return now;
}

AddressSpace AddressSpace::Fork() const {
  AddressSpace child;
  child.mappings_ = mappings_;
  child.generation_ = generation_;
  if (past_ != nullptr) child.KeepPast();
  return child;
}

ProcessTable::Entry& ProcessTable::FindEntry(int32_t pid) {
  const auto found = by_pid_.find(pid);
  return found != by_pid_.end() ? found->second : StartLife(pid, 0);
}

void ProcessTable::KeepHistory() {
  if (keep_history_) return;
  keep_history_ = true;
  kernel_.KeepPast();
  guest_kernel_.KeepPast();
  for (auto& [pid, entry] : by_pid_) entry.process->space.KeepPast();
}

ProcessTable::Entry& ProcessTable::StartLife(int32_t pid, uint64_t time_ns) {
  recent_tasks_.fill({});
  Entry& entry = by_pid_[pid];
  if (keep_history_ && entry.process != nullptr) {
    if (entry.past.size() == kPastLivesMax) entry.past.pop_front();
    entry.past.push_back({std::move(entry.process), std::move(entry.threads)});
  }
  entry.process = std::make_unique<Process>();
  entry.process->pid = pid;
  entry.process->life = ++lives_;
  entry.process->since_ns = time_ns;
  if (keep_history_) entry.process->space.KeepPast();
  entry.threads.clear();
  entry.exited = false;
  return entry;
}

Process& ProcessTable::Find(int32_t pid) { return *FindEntry(pid).process; }

Thread& ProcessTable::FindThread(int32_t pid, int32_t tid) {
  Entry& entry = FindEntry(pid);
  return FindThreadOf(*entry.process, tid, &entry.threads);
}

ProcessTable::Task ProcessTable::FindTask(int32_t pid, int32_t tid) {
  RecentTask& recent = recent_tasks_[static_cast<uint32_t>(tid) % kRecentTasks];
  if (recent.process == nullptr || recent.pid != pid || recent.tid != tid) {
    Process* process = &Find(pid);
    recent = {.pid = pid, .tid = tid, .process = process, .thread = &FindThread(pid, tid)};
  }
  return {*recent.process, *recent.thread};
}

Thread& ProcessTable::FindThreadOf(const Process& process, int32_t tid,
                                   std::unordered_map<int32_t, Thread>* threads) {
  const auto [found, is_new] = threads->try_emplace(tid);
  Thread& thread = found->second;
  if (is_new) {
    thread.version = ++thread_versions_;
    thread.tid = tid;
    thread.comm = process.comm;
    if (tid == process.pid) thread.start_time_ns = process.start_time_ns;
  }
  return thread;
}

ProcessTable::Task ProcessTable::FindTaskAt(int32_t pid, int32_t tid, uint64_t time_ns) {
  const Task task = FindTask(pid, tid);
  if (!keep_history_ || task.process.since_ns <= time_ns) return task;
  Entry& entry = FindEntry(pid);
  for (auto past = entry.past.rbegin(); past != entry.past.rend(); ++past) {
    if (past->process->since_ns > time_ns) continue;
    return {*past->process, FindThreadOf(*past->process, tid, &past->threads)};
  }
  return task;
}

void ProcessTable::Apply(const MmapEvent& event) {
  if (!event.executable) return;
  ++changes_;
  CodeMapping mapping{.start = event.start,
                      .end = event.start + event.length_bytes,
                      .file_offset = event.file_offset,
                      .object = objects_.Intern(event),
                      .since_ns = event.identity.time_ns};
  if (IsGuest(event.cpumode)) {
    if (event.cpumode == CpuMode::kGuestKernel) guest_kernel_.Map(mapping);
    return;
  }
  if (!IsKernelSide(event.cpumode, event.pid)) {
    Find(event.pid).space.Map(mapping);
    return;
  }
  if (mapping.object->kind == CodeObject::Kind::kKernel) {
    // perf writes the address of the reference symbol (_text) as the offset, and often a length
    // that covers everything up to the end of the address space: the kernel's addresses are their
    // own offsets.
    mapping.file_offset = {mapping.start.value};
    if (mapping.end <= mapping.start) mapping.end = {UINT64_MAX};
    // Modules and BPF programs that stand inside the range keep their place.
    std::vector<CodeMapping> inside;
    for (const CodeMapping& other : kernel_.mappings()) {
      if (other.object->kind != CodeObject::Kind::kKernel && mapping.Contains(other.start)) {
        inside.push_back(other);
      }
    }
    kernel_.Map(mapping);
    for (const CodeMapping& other : inside) kernel_.Map(other);
    return;
  }
  kernel_.Map(mapping);
}

void ProcessTable::Apply(const CommEvent& event) {
  ++changes_;
  if (event.is_exec) {
    // exec: every mapping and every other thread is gone. The pid keeps its start time.
    Entry& old = FindEntry(event.pid);
    const uint64_t start_time_ns = old.process->start_time_ns;
    Entry& entry = StartLife(event.pid, event.identity.time_ns);
    entry.process->start_time_ns = start_time_ns;
  }
  Entry& entry = FindEntry(event.pid);
  if (event.tid == event.pid) entry.process->comm = event.comm;
  Thread& thread = FindThread(event.pid, event.tid);
  thread.comm = event.comm;
  thread.version = ++thread_versions_;
}

void ProcessTable::ApplyFork(const TaskEvent& event) {
  ++changes_;
  const uint64_t time_ns = event.time_ns;
  if (event.pid == event.parent_pid) {
    const std::string comm = FindThread(event.parent_pid, event.parent_tid).comm;
    Entry& entry = FindEntry(event.pid);
    entry.threads[event.tid] = {
        .version = ++thread_versions_, .tid = event.tid, .start_time_ns = time_ns, .comm = comm};
    return;
  }
  // A process that recorders synthesize at the start forks from a parent that may not be known:
  // time 0.
  Process& parent = Find(event.parent_pid);
  AddressSpace space = parent.space.Fork();
  std::string comm = FindThread(event.parent_pid, event.parent_tid).comm;
  const auto existing = by_pid_.find(event.pid);
  if (time_ns == 0 && existing != by_pid_.end() && !existing->second.exited) return;
  Entry& entry = StartLife(event.pid, time_ns);
  entry.process->start_time_ns = time_ns;
  entry.process->comm = comm;
  entry.process->space = std::move(space);
  entry.threads[event.tid] = {.version = ++thread_versions_,
                              .tid = event.tid,
                              .start_time_ns = time_ns,
                              .comm = std::move(comm)};
}

void ProcessTable::ApplyExit(const TaskEvent& event) {
  if (event.pid != event.tid) return;  // the leader's exit record ends the process for attribution
  const auto found = by_pid_.find(event.pid);
  if (found == by_pid_.end() || found->second.exited) return;
  found->second.exited = true;
  exited_.emplace_back(event.pid, found->second.process->life);
  if (exited_.size() <= kExitedMax) return;
  const auto [pid, life] = exited_.front();
  exited_.pop_front();
  const auto oldest = by_pid_.find(pid);
  if (oldest != by_pid_.end() && oldest->second.exited && oldest->second.process->life == life) {
    recent_tasks_.fill({});
    by_pid_.erase(oldest);
  }
}

void ProcessTable::Apply(const KsymbolEvent& event) {
  ++changes_;
  constexpr uint16_t kTypeBpf = 1;
  const VirtAddr end = event.start + event.length_bytes;
  if (event.unregister) {
    kernel_.Unmap(event.start, end, event.identity.time_ns);
    return;
  }
  if (event.type != kTypeBpf) return;  // out-of-line code lies in the kernel's own text map
  MmapEvent map;
  map.cpumode = CpuMode::kKernel;
  map.pid = -1;
  map.start = event.start;
  map.length_bytes = event.length_bytes;
  map.path = "[" + event.name + "]";
  CodeObject* object = objects_.Intern(map);
  object->kind = CodeObject::Kind::kBpf;
  kernel_.Map({.start = event.start,
               .end = end,
               .file_offset = {0},
               .object = object,
               .since_ns = event.identity.time_ns});
}

const CodeMapping* ProcessTable::Lookup(Process& process, VirtAddr address, CpuMode mode) {
  return LookupAt(process, address, mode, UINT64_MAX);
}

const CodeMapping* ProcessTable::LookupAt(Process& process, VirtAddr address, CpuMode mode,
                                          uint64_t time_ns) {
  switch (mode) {
    case CpuMode::kKernel:
      return kernel_.FindAt(address, time_ns);
    case CpuMode::kGuestKernel:
      return guest_kernel_.FindAt(address, time_ns);
    case CpuMode::kGuestUser:
    case CpuMode::kHypervisor:
      return nullptr;
    case CpuMode::kUser:
      return process.space.FindAt(address, time_ns);
    case CpuMode::kUnknown:
      break;
  }
  if (const CodeMapping* mapping = process.space.FindAt(address, time_ns)) return mapping;
  return kernel_.FindAt(address, time_ns);
}

}  // namespace ptarmigan
