// SampleLabels: from what is known about a sample beside its stack to the number of its label set. Samples that say the
// same get the same number; most are found without looking at a text.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/address_space.h"
#include "model/mem_sample.h"
#include "model/profile_builder.h"
#include "model/stack.h"

namespace ptarmigan::internal {

struct LabelOptions {
  bool process = true;  // pid, tid, comm, thread_start
  bool cpu = false;
  bool cgroup = true;
};

// What a memory sample says in labels. Its texts have static storage: their addresses tell them apart.
struct MemoryFacts {
  const char* data_source = nullptr;
  const char* tlb = nullptr;
  const char* snoop = nullptr;
  bool is_memory = false;
  MemOp op = MemOp::kOther;
  Answer retired = Answer::kUnknown;
  Answer mispredicted = Answer::kUnknown;
  int8_t exception_level = -1;
  bool operator==(const MemoryFacts&) const = default;
  template <typename H>
  friend H AbslHashValue(H state, const MemoryFacts& facts) {
    return H::combine(std::move(state), facts.data_source, facts.tlb, facts.snoop, facts.is_memory,
                      facts.op, facts.retired, facts.mispredicted, facts.exception_level);
  }
};

class SampleLabels {
 public:
  // Label sets that are remembered by what they were made from; when full, all are forgotten and found anew.
  static constexpr size_t kCacheMax = size_t{1} << 18;

  explicit SampleLabels(const LabelOptions& options) : options_(options) {}

  void NameCgroup(uint64_t id, std::string path) { cgroups_[id] = std::move(path); }

  struct Sample {
    const RecordIdentity& identity;
    const Process& process;
    const Thread& thread;
    StackOrigin origin = StackOrigin::kNone;
    StackEnd end = StackEnd::kComplete;
    bool has_cgroup = false;
    uint64_t cgroup_id = 0;
    const MemSample* memory = nullptr;  // null: not a memory sample
    // "pt" or "coresight" for what a control-flow trace says; static storage. Null: a sample.
    const char* trace_source = nullptr;
  };
  LabelSetId Find(const Sample& sample);
  // A profile that holds nothing but the label sets; nothing can be found afterwards.
  Profile Finish();

 private:
  // What makes two samples' label sets equal.
  struct Key {
    uint64_t thread_version = 0;
    uint64_t cgroup_id = 0;
    uint32_t cpu = 0;
    StackOrigin origin = StackOrigin::kNone;
    StackEnd end = StackEnd::kComplete;
    MemoryFacts memory;
    const char* trace_source = nullptr;
    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H state, const Key& key) {
      state = H::combine(std::move(state), key.thread_version, key.cgroup_id, key.cpu, key.origin,
                         key.end, key.trace_source);
      return key.memory.is_memory ? H::combine(std::move(state), key.memory) : std::move(state);
    }
  };
  LabelSetId Make(const Sample& sample, const Key& key);
  void AddText(std::string_view name, std::string_view value);
  void AddNumber(std::string_view name, int64_t value, std::string_view unit);
  void AddMemory(const MemSample& memory);

  LabelOptions options_;
  std::unordered_map<uint64_t, std::string> cgroups_;
  ProfileBuilder builder_;  // holds the label sets
  Key last_key_;
  LabelSetId last_ = kNoId;
  absl::flat_hash_map<Key, LabelSetId> cache_;
  std::vector<Profile::Label> labels_;
};

}  // namespace ptarmigan::internal
