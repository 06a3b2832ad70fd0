#include "pipeline/sample_pipeline.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/str_format.h"
#include "decode/memory_decoder.h"
#include "decode/spe_stream.h"
#include "decode/trace_streams.h"
#include "model/address_space.h"
#include "model/profile_builder.h"
#include "model/stack.h"
#include "pipeline/internal/branch_code.h"
#include "pipeline/internal/branch_table.h"
#include "pipeline/internal/code_images.h"
#include "pipeline/internal/event_column.h"
#include "pipeline/internal/memory_table.h"
#include "pipeline/internal/place_numbers.h"
#include "pipeline/internal/place_resolver.h"
#include "pipeline/internal/profile_assembly.h"
#include "pipeline/internal/sample_labels.h"
#include "pipeline/internal/spe_aggregator.h"
#include "pipeline/internal/stack_counter.h"
#include "pipeline/internal/stack_finder.h"
#include "pipeline/internal/stack_table.h"
#include "pipeline/internal/trace_flow.h"
#include "pipeline/internal/trace_table.h"
#include "pipeline/internal/user_unwinder.h"
#include "symbolize/jit_maps.h"

namespace ptarmigan {
namespace {

using internal::EventColumn;
using internal::StackFinder;
using internal::StackTable;

// A sample of the batch that is not counted yet.
struct PendingSample {
  StackFinder::Stack stack;
  LabelSetId labels = 0;
  uint32_t event = 0;
  uint64_t period = 0;
  bool is_memory = false;  // memory_of_batch_ has more
};

}  // namespace

class SamplePipeline::Impl {
 public:
  Impl(const RecordingDescription& description, Symbolizer& symbolizer,
       const PipelineOptions& options)
      : spe_(description),
        traces_(description),
        labels_({.process = options.label_process && !description.processes_are_made_up,
                 .cpu = options.label_cpu,
                 .cgroup = options.label_cgroup}),
        description_(description),
        symbolizer_(symbolizer),
        options_(options),
        unwinder_(description, symbolizer, options.unwind, processes_, hints_),
        resolver_(symbolizer, !description.build_ids_follow),
        numbers_(table_, resolver_, symbolizer, hints_),
        finder_(description, processes_, unwinder_, numbers_),
        memory_decoder_(description),
        spe_records_({.description = description,
                      .processes = processes_,
                      .numbers = numbers_,
                      .labels = labels_,
                      .by_cpu = options.label_cpu,
                      .memory_details = options.memory_details,
                      .memory_bytes_max = options.memory_bytes_max}),
        memory_(options.memory_details),
        branches_(description, processes_, numbers_,
                  /*in_background=*/options.memory_bytes_max == 0),
        images_(symbolizer, hints_),
        // (The bound is looked at with every sample.)
        counter_(table_, memory_, /*in_background=*/options.memory_bytes_max == 0) {
    spe_.SetSink(&spe_records_);
    table_.Reserve(description.records_bytes);
    for (const BuildIdEvent& id : description.build_ids) {
      processes_.objects().RememberBuildId(id.path, id.build_id);
    }
  }

  void OnSample(const CapturedSample& sample);
  void OnMmap(const MmapEvent& event);
  void OnFork(const TaskEvent& event);
  void OnOther(const OtherRecord& record);
  // Before address spaces change or end.
  void SettleBranches() { branches_.Settle(&losses_); }
  Profile Finish(const LossLedger& source_losses);

  ProcessTable processes_;
  SpeStream spe_;
  TraceStreams traces_;
  internal::SampleLabels labels_;
  uint64_t throttles_ = 0;
  LossLedger losses_;

 private:
  void SawTimes(uint64_t first_ns, uint64_t last_ns) {
    if (first_ns_ == 0 || first_ns < first_ns_) first_ns_ = first_ns;
    last_ns_ = std::max(last_ns_, last_ns);
  }
  bool Admit(uint32_t event, uint64_t period, const RecordIdentity& identity);
  void FinishSpe();
  void FinishTraces();
  void CountBatch();
  EventColumn& ColumnOf(uint32_t event);
  void UseKernelOnce();
  bool AddJitDump(int32_t pid, const std::string& path);
  void DescribeProfile(Profile* profile);
  void CountTraceBytes(Quality* quality) const;
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
  MemoryDecoder memory_decoder_;
  internal::SpeAggregator spe_records_;
  internal::MemoryTable memory_;
  internal::BranchTable branches_;
  internal::CodeImages images_;
  internal::TraceTable trace_table_;
  FlowBytes flow_bytes_;  // of all traces
  internal::StackCounter counter_;
  std::vector<EventColumn> columns_;
  std::array<PendingSample, StackFinder::kBatchSamples> batch_;
  std::array<MemSample, StackFinder::kBatchSamples> memory_of_batch_;
  uint32_t batch_count_ = 0;
  bool kernel_used_ = false;
  std::vector<std::pair<int32_t, std::string>> jit_dumps_of_live_;  // pid, path: read at the end
  uint64_t first_ns_ = 0;
  uint64_t last_ns_ = 0;
  std::array<uint64_t, kStackEnds> samples_by_stack_end_ = {};
};

EventColumn& SamplePipeline::Impl::ColumnOf(uint32_t event) {
  while (columns_.size() <= event) {
    columns_.push_back(internal::MakeEventColumn(description_, columns_.size()));
  }
  return columns_[event];
}

// Counts a sample of `event`; whether it goes into the profile.
bool SamplePipeline::Impl::Admit(uint32_t event, uint64_t period, const RecordIdentity& identity) {
  losses_.Capture();
  EventColumn& column = ColumnOf(event);
  ++column.total.samples;
  column.total.period_sum = SaturatingAdd(column.total.period_sum, period);
  if (identity.has_time) SawTimes(identity.time_ns, identity.time_ns);
  if (column.is_dummy) {
    losses_.Lose(LossStage::kFilter, LossReason::kDummyEvent);
    return false;
  }
  if (options_.memory_bytes_max > 0 &&
      table_.MemoryBytes() + branches_.MemoryBytes() > options_.memory_bytes_max) {
    losses_.Lose(LossStage::kBuild, LossReason::kLimit);
    return false;
  }
  return true;
}

void SamplePipeline::Impl::OnSample(const CapturedSample& sample) {
  traces_.OnSample(sample);
  if (!Admit(sample.event, sample.period, sample.identity)) return;
  MemSample* memory = &memory_of_batch_[batch_count_];
  const MemoryDecoder::Outcome outcome = memory_decoder_.Decode(sample, memory);
  if (outcome == MemoryDecoder::Outcome::kLost) return;  // the decoder has counted it
  if (outcome == MemoryDecoder::Outcome::kNotMemory) memory = nullptr;
  losses_.Keep();
  const auto [process, thread] = processes_.FindTask(sample.identity.pid, sample.identity.tid);
  if (sample.has_branches && branches_.Takes(sample.event)) {
    branches_.Add(sample, process, &losses_);
  }
  PendingSample& pending = batch_[batch_count_];
  pending.is_memory = memory != nullptr;
  pending.stack = finder_.Find(sample, process);
  ++samples_by_stack_end_[static_cast<size_t>(pending.stack.end)];
  pending.labels = labels_.Find({.identity = sample.identity,
                                 .process = process,
                                 .thread = thread,
                                 .origin = pending.stack.origin,
                                 .end = pending.stack.end,
                                 .has_cgroup = sample.has_cgroup,
                                 .cgroup_id = sample.cgroup_id,
                                 .memory = memory});
  pending.event = sample.event;
  pending.period = sample.period;
  if (++batch_count_ == batch_.size()) CountBatch();
}

void SamplePipeline::Impl::FinishSpe() {
  spe_records_.Finish(&table_, &memory_);
  const internal::SpeAggregator::Totals& totals = spe_records_.totals();
  for (uint32_t event = 0; event < totals.events.size(); ++event) {
    EventTotal& total = ColumnOf(event).total;
    total.samples += totals.events[event].samples;
    total.period_sum = SaturatingAdd(total.period_sum, totals.events[event].period_sum);
  }
  for (size_t end = 0; end < kStackEnds; ++end) {
    samples_by_stack_end_[end] += totals.stack_ends[end];
  }
  losses_.Capture(totals.kept + totals.beyond_limit);
  losses_.Keep(totals.kept);
  if (totals.beyond_limit > 0) {
    losses_.Lose(LossStage::kBuild, LossReason::kLimit, totals.beyond_limit);
  }
  if (totals.first_ns <= totals.last_ns) SawTimes(totals.first_ns, totals.last_ns);
}

// Objects that the trace led into, but whose code is not at hand; empty if there are none.
std::string MissingCodeSentence(const FlowStatistics& statistics) {
  constexpr size_t kNamesMax = 5;
  std::string names;
  size_t objects = 0;
  for (const FlowStatistics::MissingObject& object : statistics.missing) {
    if (object.name.empty()) continue;  // nothing was mapped there: no file would help
    if (objects < kNamesMax) names += (objects == 0 ? "" : ", ") + object.name;
    ++objects;
  }
  if (objects == 0) return {};
  if (objects > kNamesMax) names += StrFormat(" and {} more", objects - kNamesMax);
  return StrFormat(
      "the trace leads into code that is not at hand and cannot be followed there: {} "
      "(--binary-path DIR says where objects lie; the kernel's is called vmlinux)",
      names);
}

void SamplePipeline::Impl::FinishTraces() {
  if (!traces_.active()) return;
  traces_.Finish();
  if (traces_.traces_kernel()) images_.SetKernel(processes_.kernel());
  const TraceCounts& counts = traces_.counts();
  const auto lose_bytes = [this](LossStage stage, LossReason reason, uint64_t bytes) {
    if (bytes > 0) losses_.Lose(stage, reason, bytes, LossUnit::kBytes);
  };
  lose_bytes(LossStage::kMerge, LossReason::kMissingFile, counts.missing_bytes);
  lose_bytes(LossStage::kMerge, LossReason::kLimit, counts.refused_bytes);
  internal::TraceFlow flow(traces_, images_,
                           {.threads = options_.trace.threads,
                            .pt_walker = options_.trace.pt_walker,
                            .want_digest = options_.trace.digest,
                            .include_suspect = options_.trace.include_suspect,
                            .want_calls = options_.trace.calls || options_.trace.intervals_max > 0,
                            .intervals = {.count_max = options_.trace.intervals_max,
                                          .from_ns = options_.trace.from_ns,
                                          .to_ns = options_.trace.to_ns,
                                          .tid = options_.trace.tid}});
  const Status decoded = flow.Run();
  if (!decoded) {
    LogWarning(decoded.error().message);
    lose_bytes(LossStage::kParse, LossReason::kUnsupported, counts.bytes);
    return;
  }
  if (const std::string sentence = MissingCodeSentence(flow.statistics()); !sentence.empty()) {
    LogWarning(sentence);
  }
  if (const std::string& difference = flow.statistics().first_difference; !difference.empty()) {
    LogWarning("libipt decodes the trace differently, first " + difference);
  }
  std::vector<LabelSetId> labels;
  for (const internal::TraceOwner& owner : flow.owners()) {
    RecordIdentity identity;
    identity.pid = owner.pid;
    identity.tid = owner.tid;
    const auto [process, thread] = processes_.FindTask(owner.pid, owner.tid);
    labels.push_back(labels_.Find({.identity = identity,
                                   .process = process,
                                   .thread = thread,
                                   .trace_source = flow.source()}));
  }
  trace_table_.Take(&flow, labels, &numbers_);
  flow_bytes_ = flow.statistics().bytes;
  for (const internal::TraceOwner& owner : flow.owners()) {
    const auto [process, thread] = processes_.FindTask(owner.pid, owner.tid);
    trace_table_.NameThread(owner.thread, thread.comm);
  }
}

void SamplePipeline::Impl::OnFork(const TaskEvent& event) {
  processes_.ApplyFork(event);
  spe_.OnFork(event);
  traces_.OnFork(event);
  if (traces_.active() && event.pid != event.parent_pid) {
    images_.OnFork(processes_.Find(event.parent_pid), processes_.Find(event.pid));
  }
}

void SamplePipeline::Impl::OnOther(const OtherRecord& record) {
  spe_.OnOther(record);
  traces_.OnOther(record);
  if (spe_.active()) processes_.KeepHistory();
}

void SamplePipeline::Impl::CountBatch() {
  for (uint32_t index = 0; index < batch_count_; ++index) {
    const PendingSample& sample = batch_[index];
    if (!sample.stack.is_known) finder_.Number(sample.stack, counter_.places());
    counter_.Add({.chain = sample.stack.chain,
                  .is_known = sample.stack.is_known,
                  .labels = sample.labels,
                  .event = sample.event,
                  .period = sample.period},
                 sample.is_memory ? &memory_of_batch_[index] : nullptr);
  }
  batch_count_ = 0;
  finder_.StartBatch();
}

bool SamplePipeline::Impl::AddJitDump(int32_t pid, const std::string& path) {
  Symbolizer::JitDumpOptions options;
  options.keep_code = traces_.active();
  if (traces_.kind() == TraceKind::kIntelPt) {
    const PtConfig config = traces_.PtDescription().config;
    options.counter_to_ns = [config](uint64_t ticks) { return config.ToNs(ticks); };
  }
  const Status added = symbolizer_.AddJitDumpFile(pid, path, options);
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
  SettleBranches();
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
      if (traces_.active()) images_.AddJitCode(event.pid, *symbolizer_.JitDumpOf(event.pid));
    }
  }
  const CodeMapping* mapping =
      processes_.Lookup(processes_.Find(event.pid), event.start, CpuMode::kUser);
  if (mapping == nullptr) return;
  if (traces_.active() && dump_pid == 0) {
    images_.OnMmap(processes_.Find(event.pid), *mapping,
                   event.identity.has_time ? event.identity.time_ns : 0);
  }
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
    profile->period_type = {profile->strings.Intern(dominant->is_clock ? "cpu" : dominant->type),
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
  profile->quality.lbr_checks = finder_.lbr().Checks();
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

// What became of each byte of the AUX area.
void SamplePipeline::Impl::CountTraceBytes(Quality* quality) const {
  if (!trace_table_.empty()) {
    quality->trace_bytes = {
        {"decoded", flow_bytes_.decoded},         {"before_sync", flow_bytes_.before_sync},
        {"after_error", flow_bytes_.after_error}, {"overflow", flow_bytes_.overflow},
        {"no_image", flow_bytes_.no_image},       {"padding", flow_bytes_.padding}};
    const uint64_t beyond = flow_bytes_.dropped + traces_.counts().refused_bytes;
    if (beyond > 0) quality->trace_bytes["limit"] = beyond;
  }
  if (!spe_.active()) return;
  const SpeStatistics& spe = spe_.statistics();
  const SpeByteCounts& bytes = spe.decode.bytes;
  quality->trace_bytes = {{"decoded", bytes.records + bytes.dropped},
                          {"padding", bytes.padding + bytes.alignment},
                          {"after_error", bytes.bad + bytes.truncated}};
  if (spe.uncovered_bytes > 0) quality->trace_bytes["no_aux_record"] = spe.uncovered_bytes;
  if (spe.refused_bytes > 0) quality->trace_bytes["limit"] = spe.refused_bytes;
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
  const SpeStatistics& spe = spe_.statistics();
  if (spe.aux_truncated + spe.aux_partial + spe.aux_collision > 0) {
    comment("aux",
            StrFormat("of {} pieces {} were cut because the buffer was full, {} are partial, {} "
                      "had collisions (a longer period helps)",
                      spe.aux_records, spe.aux_truncated, spe.aux_partial, spe.aux_collision));
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
  CountBatch();
  spe_.Finish();
  counter_.Finish();
  branches_.Finish(&losses_);
  FinishSpe();
  FinishTraces();
  const Profile labels = labels_.Finish();
  table_.Seal();
  for (const auto& [pid, path] : jit_dumps_of_live_) AddJitDump(pid, path);
  resolver_.Finish();
  Quality frames;
  internal::BranchCode branch_code(symbolizer_, resolver_, table_);
  Profile profile = internal::AssembleProfile({.table = table_,
                                               .memory = memory_,
                                               .labels = labels,
                                               .columns = columns_,
                                               .branches = branches_,
                                               .branch_code = branch_code,
                                               .traces = trace_table_},
                                              &resolver_, &frames);
  AddComments(&profile);
  DescribeProfile(&profile);
  profile.quality.Merge(frames);
  CountTraceBytes(&profile.quality);
  profile.losses = losses_;
  // (A memory sample with unusable bytes has been captured already.)
  for (const LossEntry& entry : memory_decoder_.losses().Entries()) {
    profile.losses.Lose(entry.stage, entry.reason, entry.count, entry.unit);
  }
  // The others count what they delivered as kept; here those are captured, and kept or lost on.
  for (const LossLedger* before : {&source_losses, &spe_.losses()}) {
    for (const LossEntry& entry : before->Entries()) {
      if (entry.unit == LossUnit::kSamples) profile.losses.Capture(entry.count);
      profile.losses.Lose(entry.stage, entry.reason, entry.count, entry.unit);
    }
  }
  return profile;
}

SamplePipeline::SamplePipeline(const RecordingDescription& description, Symbolizer& symbolizer,
                               const PipelineOptions& options)
    : impl_(std::make_unique<Impl>(description, symbolizer, options)) {}
SamplePipeline::~SamplePipeline() = default;

void SamplePipeline::OnSample(const CapturedSample& sample) { impl_->OnSample(sample); }
void SamplePipeline::OnMmap(const MmapEvent& event) { impl_->OnMmap(event); }
void SamplePipeline::OnComm(const CommEvent& event) {
  if (event.is_exec) impl_->SettleBranches();
  impl_->processes_.Apply(event);
  impl_->spe_.OnComm(event);
  impl_->traces_.OnComm(event);
}
void SamplePipeline::OnFork(const TaskEvent& event) {
  if (event.pid != event.parent_pid) impl_->SettleBranches();
  impl_->OnFork(event);
}
void SamplePipeline::OnExit(const TaskEvent& event) {
  if (event.pid == event.tid) impl_->SettleBranches();
  impl_->processes_.ApplyExit(event);
}
void SamplePipeline::OnKsymbol(const KsymbolEvent& event) {
  impl_->SettleBranches();
  impl_->processes_.Apply(event);
}
void SamplePipeline::OnSwitch(const SwitchEvent& event) {
  impl_->spe_.OnSwitch(event);
  impl_->traces_.OnSwitch(event);
}
void SamplePipeline::OnAux(const AuxEvent& event) {
  impl_->spe_.OnAux(event);
  impl_->traces_.OnAux(event);
}
void SamplePipeline::OnAuxChunk(const AuxChunk& chunk) {
  impl_->spe_.OnAuxChunk(chunk);
  impl_->traces_.OnAuxChunk(chunk);
}
void SamplePipeline::OnOther(const OtherRecord& record) { impl_->OnOther(record); }
void SamplePipeline::OnThrottle(const ThrottleEvent& event) {
  if (event.throttled) ++impl_->throttles_;
}
void SamplePipeline::OnCgroup(const CgroupEvent& event) {
  impl_->labels_.NameCgroup(event.id, event.path);
}
void SamplePipeline::OnBuildId(const BuildIdEvent& event) {
  impl_->processes_.objects().RememberBuildId(event.path, event.build_id);
  impl_->processes_.objects().AssignBuildId(event.path, event.build_id);
}
uint64_t SamplePipeline::samples() const { return impl_->losses_.captured(); }

Profile SamplePipeline::Finish(const LossLedger& source_losses) {
  return impl_->Finish(source_losses);
}

}  // namespace ptarmigan
