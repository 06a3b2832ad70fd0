#include "decode/internal/feature_sections.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/str_format.h"
#include "decode/attr_reader.h"
#include "decode/record_types.h"

namespace ptarmigan::internal {
namespace {

constexpr size_t kBuildIdFieldBytes = 20;
constexpr size_t kBuildIdEntryBytes = kRecordHeaderBytes + 4 + 24;
constexpr uint64_t kUpdateUnit = 0;
constexpr uint64_t kUpdateScale = 1;
constexpr uint64_t kUpdateName = 2;

// perf's header strings: a 32-bit length that includes padding, then the text.
std::string_view ReadString(ByteCursor* cursor) { return cursor->FixedString(cursor->U32()); }

template <typename T>
bool ParseNumber(std::string_view text, T* value, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, base);
  return error == std::errc() && end == text.data() + text.size();
}

// Splits off the part of `rest` before `separator`.
std::string_view NextPart(std::string_view* rest, char separator) {
  const size_t end = rest->find(separator);
  const std::string_view part = rest->substr(0, end);
  rest->remove_prefix(end == std::string_view::npos ? rest->size() : end + 1);
  return part;
}

// A list of names and values, as far as it is whole.
std::map<std::string, std::string> ReadCaps(ByteCursor* cursor) {
  std::map<std::string, std::string> caps;
  const uint32_t count = cursor->U32();
  for (uint32_t i = 0; i < count && i < kListEntriesMax; ++i) {
    const std::string_view name = ReadString(cursor);
    const std::string_view value = ReadString(cursor);
    if (!cursor->ok()) break;
    caps[std::string(name)] = value;
  }
  return caps;
}

}  // namespace

void FeatureReader::CountDamage() {
  losses_.Lose(LossStage::kParse, LossReason::kTruncated, 1, LossUnit::kRecords);
}

void FeatureReader::ReadFeature(unsigned feature, Bytes bytes) {
  ByteCursor cursor(bytes, description_.byte_order);
  const auto read_string = [&](std::string* text) { *text = ReadString(&cursor); };
  switch (feature) {
    case kFeatureTracingData:
      ReadTracingData(bytes);
      return;
    case kFeatureBuildId:
      ReadBuildIds(bytes);
      return;
    case kFeatureHostname:
      read_string(&description_.hostname);
      break;
    case kFeatureOsRelease:
      read_string(&description_.os_release);
      break;
    case kFeatureVersion:
      read_string(&description_.perf_version);
      break;
    case kFeatureArch:
      read_string(&description_.arch_name);
      break;
    case kFeatureCpuDesc:
      read_string(&description_.cpu_description);
      break;
    case kFeatureCpuid:
      read_string(&description_.cpuid);
      break;
    case kFeatureNrCpus:
      description_.cpus_available = cursor.U32();
      description_.cpus_online = cursor.U32();
      break;
    case kFeatureTotalMem:
      description_.memory_total_kib = cursor.U64();
      break;
    case kFeatureCmdline:
      ReadCommandLine(bytes);
      return;
    case kFeatureEventDesc:
      ReadEventDescriptions(bytes);
      return;
    case kFeaturePmuMappings:
      ReadPmuMappings(bytes);
      return;
    case kFeatureCpuPmuCaps:
      ReadCpuPmuCaps(bytes);
      return;
    case kFeaturePmuCaps:
      ReadPmuCaps(bytes);
      return;
    case kFeatureGroupDesc:
      ReadGroups(bytes);
      return;
    case kFeatureSampleTime:
      description_.first_sample_ns = cursor.U64();
      description_.last_sample_ns = cursor.U64();
      break;
    case kFeatureClockData:
      cursor.Skip(4);  // version
      description_.clockid = cursor.S32();
      description_.clock_wall_ns = cursor.U64();
      description_.clock_reference_ns = cursor.U64();
      break;
    case kFeatureEMachine: {
      const uint32_t machine = cursor.U32();
      if (description_.arch == Arch::kUnknown && machine <= UINT16_MAX) {
        description_.arch = ArchFromElfMachine(static_cast<uint16_t>(machine));
      }
      break;
    }
    case kFeatureSimpleperfMetaInfo:
      ReadMetaInfo(bytes);
      return;
    default:
      return;
  }
  if (!cursor.ok()) CountDamage();
}

bool FeatureReader::ReadBuildId(Bytes record, BuildIdEvent* build_id) const {
  ByteCursor cursor(record, description_.byte_order);
  cursor.Skip(4);
  const uint16_t misc = cursor.U16();
  cursor.Skip(2);
  build_id->pid = cursor.S32();
  const Bytes field = cursor.Take(kBuildIdFieldBytes);
  const size_t size = cursor.U8();
  cursor.Skip(3);
  if (!cursor.ok()) return false;
  switch (misc & kMiscCpuModeMask) {
    case 1:
      build_id->cpumode = CpuMode::kKernel;
      break;
    case 2:
      build_id->cpumode = CpuMode::kUser;
      break;
    case 3:
      build_id->cpumode = CpuMode::kHypervisor;
      break;
    case 4:
      build_id->cpumode = CpuMode::kGuestKernel;
      break;
    case 5:
      build_id->cpumode = CpuMode::kGuestUser;
      break;
    default:
      build_id->cpumode = CpuMode::kUnknown;
      break;
  }
  if ((misc & kMiscBuildIdSize) != 0) {
    build_id->build_id = BuildId(field.first(std::min(size, kBuildIdFieldBytes)));
  } else {
    build_id->build_id = BuildId::FromPadded(field);
  }
  build_id->path = cursor.FixedString(cursor.remaining());
  return true;
}

void FeatureReader::ReadBuildIds(Bytes bytes) {
  // perf before 2.6.37 had no pid in its entries, so that a path seems to lack its first four characters.
  constexpr std::string_view kShifted = "nel.kallsyms]";
  const bool without_pid =
      AsText(bytes).substr(std::min(kBuildIdEntryBytes, bytes.size())).starts_with(kShifted);
  size_t offset = 0;
  while (bytes.size() - offset >= kRecordHeaderBytes) {
    ByteCursor cursor(bytes.subspan(offset), description_.byte_order);
    cursor.Skip(6);
    const size_t size = cursor.U16();
    if (size < kBuildIdEntryBytes || size > bytes.size() - offset ||
        description_.build_ids.size() >= kListEntriesMax) {
      CountDamage();
      return;
    }
    BuildIdEvent build_id;
    if (without_pid) {
      std::vector<std::byte> entry(bytes.begin() + static_cast<std::ptrdiff_t>(offset),
                                   bytes.begin() + static_cast<std::ptrdiff_t>(offset + size));
      entry.insert(entry.begin() + kRecordHeaderBytes, 4, std::byte{0xff});
      ReadBuildId(entry, &build_id);
    } else {
      ReadBuildId(bytes.subspan(offset, size), &build_id);
    }
    description_.build_ids.push_back(std::move(build_id));
    offset += size;
  }
}

void FeatureReader::ReadCommandLine(Bytes bytes) {
  ByteCursor cursor(bytes, description_.byte_order);
  const uint32_t count = cursor.U32();
  description_.command_line.clear();
  for (uint32_t i = 0; i < count && i < kListEntriesMax; ++i) {
    const std::string_view argument = ReadString(&cursor);
    if (!cursor.ok()) {
      CountDamage();
      return;
    }
    description_.command_line.emplace_back(argument);
  }
}

bool FeatureReader::AddIds(EventDescription* event, ByteCursor* cursor, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t id = cursor->U64();
    if (!cursor->ok() || sample_ids_ >= kSampleIdsMax) {
      CountDamage();
      return false;
    }
    event->ids.push_back(id);
    ++sample_ids_;
  }
  return true;
}

uint32_t FeatureReader::EventOfId(uint64_t id) const {
  for (size_t i = 0; i < description_.events.size(); ++i) {
    const std::vector<uint64_t>& ids = description_.events[i].ids;
    if (std::find(ids.begin(), ids.end(), id) != ids.end()) return static_cast<uint32_t>(i);
  }
  return UINT32_MAX;
}

void FeatureReader::ReadEventDescriptions(Bytes bytes) {
  ByteCursor cursor(bytes, description_.byte_order);
  const uint32_t count = cursor.U32();
  const uint32_t attr_bytes = cursor.U32();
  for (uint32_t i = 0; i < count && i < kEventsMax; ++i) {
    const Bytes attr = cursor.Take(attr_bytes);
    const uint32_t ids = cursor.U32();
    const std::string_view name = ReadString(&cursor);
    ByteCursor id_cursor(cursor.Take(uint64_t{ids} * 8), description_.byte_order);
    auto parsed = ReadEventAttr(attr, description_.byte_order);
    if (!cursor.ok() || !parsed) {
      CountDamage();
      return;
    }
    EventDescription event;
    event.attr = *parsed;
    event.group_leader = i;
    event.name = name;
    if (!AddIds(&event, &id_cursor, ids)) return;
    if (i < described_.size()) continue;
    described_.push_back(std::move(event));
    if (i < description_.events.size()) ApplyDescription(i);
  }
}

// What the attr itself does not tell about event `index`.
void FeatureReader::ApplyDescription(size_t index) {
  if (index >= described_.size()) return;
  const EventDescription& described = described_[index];
  EventDescription& event = description_.events[index];
  if (NeedsName(index) && !described.name.empty()) SetName(index, described.name);
  if (event.ids.empty()) event.ids = described.ids;
}

bool FeatureReader::AdoptDescribedEvents() {
  if (!description_.events.empty() || described_.empty()) return false;
  description_.events = described_;
  return true;
}

void FeatureReader::ReadPmuMappings(Bytes bytes) {
  ByteCursor cursor(bytes, description_.byte_order);
  const uint32_t count = cursor.U32();
  for (uint32_t i = 0; i < count && i < kListEntriesMax; ++i) {
    const uint32_t type = cursor.U32();
    const std::string_view name = ReadString(&cursor);
    if (!cursor.ok()) {
      CountDamage();
      return;
    }
    description_.pmu_names[type] = name;
  }
}

void FeatureReader::ReadCpuPmuCaps(Bytes bytes) {
  ByteCursor cursor(bytes, description_.byte_order);
  description_.pmu_caps["cpu"].merge(ReadCaps(&cursor));
  if (!cursor.ok()) CountDamage();
}

void FeatureReader::ReadPmuCaps(Bytes bytes) {
  ByteCursor cursor(bytes, description_.byte_order);
  const uint32_t count = cursor.U32();
  for (uint32_t i = 0; i < count && i < kListEntriesMax; ++i) {
    auto caps = ReadCaps(&cursor);
    const std::string_view name = ReadString(&cursor);  // behind what it is the name of
    if (!cursor.ok()) {
      CountDamage();
      return;
    }
    description_.pmu_caps[std::string(name)].merge(caps);
  }
}

void FeatureReader::ReadGroups(Bytes bytes) {
  ByteCursor cursor(bytes, description_.byte_order);
  const uint32_t count = cursor.U32();
  for (uint32_t i = 0; i < count && i < kEventsMax; ++i) {
    ReadString(&cursor);  // the group's name
    const uint32_t leader = cursor.U32();
    const uint32_t members = cursor.U32();
    if (!cursor.ok()) {
      CountDamage();
      return;
    }
    for (uint64_t event = leader;
         event < uint64_t{leader} + members && event < description_.events.size(); ++event) {
      description_.events[static_cast<size_t>(event)].group_leader = leader;
    }
  }
}

void FeatureReader::ReadMetaInfo(Bytes bytes) {
  ByteCursor cursor(bytes);
  while (!cursor.AtEnd() && description_.meta.size() < kListEntriesMax) {
    const std::string_view key = cursor.CString();
    const std::string_view value = cursor.CString();
    if (!cursor.ok()) {
      CountDamage();
      return;
    }
    description_.meta[std::string(key)] = value;
  }
}

void FeatureReader::ReadTracingData(Bytes bytes) {
  if (bytes.size() > kTracingBytesMax) {
    losses_.Lose(LossStage::kParse, LossReason::kLimit, bytes.size(), LossUnit::kBytes);
    return;
  }
  description_.tracing_data = AsText(bytes);
}

bool FeatureReader::ReadHeaderAttr(Bytes body) {
  auto attr = ReadEventAttr(body, description_.byte_order);
  if (!attr || description_.events.size() >= kEventsMax) {
    losses_.Lose(LossStage::kParse, attr ? LossReason::kLimit : LossReason::kBadLayout, 1,
                 LossUnit::kRecords);
    return false;
  }
  EventDescription event;
  event.attr = *attr;
  event.group_leader = static_cast<uint32_t>(description_.events.size());
  const size_t attr_bytes = std::max(attr->size_bytes, kAttrBytesMin);
  if (attr_bytes < body.size()) {
    ByteCursor ids(body.subspan(attr_bytes), description_.byte_order);
    AddIds(&event, &ids, ids.remaining() / 8);
  }
  description_.events.push_back(std::move(event));
  ApplyDescription(description_.events.size() - 1);
  return true;
}

bool FeatureReader::ReadEventUpdate(Bytes body) {
  ByteCursor cursor(body, description_.byte_order);
  const uint64_t kind = cursor.U64();
  const uint64_t id = cursor.U64();
  const uint32_t index = EventOfId(id);
  if (!cursor.ok() || index == UINT32_MAX) {
    losses_.Lose(LossStage::kParse,
                 cursor.ok() ? LossReason::kUnknownEvent : LossReason::kTruncated, 1,
                 LossUnit::kRecords);
    return false;
  }
  EventDescription& event = description_.events[index];
  if (kind == kUpdateUnit) {
    event.unit = cursor.FixedString(cursor.remaining());
  } else if (kind == kUpdateScale) {
    const double scale = std::bit_cast<double>(cursor.U64());
    if (cursor.ok()) event.scale = scale;
  } else if (kind == kUpdateName) {
    const std::string_view name = cursor.FixedString(cursor.remaining());
    if (!name.empty()) SetName(index, name);
  }
  return true;
}

bool FeatureReader::ReadIdIndex(Bytes body) {
  // Which CPU and thread an id counts on. Ids that no attr lists cannot be placed, so nothing changes; the record
  // only matters for files whose attrs have no ids at all and one event.
  if (description_.events.size() != 1 || !description_.events.front().ids.empty()) return false;
  ByteCursor cursor(body, description_.byte_order);
  const uint64_t count = cursor.U64();
  constexpr size_t kEntryBytes = 32;
  for (uint64_t i = 0;
       i < count && cursor.remaining() >= kEntryBytes && sample_ids_ < kSampleIdsMax; ++i) {
    description_.events.front().ids.push_back(cursor.U64());
    ++sample_ids_;
    cursor.Skip(kEntryBytes - 8);
  }
  return true;
}

bool FeatureReader::ReadSimpleperfEventIds(Bytes body) {
  ByteCursor cursor(body, description_.byte_order);
  const uint64_t count = cursor.U64();
  for (uint64_t i = 0; i < count && cursor.remaining() >= 16; ++i) {
    const uint64_t event = cursor.U64();
    const uint64_t id = cursor.U64();
    if (event >= description_.events.size() || sample_ids_ >= kSampleIdsMax) continue;
    description_.events[static_cast<size_t>(event)].ids.push_back(id);
    ++sample_ids_;
  }
  return true;
}

void FeatureReader::DeduceArch() {
  if (!description_.arch_name.empty()) description_.arch = ArchFromUname(description_.arch_name);
  switch (description_.arch) {
    case Arch::kX86:
    case Arch::kArm:
      description_.is_64_bit = false;
      break;
    default:
      break;
  }
}

std::string FeatureReader::TracepointName(uint64_t id) const {
  for (auto& [tracepoint, name] : TracepointNames(description_.tracing_data)) {
    if (tracepoint == id) return name;
  }
  // simpleperf: "name,type,config" for each event, one a line.
  const auto found = description_.meta.find("event_type_info");
  if (found == description_.meta.end()) return "";
  std::string_view lines = found->second;
  while (!lines.empty()) {
    std::string_view line = NextPart(&lines, '\n');
    const std::string_view name = NextPart(&line, ',');
    const std::string_view type = NextPart(&line, ',');
    uint64_t config = 0;
    if (type == "2" && ParseNumber(line, &config) && config == id) return std::string(name);
  }
  return "";
}

bool FeatureReader::NeedsName(size_t event) const {
  return description_.events[event].name.empty() ||
         (event < guessed_names_.size() && guessed_names_[event]);
}

void FeatureReader::SetName(size_t event, std::string_view name) {
  description_.events[event].name = name;
  if (event < guessed_names_.size()) guessed_names_[event] = false;
}

void FeatureReader::NameByConfig(uint64_t config, std::string_view name) {
  for (size_t i = 0; i < description_.events.size(); ++i) {
    const EventAttr& attr = description_.events[i].attr;
    // The table knows no types: its config 0 is cycles, even where perf fell back to cpu-clock.
    const bool generic = attr.type == kPerfTypeHardware || attr.type == kPerfTypeSoftware;
    if (!name.empty() && !generic && NeedsName(i) && attr.config == config) SetName(i, name);
  }
}

void FeatureReader::NameEvents() {
  guessed_names_.resize(description_.events.size());
  for (size_t i = 0; i < description_.events.size(); ++i) {
    if (!NeedsName(i)) continue;
    EventDescription& event = description_.events[i];
    event.name.clear();
    if (event.attr.type == kPerfTypeTracepoint) event.name = TracepointName(event.attr.config);
    const auto pmu = description_.pmu_names.find(event.attr.type);
    if (event.name.empty() && event.attr.type > kPerfTypeBreakpoint &&
        pmu != description_.pmu_names.end()) {
      event.name = StrFormat("{}/config=0x{:x}/", pmu->second, event.attr.config);
    }
    if (event.name.empty()) event.name = NameFromAttr(event.attr);
    guessed_names_[i] = true;
  }
}

// Documentation/tools/perf/... trace.dat version 0.5/0.6 as perf embeds it: magic, version, byte order, word size,
// page size, header_page, header_event, ftrace formats, then the formats by system.
std::vector<std::pair<uint64_t, std::string>> TracepointNames(std::string_view tracing_data) {
  std::vector<std::pair<uint64_t, std::string>> names;
  constexpr size_t kMagicBytes = 10;
  if (tracing_data.size() < kMagicBytes) return names;
  ByteCursor prefix(AsBytes(tracing_data));
  prefix.Skip(kMagicBytes);
  prefix.CString();  // version
  const std::endian order = prefix.U8() != 0 ? std::endian::big : std::endian::little;
  ByteCursor cursor(prefix.Rest(), order);
  cursor.Skip(1 + 4);
  for (int i = 0; i < 2; ++i) {
    cursor.CString();  // "header_page", "header_event"
    cursor.Skip(cursor.U64());
  }
  const uint32_t ftrace_formats = cursor.U32();
  for (uint32_t i = 0; i < ftrace_formats && cursor.ok(); ++i) cursor.Skip(cursor.U64());
  const uint32_t systems = cursor.U32();
  for (uint32_t system = 0; system < systems && cursor.ok(); ++system) {
    const std::string_view system_name = cursor.CString();
    const uint32_t formats = cursor.U32();
    for (uint32_t i = 0; i < formats && cursor.ok(); ++i) {
      // "name: sched_switch\nID: 317\nformat: ..."
      std::string_view text = AsText(cursor.Take(cursor.U64()));
      std::string_view name_line = NextPart(&text, '\n');
      std::string_view id_line = NextPart(&text, '\n');
      uint64_t id = 0;
      if (!name_line.starts_with("name: ") || !id_line.starts_with("ID: ")) continue;
      name_line.remove_prefix(6);
      id_line.remove_prefix(4);
      if (ParseNumber(id_line, &id))
        names.emplace_back(id, StrFormat("{}:{}", system_name, name_line));
    }
  }
  return names;
}

}  // namespace ptarmigan::internal
