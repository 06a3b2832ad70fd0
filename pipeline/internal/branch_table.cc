#include "pipeline/internal/branch_table.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "model/event.h"
#include "pipeline/internal/stack_table.h"

namespace ptarmigan::internal {
namespace {

constexpr size_t kSlotsAtFirst = size_t{1} << 10;
// Address space; what stays unused costs nothing.
constexpr size_t kTracesReserved = size_t{1} << 16;

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

// (These are ahead of their uses: they are called for every edge.)
class BranchTable::KeyMaker {
 public:
  KeyMaker(const Batch& batch, const Part& part)
      : edge_(batch.edges.data() + part.edges_begin),
        edge_space_(part.is_by_place ? batch.edge_spaces.data() + part.edges_begin : nullptr),
        space_(part.space),
        has_runs_(part.has_runs) {}

  // The trace that the part's next edge is in.
  Key Next() {
    const Key key{.from = edge_->from,
                  .to = edge_->to,
                  .end = edge_->to != 0 ? newer_from_ : 0,
                  .space = edge_space_ != nullptr ? *edge_space_++ : space_};
    newer_from_ = has_runs_ ? edge_->from : 0;
    ++edge_;
    return key;
  }

 private:
  const BranchEdge* edge_;
  const uint32_t* edge_space_;
  const uint32_t space_;
  const bool has_runs_;
  uint64_t newer_from_ = 0;
};

inline uint64_t BranchTable::HashOf(const Key& key, const std::array<uint64_t, 4>& seeds) {
  return MultiplyFold(MultiplyFold(key.from ^ seeds[0], key.to ^ seeds[1]) ^ key.end,
                      seeds[2] + seeds[3] * key.space);
}

inline bool BranchTable::AddCycles(uint32_t trace, uint32_t cycles) {
  if (cycles >= kHistogramCycles) return AddLooseCycles(trace, cycles, 1);
  uint32_t& histogram = traces_[trace].histogram;
  if (histogram == kNoNumber) {
    if (histograms_.size() >= kHistogramsMax) return AddLooseCycles(trace, cycles, 1);
    histogram = static_cast<uint32_t>(histograms_.size());
    histograms_.Append();
  }
  uint16_t& executions = histograms_[histogram][cycles];
  if (executions == UINT16_MAX) {
    executions = 1;
    return AddLooseCycles(trace, cycles, UINT16_MAX);
  }
  ++executions;
  return true;
}

void BranchTable::Batch::Clear() {
  edges_count = 0;
  parts.clear();
  edge_spaces.clear();
  new_traces.clear();
  not_kept = 0;
}

BranchTable::BranchTable(const RecordingDescription& description, ProcessTable& processes,
                         PlaceNumbers& numbers, bool in_background)
    : processes_(processes),
      numbers_(numbers),
      in_background_(in_background),
      worker_(kBatches, [this](Batch*& batch) { Count(batch); }) {
  for (const EventDescription& event : description.events) {
    formats_.push_back(BranchStackFormatOf(description, event));
  }
  std::random_device random;
  for (uint64_t& seed : seeds_) seed = (uint64_t{random()} << 32 | random()) | 1;
}

// --- the pipeline's thread ---

void BranchTable::Add(const CapturedSample& sample, Process& process, LossLedger* losses) {
  const BranchStackFormat& format = formats_[sample.event];
  Batch& batch = batches_[filling_];
  const size_t edges_begin = batch.edges_count;
  // (Memory that has been edges before is not cleared again.)
  batch.edges.resize(std::max(batch.edges.size(), edges_begin + sample.branches.size()));
  const BranchEntryCounts counts =
      ReadBranchStack(sample, format, std::span(batch.edges).subspan(edges_begin));
  batch.edges_count += counts.kept();
  wrong_path_ += counts.wrong_path;
  if (counts.wrong_path > 0) {
    losses->Lose(LossStage::kFilter, LossReason::kWrongPath, counts.wrong_path, LossUnit::kRecords);
  }
  if (counts.empty > 0) {
    losses->Lose(LossStage::kParse, LossReason::kBadValue, counts.empty, LossUnit::kRecords);
  }
  if (counts.kept() == 0) return;
  const bool is_guest = IsGuest(sample.cpumode);
  batch.parts.push_back(
      {.process = &process,
       .time_ns = sample.identity.has_time ? sample.identity.time_ns : Place::kAnyTime,
       .edges_begin = static_cast<uint32_t>(edges_begin),
       .edges_count = static_cast<uint32_t>(counts.kept()),
       .space = SpaceNumber(process, is_guest),
       .is_guest = is_guest,
       .has_runs = format.every_branch,
       .is_by_place = numbers_.AreToldApartByTime(process.pid)});
  if (batch.parts.back().is_by_place) FindEdgeSpaces(batch.parts.back(), &batch);
  HashEdges(batch.parts.back(), &batch);
  if (!in_background_) {
    Settle(losses);
  } else if (batch.edges_count >= kBatchEdges) {
    GiveBatch(losses);
  }
}

uint32_t BranchTable::SpaceNumber(const Process& process, bool is_guest) {
  const uint64_t space = process.space.generation() << 24 |
                         (processes_.kernel().generation() & 0x7fffff) << 1 | (is_guest ? 1U : 0U);
  if (space != last_space_) {
    last_space_ = space;
    last_space_number_ = spaces_.try_emplace(space, spaces_count_).first->second;
    if (last_space_number_ == spaces_count_) ++spaces_count_;
  }
  return last_space_number_;
}

void BranchTable::FindEdgeSpaces(const Part& part, Batch* batch) {
  batch->edge_spaces.resize(batch->edges_count);
  KeyMaker key_of(*batch, part);  // (Spaces are not known yet, and not looked at.)
  for (size_t i = 0; i < part.edges_count; ++i) {
    const Places places = ResolvePlaces(key_of.Next(), part);
    const auto [space, is_new] = spaces_by_place_.try_emplace(
        {part.space, places.from, places.to, places.end}, spaces_count_);
    if (is_new) ++spaces_count_;
    batch->edge_spaces[part.edges_begin + i] = space->second;
  }
}

void BranchTable::HashEdges(const Part& part, Batch* batch) {
  batch->hashes.resize(std::max(batch->hashes.size(), batch->edges.size()));
  uint64_t* hash = batch->hashes.data() + part.edges_begin;
  const std::array<uint64_t, 4> seeds = seeds_;
  KeyMaker key_of(*batch, part);
  for (size_t i = 0; i < part.edges_count; ++i) *hash++ = HashOf(key_of.Next(), seeds);
}

void BranchTable::GiveBatch(LossLedger* losses) {
  Batch* giving = &batches_[filling_];
  worker_.Give(&giving);
  filling_ = (filling_ + 1) % kBatches;
  worker_.DrainTo(kBatches - 1);
  TakeAnswer(&batches_[filling_], losses);
}

void BranchTable::Settle(LossLedger* losses) {
  worker_.Drain();
  for (size_t i = 1; i < kBatches; ++i) {
    TakeAnswer(&batches_[(filling_ + i) % kBatches], losses);
  }
  Count(&batches_[filling_]);
  TakeAnswer(&batches_[filling_], losses);
}

void BranchTable::TakeAnswer(Batch* batch, LossLedger* losses) {
  for (const NewTrace& trace : batch->new_traces) {
    places_.push_back(ResolvePlaces(trace.key, batch->parts[trace.part]));
    places_.back().is_return = trace.is_return;
  }
  if (batch->not_kept > 0) {
    losses->Lose(LossStage::kBuild, LossReason::kLimit, batch->not_kept, LossUnit::kRecords);
  }
  batch->Clear();
}

void BranchTable::Finish(LossLedger* losses) {
  Settle(losses);
  worker_.Finish();
  index_ = {};
  batches_ = {};
  loose_begin_.assign(traces_.size() + 1, 0);
  for (const LooseCycles& cycles : loose_) {
    if (cycles.key != kEmptyKey) ++loose_begin_[cycles.trace()];
  }
  std::partial_sum(loose_begin_.begin(), loose_begin_.end(), loose_begin_.begin());
  loose_by_trace_.resize(loose_begin_.back());
  for (const LooseCycles& cycles : loose_) {
    if (cycles.key == kEmptyKey) continue;
    loose_by_trace_[--loose_begin_[cycles.trace()]] = {cycles.cycles(), cycles.executions};
  }
  loose_ = {};
}

void BranchTable::Clear() {
  traces_ = {};
  places_ = {};
  histograms_ = {};
  loose_by_trace_ = {};
  loose_begin_ = {};
}

BranchTable::Places BranchTable::ResolvePlaces(const Key& trace, const Part& part) {
  const auto lookup = [&](uint64_t address) {
    return processes_.Lookup(*part.process, {address}, ModeOf(address, part.is_guest));
  };
  const auto place = [&](uint64_t address, const CodeMapping* mapping) {
    return PlaceOf(address, mapping, ModeOf(address, part.is_guest), part.time_ns);
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

std::span<const BranchTable::CycleCount> BranchTable::CyclesOf(std::span<const uint32_t> traces) {
  std::array<uint64_t, kHistogramCycles> executions = {};
  loose_found_.clear();
  for (const uint32_t trace : traces) {
    if (traces_[trace].histogram != kNoNumber) {
      const Histogram& histogram = histograms_[traces_[trace].histogram];
      for (uint32_t cycles = 0; cycles < kHistogramCycles; ++cycles) {
        executions[cycles] += histogram[cycles];
      }
    }
    for (uint32_t i = loose_begin_[trace]; i < loose_begin_[trace + 1]; ++i) {
      const CycleCount& loose = loose_by_trace_[i];
      if (loose.cycles < kHistogramCycles) {
        executions[loose.cycles] += loose.executions;  // what a counter could not hold
      } else {
        loose_found_.push_back(loose);
      }
    }
  }
  found_cycles_.clear();
  for (uint32_t cycles = 0; cycles < kHistogramCycles; ++cycles) {
    if (executions[cycles] != 0) found_cycles_.push_back({cycles, executions[cycles]});
  }
  std::ranges::sort(loose_found_, {}, &CycleCount::cycles);
  for (const CycleCount& loose : loose_found_) {
    if (!found_cycles_.empty() && found_cycles_.back().cycles == loose.cycles) {
      found_cycles_.back().executions += loose.executions;
    } else {
      found_cycles_.push_back(loose);
    }
  }
  return found_cycles_;
}

// --- the table's thread ---

void BranchTable::Count(Batch* batch) {
  if (batch->parts.empty()) return;
  if (index_.empty()) {
    index_.resize(kSlotsAtFirst);
    traces_.reserve(kTracesReserved);
    loose_.resize(kSlotsAtFirst);
  }
  for (uint32_t part = 0; part < batch->parts.size(); ++part) {
    CountPart(batch->parts[part], part, batch);
  }
}

void BranchTable::CountPart(const Part& part, uint32_t part_index, Batch* batch) {
  const std::span edges(std::as_const(batch->edges).data() + part.edges_begin, part.edges_count);
  const std::span hashes(std::as_const(batch->hashes).data() + part.edges_begin, part.edges_count);
  ids_.resize(edges.size());
  const std::span ids(ids_);
  // (What the loops below read often is kept where no write can change it.)
  const Slot* index = index_.data();
  size_t mask = index_.size() - 1;
  Trace* traces = traces_.data();
  // Each loop asks for the memory that the next one needs.
  for (const uint64_t hash : hashes) __builtin_prefetch(&index[hash & mask]);
  for (const uint64_t hash : hashes) {
    const uint32_t likely = index[hash & mask].trace;
    if (likely != kNoNumber) __builtin_prefetch(&traces[likely], 1);
  }
  KeyMaker key_of(*batch, part);
  for (size_t i = 0; i < edges.size(); ++i) {
    const BranchEdge& edge = edges[i];
    const Key key = key_of.Next();
    const Slot likely = index[hashes[i] & mask];
    ids[i] = likely.trace;
    if (likely.trace == kNoNumber || likely.hash != static_cast<uint32_t>(hashes[i] >> 32) ||
        !IsOf(traces[likely.trace], key)) {
      ids[i] = FindOrAdd({.key = key, .part = part_index, .is_return = edge.is_return}, hashes[i],
                         batch);
      index = index_.data();
      mask = index_.size() - 1;
      traces = traces_.data();
      if (ids[i] == kNoNumber) {
        ++batch->not_kept;
        continue;
      }
    }
    Trace& trace = traces[ids[i]];
    ++trace.count;
    trace.cycles_sum += edge.cycles;
    trace.mispredicted += edge.outcome == BranchOutcome::kMispredicted ? 1U : 0U;
    trace.predicted += edge.outcome == BranchOutcome::kPredicted ? 1U : 0U;
    if (key.end == 0) {
      ids[i] = kNoNumber;  // no run, no cycles of it
    } else if (trace.histogram != kNoNumber) {
      __builtin_prefetch(&histograms_[trace.histogram][edges[i - 1].cycles % kHistogramCycles], 1);
    }
  }
  // The newer entry's cycles are those of the run that led to it.
  for (size_t i = 1; i < edges.size(); ++i) {
    const uint32_t cycles = edges[i - 1].cycles;
    if (cycles == 0 || ids[i] == kNoNumber) continue;
    if (!AddCycles(ids[i], cycles)) ++batch->not_kept;
  }
}

uint32_t BranchTable::FindOrAdd(const NewTrace& wanted, uint64_t hash, Batch* batch) {
  const Key& key = wanted.key;
  const size_t mask = index_.size() - 1;
  const auto high = static_cast<uint32_t>(hash >> 32);
  size_t at = hash & mask;
  for (; index_[at].trace != kNoNumber; at = (at + 1) & mask) {
    if (index_[at].hash == high && IsOf(traces_[index_[at].trace], key)) return index_[at].trace;
  }
  if (traces_.size() >= kTracesMax) return kNoNumber;
  const auto id = static_cast<uint32_t>(traces_.size());
  index_[at] = {high, id};
  Trace& trace = traces_.emplace_back();
  trace.from = key.from;
  trace.to = key.to;
  trace.end = key.end;
  trace.space = key.space;
  batch->new_traces.push_back(wanted);
  if (traces_.size() * 2 > index_.size()) GrowIndex();
  return id;
}

bool BranchTable::AddLooseCycles(uint32_t trace, uint32_t cycles, uint64_t executions) {
  const uint64_t key = uint64_t{trace} << 16 | cycles;
  const size_t mask = loose_.size() - 1;
  size_t at = MultiplyFold(key ^ seeds_[0], seeds_[1]) & mask;
  for (; loose_[at].key != key; at = (at + 1) & mask) {
    if (loose_[at].key != kEmptyKey) continue;
    if (loose_used_ >= kCycleCountsMax) return false;
    loose_[at] = {key, executions};
    if (++loose_used_ * 2 > loose_.size()) GrowLooseCycles();
    return true;
  }
  loose_[at].executions += executions;
  return true;
}

void BranchTable::GrowIndex() {
  LargeVector<Slot> grown(index_.size() * 2);
  const size_t mask = grown.size() - 1;
  for (uint32_t id = 0; id < traces_.size(); ++id) {
    const Trace& trace = traces_[id];
    const uint64_t hash = HashOf({trace.from, trace.to, trace.end, trace.space}, seeds_);
    size_t at = hash & mask;
    while (grown[at].trace != kNoNumber) at = (at + 1) & mask;
    grown[at] = {static_cast<uint32_t>(hash >> 32), id};
  }
  index_ = std::move(grown);
}

void BranchTable::GrowLooseCycles() {
  LargeVector<LooseCycles> grown(loose_.size() * 2);
  const size_t mask = grown.size() - 1;
  for (const LooseCycles& cycles : loose_) {
    if (cycles.key == kEmptyKey) continue;
    size_t at = MultiplyFold(cycles.key ^ seeds_[0], seeds_[1]) & mask;
    while (grown[at].key != kEmptyKey) at = (at + 1) & mask;
    grown[at] = cycles;
  }
  loose_ = std::move(grown);
}

size_t BranchTable::MemoryBytes() const {
  return index_.size() * sizeof(Slot) + traces_.size() * (sizeof(Trace) + sizeof(Places)) +
         histograms_.MemoryBytes() + loose_.size() * sizeof(LooseCycles);
}

}  // namespace ptarmigan::internal
