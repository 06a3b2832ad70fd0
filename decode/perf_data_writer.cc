#include "decode/perf_data_writer.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <ctime>
#include <string_view>

#include "base/str_format.h"
#include "decode/record_parser.h"
#include "decode/record_types.h"

namespace ptarmigan {
namespace {

constexpr size_t kBufferBytesMax = size_t{256} << 10;
constexpr uint64_t kHeaderBytes = 104;
constexpr size_t kStringAlignment = 64;  // NAME_ALIGN
constexpr size_t kBuildIdRoomBytes = 20;
constexpr uint32_t kClockDataVersion = 1;

class ByteSink {
 public:
  template <typename T>
  ByteSink& Put(T value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
    return *this;
  }
  ByteSink& PutBytes(Bytes bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  // Zeros up to `size` bytes in all.
  ByteSink& PadTo(size_t size) {
    bytes_.resize(std::max(bytes_.size(), size));
    return *this;
  }
  // Text and at least one NUL, padded as perf does.
  ByteSink& PutPadded(std::string_view text) {
    const size_t room = (text.size() + kStringAlignment) / kStringAlignment * kStringAlignment;
    const size_t end = bytes_.size() + room;
    PutBytes(AsBytes(text));
    return PadTo(end);
  }
  // perf's header string: 32-bit length with padding, then the text.
  ByteSink& PutString(std::string_view text) {
    const size_t room = (text.size() + kStringAlignment) / kStringAlignment * kStringAlignment;
    Put<uint32_t>(static_cast<uint32_t>(room));
    return PutPadded(text);
  }
  size_t size() const { return bytes_.size(); }
  std::vector<std::byte> Take() && { return std::move(bytes_); }
  Bytes bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

uint64_t AttrBytes(const RecordingDescription& description) {
  size_t size = 0;
  for (const EventDescription& event : description.events)
    size = std::max(size, EncodeAttr(event.attr).size());
  return size;
}

uint16_t MiscOf(CpuMode mode) {
  switch (mode) {
    case CpuMode::kUnknown:
      return 0;
    case CpuMode::kKernel:
      return 1;
    case CpuMode::kUser:
      return 2;
    case CpuMode::kHypervisor:
      return 3;
    case CpuMode::kGuestKernel:
      return 4;
    case CpuMode::kGuestUser:
      return 5;
  }
  return 0;
}

ByteSink EventDescriptions(const RecordingDescription& description) {
  const auto attr_bytes = static_cast<uint32_t>(AttrBytes(description));
  ByteSink sink;
  sink.Put<uint32_t>(static_cast<uint32_t>(description.events.size())).Put<uint32_t>(attr_bytes);
  for (const EventDescription& event : description.events) {
    const size_t end = sink.size() + attr_bytes;
    sink.PutBytes(EncodeAttr(event.attr)).PadTo(end);
    sink.Put<uint32_t>(static_cast<uint32_t>(event.ids.size())).PutString(event.name);
    for (const uint64_t id : event.ids) sink.Put<uint64_t>(id);
  }
  return sink;
}

ByteSink BuildIds(const std::vector<BuildIdEvent>& build_ids) {
  ByteSink all;
  for (const BuildIdEvent& known : build_ids) {
    ByteSink entry;
    const Bytes id =
        known.build_id.bytes().first(std::min(known.build_id.bytes().size(), kBuildIdRoomBytes));
    entry.Put<uint32_t>(kRecordHeaderBuildId)
        .Put<uint16_t>(static_cast<uint16_t>(MiscOf(known.cpumode) | kMiscBuildIdSize))
        .Put<uint16_t>(0)
        .Put<int32_t>(known.pid);
    const size_t id_end = entry.size() + kBuildIdRoomBytes;
    entry.PutBytes(id).PadTo(id_end).Put<uint8_t>(static_cast<uint8_t>(id.size()));
    entry.PadTo(entry.size() + 3).PutPadded(known.path);
    std::vector<std::byte> bytes = std::move(entry).Take();
    if (bytes.size() > kRecordBytesMax) continue;  // no path is that long
    const auto size = static_cast<uint16_t>(bytes.size());
    std::memcpy(bytes.data() + 6, &size, sizeof(size));
    all.PutBytes(bytes);
  }
  return all;
}

ByteSink ClockResolution(int32_t clockid) {
  timespec resolution = {};
  ::clock_getres(clockid, &resolution);
  ByteSink sink;
  sink.Put<uint64_t>(static_cast<uint64_t>(resolution.tv_sec) * 1'000'000'000 +
                     static_cast<uint64_t>(resolution.tv_nsec));
  return sink;
}

struct Feature {
  unsigned id;
  ByteSink content;
};

void AddText(unsigned id, const std::string& text, std::vector<Feature>* features) {
  if (text.empty()) return;
  features->push_back({id, {}});
  features->back().content.PutString(text);
}

// In the order of their numbers, as the table of sections wants them.
std::vector<Feature> FeaturesOf(const RecordingDescription& description, bool with_command_line) {
  std::vector<Feature> features;
  const auto add = [&features](unsigned id) -> ByteSink& {
    features.push_back({id, {}});
    return features.back().content;
  };
  if (!description.tracing_data.empty())
    add(kFeatureTracingData).PutBytes(AsBytes(description.tracing_data));
  if (!description.build_ids.empty()) add(kFeatureBuildId) = BuildIds(description.build_ids);
  AddText(kFeatureHostname, description.hostname, &features);
  AddText(kFeatureOsRelease, description.os_release, &features);
  AddText(kFeatureVersion, description.perf_version, &features);
  AddText(kFeatureArch, description.arch_name, &features);
  if (description.cpus_available > 0) {
    add(kFeatureNrCpus)
        .Put<uint32_t>(description.cpus_available)
        .Put<uint32_t>(description.cpus_online);
  }
  AddText(kFeatureCpuDesc, description.cpu_description, &features);
  AddText(kFeatureCpuid, description.cpuid, &features);
  if (description.memory_total_kib > 0)
    add(kFeatureTotalMem).Put<uint64_t>(description.memory_total_kib);
  if (with_command_line && !description.command_line.empty()) {
    ByteSink& sink = add(kFeatureCmdline);
    sink.Put<uint32_t>(static_cast<uint32_t>(description.command_line.size()));
    for (const std::string& word : description.command_line) sink.PutString(word);
  }
  add(kFeatureEventDesc) = EventDescriptions(description);
  if (!description.pmu_names.empty()) {
    ByteSink& sink = add(kFeaturePmuMappings);
    sink.Put<uint32_t>(static_cast<uint32_t>(description.pmu_names.size()));
    for (const auto& [type, name] : description.pmu_names) sink.Put<uint32_t>(type).PutString(name);
  }
  if (description.last_sample_ns > 0) {
    add(kFeatureSampleTime)
        .Put<uint64_t>(description.first_sample_ns)
        .Put<uint64_t>(description.last_sample_ns);
  }
  if (description.clockid >= 0) add(kFeatureClockid) = ClockResolution(description.clockid);
  if (description.clockid >= 0 && description.clock_wall_ns > 0) {
    add(kFeatureClockData)
        .Put<uint32_t>(kClockDataVersion)
        .Put<int32_t>(description.clockid)
        .Put<uint64_t>(description.clock_wall_ns)
        .Put<uint64_t>(description.clock_reference_ns);
  }
  return features;
}

// Bytes before the time in a sample of this type, header included; 0 if it has none.
size_t TimeOffset(uint64_t sample_type) {
  if ((sample_type & kSampleTime) == 0) return 0;
  size_t offset = kRecordHeaderBytes;
  for (const SampleTypeBit before : {kSampleIdentifier, kSampleIp, kSampleTid}) {
    if ((sample_type & before) != 0) offset += 8;
  }
  return offset;
}

}  // namespace

PerfDataWriter::~PerfDataWriter() {
  if (!finished_) Flush();
}

Result<std::unique_ptr<PerfDataWriter>> PerfDataWriter::Create(
    const std::string& path, const RecordingDescription& description,
    const PerfDataWriterOptions& options) {
  if (description.byte_order != std::endian::native) {
    return Error{ErrorCode::kUnsupported,
                 StrFormat("{}: a recording of the other byte order cannot be written", path)};
  }
  if (description.events.empty()) {
    return Error{ErrorCode::kInvalidInput, StrFormat("{}: a recording without events", path)};
  }
  constexpr mode_t kOwnerOnly = 0600;
  TRY_ASSIGN(Fd fd, OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC, kOwnerOnly));
  TRY_ASSIGN(const FileIdentity identity, IdentifyFile(fd.get()));
  if (!identity.is_regular) {
    return Error{ErrorCode::kUnsupported,
                 StrFormat("{}: perf.data can only be written to a file", path)};
  }
  std::unique_ptr<PerfDataWriter> writer(new PerfDataWriter(std::move(fd), path, options));
  TRY(writer->WriteStart(description));
  return writer;
}

std::vector<std::byte> PerfDataWriter::Header(const std::vector<unsigned>& features) const {
  ByteSink sink;
  sink.PutBytes(AsBytes("PERFILE2"));
  sink.Put<uint64_t>(kHeaderBytes).Put<uint64_t>(attr_entry_bytes_);
  sink.Put<uint64_t>(attrs_offset_).Put<uint64_t>(attrs_bytes_);
  sink.Put<uint64_t>(data_offset_).Put<uint64_t>(finished_ ? data_bytes_ : 0);
  sink.Put<uint64_t>(0).Put<uint64_t>(0);  // event types: version 1 only
  uint64_t bits[kFeatureBits / 64] = {};
  for (const unsigned feature : features) bits[feature / 64] |= uint64_t{1} << feature % 64;
  for (const uint64_t word : bits) sink.Put<uint64_t>(word);
  return std::move(sink).Take();
}

Status PerfDataWriter::WriteStart(const RecordingDescription& description) {
  const uint64_t attr_bytes = AttrBytes(description);
  ByteSink ids;
  ByteSink attrs;
  constexpr uint64_t kSectionBytes = 16;
  for (const EventDescription& event : description.events) {
    const size_t end = attrs.size() + attr_bytes;
    attrs.PutBytes(EncodeAttr(event.attr)).PadTo(end);
    attrs.Put<uint64_t>(kHeaderBytes + ids.size())
        .Put<uint64_t>(event.ids.size() * sizeof(uint64_t));
    for (const uint64_t id : event.ids) ids.Put<uint64_t>(id);
  }
  attr_entry_bytes_ = attr_bytes + kSectionBytes;
  attrs_offset_ = kHeaderBytes + ids.size();
  attrs_bytes_ = attrs.size();
  data_offset_ = attrs_offset_ + attrs_bytes_;
  FindTimeField(description);
  ByteSink start;
  start.PutBytes(Header({})).PutBytes(ids.bytes()).PutBytes(attrs.bytes());
  return WriteAll(fd_.get(), start.bytes(), path_);
}

void PerfDataWriter::FindTimeField(const RecordingDescription& description) {
  for (const EventDescription& event : description.events) {
    if (IsDummyEvent(event.attr)) continue;
    const size_t offset = TimeOffset(event.attr.sample_type);
    if (offset == 0 || (time_offset_bytes_ != 0 && offset != time_offset_bytes_)) {
      time_offset_bytes_ = 0;
      return;
    }
    time_offset_bytes_ = offset;
  }
}

void PerfDataWriter::NoteSampleTime(Bytes record) {
  ByteCursor cursor(record);
  if (cursor.U32() != kRecordSample || time_offset_bytes_ == 0) return;
  cursor.Seek(time_offset_bytes_);
  const uint64_t time_ns = cursor.U64();
  if (!cursor.ok()) return;
  first_sample_ns_ = std::min(first_sample_ns_, time_ns);
  last_sample_ns_ = std::max(last_sample_ns_, time_ns);
}

void PerfDataWriter::Append(Bytes bytes) {
  data_bytes_ += bytes.size();
  if (buffer_.size() + bytes.size() > kBufferBytesMax) Flush();
  if (bytes.size() > kBufferBytesMax) {
    if (status_) status_ = WriteAll(fd_.get(), bytes, path_);
    return;
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void PerfDataWriter::AppendPayload(const RawRecord& record) {
  Append(record.payload);
  Append(record.payload_rest);
  const uint64_t bytes = record.payload.size() + record.payload_rest.size();
  const std::optional<AuxChunk> chunk = ReadAuxtrace(record.bytes, std::endian::native);
  constexpr std::array<std::byte, 8> kFilling = {};
  if (!chunk || chunk->size_bytes < bytes || chunk->size_bytes - bytes >= kFilling.size()) {
    status_ = Error{ErrorCode::kInvalidInput,
                    StrFormat("{}: {} bytes behind a record that does not say so", path_, bytes)};
    return;
  }
  Append(Bytes(kFilling).first(static_cast<size_t>(chunk->size_bytes - bytes)));
}

void PerfDataWriter::Flush() {
  if (status_) status_ = WriteAll(fd_.get(), buffer_, path_);
  buffer_.clear();
}

void PerfDataWriter::OnRecord(const RawRecord& record) {
  if (!status_ || finished_) return;
  uint16_t size = 0;
  if (record.bytes.size() >= kRecordHeaderBytes)
    std::memcpy(&size, record.bytes.data() + 6, sizeof(size));
  if (size < kRecordHeaderBytes || size != record.bytes.size()) {
    status_ =
        Error{ErrorCode::kInvalidInput, StrFormat("{}: a record of {} bytes says that it has {}",
                                                  path_, record.bytes.size(), size)};
    return;
  }
  NoteSampleTime(record.bytes);
  Append(record.bytes);
  if (!record.payload.empty()) AppendPayload(record);
  ++records_;
  round_open_ = true;
}

void PerfDataWriter::OnRoundEnd() {
  if (!status_ || finished_ || !round_open_) return;
  round_open_ = false;
  ByteSink record;
  record.Put<uint32_t>(kRecordFinishedRound).Put<uint16_t>(0).Put<uint16_t>(kRecordHeaderBytes);
  Append(record.bytes());
  Flush();
}

Status PerfDataWriter::Finish(const RecordingDescription& description) {
  CHECK(!finished_);
  OnRoundEnd();
  Flush();
  if (!status_) return status_;
  RecordingDescription complete = description;
  if (last_sample_ns_ > 0) {
    complete.first_sample_ns = first_sample_ns_;
    complete.last_sample_ns = last_sample_ns_;
  }
  const std::vector<Feature> features = FeaturesOf(complete, options_.command_line);
  constexpr uint64_t kSectionBytes = 16;
  uint64_t offset = data_offset_ + data_bytes_ + features.size() * kSectionBytes;
  ByteSink table;
  ByteSink contents;
  std::vector<unsigned> ids;
  for (const Feature& feature : features) {
    table.Put<uint64_t>(offset).Put<uint64_t>(feature.content.size());
    contents.PutBytes(feature.content.bytes());
    offset += feature.content.size();
    ids.push_back(feature.id);
  }
  table.PutBytes(contents.bytes());
  finished_ = true;
  status_ = WriteAll(fd_.get(), table.bytes(), path_);
  // The header last: until it is there the file reads as that of a killed recorder.
  if (status_) status_ = WriteAllAt(fd_.get(), Header(ids), 0, path_);
  return status_;
}

}  // namespace ptarmigan
