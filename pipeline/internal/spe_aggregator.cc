#include "pipeline/internal/spe_aggregator.h"

#include <algorithm>
#include <span>

#include "base/hash.h"
#include "decode/spe_data_source.h"

namespace ptarmigan::internal {
namespace {

uint64_t SaturatedSum(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

MemLatency LatencyOf(unsigned counter) {
  static_assert(
      static_cast<unsigned>(SpeCounter::kTotal) == static_cast<unsigned>(MemLatency::kTotal) &&
      static_cast<unsigned>(SpeCounter::kIssue) == static_cast<unsigned>(MemLatency::kIssue) &&
      static_cast<unsigned>(SpeCounter::kTranslation) ==
          static_cast<unsigned>(MemLatency::kTranslation));
  return static_cast<MemLatency>(counter);
}

}  // namespace

StackEnd SpeAggregator::Add(const SpeRecord& record, const SpeOrigin& origin, uint32_t event,
                            uint64_t period) {
  const auto next = static_cast<uint32_t>(kinds_.size());
  const uint32_t found = index_.FindOrInsert(KeyOf(record, origin, event), next);
  if (found == next) kinds_.emplace_back().event = event;
  Kind& kind = kinds_[found];
  const uint64_t time_ns = origin.identity.has_time ? origin.identity.time_ns : UINT64_MAX;
  if (kind.changes != processes_.changes() || time_ns < kind.valid_from_ns) {
    LookUp(record, origin, time_ns, &kind);
  }
  ++kind.samples;
  kind.weight = SaturatedSum(kind.weight, period);
  AddLatencies(record, &kind);
  if (record.IsLoadStore()) AddAccess(record, origin);
  return kind.end;
}

CompactIndex::Key SpeAggregator::KeyOf(const SpeRecord& record, const SpeOrigin& origin,
                                       uint32_t event) const {
  const auto at = [&record](SpeRecord::Slot slot) {
    return record.Has(slot) ? uint64_t{record.headers[slot]} << 56 | (record.values[slot] & kLow)
                            : 0;
  };
  const uint64_t words[] = {
      record.Raw(SpeAddress::kPc), record.Events(), at(SpeRecord::kDataSourceSlot),
      at(SpeRecord::kOperationSlot) ^ uint64_t{record.headers[SpeRecord::kEventsSlot]} << 40,
      uint64_t{static_cast<uint32_t>(origin.identity.pid)} << 32 |
          static_cast<uint32_t>(origin.identity.tid),
      uint64_t{event} << 32 | (by_cpu_ ? origin.identity.cpu : 0),
      // (The address of a table that stands still: which codes mean what.)
      reinterpret_cast<uintptr_t>(origin.data_sources)};
  const Hash128 hash = HashBytes128(std::as_bytes(std::span(words)));
  return {hash.low, static_cast<uint32_t>(hash.high)};
}

void SpeAggregator::LookUp(const SpeRecord& record, const SpeOrigin& origin, uint64_t time_ns,
                           Kind* kind) {
  const MemSample memory = ToMemSample(record, origin);
  const RecordIdentity& identity = origin.identity;
  const auto [process, thread] = processes_.FindTaskAt(identity.pid, identity.tid, time_ns);
  const CodeMapping* mapping = processes_.LookupAt(process, memory.ip, memory.cpumode, time_ns);
  const FoundPlace found =
      mapping != nullptr
          ? PlaceIn(*mapping, memory.ip)
          : FoundPlace{processes_.objects().Unmapped(memory.cpumode), memory.ip.value};
  const uint32_t place = numbers_.NumberOf(found, time_ns);
  const StackEnd end = mapping != nullptr ? StackEnd::kComplete : StackEnd::kNoMapping;
  const uint32_t labels = labels_.Find(
      {.identity = identity, .process = process, .thread = thread, .end = end, .memory = &memory});
  if (kind->samples > 0 && (kind->place != place || kind->labels != labels)) {
    past_.push_back(*kind);
    *kind = {.event = kind->event};
  }
  kind->place = place;
  kind->labels = labels;
  kind->end = end;
  kind->changes = processes_.changes();
  // Good for what comes later, as long as this is the present mapping of the present process. (Code of JIT compilers can
  // change without a mapping.)
  const bool is_present = mapping != nullptr && mapping->since_ns <= time_ns &&
                          processes_.LookupAt(processes_.Find(identity.pid), memory.ip,
                                              memory.cpumode, UINT64_MAX) == mapping;
  kind->valid_from_ns = is_present && !numbers_.DependsOnTime(*mapping->object)
                            ? std::max(mapping->since_ns, process.since_ns)
                            : UINT64_MAX;
}

void SpeAggregator::AddLatencies(const SpeRecord& record, Kind* kind) {
  for (unsigned i = 0; i < kSpeCounters; ++i) {
    const auto counter = static_cast<SpeCounter>(i);
    if (!record.Has(counter)) continue;
    const MemLatency which = LatencyOf(i);
    const auto index = static_cast<size_t>(which);
    kind->latencies = static_cast<uint8_t>(kind->latencies | 1U << index);
    kind->sums[index] = SaturatedSum(kind->sums[index], record.Counter(counter));
    memory_.CountLatency(kind->place, which, record.Counter(counter));
  }
}

void SpeAggregator::AddAccess(const SpeRecord& record, const SpeOrigin& origin) {
  const bool is_physical = record.Has(SpeAddress::kPhysical);
  if (!is_physical && !record.Has(SpeAddress::kVirtual)) return;
  memory_.CountAccess(
      {.loads = record.IsLoad(),
       .stores = record.IsStore(),
       .is_physical = is_physical,
       .address = record.AddressOf(is_physical ? SpeAddress::kPhysical : SpeAddress::kVirtual),
       .pid = origin.identity.pid,
       .tid = origin.identity.tid,
       .latency = record.Has(SpeCounter::kTotal) ? record.Counter(SpeCounter::kTotal) : 0U});
}

void SpeAggregator::Finish(StackTable* table, MemoryTable* memory) {
  past_.insert(past_.end(), kinds_.begin(), kinds_.end());
  for (const Kind& kind : past_) {
    const uint32_t stack = table->InternStack({&kind.place, 1});
    const uint32_t row =
        table->Add(stack, kind.labels, kind.event, kind.weight, StackTable::kNoRow, kind.samples);
    memory->AddSums(row, kind.latencies, kind.sums);
  }
  memory->AddPlacesOf(memory_);
  kinds_ = {};
  past_ = {};
  memory_ = {};
}

}  // namespace ptarmigan::internal
