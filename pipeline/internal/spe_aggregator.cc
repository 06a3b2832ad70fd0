#include "pipeline/internal/spe_aggregator.h"

#include <algorithm>
#include <span>

#include "base/hash.h"
#include "base/radix_sort.h"
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

uint64_t SpeAggregator::PeriodOf(uint32_t event) const {
  const std::vector<EventDescription>& events = lookup_.description.events;
  return event < events.size() ? std::max<uint64_t>(events[event].attr.sample_period, 1) : 1;
}

void SpeAggregator::OnSpeRecord(const SpeRecord& record, const SpeOrigin& origin) {
  const SpeSample sample{record, origin};
  CountChunk({&sample, 1});
}

void SpeAggregator::OnSpeRecords(std::span<const SpeSample> samples) {
  // (The bound is looked at with every record.)
  const size_t chunk = lookup_.memory_bytes_max > 0 ? 1 : kChunkRecords;
  for (; !samples.empty(); samples = samples.subspan(std::min(chunk, samples.size()))) {
    CountChunk(samples.first(std::min(chunk, samples.size())));
  }
}

// At most kChunkRecords, one if there is a bound.
void SpeAggregator::CountChunk(std::span<const SpeSample> samples) {
  std::array<CompactIndex::Key, kChunkRecords> keys;
  std::array<uint32_t, kChunkRecords> kinds;
  // All samples of a stream are of one event.
  const auto event = static_cast<uint32_t>(
      std::min<size_t>(samples[0].origin.event, lookup_.description.events.size()));
  TotalOf(event).samples += samples.size();
  if (lookup_.memory_bytes_max > 0 && MemoryBytes() > lookup_.memory_bytes_max) {
    totals_.beyond_limit += samples.size();
    return;
  }
  totals_.kept += samples.size();
  for (size_t i = 0; i < samples.size(); ++i) {
    keys[i] = KeyOf(samples[i].record, samples[i].origin, event);
    index_.Prefetch(keys[i]);
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto next = static_cast<uint32_t>(kinds_.size());
    kinds[i] = index_.FindOrInsert(keys[i], next);
    if (kinds[i] == next) {
      kinds_.Append().event = event;
    } else {
      __builtin_prefetch(&kinds_[kinds[i]], 1);
    }
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    Count(samples[i].record, samples[i].origin, &kinds_[kinds[i]]);
  }
}

void SpeAggregator::Count(const SpeRecord& record, const SpeOrigin& origin, Kind* kind) {
  uint64_t time_ns = UINT64_MAX;
  if (origin.identity.has_time) {
    time_ns = origin.identity.time_ns;
    totals_.first_ns = std::min(totals_.first_ns, time_ns);
    totals_.last_ns = std::max(totals_.last_ns, time_ns);
  }
  if (kind->changes != lookup_.processes.changes() || time_ns < kind->valid_from_ns) {
    LookUp(record, origin, time_ns, kind);
  }
  ++kind->samples;
  ++totals_.stack_ends[static_cast<size_t>(kind->end)];
  AddLatencies(record, kind);
  if (record.IsLoadStore() && memory_.keeps_details()) AddAccess(record, origin);
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
    kind->counters = static_cast<uint8_t>(kind->counters | 1U << i);
    kind->sums[i] = SaturatingAdd(kind->sums[i], record.Counter(counter));
    memory_.CountLatency(kind->place, LatencyOf(i), record.Counter(counter));
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
  for (uint32_t event = 0; event < totals_.events.size(); ++event) {
    EventTotal& total = totals_.events[event];
    total.period_sum = SaturatingMultiply(total.samples, PeriodOf(event));
  }
  index_.Clear();
  AddRows(table, memory);
  memory->AddPlacesOf(&memory_);
  past_ = {};
  kinds_ = {};
  memory_ = MemoryTable(lookup_.memory_details);
}

// Kinds of one place and one set of labels make one row. They are taken place by place, so that what one place's rows
// need is at hand; equal recordings have equal places, and so the rows come in one order.
void SpeAggregator::AddRows(StackTable* table, MemoryTable* memory) {
  struct Ordered {
    uint64_t key = 0;
    uint32_t kind = 0;
  };
  std::vector<Ordered> order(past_.size() + kinds_.size());
  for (uint32_t number = 0; number < order.size(); ++number) {
    const Kind& kind = KindOf(number);
    order[number] = {uint64_t{kind.place} << 32 | kind.labels, number};
  }
  // (One event is the rule.)
  if (totals_.events.size() > 1) {
    std::ranges::stable_sort(order, {},
                             [this](const Ordered& one) { return KindOf(one.kind).event; });
  }
  std::vector<Ordered> scratch;
  RadixSort(
      std::span(order), [](const Ordered& one) { return one.key; }, &scratch);
  constexpr size_t kAhead = 8;
  memory->ReserveRows(table->rows().size() + order.size());
  uint32_t place = StackTable::kNoPlace;
  uint32_t stack = 0;
  bool is_new_stack = false;
  uint32_t row = StackTable::kNoRow;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i + kAhead < order.size()) __builtin_prefetch(&KindOf(order[i + kAhead].kind));
    const Kind& kind = KindOf(order[i].kind);
    if (kind.place != place) {
      place = kind.place;
      stack = table->InternStack({&place, 1});
      is_new_stack = !table->HasRows(stack);
      row = StackTable::kNoRow;
    }
    const uint64_t weight = SaturatingMultiply(kind.samples, PeriodOf(kind.event));
    const bool is_of_row = row != StackTable::kNoRow && table->rows()[row].labels == kind.labels &&
                           table->rows()[row].event == kind.event;
    if (is_of_row || !is_new_stack) {
      row = table->Add(stack, kind.labels, kind.event, weight, row, kind.samples);
    } else {
      row = table->AppendRow({.stack = stack,
                              .labels = kind.labels,
                              .event = kind.event,
                              .samples = kind.samples,
                              .weight = weight});
    }
    MemoryTable::Sums sums = {};
    uint8_t latencies = 0;
    for (unsigned counter = 0; counter < kSpeCounters; ++counter) {
      const auto which = static_cast<size_t>(LatencyOf(counter));
      sums[which] = kind.sums[counter];
      latencies = static_cast<uint8_t>(latencies | (kind.counters >> counter & 1U) << which);
    }
    memory->AddSums(row, latencies, sums);
  }
}

}  // namespace ptarmigan::internal
