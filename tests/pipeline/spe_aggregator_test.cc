#include "pipeline/internal/spe_aggregator.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "pipeline/internal/place_resolver.h"
#include "symbolize/symbolizer.h"

namespace ptarmigan::internal {
namespace {

class SpeAggregatorTest : public testing::Test {
 protected:
  SpeAggregatorTest() {
    processes_.KeepHistory();
    description_.events.emplace_back().attr.sample_period = 100;
  }

  void Map(uint64_t time_ns, uint64_t start, std::string path) {
    MmapEvent event;
    event.identity.time_ns = time_ns;
    event.cpumode = CpuMode::kUser;
    event.pid = event.tid = 1;
    event.start = {start};
    event.length_bytes = 0x1000;
    event.path = std::move(path);
    processes_.Apply(event);
  }

  // A load of user code that took `cycles`.
  static SpeRecord Load(uint64_t pc, uint16_t cycles, uint64_t data_address = 0x5000) {
    SpeRecord record;
    const auto set = [&record](size_t slot, uint8_t header, uint64_t value) {
      record.headers[slot] = header;
      record.values[slot] = value;
    };
    set(SpeRecord::SlotOf(SpeAddress::kPc), 0xb0, pc | uint64_t{1} << 63);
    set(SpeRecord::SlotOf(SpeAddress::kVirtual), 0xb2, data_address);
    set(SpeRecord::SlotOf(SpeCounter::kTotal), 0x98, cycles);
    set(SpeRecord::kOperationSlot, 0x49, 0);
    set(SpeRecord::kEventsSlot, 0x52, 0x2);
    return record;
  }

  static SpeOrigin At(uint64_t time_ns, int32_t tid = 1) {
    SpeOrigin origin;
    origin.identity.pid = 1;
    origin.identity.tid = tid;
    origin.identity.time_ns = time_ns;
    origin.identity.has_time = true;
    origin.event = 0;
    origin.data_sources = &UnknownSpeDataSources();
    return origin;
  }

  void Add(const SpeRecord& record, const SpeOrigin& origin) {
    aggregator_.OnSpeRecord(record, origin);
  }

  // Samples and latency by the path of the object.
  std::map<std::string, std::pair<uint64_t, uint64_t>> Finish() {
    aggregator_.Finish(&table_, &memory_);
    std::map<std::string, std::pair<uint64_t, uint64_t>> rows;
    for (uint32_t row = 0; row < table_.rows().size(); ++row) {
      const Row& counted = table_.rows()[row];
      auto& sums = rows[table_.places()[table_.Leaf(counted.stack)].object->path];
      sums.first += counted.samples;
      sums.second += memory_.SumsOf(row)[0];
      EXPECT_EQ(counted.weight, counted.samples * 100);
    }
    resolver_.Finish();
    return rows;
  }

  static SymbolizerOptions WithoutSymbols() {
    SymbolizerOptions options;
    options.symbols = false;
    return options;
  }

  RecordingDescription description_;
  ProcessTable processes_;
  Symbolizer symbolizer_{WithoutSymbols()};
  StackTable table_;
  MemoryTable memory_;
  PlaceResolver resolver_{symbolizer_, /*in_background=*/false};
  ObjectHints hints_;
  PlaceNumbers numbers_{table_, resolver_, symbolizer_, hints_};
  SampleLabels labels_{{}};
  SpeLookup lookup_{
      .description = description_, .processes = processes_, .numbers = numbers_, .labels = labels_};
  SpeAggregator aggregator_{lookup_};
};

TEST_F(SpeAggregatorTest, CountsRecordsOfAKindInOneRow) {
  Map(1, 0x1000, "/a");
  for (uint16_t i = 0; i < 100; ++i) Add(Load(0x1010, i), At(10U + i));
  const auto rows = Finish();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows.at("/a"), std::pair(uint64_t{100}, uint64_t{4950}));
  EXPECT_EQ(table_.rows().size(), 1U);
}

TEST_F(SpeAggregatorTest, CountsManyRecordsAtOnceLikeOneAfterTheOther) {
  Map(1, 0x1000, "/a");
  std::vector<SpeSample> samples;
  for (uint16_t i = 0; i < 100; ++i) samples.push_back({Load(0x1010 + i % 7 * 4U, i), At(10U + i)});
  aggregator_.OnSpeRecords(samples);
  const auto rows = Finish();
  EXPECT_EQ(rows.at("/a"), std::pair(uint64_t{100}, uint64_t{4950}));
  EXPECT_EQ(table_.rows().size(), 7U);
  EXPECT_EQ(aggregator_.totals().events[0].samples, 100U);
  EXPECT_EQ(aggregator_.totals().events[0].period_sum, 10000U);
}

TEST_F(SpeAggregatorTest, KeepsEventsApart) {
  description_.events.emplace_back().attr.sample_period = 100;
  Map(1, 0x1000, "/a");
  for (uint32_t i = 0; i < 20; ++i) {
    SpeOrigin origin = At(10U + i);
    origin.event = i % 2;
    SpeRecord record = Load(0x1010, 5);
    // Kinds that differ in what no label says.
    record.values[SpeRecord::kEventsSlot] |= uint64_t{i} << 12;
    Add(record, origin);
  }
  EXPECT_EQ(Finish().at("/a").first, 20U);
  ASSERT_EQ(table_.rows().size(), 2U);
  EXPECT_EQ(table_.rows()[0].samples, 10U);
  EXPECT_EQ(table_.rows()[1].samples, 10U);
}

TEST_F(SpeAggregatorTest, TellsThreadsAndPlacesApart) {
  Map(1, 0x1000, "/a");
  Add(Load(0x1010, 5), At(10, 1));
  Add(Load(0x1010, 5), At(10, 2));
  Add(Load(0x1014, 5), At(10, 1));
  Finish();
  EXPECT_EQ(table_.rows().size(), 3U);
}

TEST_F(SpeAggregatorTest, GivesLateRecordsToTheMappingOfTheirMoment) {
  Map(1, 0x1000, "/old");
  Add(Load(0x1010, 1), At(5));
  Map(20, 0x1000, "/new");
  Add(Load(0x1010, 2), At(30));
  Add(Load(0x1010, 4), At(10));  // from a buffer that came late
  Add(Load(0x1010, 8), At(31));
  const auto rows = Finish();
  EXPECT_EQ(rows.at("/old"), std::pair(uint64_t{2}, uint64_t{5}));
  EXPECT_EQ(rows.at("/new"), std::pair(uint64_t{2}, uint64_t{10}));
}

TEST_F(SpeAggregatorTest, LooksAgainWhereAMappingCameAfterRecordsWithoutOne) {
  Map(1, 0x1000, "/a");
  Add(Load(0x9010, 1), At(10));
  Map(20, 0x9000, "/b");
  Add(Load(0x9010, 2), At(30));
  const auto rows = Finish();
  EXPECT_EQ(rows.at("[unknown]"), std::pair(uint64_t{1}, uint64_t{1}));
  EXPECT_EQ(rows.at("/b"), std::pair(uint64_t{1}, uint64_t{2}));
}

TEST_F(SpeAggregatorTest, CountsWhatItsBoundLeavesOut) {
  Map(1, 0x1000, "/a");
  lookup_.memory_bytes_max = 1;
  SpeAggregator bounded(lookup_);
  bounded.OnSpeRecord(Load(0x1010, 7), At(10));
  EXPECT_EQ(bounded.totals().beyond_limit, 1U);
  EXPECT_EQ(bounded.totals().kept, 0U);
  EXPECT_EQ(bounded.totals().events[0].samples, 1U);
}

TEST_F(SpeAggregatorTest, KeepsRecordsOutsideEveryMapping) {
  Map(1, 0x1000, "/a");
  Add(Load(0x9010, 7), At(10));
  EXPECT_EQ(aggregator_.totals().stack_ends[static_cast<size_t>(StackEnd::kNoMapping)], 1U);
  const auto rows = Finish();
  EXPECT_EQ(rows.at("[unknown]"), std::pair(uint64_t{1}, uint64_t{7}));
}

TEST_F(SpeAggregatorTest, HandsOverLatenciesAndLinesByPlace) {
  Map(1, 0x1000, "/a");
  Add(Load(0x1010, 7), At(10));
  Add(Load(0x1010, 7), At(11));
  SpeRecord store = Load(0x1020, 3);
  store.values[SpeRecord::kOperationSlot] = 1;
  Add(store, At(12, 1));
  Add(store, At(13, 2));
  Finish();
  std::vector<LocationId> locations(table_.places().size());
  for (LocationId i = 0; i < locations.size(); ++i) locations[i] = i;
  const MemorySummary summary = memory_.Finish(locations);
  ASSERT_EQ(summary.distributions.size(), 2U);
  EXPECT_EQ(summary.distributions[0].counts, (std::vector<MemorySummary::CyclesCount>{{7, 2}}));
  ASSERT_EQ(summary.lines.size(), 1U);
  EXPECT_EQ(summary.lines[0].writers, 2U);
  EXPECT_EQ(summary.lines[0].readers, 1U);
  EXPECT_EQ(summary.lines[0].latency_sum, 14U);
}

}  // namespace
}  // namespace ptarmigan::internal
