#include "pipeline/internal/branch_table.h"

#include <random>
#include <utility>

#include "model/event.h"
#include "pipeline/internal/stack_table.h"

namespace ptarmigan::internal {
namespace {

constexpr size_t kSlotsAtFirst = size_t{1} << 10;

// The kernel's half of the address space, on every 64-bit architecture.
bool IsKernelAddress(uint64_t address) { return address >> 63 != 0; }

CpuMode ModeOf(uint64_t address, bool is_guest) {
  if (is_guest) return IsKernelAddress(address) ? CpuMode::kGuestKernel : CpuMode::kGuestUser;
  return IsKernelAddress(address) ? CpuMode::kKernel : CpuMode::kUser;
}

uint64_t MultiplyFold(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

BranchTable::BranchTable(const RecordingDescription& description, ProcessTable& processes,
                         PlaceNumbers& numbers)
    : processes_(processes), numbers_(numbers) {
  for (const EventDescription& event : description.events) {
    formats_.push_back(BranchStackFormatOf(description, event));
  }
  std::random_device random;
  for (uint64_t& seed : seeds_) seed = (uint64_t{random()} << 32 | random()) | 1;
}

void BranchTable::Add(const CapturedSample& sample, Process& process, LossLedger* losses) {
  const BranchStackFormat& format = formats_[sample.event];
  const BranchEntryCounts counts = ReadBranchStack(sample, format, &edges_);
  wrong_path_ += counts.wrong_path;
  if (counts.wrong_path > 0) {
    losses->Lose(LossStage::kFilter, LossReason::kWrongPath, counts.wrong_path, LossUnit::kRecords);
  }
  if (counts.empty > 0) {
    losses->Lose(LossStage::kParse, LossReason::kBadValue, counts.empty, LossUnit::kRecords);
  }
  if (edges_.empty()) return;
  if (index_.empty()) {
    index_.resize(kSlotsAtFirst);
    cycles_.resize(kSlotsAtFirst);
  }
  const bool is_guest = IsGuest(sample.cpumode);
  const Moment moment{
      .process = process,
      .space = process.space.generation() << 24 |
               (processes_.kernel().generation() & 0x7fffff) << 1 | (is_guest ? 1U : 0U),
      .time_ns = sample.identity.has_time ? sample.identity.time_ns : Place::kAnyTime,
      .is_guest = is_guest};

  const auto end_of = [&](size_t i) {
    return i > 0 && format.every_branch && edges_[i].to != 0 ? edges_[i - 1].from : 0;
  };
  // All the memory is asked for before the first piece of it is needed.
  hashes_.resize(edges_.size());
  for (size_t i = 0; i < edges_.size(); ++i) {
    hashes_[i] = HashOf(edges_[i].from, edges_[i].to, end_of(i), moment.space);
    __builtin_prefetch(&index_[hashes_[i] & (index_.size() - 1)]);
  }
  uint64_t not_kept = 0;
  for (size_t i = 0; i < edges_.size(); ++i) {
    const BranchEdge& edge = edges_[i];
    Trace key;
    key.from = edge.from;
    key.to = edge.to;
    key.end = end_of(i);
    key.space = moment.space;
    const uint32_t id = FindOrAdd(key, hashes_[i], edge.is_return, moment);
    if (id == kNoTrace) {
      ++not_kept;
      continue;
    }
    Trace& trace = traces_[id];
    ++trace.count;
    trace.cycles_sum += edge.cycles;
    trace.mispredicted += edge.outcome == BranchOutcome::kMispredicted ? 1U : 0U;
    trace.predicted += edge.outcome == BranchOutcome::kPredicted ? 1U : 0U;
    // The newer entry's cycles are those of the run that led to it.
    if (key.end != 0 && edges_[i - 1].cycles != 0 && !AddCycles(id, edges_[i - 1].cycles)) {
      ++not_kept;
    }
  }
  if (not_kept > 0) {
    losses->Lose(LossStage::kBuild, LossReason::kLimit, not_kept, LossUnit::kRecords);
  }
}

uint64_t BranchTable::HashOf(uint64_t from, uint64_t to, uint64_t end, uint64_t space) const {
  return MultiplyFold(MultiplyFold(from ^ seeds_[0], to ^ seeds_[1]) ^ end,
                      (space ^ seeds_[2]) * seeds_[3]);
}

uint32_t BranchTable::FindOrAdd(const Trace& key, uint64_t hash, bool is_return,
                                const Moment& moment) {
  const size_t mask = index_.size() - 1;
  const auto high = static_cast<uint32_t>(hash >> 32);
  size_t at = hash & mask;
  for (; index_[at].trace != kNoTrace; at = (at + 1) & mask) {
    if (index_[at].hash != high) continue;
    const Trace& known = traces_[index_[at].trace];
    if (known.from == key.from && known.to == key.to && known.end == key.end &&
        known.space == key.space) {
      return index_[at].trace;
    }
  }
  if (traces_.size() >= kTracesMax) return kNoTrace;
  const auto id = static_cast<uint32_t>(traces_.size());
  index_[at] = {high, id};
  traces_.push_back(key);
  places_.push_back(ResolvePlaces(key, moment));
  places_.back().is_return = is_return;
  if (traces_.size() * 2 > index_.size()) GrowIndex();
  return id;
}

BranchTable::Places BranchTable::ResolvePlaces(const Trace& trace, const Moment& moment) {
  const auto lookup = [&](uint64_t address) {
    return processes_.Lookup(moment.process, {address}, ModeOf(address, moment.is_guest));
  };
  const auto place = [&](uint64_t address, const CodeMapping* mapping) {
    return PlaceOf(address, mapping, ModeOf(address, moment.is_guest), moment.time_ns);
  };
  Places places;
  if (trace.from != 0) places.from = place(trace.from, lookup(trace.from));
  if (trace.to == 0) return places;
  const CodeMapping* to_mapping = lookup(trace.to);
  places.to = place(trace.to, to_mapping);
  if (trace.end == 0) return places;
  const CodeMapping* end_mapping = lookup(trace.end);
  places.end = place(trace.end, end_mapping);
  places.is_possible_run =
      trace.end >= trace.to && trace.end - trace.to <= kRunBytesMax && to_mapping == end_mapping;
  return places;
}

uint32_t BranchTable::PlaceOf(uint64_t address, const CodeMapping* mapping, CpuMode mode,
                              uint64_t time_ns) {
  const FoundPlace found = mapping != nullptr
                               ? PlaceIn(*mapping, {address})
                               : FoundPlace{processes_.objects().Unmapped(mode), address};
  return numbers_.NumberOf(found, time_ns);
}

bool BranchTable::AddCycles(uint32_t trace, uint32_t cycles) {
  const uint64_t key = uint64_t{trace} << 16 | cycles;
  const size_t mask = cycles_.size() - 1;
  size_t at = MultiplyFold(key ^ seeds_[0], seeds_[1]) & mask;
  for (; cycles_[at].key != key; at = (at + 1) & mask) {
    if (!cycles_[at].empty()) continue;
    if (cycles_used_ >= kCycleCountsMax) return false;
    cycles_[at] = {key, 1};
    if (++cycles_used_ * 2 > cycles_.size()) GrowCycles();
    return true;
  }
  ++cycles_[at].executions;
  return true;
}

void BranchTable::GrowIndex() {
  LargeVector<Slot> grown(index_.size() * 2);
  const size_t mask = grown.size() - 1;
  for (uint32_t id = 0; id < traces_.size(); ++id) {
    const Trace& trace = traces_[id];
    const uint64_t hash = HashOf(trace.from, trace.to, trace.end, trace.space);
    size_t at = hash & mask;
    while (grown[at].trace != kNoTrace) at = (at + 1) & mask;
    grown[at] = {static_cast<uint32_t>(hash >> 32), id};
  }
  index_ = std::move(grown);
}

void BranchTable::GrowCycles() {
  LargeVector<CycleCount> grown(cycles_.size() * 2);
  const size_t mask = grown.size() - 1;
  for (const CycleCount& count : cycles_) {
    if (count.empty()) continue;
    size_t at = MultiplyFold(count.key ^ seeds_[0], seeds_[1]) & mask;
    while (!grown[at].empty()) at = (at + 1) & mask;
    grown[at] = count;
  }
  cycles_ = std::move(grown);
}

size_t BranchTable::MemoryBytes() const {
  return index_.size() * sizeof(Slot) + traces_.size() * (sizeof(Trace) + sizeof(Places)) +
         cycles_.size() * sizeof(CycleCount);
}

}  // namespace ptarmigan::internal
