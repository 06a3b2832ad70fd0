#include "pipeline/sample_pipeline.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/log.h"
#include "base/str_format.h"
#include "model/address_space.h"
#include "model/profile_builder.h"
#include "model/stack.h"
#include "pipeline/internal/place_resolver.h"
#include "pipeline/internal/profile_assembly.h"
#include "pipeline/internal/stack_table.h"
#include "pipeline/internal/user_unwinder.h"
#include "symbolize/jit_maps.h"

namespace ptarmigan {
namespace {

using internal::EventColumn;
using internal::StackTable;

// A sample's stack: one that the table holds, or the places that lie ready in places_.
struct FoundStack {
  uint32_t id = kNoId;
  uint32_t likely_row = StackTable::kNoRow;
  StackOrigin origin = StackOrigin::kNone;
  StackEnd end = StackEnd::kComplete;
};

// A chain that was resolved lately. 96 bits of its hash, and of what its addresses mean.
struct CachedChain {
  uint64_t key = 0;
  uint32_t key_high = 0;
  uint32_t stack = kNoId;
  uint32_t row = StackTable::kNoRow;
  StackEnd end = StackEnd::kComplete;
};

// The sample before, whose row is not written yet: the memory for it is on its way while the next one is read.
struct PendingSample {
  bool waiting = false;
  FoundStack stack;
  Hash128 hash;  // of places_, where the stack has no id
  LabelSetId labels = 0;
  uint32_t event = 0;
  uint64_t period = 0;
  CachedChain* cached = nullptr;  // where to remember the stack
};

// What makes two samples' label sets equal.
struct LabelKey {
  uint64_t thread_version = 0;
  uint64_t cgroup_id = 0;
  uint32_t cpu = 0;
  StackOrigin origin = StackOrigin::kNone;
  StackEnd end = StackEnd::kComplete;
  bool operator==(const LabelKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H state, const LabelKey& key) {
    return H::combine(std::move(state), key.thread_version, key.cgroup_id, key.cpu, key.origin,
                      key.end);
  }
};

// The return addresses in user code of one sample, as recorded, and their places.
struct RecentCallers {
  uint64_t space = 0;  // the address space's generation; no space has 0
  std::vector<uint64_t> addresses;
  std::vector<uint32_t> places;
  StackEnd end = StackEnd::kComplete;
};

struct FoundLabels {
  LabelKey key;
  LabelSetId id = kNoId;
};

CpuMode ModeOfMarker(uint64_t marker) {
  switch (marker) {
    case kContextHypervisor:
      return CpuMode::kHypervisor;
    case kContextKernel:
      return CpuMode::kKernel;
    case kContextUser:
    case kContextUserDeferred:
      return CpuMode::kUser;
    case kContextGuest:
    case kContextGuestKernel:
      return CpuMode::kGuestKernel;
    case kContextGuestUser:
      return CpuMode::kGuestUser;
    default:
      return CpuMode::kUnknown;
  }
}

bool HasFilePositions(const CodeObject& object) {
  return object.kind == CodeObject::Kind::kFile || object.kind == CodeObject::Kind::kVdso;
}

}  // namespace

class SamplePipeline::Impl {
 public:
  // Resolved kernel-made chains that are remembered: each has one place, which the last one takes. Small enough to
  // stay in the processor's cache: what repeats repeats soon.
  static constexpr size_t kChainCacheSlots = size_t{1} << 13;
  // Threads whose last callers are remembered.
  static constexpr size_t kRecentCallers = 64;
  static constexpr size_t kLabelCacheMax = size_t{1} << 18;

  Impl(const RecordingDescription& description, Symbolizer& symbolizer,
       const PipelineOptions& options)
      : description_(description),
        symbolizer_(symbolizer),
        options_(options),
        unwinder_(description, symbolizer, options.unwind, processes_, hints_),
        resolver_(symbolizer, !description.build_ids_follow) {
    table_.Reserve(description.records_bytes);
    for (const BuildIdEvent& id : description.build_ids) {
      processes_.objects().RememberBuildId(id.path, id.build_id);
    }
  }

  void OnSample(const CapturedSample& sample);
  void OnMmap(const MmapEvent& event);
  Profile Finish(const LossLedger& source_losses);

  ProcessTable processes_;
  std::unordered_map<uint64_t, std::string> cgroups_;
  uint64_t throttles_ = 0;
  LossLedger losses_;

 private:
  void WritePending();
  FoundStack FindStack(const CapturedSample& sample, Process& process);
  FoundStack FindStackByChain(const CapturedSample& sample, Process& process);
  FoundStack FindStackByUnwinding(const CapturedSample& sample, Process& process);
  // Appends the places of the chain's part that `wanted` accepts; returns how it ended.
  StackEnd AppendChain(const CapturedSample& sample, Process& process, bool kernel_only);
  size_t SharedCallers(const RecentCallers& recent, std::span<const uint64_t> addresses,
                       const Process& process) const;
  void AppendLbrStack(const CapturedSample& sample, Process& process);
  void AppendLeafCaller(const CapturedSample& sample, Process& process);
  // False if no mapping covers the address (it is kept in a catch-all object).
  bool AppendPlace(Process& process, CpuMode mode, uint64_t address, bool is_caller);
  // Numbers the places that AppendPlace has found since; new ones go to the resolver.
  void NumberPlaces();
  size_t Depth() const { return places_.size() + found_count_; }
  // What distinguishes the code at a JIT address at the sample's time from other code there.
  uint64_t JitVariant(const internal::Place& place);
  LoadHints HintsOf(const CodeObject& object) const;
  LabelSetId FindLabels(const CapturedSample& sample, const Process& process, const Thread& thread,
                        const FoundStack& stack);
  EventColumn& ColumnOf(uint32_t event);
  void UseKernelOnce();
  bool AddJitDump(int32_t pid, const std::string& path);
  void DescribeProfile(Profile* profile);
  void AddComments(Profile* profile) const;

  const RecordingDescription& description_;
  Symbolizer& symbolizer_;
  PipelineOptions options_;
  internal::ObjectHints hints_;
  internal::UserUnwinder unwinder_;
  StackTable table_;
  internal::PlaceResolver resolver_;
  ProfileBuilder labels_builder_;  // holds the label sets
  std::vector<EventColumn> columns_;
  std::vector<CachedChain> chain_cache_;
  std::array<RecentCallers, kRecentCallers> recent_callers_;
  PendingSample pending_;
  FoundLabels last_labels_;
  absl::flat_hash_map<LabelKey, LabelSetId> label_cache_;
  // Scratch: the stack being made, leaf first, and those of its places that have no number yet. They get it together,
  // so that the table's memory is fetched for all of them at once.
  std::vector<uint32_t> places_;
  struct FoundPlace {
    const CodeObject* object = nullptr;
    uint64_t position = 0;
  };
  // Each of a stack's frames is checked against kFramesMax but the caller of a leaf.
  std::array<FoundPlace, kFramesMax + 1> found_places_;
  size_t found_count_ = 0;
  // Where AppendPlace found its last address; no longer than until the next sample.
  const CodeMapping* last_mapping_ = nullptr;
  CpuMode last_mode_ = CpuMode::kUnknown;
  std::vector<Profile::Label> labels_;
  bool kernel_used_ = false;
  std::vector<std::pair<int32_t, std::string>> jit_dumps_of_live_;  // pid, path: read at the end
  std::unordered_set<int32_t> jit_dump_pids_;  // their code depends on the time
  uint64_t sample_time_ns_ = 0;                // of the sample being placed
  uint64_t first_ns_ = 0;
  uint64_t last_ns_ = 0;
  std::array<uint64_t, kStackEnds> samples_by_stack_end_ = {};
};

EventColumn& SamplePipeline::Impl::ColumnOf(uint32_t event) {
  while (columns_.size() <= event) {
    EventColumn& column = columns_.emplace_back();
    const size_t index = columns_.size() - 1;
    if (index < description_.events.size()) {
      const EventDescription& described = description_.events[index];
      column.total.name = described.name;
      column.is_clock = IsClockEvent(described.attr);
      column.is_dummy = IsDummyEvent(described.attr);
    } else {
      column.total.name = StrFormat("event_{}", index);
    }
  }
  return columns_[event];
}

void SamplePipeline::Impl::OnSample(const CapturedSample& sample) {
  WritePending();
  losses_.Capture();
  EventColumn& column = ColumnOf(sample.event);
  ++column.total.samples;
  if (__builtin_add_overflow(column.total.period_sum, sample.period, &column.total.period_sum)) {
    column.total.period_sum = UINT64_MAX;
  }
  if (sample.identity.has_time) {
    if (first_ns_ == 0) first_ns_ = sample.identity.time_ns;
    last_ns_ = std::max(last_ns_, sample.identity.time_ns);
  }
  if (column.is_dummy) {
    losses_.Lose(LossStage::kFilter, LossReason::kDummyEvent);
    return;
  }
  if (options_.memory_bytes_max > 0 && table_.MemoryBytes() > options_.memory_bytes_max) {
    losses_.Lose(LossStage::kBuild, LossReason::kLimit);
    return;
  }
  losses_.Keep();
  sample_time_ns_ = sample.identity.has_time ? sample.identity.time_ns : internal::Place::kAnyTime;
  const auto [process, thread] = processes_.FindTask(sample.identity.pid, sample.identity.tid);
  pending_.cached = nullptr;
  last_mapping_ = nullptr;
  pending_.stack = FindStack(sample, process);
  if (pending_.stack.id == kNoId) {
    NumberPlaces();
    pending_.hash = table_.HashOf(places_);
  } else {
    table_.PrefetchRow(pending_.stack.likely_row);
  }
  ++samples_by_stack_end_[static_cast<size_t>(pending_.stack.end)];
  pending_.labels = FindLabels(sample, process, thread, pending_.stack);
  pending_.event = sample.event;
  pending_.period = sample.period;
  pending_.waiting = true;
}

void SamplePipeline::Impl::WritePending() {
  if (!std::exchange(pending_.waiting, false)) return;
  uint32_t stack = pending_.stack.id;
  if (stack == kNoId) {
    stack = table_.InternStack(places_, pending_.hash);
    places_.clear();
  }
  const uint32_t row = table_.Add(stack, pending_.labels, pending_.event, pending_.period,
                                  pending_.stack.likely_row);
  if (pending_.cached == nullptr) return;
  pending_.cached->stack = stack;
  pending_.cached->row = row;
}

FoundStack SamplePipeline::Impl::FindStack(const CapturedSample& sample, Process& process) {
  if (unwinder_.CanUnwind(sample)) return FindStackByUnwinding(sample, process);
  return FindStackByChain(sample, process);
}

FoundStack SamplePipeline::Impl::FindStackByUnwinding(const CapturedSample& sample,
                                                      Process& process) {
  if (sample.has_chain) {
    AppendChain(sample, process, /*kernel_only=*/true);
  } else if (sample.cpumode == CpuMode::kKernel) {
    AppendPlace(process, CpuMode::kKernel, sample.ip.value, /*is_caller=*/false);
  }
  const internal::UserUnwinder::Walk walk = unwinder_.Unwind(sample, process);
  for (const WalkedFrame& frame : walk.frames) {
    if (Depth() >= kFramesMax) break;
    AppendPlace(process, CpuMode::kUser, frame.pc.value, frame.is_return_address);
  }
  return {.origin = walk.origin, .end = walk.end};
}

FoundStack SamplePipeline::Impl::FindStackByChain(const CapturedSample& sample, Process& process) {
  const bool by_lbr = sample.has_branches && unwinder_.IsLbrCallStack(sample.event);
  if (!sample.has_chain && !by_lbr) {
    StackEnd end = StackEnd::kComplete;
    if (sample.has_ip && !AppendPlace(process, sample.cpumode, sample.ip.value, false)) {
      end = StackEnd::kNoMapping;
    }
    return {.origin = StackOrigin::kNone, .end = end};
  }
  if (by_lbr) {
    AppendChain(sample, process, /*kernel_only=*/true);
    AppendLbrStack(sample, process);
    return {.origin = StackOrigin::kLbr, .end = StackEnd::kComplete};
  }
  // The same addresses in the same address spaces give the same stack.
  // (Unless a JIT compiler moves code about: then time is part of the place.)
  const uint64_t time_ns = jit_dump_pids_.contains(process.pid) ? sample_time_ns_ : 0;
  const uint64_t spaces[] = {process.space.generation(),
                             processes_.kernel().generation(),
                             time_ns,
                             unwinder_.LinkRegister(sample),
                             sample.ip.value,
                             static_cast<uint64_t>(sample.cpumode)};
  const uint64_t spaces_hash = HashBytes64(std::as_bytes(std::span(spaces)));
  const Hash128 hash = HashBytes128(std::as_bytes(std::span(sample.chain)));
  const uint64_t key = hash.low ^ spaces_hash;
  const auto key_high = static_cast<uint32_t>(hash.high);
  if (chain_cache_.empty()) chain_cache_.resize(kChainCacheSlots);
  CachedChain& cached = chain_cache_[key % kChainCacheSlots];
  pending_.cached = &cached;
  if (cached.stack == kNoId || cached.key != key || cached.key_high != key_high) {
    cached = {.key = key,
              .key_high = key_high,
              .end = AppendChain(sample, process, /*kernel_only=*/false)};
  }
  return {.id = cached.stack,
          .likely_row = cached.row,
          .origin = StackOrigin::kKernelChain,
          .end = cached.end};
}

StackEnd SamplePipeline::Impl::AppendChain(const CapturedSample& sample, Process& process,
                                           bool kernel_only) {
  const std::span<const uint64_t> chain(sample.chain);
  CpuMode mode = sample.cpumode;
  bool exact = true;  // the next address is where code was interrupted, not a return address
  bool leaf = true;
  StackEnd end = StackEnd::kComplete;
  RecentCallers* recent = nullptr;
  size_t callers_at = chain.size();  // from here on: user mode return addresses
  size_t places_at = 0;
  size_t shared_at = chain.size();  // from here on: those of `recent`
  for (size_t i = 0; i < shared_at; ++i) {
    const uint64_t entry = chain[i];
    if (IsContextMarker(entry)) {
      mode = ModeOfMarker(entry);
      exact = true;
      callers_at = shared_at = chain.size();
      continue;
    }
    // A precise event of user code may be delivered from the kernel: what the kernel did by then is not its stack.
    if (sample.cpumode == CpuMode::kUser && mode == CpuMode::kKernel) continue;
    const bool is_leaf = std::exchange(leaf, false);
    if (kernel_only && mode != CpuMode::kKernel) continue;
    if (mode == CpuMode::kUser && !exact && !is_leaf && callers_at == chain.size()) {
      callers_at = i;
      places_at = Depth();
      recent = &recent_callers_[static_cast<uint32_t>(sample.identity.tid) % kRecentCallers];
      shared_at = chain.size() - SharedCallers(*recent, chain.subspan(i), process);
      if (i == shared_at) break;
    }
    if (Depth() >= kFramesMax) return StackEnd::kFrameLimit;
    // The first address repeats the sample's own, which is the more precise one where they differ.
    const uint64_t address = is_leaf && sample.has_ip ? sample.ip.value : entry;
    const bool mapped = AppendPlace(process, mode, address, !exact);
    if (is_leaf) AppendLeafCaller(sample, process);
    exact = false;
    // Frame pointers that lead nowhere end in an address outside all code.
    end = mapped || is_leaf ? StackEnd::kComplete : StackEnd::kNoMapping;
  }
  if (callers_at < chain.size()) {
    NumberPlaces();
    if (shared_at < chain.size()) {
      const size_t shared = chain.size() - shared_at;
      places_.insert(places_.end(), recent->places.end() - static_cast<ptrdiff_t>(shared),
                     recent->places.end());
      end = recent->end;
    }
    recent->space = process.space.generation();
    recent->addresses.assign(chain.begin() + static_cast<ptrdiff_t>(callers_at), chain.end());
    recent->places.assign(places_.begin() + static_cast<ptrdiff_t>(places_at), places_.end());
    recent->end = end;
  }
  if (leaf && !kernel_only && sample.has_ip) {
    AppendPlace(process, sample.cpumode, sample.ip.value, false);
  }
  const uint16_t limit = description_.events[sample.event].attr.sample_max_stack;
  if (limit > 0 && Depth() >= limit) end = StackEnd::kFrameLimit;
  return end;
}

// How many of the outermost return addresses are those of the thread's sample before: calls deep down leave the
// callers as they were.
size_t SamplePipeline::Impl::SharedCallers(const RecentCallers& recent,
                                           std::span<const uint64_t> addresses,
                                           const Process& process) const {
  // (What a JIT compiler moves about has another place at another time.)
  if (recent.space != process.space.generation() || jit_dump_pids_.contains(process.pid)) return 0;
  const auto [ours, theirs] = std::mismatch(addresses.rbegin(), addresses.rend(),
                                            recent.addresses.rbegin(), recent.addresses.rend());
  const auto shared = static_cast<size_t>(ours - addresses.rbegin());
  return Depth() + addresses.size() <= kFramesMax ? shared : 0;
}

void SamplePipeline::Impl::AppendLbrStack(const CapturedSample& sample, Process& process) {
  // In call-stack mode the entries are the calls that have not returned: `from` is the call instruction itself.
  // The interrupted user address is the sample's, or for a kernel sample the first user address of its chain.
  uint64_t user_ip = sample.ip.value;
  if (sample.cpumode == CpuMode::kKernel) {
    user_ip = 0;
    const auto marker = std::ranges::find(sample.chain, kContextUser);
    if (marker != sample.chain.end() && marker + 1 != sample.chain.end()) user_ip = *(marker + 1);
    if (user_ip == 0 && !sample.branches.empty()) user_ip = sample.branches.front().to;
  }
  if (user_ip != 0) AppendPlace(process, CpuMode::kUser, user_ip, false);
  for (const BranchRecord& branch : sample.branches) {
    if (Depth() >= kFramesMax) return;
    AppendPlace(process, CpuMode::kUser, branch.from, false);
  }
}

void SamplePipeline::Impl::AppendLeafCaller(const CapturedSample& sample, Process& process) {
  const auto caller = unwinder_.LeafCaller(sample, process);
  if (!caller) return;
  // The next entry of the chain, where there is one, may be the same return address already.
  size_t addresses = 0;
  for (const uint64_t entry : sample.chain) {
    if (IsContextMarker(entry)) continue;
    if (++addresses == 2 && entry == caller->value) return;
  }
  AppendPlace(process, CpuMode::kUser, caller->value, /*is_caller=*/true);
}

bool SamplePipeline::Impl::AppendPlace(Process& process, CpuMode mode, uint64_t address,
                                       bool is_caller) {
  // A return address belongs to the call before it.
  const VirtAddr looked_up{is_caller && address > 0 ? address - 1 : address};
  // Frames that follow each other mostly lie in one object.
  if (last_mapping_ == nullptr || mode != last_mode_ || !last_mapping_->Contains(looked_up)) {
    last_mapping_ = processes_.Lookup(process, looked_up, mode);
    last_mode_ = mode;
    if (last_mapping_ == nullptr) {
      found_places_[found_count_++] = {processes_.objects().Unmapped(mode), address};
      return false;
    }
  }
  const CodeObject& object = *last_mapping_->object;
  const uint64_t position =
      HasFilePositions(object) ? last_mapping_->ToFileOffset(looked_up).value : looked_up.value;
  found_places_[found_count_++] = {&object, position};
  return true;
}

void SamplePipeline::Impl::NumberPlaces() {
  const auto found = std::span(found_places_).first(found_count_);
  for (const FoundPlace& at : found)
    table_.Prefetch({.object = at.object, .position = at.position});
  for (const FoundPlace& at : found) {
    internal::Place place{.object = at.object, .position = at.position};
    uint64_t variant = 0;
    if (place.object->kind == CodeObject::Kind::kAnonymous &&
        jit_dump_pids_.contains(place.object->pid)) {
      place.time_ns = sample_time_ns_;
      variant = JitVariant(place);
    }
    const size_t known = table_.places().size();
    const uint32_t index = table_.InternPlace(place, variant);
    places_.push_back(index);
    if (index == known) resolver_.Add(index, place, HintsOf(*place.object));
  }
  found_count_ = 0;
}

LoadHints SamplePipeline::Impl::HintsOf(const CodeObject& object) const {
  return object.index < hints_.size() ? hints_[object.index] : LoadHints{};
}

uint64_t SamplePipeline::Impl::JitVariant(const internal::Place& place) {
  InlineStack frames;
  const ObjectSymbols* symbols = symbolizer_.Load(*place.object, HintsOf(*place.object));
  if (!symbolizer_.ResolveRuntime(*symbols, {place.position}, place.time_ns, &frames)) return 0;
  std::string names;
  for (const SourceFrame& frame : frames) {
    names += StrFormat("{}\n{}\n{}\n", frame.function, frame.file, frame.line);
  }
  return HashBytes64(AsBytes(names));
}

LabelSetId SamplePipeline::Impl::FindLabels(const CapturedSample& sample, const Process& process,
                                            const Thread& thread, const FoundStack& stack) {
  const bool with_cgroup = options_.label_cgroup && sample.has_cgroup;
  const bool with_cpu = options_.label_cpu && sample.identity.cpu != RecordIdentity::kNoCpu;
  const LabelKey key{.thread_version = options_.label_process ? thread.version : 0,
                     .cgroup_id = with_cgroup ? sample.cgroup_id : 0,
                     .cpu = with_cpu ? sample.identity.cpu : RecordIdentity::kNoCpu,
                     .origin = stack.origin,
                     .end = stack.end};
  if (last_labels_.id != kNoId && key == last_labels_.key) return last_labels_.id;
  const auto cached = label_cache_.find(key);
  if (cached != label_cache_.end()) {
    last_labels_ = {key, cached->second};
    return cached->second;
  }

  labels_.clear();
  const auto text = [this](std::string_view name, std::string_view value) {
    if (!value.empty()) {
      labels_.push_back(
          {.key = labels_builder_.String(name), .text = labels_builder_.String(value)});
    }
  };
  const auto number = [this](std::string_view name, int64_t value, std::string_view unit) {
    labels_.push_back({.key = labels_builder_.String(name),
                       .number = value,
                       .number_unit = labels_builder_.String(unit)});
  };
  if (options_.label_process && sample.identity.pid >= 0) {
    number("pid", process.pid, "");
    number("tid", thread.tid, "");
    text("comm", thread.comm);
    if (thread.start_time_ns != 0) {
      number("thread_start", static_cast<int64_t>(thread.start_time_ns), "nanoseconds");
    }
  }
  if (with_cgroup) {
    const auto path = cgroups_.find(sample.cgroup_id);
    text("cgroup", path != cgroups_.end() ? path->second : StrFormat("id:{}", sample.cgroup_id));
  }
  if (with_cpu) number("cpu", sample.identity.cpu, "");
  if (stack.origin != StackOrigin::kNone) text("stack_origin", StackOriginName(stack.origin));
  if (stack.end != StackEnd::kComplete) text("stack_end", StackEndName(stack.end));
  if (label_cache_.size() >= kLabelCacheMax) label_cache_.clear();
  return label_cache_.emplace(key, labels_builder_.LabelSet(labels_)).first->second;
}

bool SamplePipeline::Impl::AddJitDump(int32_t pid, const std::string& path) {
  const Status added = symbolizer_.AddJitDumpFile(pid, path);
  if (!added) LogWarning(added.error().message);
  return added.has_value();
}

void SamplePipeline::Impl::UseKernelOnce() {
  // Modules and BPF programs are named by the kernel's list, which must be the recorded kernel's. Its map comes
  // before every sample.
  if (kernel_used_ || processes_.kernel().mappings().empty()) return;
  for (const CodeMapping& mapping : processes_.kernel().mappings()) {
    if (mapping.object->kind != CodeObject::Kind::kKernel) continue;
    symbolizer_.UseKernel(*mapping.object);
    kernel_used_ = true;
    return;
  }
}

void SamplePipeline::Impl::OnMmap(const MmapEvent& event) {
  processes_.Apply(event);
  UseKernelOnce();
  if (!event.executable || event.pid <= 0) return;
  // A JIT compiler maps its dump executable, so that recorders note it; its name may hold a namespace's pid.
  int32_t dump_pid = 0;
  if (IsJitDumpPath(event.path, &dump_pid)) {
    if (options_.live) {
      jit_dumps_of_live_.emplace_back(event.pid, event.path);
    } else if (AddJitDump(event.pid, event.path)) {
      jit_dump_pids_.insert(event.pid);
    }
  }
  const CodeMapping* mapping =
      processes_.Lookup(processes_.Find(event.pid), event.start, CpuMode::kUser);
  if (mapping == nullptr) return;
  const size_t index = mapping->object->index;
  if (index >= hints_.size()) hints_.resize(index + 1);
  if (hints_[index].pid == 0) {
    hints_[index] = {.pid = event.pid, .map_start = mapping->start, .map_end = mapping->end};
  }
}

void SamplePipeline::Impl::DescribeProfile(Profile* profile) {
  // The dominant event's fixed period; 0 where it varies (values are sums of the periods in force).
  const auto dominant = std::ranges::max_element(columns_, {}, [](const EventColumn& column) {
    return column.is_dummy ? 0 : column.total.samples;
  });
  if (dominant != columns_.end() && dominant->total.samples > 0) {
    const auto event = static_cast<size_t>(dominant - columns_.begin());
    profile->period = static_cast<int64_t>(
        std::min<uint64_t>(dominant->total.period_sum / dominant->total.samples, INT64_MAX));
    profile->period_type = {
        profile->strings.Intern(dominant->is_clock ? "cpu" : dominant->total.name),
        profile->strings.Intern(dominant->is_clock ? "nanoseconds" : "count")};
    if (event < description_.events.size() && !description_.events[event].attr.freq()) {
      profile->period = static_cast<int64_t>(description_.events[event].attr.sample_period);
    }
  }
  const uint64_t first_ns =
      description_.first_sample_ns != 0 ? description_.first_sample_ns : first_ns_;
  const uint64_t last_ns = std::max(description_.last_sample_ns, last_ns_);
  if (last_ns > first_ns) profile->duration_ns = static_cast<int64_t>(last_ns - first_ns);
  if (description_.clock_wall_ns != 0) {
    profile->time_ns = static_cast<int64_t>(description_.clock_wall_ns + first_ns -
                                            description_.clock_reference_ns);
  }
  for (const EventColumn& column : columns_) profile->events.push_back(column.total);
  for (size_t end = 0; end < kStackEnds; ++end) {
    if (samples_by_stack_end_[end] == 0) continue;
    if (static_cast<StackEnd>(end) == StackEnd::kComplete) {
      profile->quality.stacks_complete = samples_by_stack_end_[end];
    } else {
      profile->quality.stacks_cut.emplace(StackEndName(static_cast<StackEnd>(end)),
                                          samples_by_stack_end_[end]);
    }
  }
}

void SamplePipeline::Impl::AddComments(Profile* profile) const {
  const auto comment = [&](std::string_view key, std::string_view value) {
    if (value.empty()) return;
    profile->comments.push_back(profile->strings.Intern(StrFormat("{}: {}", key, value)));
  };
  comment("host", description_.hostname);
  comment("source", description_.source);
  comment("kernel", description_.os_release);
  comment("cpu", description_.cpu_description);
  if (throttles_ > 0) {
    comment("throttled",
            StrFormat("{} times: the rate was lower than asked for part of the time", throttles_));
  }
  if (description_.cut_short)
    comment("recording", "cut short: the recorder did not finish the file");
  if (options_.command_line) {
    std::string line;
    for (const std::string& word : description_.command_line)
      line += (line.empty() ? "" : " ") + word;
    comment("command", line);
  }
}

Profile SamplePipeline::Impl::Finish(const LossLedger& source_losses) {
  // Events without samples are listed with a zero.
  if (!description_.events.empty()) {
    ColumnOf(static_cast<uint32_t>(description_.events.size() - 1));
  }
  WritePending();
  decltype(chain_cache_)().swap(chain_cache_);
  decltype(label_cache_)().swap(label_cache_);
  table_.Seal();
  for (const auto& [pid, path] : jit_dumps_of_live_) AddJitDump(pid, path);
  resolver_.Finish();
  const Profile labels = labels_builder_.Finish();
  Quality frames;
  Profile profile = internal::AssembleProfile(
      {.table = table_, .labels = labels, .columns = columns_}, &resolver_, &frames);
  AddComments(&profile);
  DescribeProfile(&profile);
  profile.quality.Merge(frames);
  // The source's ledger counts what it delivered as kept; here those are captured or lost on.
  profile.losses = losses_;
  for (const LossEntry& entry : source_losses.Entries()) {
    if (entry.unit == LossUnit::kSamples) profile.losses.Capture(entry.count);
    profile.losses.Lose(entry.stage, entry.reason, entry.count, entry.unit);
  }
  return profile;
}

SamplePipeline::SamplePipeline(const RecordingDescription& description, Symbolizer& symbolizer,
                               const PipelineOptions& options)
    : impl_(std::make_unique<Impl>(description, symbolizer, options)) {}
SamplePipeline::~SamplePipeline() = default;

void SamplePipeline::OnSample(const CapturedSample& sample) { impl_->OnSample(sample); }
void SamplePipeline::OnMmap(const MmapEvent& event) { impl_->OnMmap(event); }
void SamplePipeline::OnComm(const CommEvent& event) { impl_->processes_.Apply(event); }
void SamplePipeline::OnFork(const TaskEvent& event) { impl_->processes_.ApplyFork(event); }
void SamplePipeline::OnExit(const TaskEvent& event) { impl_->processes_.ApplyExit(event); }
void SamplePipeline::OnKsymbol(const KsymbolEvent& event) { impl_->processes_.Apply(event); }
void SamplePipeline::OnThrottle(const ThrottleEvent& event) {
  if (event.throttled) ++impl_->throttles_;
}
void SamplePipeline::OnCgroup(const CgroupEvent& event) { impl_->cgroups_[event.id] = event.path; }
void SamplePipeline::OnBuildId(const BuildIdEvent& event) {
  impl_->processes_.objects().RememberBuildId(event.path, event.build_id);
  impl_->processes_.objects().AssignBuildId(event.path, event.build_id);
}
uint64_t SamplePipeline::samples() const { return impl_->losses_.captured(); }

Profile SamplePipeline::Finish(const LossLedger& source_losses) {
  return impl_->Finish(source_losses);
}

}  // namespace ptarmigan
