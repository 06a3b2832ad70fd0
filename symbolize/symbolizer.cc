#include "symbolize/symbolizer.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "base/str_format.h"
#include "base/thread_pool.h"
#include "symbolize/debuginfod_client.h"
#include "symbolize/internal/jit_names.h"
#include "symbolize/internal/object_lines.h"
#include "symbolize/internal/runtime_symbols.h"
#include "symbolize/internal/table_cache.h"
#include "symbolize/symbol_worker.h"

namespace ptarmigan {

using internal::JitState;
using internal::KernelState;
using internal::TableCache;

namespace {

bool IsKernelCode(const CodeObject& object) {
  return object.kind == CodeObject::Kind::kKernel || object.kind == CodeObject::Kind::kKernelModule;
}

const char* FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

std::string CacheDirectoryOf(const SymbolizerOptions& options) {
  if (options.cache_directory == "-") return {};
  return options.cache_directory.empty() ? DefaultSymbolCacheDirectory() : options.cache_directory;
}

std::string_view WithoutBrackets(std::string_view path) {
  return path.starts_with('[') && path.ends_with(']') ? path.substr(1, path.size() - 2) : path;
}

// What Resolve works with.
class LoadedSymbols final : public ObjectSymbols {
 public:
  explicit LoadedSymbols(const CodeObject& loaded) : ObjectSymbols(loaded) {}

  std::shared_ptr<const TableCache::Outcome> table;
  std::shared_ptr<const KernelState> kernel;
  std::shared_ptr<const JitState> jit;
  std::vector<internal::SegmentPlace> segments;

  void Miss(SymbolMiss miss, std::string reason) {
    miss_ = miss;
    reason_ = std::move(reason);
  }
  void Note(std::string reason) { reason_ = std::move(reason); }
  void SetFiles(const LocatedFile& object, const LocatedFile& debug) {
    file_ = object.path;
    debug_file_ = debug.path;
    if (object_.build_id.empty() && object.file != nullptr) build_id_ = object.file->build_id();
  }
  void SetDebugFile(const std::string& path) { debug_file_ = path; }
  void SetByRuntimeAddress() { by_runtime_address_ = true; }
  const BuildId& AnyBuildId() const {
    return object_.build_id.empty() ? build_id_ : object_.build_id;
  }
};

const LoadedSymbols& Loaded(const ObjectSymbols& symbols) {
  return static_cast<const LoadedSymbols&>(symbols);
}

}  // namespace

std::string DefaultSymbolCacheDirectory() {
  if (const char* cache = FromEnvironment("PTARMIGAN_CACHE")) return JoinPath(cache, "symbols");
  if (const char* cache = FromEnvironment("XDG_CACHE_HOME"))
    return JoinPath(cache, "ptarmigan/symbols");
  if (const char* home = FromEnvironment("HOME")) return JoinPath(home, ".cache/ptarmigan/symbols");
  return {};
}

bool RunSymbolizerChildIfAsked(int argc, char** argv, int* exit_code) {
  return RunSymbolWorkerIfAsked(argc, argv, exit_code) ||
         RunDebuginfodChildIfAsked(argc, argv, exit_code);
}

class Symbolizer::Impl {
 public:
  explicit Impl(SymbolizerOptions options);

  enum class Effort {
    kQuick,  // read what is there: no table is built, nobody is asked
    kFull,
  };
  LoadedSymbols* Load(const CodeObject& object, const LoadHints& hints, Effort effort);
  void Prefetch(std::span<const Request> requests);
  const LocatedObject& Located(const CodeObject& object, const LoadHints& hints);
  void UseKernel(const CodeObject& kernel);
  std::shared_ptr<const KernelState> Kernel();
  void SetJit(int32_t pid, std::optional<PerfMap> map, std::optional<JitDump> dump);
  std::shared_ptr<const JitDump> JitDumpOf(int32_t pid) const;
  const LoadedSymbols* ByBuildId(const BuildId& build_id) const;
  void Shape(NumberedStack* stack) const;
  void ShapeNames(SourceFrame* frame) const;
  void TrimMemory(size_t bytes_max) const;

  const SymbolizerOptions& options() const { return options_; }
  const TableCache& tables() const { return tables_; }

 private:
  // One object: its files and its symbols are each found once, by whoever comes first.
  struct Slot {
    std::once_flag located_once;
    LocatedObject located;
    std::mutex loading;
    std::unique_ptr<LoadedSymbols> loaded;
  };
  Slot& SlotOf(const CodeObject& object);
  LocatedObject LocateNow(const CodeObject& object, const LoadHints& hints);
  void UseTable(const TableCache::Outcome& outcome);
  std::unique_ptr<LoadedSymbols> LoadNow(const CodeObject& object, const LoadHints& hints,
                                         Effort effort);
  // These three are false if that would be more than `effort`.
  bool LoadFile(const LoadHints& hints, Effort effort, LoadedSymbols* loaded);
  bool LoadTable(const LocatedObject& located, Effort effort, LoadedSymbols* loaded,
                 std::shared_ptr<const TableCache::Outcome> cached = nullptr);
  bool LoadVdso(Effort effort, LoadedSymbols* loaded);
  void LoadKernelSide(LoadedSymbols* loaded);
  void LoadJitCode(LoadedSymbols* loaded);
  // Whether these two have what they need.
  bool KernelIsLoaded();
  bool JitIsLoaded(int32_t pid) const;
  std::shared_ptr<const JitState> Jit(int32_t pid);

  const SymbolizerOptions options_;
  std::unique_ptr<DebuginfodClient> debuginfod_;
  ObjectLocator locator_;
  TableCache tables_;
  internal::KernelCache kernels_;

  mutable std::shared_mutex mutex_;
  std::unordered_map<const CodeObject*, std::unique_ptr<Slot>> slots_;
  std::map<BuildId, const LoadedSymbols*> by_build_id_;
  std::vector<const SymbolTable*> used_tables_;  // they live in slots_ or in kernel_
  std::map<int32_t, std::shared_ptr<const JitState>> jit_;
  std::optional<CodeObject> recorded_kernel_;

  std::mutex kernel_mutex_;
  std::shared_ptr<const KernelState> kernel_;
};

namespace {

std::unique_ptr<DebuginfodClient> MakeDebuginfod(const SymbolizerOptions& options) {
  if (options.debuginfod_urls.empty()) return nullptr;
  DebuginfodOptions settings;
  settings.urls = options.debuginfod_urls;
  settings.timeout = options.debuginfod_timeout;
  const std::string cache = CacheDirectoryOf(options);
  if (!cache.empty()) settings.cache_directory = JoinPath(cache, "debuginfod");
  return std::make_unique<DebuginfodClient>(std::move(settings));
}

LocatorOptions MakeLocatorOptions(const SymbolizerOptions& options, DebuginfodClient* debuginfod) {
  LocatorOptions places;
  places.binary_paths = options.binary_paths;
  places.live = options.live;
  places.perf_cache = DefaultPerfCache();
  places.proc_root = options.proc_root;
  places.debuginfod = debuginfod;
  return places;
}

}  // namespace

Symbolizer::Impl::Impl(SymbolizerOptions options)
    : options_(std::move(options)),
      debuginfod_(MakeDebuginfod(options_)),
      locator_(MakeLocatorOptions(options_, debuginfod_.get())),
      tables_(CacheDirectoryOf(options_), options_.build_timeout),
      kernels_(CacheDirectoryOf(options_)) {}

Symbolizer::Impl::Slot& Symbolizer::Impl::SlotOf(const CodeObject& object) {
  {
    const std::shared_lock lock(mutex_);
    const auto known = slots_.find(&object);
    if (known != slots_.end()) return *known->second;
  }
  const std::unique_lock lock(mutex_);
  std::unique_ptr<Slot>& slot = slots_[&object];
  if (slot == nullptr) slot = std::make_unique<Slot>();
  return *slot;
}

// Looks on this machine first, then for a table that was made when the files were there or could be fetched, and only
// then asks debuginfod.
LocatedObject Symbolizer::Impl::LocateNow(const CodeObject& object, const LoadHints& hints) {
  if (object.kind == CodeObject::Kind::kVdso) {
    LocatedObject located;
    located.name = object.path;
    located.object = internal::OwnVdso();
    return located;
  }
  if (IsKernelCode(object) && !options_.kernel_copy.empty()) {
    LocatedObject located;
    located.name = object.path;
    const std::string path = JoinPath(options_.kernel_copy, "kcore");
    if (auto file = ElfFile::Open(path)) {
      located.object.file = *std::move(file);
      located.object.path = path;
      return located;
    }
  }
  if (object.kind == CodeObject::Kind::kKernel) {
    CodeObject file = object;
    file.path = "vmlinux";  // as it is called wherever it is kept
    return locator_.Locate(file, hints, false);
  }
  return locator_.Locate(object, hints, false);
}

const LocatedObject& Symbolizer::Impl::Located(const CodeObject& object, const LoadHints& hints) {
  Slot& slot = SlotOf(object);
  std::call_once(slot.located_once, [&] { slot.located = LocateNow(object, hints); });
  return slot.located;
}

LoadedSymbols* Symbolizer::Impl::Load(const CodeObject& object, const LoadHints& hints,
                                      Effort effort) {
  Slot& slot = SlotOf(object);
  const std::lock_guard loading(slot.loading);
  if (slot.loaded != nullptr) return slot.loaded.get();
  slot.loaded = LoadNow(object, hints, effort);
  if (slot.loaded == nullptr || slot.loaded->table == nullptr) return slot.loaded.get();
  UseTable(*slot.loaded->table);
  if (const BuildId& build_id = slot.loaded->AnyBuildId(); !build_id.empty()) {
    const std::unique_lock lock(mutex_);
    by_build_id_.emplace(build_id, slot.loaded.get());
  }
  return slot.loaded.get();
}

void Symbolizer::Impl::UseTable(const TableCache::Outcome& outcome) {
  const std::unique_lock lock(mutex_);
  const SymbolTable* table = outcome.table.get();
  if (std::ranges::find(used_tables_, table) == used_tables_.end()) used_tables_.push_back(table);
}

void Symbolizer::Impl::Prefetch(std::span<const Request> requests) {
  std::vector<Request> slow;
  for (const Request& request : requests) {
    if (Load(*request.object, request.hints, Effort::kQuick) == nullptr) slow.push_back(request);
  }
  const size_t threads = slow.size() <= 1        ? 1
                         : options_.threads != 0 ? options_.threads
                                                 : UsableProcessors();
  if (threads == 1) {
    for (const Request& request : slow) Load(*request.object, request.hints, Effort::kFull);
    return;
  }
  ThreadPool pool(std::min(slow.size(), threads));
  for (const Request& request : slow) {
    pool.Submit([this, request] { Load(*request.object, request.hints, Effort::kFull); });
  }
  pool.Wait();
}

// Null if that would be more than `effort`.
std::unique_ptr<LoadedSymbols> Symbolizer::Impl::LoadNow(const CodeObject& object,
                                                         const LoadHints& hints, Effort effort) {
  auto loaded = std::make_unique<LoadedSymbols>(object);
  const bool is_quick = effort == Effort::kQuick && options_.symbols;
  switch (object.kind) {
    case CodeObject::Kind::kFile:
      if (!LoadFile(hints, effort, loaded.get())) return nullptr;
      break;
    case CodeObject::Kind::kVdso:
      if (!LoadVdso(effort, loaded.get())) return nullptr;
      break;
    case CodeObject::Kind::kKernel:
      UseKernel(object);
      [[fallthrough]];
    case CodeObject::Kind::kKernelModule:
    case CodeObject::Kind::kBpf:
      if (is_quick && !KernelIsLoaded()) return nullptr;
      LoadKernelSide(loaded.get());
      break;
    case CodeObject::Kind::kAnonymous:
      if (is_quick && !JitIsLoaded(object.pid)) return nullptr;
      LoadJitCode(loaded.get());
      break;
    case CodeObject::Kind::kUnknown:
      // Kernel addresses that no MMAP record covers, when the kernel is this one.
      if (options_.live && object.path == "[kernel]") {
        if (is_quick && !KernelIsLoaded()) return nullptr;
        LoadKernelSide(loaded.get());
      } else {
        loaded->Miss(SymbolMiss::kNoMapping, "no mapping of the process holds these addresses");
      }
      break;
  }
  return loaded;
}

bool Symbolizer::Impl::LoadFile(const LoadHints& hints, Effort effort, LoadedSymbols* loaded) {
  const CodeObject& object = loaded->object();
  const LocatedObject& local = Located(object, hints);
  if (!options_.symbols) {
    loaded->SetFiles(local.object, {});
    if (local.object.file != nullptr)
      loaded->segments = internal::ExecutableSegments(*local.object.file);
    loaded->Miss(SymbolMiss::kSymbolsOff, "symbols were not asked for");
    return true;
  }
  const bool own_dwarf = local.object.file != nullptr && local.object.file->HasDwarf();
  if (own_dwarf || local.debug.file != nullptr) return LoadTable(local, effort, loaded);

  // A table from earlier may know more than the files that are here now.
  loaded->SetFiles(local.object, {});
  std::shared_ptr<const TableCache::Outcome> cached;
  if (const BuildId& build_id = loaded->AnyBuildId(); !build_id.empty()) {
    cached = tables_.GetCached(build_id);
    if (cached != nullptr && cached->table->has_lines()) {
      loaded->segments = cached->segments;
      loaded->table = std::move(cached);
      return true;
    }
  }
  if (debuginfod_ == nullptr) return LoadTable(local, effort, loaded, std::move(cached));
  if (effort == Effort::kQuick) return false;
  return LoadTable(locator_.Locate(object, hints, true), effort, loaded, std::move(cached));
}

bool Symbolizer::Impl::LoadTable(const LocatedObject& located, Effort effort, LoadedSymbols* loaded,
                                 std::shared_ptr<const TableCache::Outcome> cached) {
  loaded->SetFiles(located.object, located.debug);
  const BuildId& build_id = loaded->AnyBuildId();
  if (located.object.file == nullptr && located.debug.file == nullptr) {
    if (cached == nullptr && !build_id.empty()) cached = tables_.GetCached(build_id);
    loaded->table = std::move(cached);
    if (loaded->table != nullptr) {
      loaded->segments = loaded->table->segments;
      return true;
    }
    const LocateMisses& misses = located.object_misses;
    loaded->Miss(misses.miss == SymbolMiss::kNone ? SymbolMiss::kFileNotFound : misses.miss,
                 misses.Sentence());
    return true;
  }
  loaded->table = tables_.Get(build_id, located,
                              {.from_debuginfod = located.debug_from_debuginfod,
                               .may_build = effort == Effort::kFull,
                               .cached = std::move(cached)});
  if (loaded->table == nullptr) return false;
  loaded->segments = loaded->table->segments;
  if (loaded->table->miss != SymbolMiss::kNone) {
    loaded->Miss(loaded->table->miss, loaded->table->reason);
    if (loaded->table->table == nullptr) loaded->table.reset();
  } else if (!located.debug_misses.tried.empty()) {
    loaded->Note("lines are not known: " + located.debug_misses.Sentence());
  }
  return true;
}

bool Symbolizer::Impl::LoadVdso(Effort effort, LoadedSymbols* loaded) {
  const CodeObject& object = loaded->object();
  const LocatedObject& located = Located(object, {});
  if (!options_.symbols) {
    loaded->Miss(SymbolMiss::kSymbolsOff, "symbols were not asked for");
    return true;
  }
  if (located.object.file == nullptr) {
    loaded->Miss(SymbolMiss::kFileNotFound, "this program has no vdso of its own to read");
    return true;
  }
  const BuildId& own = located.object.file->build_id();
  // The image is the kernel's: the same kernel has the same one (the other word size has another).
  bool same = !object.build_id.empty() && object.build_id == own;
  if (object.build_id.empty() && object.path == "[vdso]") {
    const std::shared_lock lock(mutex_);
    const bool same_kernel = recorded_kernel_ && !recorded_kernel_->build_id.empty() &&
                             recorded_kernel_->build_id == RunningKernelBuildId(options_.sys_root);
    same = options_.live || same_kernel;
  }
  if (same) return LoadTable(located, effort, loaded);
  loaded->Miss(SymbolMiss::kOtherKernel, "the vdso is that of another kernel");
  return true;
}

bool Symbolizer::Impl::KernelIsLoaded() {
  const std::lock_guard lock(kernel_mutex_);
  return kernel_ != nullptr;
}

bool Symbolizer::Impl::JitIsLoaded(int32_t pid) const {
  const std::shared_lock lock(mutex_);
  return jit_.contains(pid);
}

std::shared_ptr<const KernelState> Symbolizer::Impl::Kernel() {
  const std::lock_guard lock(kernel_mutex_);
  if (kernel_ != nullptr) return kernel_;
  internal::KernelChoice choice;
  choice.live = options_.live;
  choice.proc_root = options_.proc_root;
  choice.sys_root = options_.sys_root;
  choice.copy = options_.kernel_copy;
  std::optional<CodeObject> recorded;
  {
    const std::shared_lock state_lock(mutex_);
    recorded = recorded_kernel_;
  }
  if (recorded) choice.kernel = &*recorded;
  kernel_ = std::make_shared<const KernelState>(
      internal::LoadKernel(choice, locator_, &tables_, kernels_));
  if (kernel_->vmlinux != nullptr) UseTable(*kernel_->vmlinux);
  return kernel_;
}

void Symbolizer::Impl::UseKernel(const CodeObject& kernel) {
  if (IsGuestKernelPath(kernel.path)) return;
  const std::unique_lock lock(mutex_);
  if (!recorded_kernel_) recorded_kernel_ = kernel;
}

void Symbolizer::Impl::LoadKernelSide(LoadedSymbols* loaded) {
  loaded->SetByRuntimeAddress();
  if (!options_.symbols) return loaded->Miss(SymbolMiss::kSymbolsOff, "symbols were not asked for");
  if (IsGuestKernelPath(loaded->object().path)) {
    return loaded->Miss(SymbolMiss::kOtherKernel, "the symbols of a guest's kernel are not here");
  }
  loaded->kernel = Kernel();
  loaded->SetDebugFile(loaded->kernel->vmlinux_path);
  // A BPF program has its name from its own record.
  if (loaded->object().kind == CodeObject::Kind::kBpf) return;
  if (loaded->kernel->miss != SymbolMiss::kNone) {
    loaded->Miss(loaded->kernel->miss, loaded->kernel->reason);
  } else {
    loaded->Note(loaded->kernel->reason);
  }
}

std::shared_ptr<const JitState> Symbolizer::Impl::Jit(int32_t pid) {
  {
    const std::shared_lock lock(mutex_);
    const auto known = jit_.find(pid);
    if (known != jit_.end()) return known->second;
  }
  internal::JitChoice choice;
  choice.live = options_.live;
  choice.recorded_here = options_.recorded_here;
  choice.directories = options_.binary_paths;
  choice.proc_root = options_.proc_root;
  auto state = std::make_shared<const JitState>(internal::LoadJit(choice, pid));
  const std::unique_lock lock(mutex_);
  return jit_.emplace(pid, std::move(state)).first->second;
}

void Symbolizer::Impl::SetJit(int32_t pid, std::optional<PerfMap> map,
                              std::optional<JitDump> dump) {
  auto state = std::make_shared<JitState>();
  state->map = std::move(map);
  state->dump = std::move(dump);
  const std::unique_lock lock(mutex_);
  jit_[pid] = std::move(state);
}

std::shared_ptr<const JitDump> Symbolizer::Impl::JitDumpOf(int32_t pid) const {
  const std::shared_lock lock(mutex_);
  const auto found = jit_.find(pid);
  if (found == jit_.end() || !found->second->dump) return nullptr;
  return {found->second, &*found->second->dump};
}

void Symbolizer::Impl::LoadJitCode(LoadedSymbols* loaded) {
  loaded->SetByRuntimeAddress();
  if (!options_.symbols) return loaded->Miss(SymbolMiss::kSymbolsOff, "symbols were not asked for");
  if (loaded->object().pid <= 0)
    return loaded->Miss(SymbolMiss::kNoJitMap, "anonymous code of no process");
  loaded->jit = Jit(loaded->object().pid);
  if (!loaded->jit->map && !loaded->jit->dump)
    loaded->Miss(SymbolMiss::kNoJitMap, loaded->jit->reason);
}

const LoadedSymbols* Symbolizer::Impl::ByBuildId(const BuildId& build_id) const {
  const std::shared_lock lock(mutex_);
  const auto known = by_build_id_.find(build_id);
  return known != by_build_id_.end() ? known->second : nullptr;
}

// Applies --no-inlines; nothing that is made at run time has inlined frames.
void Symbolizer::Impl::Shape(NumberedStack* stack) const {
  if (options_.inlines || stack->frames.size() <= 1) return;
  FrameNumbers outer = stack->frames.front();
  outer.function = stack->frames.back().function;
  stack->frames.assign(1, outer);
}

// Applies --no-demangle.
void Symbolizer::Impl::ShapeNames(SourceFrame* frame) const {
  if (!options_.demangle && !frame->system_name.empty()) frame->function = frame->system_name;
}

void Symbolizer::Impl::TrimMemory(size_t bytes_max) const {
  const std::shared_lock lock(mutex_);
  size_t bytes = 0;
  for (const SymbolTable* table : used_tables_) bytes += table->unpacked_bytes();
  if (bytes <= bytes_max) return;
  for (const SymbolTable* table : used_tables_) table->DropPages();
}

// --- the public face ---

Symbolizer::Symbolizer(SymbolizerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
Symbolizer::~Symbolizer() = default;

ObjectSymbols* Symbolizer::Load(const CodeObject& object, const LoadHints& hints) {
  return impl_->Load(object, hints, Impl::Effort::kFull);
}

void Symbolizer::Prefetch(std::span<const Request> requests) { impl_->Prefetch(requests); }

std::shared_ptr<const ElfFile> Symbolizer::OpenObject(const CodeObject& object,
                                                      const LoadHints& hints, std::string* reason) {
  const bool has_file = object.kind == CodeObject::Kind::kFile ||
                        object.kind == CodeObject::Kind::kVdso || IsKernelCode(object);
  if (!has_file) {
    if (reason != nullptr) *reason = "the object has no file";
    return nullptr;
  }
  const LocatedObject& located = impl_->Located(object, hints);
  if (located.object.file == nullptr && reason != nullptr)
    *reason = located.object_misses.Sentence();
  return located.object.file;
}

std::shared_ptr<const ElfFile> Symbolizer::OpenDebugFile(const CodeObject& object,
                                                         const LoadHints& hints,
                                                         std::string* reason) {
  if (object.kind == CodeObject::Kind::kFile) {
    const LocatedObject& located = impl_->Located(object, hints);
    if (located.debug.file != nullptr) return located.debug.file;
  }
  return OpenObject(object, hints, reason);
}

std::optional<CodeFunction> Symbolizer::FindKernelFunction(VirtAddr address) const {
  const std::shared_ptr<const KernelState> kernel = impl_->Kernel();
  KernelSymbols::Symbol symbol;
  if (!kernel->Find(address, &symbol)) return std::nullopt;
  return CodeFunction{symbol.start, symbol.end};
}

std::optional<FileVaddr> Symbolizer::ToVaddr(const ObjectSymbols& symbols,
                                             FileOffset offset) const {
  return internal::ToVaddr(Loaded(symbols).segments, offset);
}

bool Symbolizer::Resolve(const ObjectSymbols& symbols, FileVaddr address,
                         NumberedStack* stack) const {
  stack->clear();
  const LoadedSymbols& loaded = Loaded(symbols);
  if (loaded.table == nullptr) return false;
  stack->names = loaded.table->table.get();
  if (!loaded.table->table->FindNumbers(address, &stack->frames)) return false;
  impl_->Shape(stack);
  return true;
}

bool Symbolizer::ResolveRuntime(const ObjectSymbols& symbols, VirtAddr address, uint64_t time_ns,
                                NumberedStack* stack) const {
  stack->clear();
  const LoadedSymbols& loaded = Loaded(symbols);
  SourceFrame frame;
  if (loaded.jit != nullptr) {
    JitDump::Symbol dumped;
    PerfMap::Symbol mapped;
    if (loaded.jit->dump && loaded.jit->dump->Find(address, time_ns, &dumped)) {
      internal::SplitJitName(dumped.name, &frame);
      if (dumped.line.line != 0) {
        frame.file = dumped.line.file;
        frame.line = dumped.line.line;
        frame.column = 0;
        frame.discriminator = dumped.line.discriminator;
      }
    } else if (loaded.jit->map && loaded.jit->map->Find(address, &mapped)) {
      internal::SplitJitName(mapped.name, &frame);
    } else {
      return false;
    }
  } else if (loaded.kernel != nullptr) {
    const KernelState& kernel = *loaded.kernel;
    if (kernel.vmlinux != nullptr) {
      const SymbolTable& vmlinux = *kernel.vmlinux->table;
      if (vmlinux.FindNumbers({address.value - kernel.vmlinux_shift}, &stack->frames)) {
        stack->names = &vmlinux;
        impl_->Shape(stack);
        return true;
      }
    }
    KernelSymbols::Symbol symbol;
    const KernelSymbols* table = nullptr;
    if (loaded.object().kind == CodeObject::Kind::kBpf) {
      // The record's name is the kernel's own, and another program may be at its place by now.
      frame.function = frame.system_name = WithoutBrackets(loaded.object().path);
    } else if (kernel.Find(address, &symbol, &table)) {
      stack->names = table;
      stack->frames.push_back({.function = symbol.index});
      return true;
    } else {
      return false;
    }
  } else {
    return false;
  }
  impl_->ShapeNames(&frame);
  stack->texts.push_back(std::move(frame));
  return true;
}

void Symbolizer::Describe(const FrameNames& names, const FrameNumbers& numbers,
                          SourceFrame* frame) const {
  names.Describe(numbers, frame);
  impl_->ShapeNames(frame);
}

void Symbolizer::TrimMemory(size_t bytes_max) const { impl_->TrimMemory(bytes_max); }

InlineStack Symbolizer::TextsOf(NumberedStack stack) const {
  if (stack.names == nullptr) return std::move(stack.texts);
  InlineStack frames(stack.frames.size());
  for (size_t i = 0; i < frames.size(); ++i) Describe(*stack.names, stack.frames[i], &frames[i]);
  return frames;
}

bool Symbolizer::Resolve(const ObjectSymbols& symbols, FileVaddr address,
                         InlineStack* frames) const {
  NumberedStack stack;
  const bool found = Resolve(symbols, address, &stack);
  *frames = TextsOf(std::move(stack));
  return found;
}

bool Symbolizer::ResolveRuntime(const ObjectSymbols& symbols, VirtAddr address, uint64_t time_ns,
                                InlineStack* frames) const {
  NumberedStack stack;
  const bool found = ResolveRuntime(symbols, address, time_ns, &stack);
  *frames = TextsOf(std::move(stack));
  return found;
}

std::optional<FileVaddr> Symbolizer::FunctionStart(const ObjectSymbols& symbols,
                                                   FileVaddr address) const {
  const LoadedSymbols& loaded = Loaded(symbols);
  if (loaded.table == nullptr) return std::nullopt;
  const auto range = loaded.table->table->FindFunction(address);
  return range ? std::optional(range->start) : std::nullopt;
}

std::optional<VirtAddr> Symbolizer::FunctionStartRuntime(const ObjectSymbols& symbols,
                                                         VirtAddr address, uint64_t time_ns) const {
  const LoadedSymbols& loaded = Loaded(symbols);
  JitDump::Symbol dumped;
  PerfMap::Symbol mapped;
  KernelSymbols::Symbol symbol;
  if (loaded.jit != nullptr) {
    if (loaded.jit->dump && loaded.jit->dump->Find(address, time_ns, &dumped)) return dumped.start;
    if (loaded.jit->map && loaded.jit->map->Find(address, &mapped)) return mapped.start;
  } else if (loaded.kernel != nullptr && loaded.kernel->Find(address, &symbol)) {
    return symbol.start;
  }
  return std::nullopt;
}

std::unique_ptr<CodeLines> Symbolizer::MakeCodeLines(const ObjectSymbols& symbols) const {
  const LoadedSymbols& loaded = Loaded(symbols);
  if (loaded.table == nullptr || loaded.table->table == nullptr) return nullptr;
  const LocatedObject& located = impl_->Located(symbols.object(), {});
  return std::make_unique<internal::ObjectLines>(loaded.table->table, located.object.file,
                                                 located.debug.file);
}

bool Symbolizer::Resolve(const BuildId& object, FileVaddr address, InlineStack* frames) {
  frames->clear();
  const LoadedSymbols* loaded = impl_->ByBuildId(object);
  return loaded != nullptr && Resolve(*loaded, address, frames);
}

void Symbolizer::UseKernel(const CodeObject& kernel) { impl_->UseKernel(kernel); }

Status Symbolizer::AddJitDump(int32_t pid, Bytes bytes) {
  TRY_ASSIGN(JitDump dump, JitDump::Parse(bytes));
  impl_->SetJit(pid, std::nullopt, std::move(dump));
  return OkStatus();
}

Status Symbolizer::AddJitDumpFile(int32_t pid, const std::string& path,
                                  const JitDumpOptions& options) {
  std::vector<std::string> places;
  for (const std::string& directory : impl_->options().binary_paths) {
    places.push_back(JoinPath(directory, path));
  }
  places.push_back(path);
  const auto found = std::ranges::find_if(places, PathExists);
  TRY_ASSIGN(JitDump dump, ReadJitDumpAt(found != places.end() ? *found : path, options.keep_code));
  if (dump.has_arch_timestamps() && options.counter_to_ns) dump.ConvertTimes(options.counter_to_ns);
  impl_->SetJit(pid, std::nullopt, std::move(dump));
  return OkStatus();
}

std::shared_ptr<const JitDump> Symbolizer::JitDumpOf(int32_t pid) const {
  return impl_->JitDumpOf(pid);
}

void Symbolizer::AddPerfMap(int32_t pid, std::string_view text) {
  impl_->SetJit(pid, PerfMap::Parse(text), std::nullopt);
}

uint64_t Symbolizer::tables_built() const { return impl_->tables().builds(); }

}  // namespace ptarmigan
