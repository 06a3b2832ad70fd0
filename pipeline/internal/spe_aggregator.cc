#include "pipeline/internal/spe_aggregator.h"

#include <algorithm>
#include <span>

#include "base/hash.h"
#include "decode/spe_data_source.h"

namespace ptarmigan::internal {
namespace {

MemLatency LatencyOf(unsigned counter) {
  static_assert(
      static_cast<unsigned>(SpeCounter::kTotal) == static_cast<unsigned>(MemLatency::kTotal) &&
      static_cast<unsigned>(SpeCounter::kIssue) == static_cast<unsigned>(MemLatency::kIssue) &&
      static_cast<unsigned>(SpeCounter::kTranslation) ==
          static_cast<unsigned>(MemLatency::kTranslation));
  return static_cast<MemLatency>(counter);
}

}  // namespace

EventTotal& SpeAggregator::TotalOf(uint32_t event) {
  if (event >= totals_.events.size()) totals_.events.resize(event + 1);
  return totals_.events[event];
}

void SpeAggregator::OnSpeRecord(const SpeRecord& record, const SpeOrigin& origin) {
  const std::vector<EventDescription>& events = lookup_.description.events;
  const auto event = static_cast<uint32_t>(std::min<size_t>(origin.event, events.size()));
  const uint64_t period =
      event < events.size() ? std::max<uint64_t>(events[event].attr.sample_period, 1) : 1;
  EventTotal& total = TotalOf(event);
  ++total.samples;
  total.period_sum = SaturatingAdd(total.period_sum, period);
  if (lookup_.memory_bytes_max > 0 && MemoryBytes() > lookup_.memory_bytes_max) {
    ++totals_.beyond_limit;
    return;
  }
  ++totals_.kept;
  const auto next = static_cast<uint32_t>(kinds_.size());
  const uint32_t found = index_.FindOrInsert(KeyOf(record, origin, event), next);
  if (found == next) kinds_.emplace_back().event = event;
  Kind& kind = kinds_[found];
  uint64_t time_ns = UINT64_MAX;
  if (origin.identity.has_time) {
    time_ns = origin.identity.time_ns;
    totals_.first_ns = std::min(totals_.first_ns, time_ns);
    totals_.last_ns = std::max(totals_.last_ns, time_ns);
  }
  if (kind.changes != lookup_.processes.changes() || time_ns < kind.valid_from_ns) {
    LookUp(record, origin, time_ns, &kind);
  }
  ++kind.samples;
  kind.weight = SaturatingAdd(kind.weight, period);
  ++totals_.stack_ends[static_cast<size_t>(kind.end)];
  AddLatencies(record, &kind);
  if (record.IsLoadStore()) AddAccess(record, origin);
}

CompactIndex::Key SpeAggregator::KeyOf(const SpeRecord& record, const SpeOrigin& origin,
                                       uint32_t event) const {
  // (The byte above the payload of these packets is free.)
  constexpr uint64_t kPayload = (uint64_t{1} << 56) - 1;
  const auto at = [&record](SpeRecord::Slot slot) {
    return record.Has(slot)
               ? uint64_t{record.headers[slot]} << 56 | (record.values[slot] & kPayload)
               : 0;
  };
  const uint64_t words[] = {
      record.Raw(SpeAddress::kPc), record.Events(), at(SpeRecord::kDataSourceSlot),
      at(SpeRecord::kOperationSlot) ^ uint64_t{record.headers[SpeRecord::kEventsSlot]} << 40,
      uint64_t{static_cast<uint32_t>(origin.identity.pid)} << 32 |
          static_cast<uint32_t>(origin.identity.tid),
      uint64_t{event} << 32 | (lookup_.by_cpu ? origin.identity.cpu : 0),
      // (The address of a table that stands still: which codes mean what.)
      reinterpret_cast<uintptr_t>(origin.data_sources)};
  const Hash128 hash = HashBytes128(std::as_bytes(std::span(words)));
  return {hash.low, static_cast<uint32_t>(hash.high)};
}

void SpeAggregator::LookUp(const SpeRecord& record, const SpeOrigin& origin, uint64_t time_ns,
                           Kind* kind) {
  const MemSample memory = ToMemSample(record, origin);
  const RecordIdentity& identity = origin.identity;
  ProcessTable& processes = lookup_.processes;
  const auto [process, thread] = processes.FindTaskAt(identity.pid, identity.tid, time_ns);
  const CodeMapping* mapping = processes.LookupAt(process, memory.ip, memory.cpumode, time_ns);
  const FoundPlace found =
      mapping != nullptr
          ? PlaceIn(*mapping, memory.ip)
          : FoundPlace{processes.objects().Unmapped(memory.cpumode), memory.ip.value};
  const uint32_t place = lookup_.numbers.NumberOf(found, time_ns);
  const StackEnd end = mapping != nullptr ? StackEnd::kComplete : StackEnd::kNoMapping;
  const uint32_t labels = lookup_.labels.Find(
      {.identity = identity, .process = process, .thread = thread, .end = end, .memory = &memory});
  if (kind->samples > 0 && (kind->place != place || kind->labels != labels)) {
    past_.push_back(*kind);
    *kind = Kind{};
    kind->event = past_.back().event;
  }
  kind->place = place;
  kind->labels = labels;
  kind->end = end;
  kind->changes = processes.changes();
  // Good for what comes later, as long as this is the present mapping (or absence of one) of the present process. Code of
  // JIT compilers can change without a mapping.
  kind->valid_from_ns = UINT64_MAX;
  if (lookup_.numbers.DependsOnTime(*found.object) ||
      processes.Find(identity.pid).life != process.life ||
      processes.LookupAt(process, memory.ip, memory.cpumode, UINT64_MAX) != mapping) {
    return;
  }
  const uint64_t since_ns = mapping == nullptr ? time_ns : mapping->since_ns;
  if (since_ns <= time_ns) kind->valid_from_ns = std::max(since_ns, process.since_ns);
}

void SpeAggregator::AddLatencies(const SpeRecord& record, Kind* kind) {
  for (unsigned i = 0; i < kSpeCounters; ++i) {
    const auto counter = static_cast<SpeCounter>(i);
    if (!record.Has(counter)) continue;
    const MemLatency which = LatencyOf(i);
    const auto index = static_cast<size_t>(which);
    kind->latencies = static_cast<uint8_t>(kind->latencies | 1U << index);
    kind->sums[index] = SaturatingAdd(kind->sums[index], record.Counter(counter));
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
  memory->AddPlacesOf(&memory_);
  kinds_ = {};
  past_ = {};
  memory_ = {};
}

}  // namespace ptarmigan::internal
