#include "pipeline/internal/sample_labels.h"

#include "base/str_format.h"

namespace ptarmigan::internal {
namespace {

MemoryFacts FactsOf(const MemSample& memory) {
  return {.data_source = memory.data_source.data(),
          .tlb = memory.tlb.data(),
          .snoop = memory.snoop.data(),
          .is_memory = true,
          .op = memory.op,
          .retired = memory.retired,
          .mispredicted = memory.mispredicted,
          .exception_level = memory.exception_level};
}

}  // namespace

LabelSetId SampleLabels::Find(const Sample& sample) {
  Key key{.thread_version = options_.process ? sample.thread.version : 0,
          .cgroup_id = options_.cgroup && sample.has_cgroup ? sample.cgroup_id : 0,
          .cpu = options_.cpu ? sample.identity.cpu : RecordIdentity::kNoCpu,
          .origin = sample.origin,
          .end = sample.end,
          .memory = {},
          .trace_source = sample.trace_source};
  if (sample.memory != nullptr) key.memory = FactsOf(*sample.memory);
  if (last_ != kNoId && key == last_key_) return last_;
  const auto cached = cache_.find(key);
  last_ = cached != cache_.end() ? cached->second : Make(sample, key);
  last_key_ = key;
  return last_;
}

LabelSetId SampleLabels::Make(const Sample& sample, const Key& key) {
  labels_.clear();
  if (options_.process && sample.identity.pid >= 0) {
    AddNumber("pid", sample.process.pid, "");
    AddNumber("tid", sample.thread.tid, "");
    AddText("comm", sample.thread.comm);
    if (sample.thread.start_time_ns != 0) {
      AddNumber("thread_start", static_cast<int64_t>(sample.thread.start_time_ns), "nanoseconds");
    }
  }
  if (options_.cgroup && sample.has_cgroup) {
    const auto path = cgroups_.find(sample.cgroup_id);
    AddText("cgroup", path != cgroups_.end() ? path->second : StrFormat("id:{}", sample.cgroup_id));
  }
  if (options_.cpu && sample.identity.cpu != RecordIdentity::kNoCpu) {
    AddNumber("cpu", sample.identity.cpu, "");
  }
  if (sample.origin != StackOrigin::kNone) {
    AddText("stack_origin", StackOriginName(sample.origin));
  }
  if (sample.end != StackEnd::kComplete) AddText("stack_end", StackEndName(sample.end));
  if (sample.memory != nullptr) AddMemory(*sample.memory);
  if (sample.trace_source != nullptr) AddText("source", sample.trace_source);
  if (cache_.size() >= kCacheMax) cache_.clear();
  return cache_.emplace(key, builder_.LabelSet(labels_)).first->second;
}

void SampleLabels::AddMemory(const MemSample& memory) {
  AddText("kind", "memory");
  AddText("op", MemOpName(memory.op));
  AddText("data_source", memory.data_source);
  AddText("tlb", memory.tlb);
  AddText("snoop", memory.snoop);
  // The usual case needs no label: an operation that retired, a branch that was predicted.
  if (memory.retired == Answer::kNo) AddText("retired", "false");
  if (memory.mispredicted == Answer::kYes) AddText("mispredicted", "true");
  if (memory.exception_level >= 0) AddText("el", StrFormat("{}", int{memory.exception_level}));
}

void SampleLabels::AddText(std::string_view name, std::string_view value) {
  if (value.empty()) return;
  labels_.push_back({.key = builder_.String(name), .text = builder_.String(value)});
}

void SampleLabels::AddNumber(std::string_view name, int64_t value, std::string_view unit) {
  labels_.push_back(
      {.key = builder_.String(name), .number = value, .number_unit = builder_.String(unit)});
}

Profile SampleLabels::Finish() {
  decltype(cache_)().swap(cache_);
  last_ = kNoId;
  return builder_.Finish();
}

}  // namespace ptarmigan::internal
