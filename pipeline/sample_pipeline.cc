#include "pipeline/sample_pipeline.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/str_format.h"
#include "model/address_space.h"
#include "model/profile_builder.h"
#include "model/stack.h"
#include "pipeline/internal/place_numbers.h"
#include "pipeline/internal/place_resolver.h"
#include "pipeline/internal/profile_assembly.h"
#include "pipeline/internal/stack_finder.h"
#include "pipeline/internal/stack_table.h"
#include "pipeline/internal/user_unwinder.h"
#include "symbolize/jit_maps.h"

namespace ptarmigan {
namespace {

using internal::EventColumn;
using internal::StackFinder;
using internal::StackTable;

// A sample of the batch whose rows are not written yet.
struct PendingSample {
  StackFinder::Stack stack;
  Hash128 hash;  // of the stack's places, where it is new
  uint32_t places_begin = 0;
  uint32_t places_count = 0;
  LabelSetId labels = 0;
  uint32_t event = 0;
  uint64_t period = 0;
  uint32_t row = 0;
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

struct FoundLabels {
  LabelKey key;
  LabelSetId id = kNoId;
};

}  // namespace

class SamplePipeline::Impl {
 public:
  static constexpr size_t kLabelCacheMax = size_t{1} << 18;

  Impl(const RecordingDescription& description, Symbolizer& symbolizer,
       const PipelineOptions& options)
      : description_(description),
        symbolizer_(symbolizer),
        options_(options),
        unwinder_(description, symbolizer, options.unwind, processes_, hints_),
        resolver_(symbolizer, !description.build_ids_follow),
        numbers_(table_, resolver_, symbolizer, hints_),
        finder_(description, processes_, unwinder_, numbers_) {
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
  void WriteBatch();
  LabelSetId FindLabels(const CapturedSample& sample, const Process& process, const Thread& thread,
                        const StackFinder::Stack& stack);
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
  internal::PlaceNumbers numbers_;
  StackFinder finder_;
  ProfileBuilder labels_builder_;  // holds the label sets
  std::vector<EventColumn> columns_;
  std::array<PendingSample, StackFinder::kBatchSamples> batch_;
  uint32_t batch_count_ = 0;
  std::vector<uint32_t> places_;  // of the batch's new stacks
  FoundLabels last_labels_;
  absl::flat_hash_map<LabelKey, LabelSetId> label_cache_;
  std::vector<Profile::Label> labels_;
  bool kernel_used_ = false;
  std::vector<std::pair<int32_t, std::string>> jit_dumps_of_live_;  // pid, path: read at the end
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
  const auto [process, thread] = processes_.FindTask(sample.identity.pid, sample.identity.tid);
  PendingSample& pending = batch_[batch_count_];
  pending.stack = finder_.Find(sample, process, batch_count_);
  ++samples_by_stack_end_[static_cast<size_t>(pending.stack.end)];
  pending.labels = FindLabels(sample, process, thread, pending.stack);
  pending.event = sample.event;
  pending.period = sample.period;
  if (++batch_count_ == batch_.size()) WriteBatch();
}

// Every look-up in the table waits for memory. So each loop asks for what the next one needs.
void SamplePipeline::Impl::WriteBatch() {
  const auto batch = std::span(batch_).first(batch_count_);
  const auto places_of = [this](const PendingSample& sample) {
    return std::span<const uint32_t>(places_).subspan(sample.places_begin, sample.places_count);
  };
  const auto is_new = [](const PendingSample& sample) {
    return sample.stack.id == StackFinder::kNewStack && sample.stack.same_as == StackFinder::kNone;
  };
  places_.clear();
  for (PendingSample& sample : batch) {
    if (!is_new(sample)) {
      table_.PrefetchRow(sample.stack.likely_row);
      continue;
    }
    sample.places_begin = static_cast<uint32_t>(places_.size());
    finder_.Number(sample.stack, &places_);
    sample.places_count = static_cast<uint32_t>(places_.size()) - sample.places_begin;
    sample.hash = table_.HashOf(places_of(sample));
  }
  for (PendingSample& sample : batch) {
    if (is_new(sample)) {
      sample.stack.id = table_.InternStack(places_of(sample), sample.hash);
      table_.PrefetchStack(sample.stack.id);
    } else if (sample.stack.id == StackFinder::kNewStack) {
      sample.stack.id = batch[sample.stack.same_as].stack.id;
    }
  }
  for (const PendingSample& sample : batch) table_.PrefetchFirstRow(sample.stack.id);
  for (uint32_t index = 0; index < batch.size(); ++index) {
    PendingSample& sample = batch[index];
    const uint32_t same_as = sample.stack.same_as;
    sample.row =
        table_.Add(sample.stack.id, sample.labels, sample.event, sample.period,
                   same_as == StackFinder::kNone ? sample.stack.likely_row : batch[same_as].row);
    finder_.Remember(sample.stack, index, sample.stack.id, sample.row);
  }
  batch_count_ = 0;
  finder_.StartBatch();
}

LabelSetId SamplePipeline::Impl::FindLabels(const CapturedSample& sample, const Process& process,
                                            const Thread& thread, const StackFinder::Stack& stack) {
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
      numbers_.TellApartByTime(event.pid);
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
  WriteBatch();
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
