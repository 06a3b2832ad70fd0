// What a recording says about itself: the feature sections of a file and the records that carry the same in pipe
// mode, into a RecordingDescription. Sections that are damaged are used up to the damage.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_cursor.h"
#include "model/loss_ledger.h"
#include "model/recording.h"

namespace ptarmigan::internal {

// More events than any recording has; further ones are counted and ignored.
inline constexpr size_t kEventsMax = 65536;
// All sample ids of a recording (events times CPUs, or times threads).
inline constexpr size_t kSampleIdsMax = size_t{1} << 22;
// Tracing data (the formats of tracepoints) that is kept.
inline constexpr size_t kTracingBytesMax = size_t{32} << 20;
// Strings of a list (command line, PMU names), build ids.
inline constexpr size_t kListEntriesMax = size_t{1} << 20;

class FeatureReader {
 public:
  // Both outlive the reader.
  FeatureReader(RecordingDescription* description, LossLedger* losses)
      : description_(*description), losses_(*losses) {}

  // One feature by its id (FeatureId); unknown ones are ignored.
  void ReadFeature(unsigned feature, Bytes bytes);

  // Takes the events that only EVENT_DESC lists, for recordings without any attr. Whether there were some.
  bool AdoptDescribedEvents();

  // The payload of perf's own records (after the header). All say whether events changed.
  bool ReadHeaderAttr(Bytes body);
  bool ReadEventUpdate(Bytes body);
  bool ReadIdIndex(Bytes body);
  bool ReadSimpleperfEventIds(Bytes body);
  // A BUILD_ID record or one entry of the feature, header included.
  bool ReadBuildId(Bytes record, BuildIdEvent* build_id) const;
  void ReadTracingData(Bytes bytes);

  // Version 1's and old pipes' table of names by config.
  void NameByConfig(uint64_t config, std::string_view name);
  // Gives each event without a name one, from PMU and tracepoint names where the attr needs them.
  void NameEvents();
  // Sets arch and word size from what has been read.
  void DeduceArch();

  // The number of sample ids over all events, for kSampleIdsMax.
  size_t sample_ids() const { return sample_ids_; }
  bool AddIds(EventDescription* event, ByteCursor* cursor, uint64_t count);

 private:
  void ReadBuildIds(Bytes bytes);
  void ReadCommandLine(Bytes bytes);
  void ReadEventDescriptions(Bytes bytes);
  void ApplyDescription(size_t index);
  void ReadPmuMappings(Bytes bytes);
  void ReadCpuPmuCaps(Bytes bytes);
  void ReadPmuCaps(Bytes bytes);
  void ReadGroups(Bytes bytes);
  void ReadMetaInfo(Bytes bytes);
  void CountDamage();
  std::string TracepointName(uint64_t id) const;
  void SetName(size_t event, std::string_view name);
  bool NeedsName(size_t event) const;
  uint32_t EventOfId(uint64_t id) const;

  RecordingDescription& description_;
  LossLedger& losses_;
  size_t sample_ids_ = 0;
  // From EVENT_DESC, by index: in a pipe it may come before the attrs.
  std::vector<EventDescription> described_;
  std::vector<bool>
      guessed_names_;  // by event: the name came from the attr alone, a better one may replace it
};

// The names of the tracepoints described in tracing data: (id, "system:name").
std::vector<std::pair<uint64_t, std::string>> TracepointNames(std::string_view tracing_data);

}  // namespace ptarmigan::internal
