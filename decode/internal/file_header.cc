#include "decode/internal/file_header.h"

#include <algorithm>
#include <utility>

#include "base/str_format.h"
#include "decode/attr_reader.h"

namespace ptarmigan::internal {
namespace {

constexpr std::string_view kMagic2 = "PERFILE2";
constexpr std::string_view kMagic2Swapped = "2ELIFREP";
constexpr std::string_view kMagic1 = "PERFFILE";
constexpr size_t kSectionBytes = 16;
constexpr size_t kEventTypeNameBytes = 64;

std::endian Opposite(std::endian order) {
  return order == std::endian::little ? std::endian::big : std::endian::little;
}

FileSection ReadSection(ByteCursor* cursor) {
  FileSection section;
  section.offset = cursor->U64();
  section.size_bytes = cursor->U64();
  return section;
}

bool Inside(const FileSection& section, uint64_t file_bytes) {
  return section.offset <= file_bytes && section.size_bytes <= file_bytes - section.offset;
}

// The bits are an array of the recorder's `unsigned long`, whose size differs between machines. perf's own rule: the
// host name is always there, so the word size that makes its bit appear is right.
std::bitset<kFeatureBits> ReadFeatureBits(Bytes bytes, std::endian order) {
  const auto read = [&](bool wide) {
    ByteCursor cursor(bytes, order);
    std::bitset<kFeatureBits> bits;
    const unsigned width = wide ? 64 : 32;
    for (unsigned base = 0; base < kFeatureBits; base += width) {
      const uint64_t word = wide ? cursor.U64() : cursor.U32();
      for (unsigned bit = 0; bit < width; ++bit) bits[base + bit] = (word >> bit & 1) != 0;
    }
    return bits;
  };
  const std::bitset<kFeatureBits> wide = read(true);
  if (order == std::endian::little || wide[kFeatureHostname]) return wide;
  const std::bitset<kFeatureBits> narrow = read(false);
  return narrow[kFeatureHostname] ? narrow : wide;
}

std::string WhatItIs(Bytes bytes) {
  const std::string_view text = AsText(bytes);
  if (text.starts_with("\x1f\x8b")) return "it is gzip-compressed: unpack it first";
  if (text.starts_with("\x28\xb5\x2f\xfd")) return "it is zstd-compressed: unpack it first";
  if (text.starts_with("\x7f"
                       "ELF"))
    return "it is an ELF object";
  return "it does not begin with PERFILE2";
}

}  // namespace

bool HasPerfMagic(Bytes prefix) {
  const std::string_view text = AsText(prefix);
  return text.starts_with(kMagic2) || text.starts_with(kMagic2Swapped) || text.starts_with(kMagic1);
}

Result<FileHeader> ReadFileHeader(Bytes bytes, const std::string& name) {
  if (bytes.empty()) return Error{ErrorCode::kInvalidInput, StrFormat("{} is empty", name)};
  if (!HasPerfMagic(bytes)) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("{} is not a perf.data recording: {}", name, WhatItIs(bytes))};
  }
  const Error too_short{ErrorCode::kTruncated,
                        StrFormat("{} ends inside its header, after {} bytes", name, bytes.size())};
  if (bytes.size() < kPipeHeaderBytes) return too_short;
  FileHeader header;
  header.is_version_1 = AsText(bytes).starts_with(kMagic1);
  header.order = AsText(bytes).starts_with(kMagic2Swapped) ? std::endian::big : std::endian::little;
  if (header.is_version_1) {
    // This magic is text in either order; the header's size tells.
    ByteCursor size(bytes.subspan(8), std::endian::little);
    if (size.U64() > UINT32_MAX) header.order = Opposite(header.order);
  }
  ByteCursor cursor(bytes, header.order);
  cursor.Skip(8);
  header.header_bytes = cursor.U64();
  if (header.header_bytes == kPipeHeaderBytes) {
    header.is_pipe = true;
    return header;
  }
  if (header.header_bytes < kFileHeaderBytesMin) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("{} says that its header has {} bytes, which no perf.data has", name,
                           header.header_bytes)};
  }
  if (bytes.size() < kFileHeaderBytesMin) return too_short;
  header.attr_bytes = cursor.U64();
  header.attrs = ReadSection(&cursor);
  header.data = ReadSection(&cursor);
  header.event_types = ReadSection(&cursor);
  if (header.header_bytes >= kFileHeaderBytes && bytes.size() >= kFileHeaderBytes) {
    header.features = ReadFeatureBits(bytes.subspan(kFileHeaderBytesMin), header.order);
  }
  return header;
}

namespace {

class ContentsReader {
 public:
  ContentsReader(Bytes file, const FileHeader& header, FeatureReader* features,
                 RecordingDescription* description, LossLedger* losses)
      : file_(file),
        header_(header),
        features_(*features),
        description_(*description),
        losses_(*losses) {}

  void ReadAttrs();
  void NameByEventTypes();
  bool ReadFeatures();
  bool FeatureTableFits() const;

 private:
  void ReadIds(Bytes entry, EventDescription* event);
  uint64_t FeatureTableOffset() const { return header_.data.offset + header_.data.size_bytes; }

  Bytes file_;
  const FileHeader& header_;
  FeatureReader& features_;
  RecordingDescription& description_;
  LossLedger& losses_;
};

void ContentsReader::ReadAttrs() {
  const FileSection& attrs = header_.attrs;
  if (attrs.size_bytes == 0 || attrs.offset > file_.size() ||
      header_.attr_bytes < kAttrBytesMin + kSectionBytes ||
      header_.attr_bytes > kAttrBytesMax + kSectionBytes) {
    losses_.Lose(LossStage::kRead, LossReason::kBadOffset, 1, LossUnit::kRecords);
    return;
  }
  const Bytes table = file_.subspan(static_cast<size_t>(attrs.offset))
                          .first(static_cast<size_t>(
                              std::min<uint64_t>(attrs.size_bytes, file_.size() - attrs.offset)));
  const size_t stride = static_cast<size_t>(header_.attr_bytes);
  for (size_t offset = 0; offset + stride <= table.size(); offset += stride) {
    if (description_.events.size() >= kEventsMax) {
      losses_.Lose(LossStage::kParse, LossReason::kLimit, (table.size() - offset) / stride,
                   LossUnit::kRecords);
      return;
    }
    const Bytes entry = table.subspan(offset, stride);
    auto attr = ReadEventAttr(entry.first(stride - kSectionBytes), header_.order);
    if (!attr) {
      losses_.Lose(LossStage::kParse, LossReason::kBadLayout, 1, LossUnit::kRecords);
      continue;
    }
    EventDescription event;
    event.attr = *attr;
    event.group_leader = static_cast<uint32_t>(description_.events.size());
    ReadIds(entry, &event);
    description_.events.push_back(std::move(event));
  }
}

void ContentsReader::ReadIds(Bytes entry, EventDescription* event) {
  // The section of ids ends the entry. Recorders whose attr is smaller than the entry's room put it behind the attr.
  const auto section_at = [&](size_t offset) {
    ByteCursor cursor(entry.subspan(offset), header_.order);
    return ReadSection(&cursor);
  };
  FileSection ids = section_at(entry.size() - kSectionBytes);
  const size_t behind_attr = std::max(event->attr.size_bytes, kAttrBytesMin);
  if ((!Inside(ids, file_.size()) || ids.size_bytes % 8 != 0) &&
      behind_attr + kSectionBytes <= entry.size()) {
    ids = section_at(behind_attr);
  }
  if (!Inside(ids, file_.size())) {
    losses_.Lose(LossStage::kRead, LossReason::kBadOffset, 1, LossUnit::kRecords);
    return;
  }
  ByteCursor cursor(
      file_.subspan(static_cast<size_t>(ids.offset), static_cast<size_t>(ids.size_bytes)),
      header_.order);
  features_.AddIds(event, &cursor, ids.size_bytes / 8);
}

// Version 1 names events in a table: config, then a fixed field of text.
void ContentsReader::NameByEventTypes() {
  const FileSection& types = header_.event_types;
  if (types.size_bytes == 0 || !Inside(types, file_.size())) return;
  ByteCursor cursor(
      file_.subspan(static_cast<size_t>(types.offset), static_cast<size_t>(types.size_bytes)),
      header_.order);
  while (cursor.remaining() >= 8 + kEventTypeNameBytes) {
    const uint64_t config = cursor.U64();
    features_.NameByConfig(config, cursor.FixedString(kEventTypeNameBytes));
  }
}

bool ContentsReader::FeatureTableFits() const {
  uint64_t table_end = 0;
  if (!CheckedAdd(FeatureTableOffset(), kSectionBytes * header_.features.count(), &table_end))
    return false;
  if (table_end > file_.size()) return false;
  ByteCursor table(file_.subspan(static_cast<size_t>(FeatureTableOffset())), header_.order);
  for (size_t i = 0; i < header_.features.count(); ++i) {
    const FileSection section = ReadSection(&table);
    if (!Inside(section, file_.size()) || (section.size_bytes > 0 && section.offset < table_end))
      return false;
  }
  return true;
}

bool ContentsReader::ReadFeatures() {
  if (header_.features.none()) return true;
  if (FeatureTableOffset() > file_.size()) return false;
  ByteCursor table(file_.subspan(static_cast<size_t>(FeatureTableOffset())), header_.order);
  bool all = true;
  for (unsigned feature = 0; feature < kFeatureBits; ++feature) {
    if (!header_.features[feature]) continue;
    const FileSection section = ReadSection(&table);
    if (!table.ok() || !Inside(section, file_.size())) {
      losses_.Lose(LossStage::kRead, LossReason::kBadOffset, 1, LossUnit::kRecords);
      all = false;
      continue;
    }
    features_.ReadFeature(feature, file_.subspan(static_cast<size_t>(section.offset),
                                                 static_cast<size_t>(section.size_bytes)));
  }
  return all;
}

bool IsSimpleperf(const FileHeader& header, const RecordingDescription& description) {
  for (unsigned feature = kFeatureSimpleperfFile; feature < kFeatureBits; ++feature) {
    if (header.features[feature]) return true;
  }
  return !description.command_line.empty() &&
         description.command_line.front().find("simpleperf") != std::string::npos;
}

}  // namespace

Result<FileContents> ReadFileContents(Bytes file, const FileHeader& header, const std::string& name,
                                      FeatureReader* features, RecordingDescription* description,
                                      LossLedger* losses) {
  if (header.data.offset > file.size()) {
    return Error{ErrorCode::kTruncated,
                 StrFormat("{} has {} bytes, but its header says that the records start at {}",
                           name, file.size(), header.data.offset)};
  }
  ContentsReader reader(file, header, features, description, losses);
  reader.ReadAttrs();

  FileContents contents;
  const Bytes from_data = file.subspan(static_cast<size_t>(header.data.offset));
  const bool never_finished = header.data.size_bytes == 0 && !from_data.empty() &&
                              (header.features.none() || !reader.FeatureTableFits());
  if (never_finished) {
    contents.data = from_data;
    description->cut_short = true;
  } else if (header.data.size_bytes > from_data.size()) {
    contents.data = from_data;
    description->cut_short = true;
    losses->Lose(LossStage::kRead, LossReason::kTruncated,
                 header.data.size_bytes - from_data.size(), LossUnit::kBytes);
  } else {
    contents.data = from_data.first(static_cast<size_t>(header.data.size_bytes));
    contents.has_features = reader.ReadFeatures();
    if (!contents.has_features) description->cut_short = true;
  }
  features->AdoptDescribedEvents();
  if (header.is_version_1) reader.NameByEventTypes();
  description->source = IsSimpleperf(header, *description) ? "simpleperf" : "perf.data";
  features->DeduceArch();
  features->NameEvents();
  if (description->events.empty()) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("{} describes no event, so its records cannot be understood", name)};
  }
  return contents;
}

}  // namespace ptarmigan::internal
