#include "export/archive.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/hash.h"
#include "base/str_format.h"
#include "export/branch_section.h"
#include "export/flow_section.h"
#include "export/internal/compression.h"
#include "export/internal/section_bytes.h"
#include "export/memory_section.h"

namespace ptarmigan {
namespace {

using internal::AppendU32;
using internal::AppendU64;

constexpr std::string_view kMagic = "PTMARCH\n";
constexpr uint32_t kVersion = 1;
constexpr uint32_t kEndType = 0x20444e45;  // "END "
constexpr uint32_t kFlagZstd = 1;
constexpr int kZstdLevel = 3;

// Covers what a flipped bit could change without being seen otherwise: type, name and content.
uint64_t Checksum(uint32_t type, std::string_view name, Bytes content) {
  return HashBytes64(content, HashBytes64(AsBytes(name), type));
}

bool IsKnown(ArchiveSection type) {
  constexpr std::array kKnown = {ArchiveSection::kProfile,  ArchiveSection::kSymbolTable,
                                 ArchiveSection::kCode,     ArchiveSection::kHost,
                                 ArchiveSection::kBranches, ArchiveSection::kMemory,
                                 ArchiveSection::kFlow};
  return std::ranges::find(kKnown, type) != kKnown.end();
}

}  // namespace

Result<ArchiveWriter> ArchiveWriter::Begin(ByteSink* sink) {
  std::string header(kMagic);
  AppendU32(kVersion, &header);
  AppendU32(0, &header);
  TRY(sink->Write(header));
  return ArchiveWriter(sink);
}

Status ArchiveWriter::WriteSection(uint32_t type, std::string_view name, Bytes content) {
  if (name.size() > kArchiveNameBytesMax) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("the name of an archive section has {} bytes, {} are allowed",
                           name.size(), kArchiveNameBytesMax)};
  }
  TRY_ASSIGN(const std::string packed, internal::ZstdCompress(content, kZstdLevel));
  const bool is_packed = packed.size() < content.size();
  const std::string_view stored = is_packed ? std::string_view(packed) : AsText(content);
  std::string header;
  AppendU32(type, &header);
  AppendU32(is_packed ? kFlagZstd : 0, &header);
  AppendU64(stored.size(), &header);
  AppendU64(content.size(), &header);
  AppendU64(Checksum(type, name, content), &header);
  AppendU32(static_cast<uint32_t>(name.size()), &header);
  AppendU32(0, &header);
  header += name;
  TRY(sink_->Write(header));
  ++sections_;
  return sink_->Write(stored);
}

Status ArchiveWriter::Add(ArchiveSection type, std::string_view name, Bytes content) {
  return WriteSection(static_cast<uint32_t>(type), name, content);
}

Status ArchiveWriter::AddProfile(const Profile& profile) {
  // What sums cannot say is about places that no stack may hold.
  TRY_ASSIGN(const std::string message,
             EncodePprof(profile, {.gzip = false, .all_locations = !profile.summary.empty()}));
  TRY(Add(ArchiveSection::kProfile, "", AsBytes(message)));
  if (!profile.summary.branches.empty()) {
    TRY(Add(ArchiveSection::kBranches, "", AsBytes(EncodeBranchSection(profile))));
  }
  if (!profile.summary.memory.empty()) {
    TRY(Add(ArchiveSection::kMemory, "", AsBytes(EncodeMemorySection(profile))));
  }
  if (!profile.summary.flow.empty()) {
    TRY(Add(ArchiveSection::kFlow, "", AsBytes(EncodeFlowSection(profile))));
  }
  return OkStatus();
}

Status ArchiveWriter::Finish() {
  std::string count;
  AppendU64(sections_, &count);
  return WriteSection(kEndType, "", AsBytes(count));
}

bool IsArchive(Bytes prefix) { return AsText(prefix).starts_with(kMagic); }

Result<ArchiveReader> ArchiveReader::Open(Bytes bytes, const ArchiveLimits& limits) {
  if (!IsArchive(bytes)) return Error{ErrorCode::kInvalidInput, "not a ptarmigan archive"};
  ByteCursor cursor(bytes, std::endian::little);
  cursor.Skip(kMagic.size());
  const uint32_t version = cursor.U32();
  cursor.U32();
  if (cursor.ok() && version != kVersion) {
    return Error{
        ErrorCode::kUnsupported,
        StrFormat("the archive has version {}, this program reads version {}", version, kVersion)};
  }
  ArchiveReader reader;
  reader.limits_ = limits;
  while (cursor.ok() && !cursor.AtEnd()) {
    const uint32_t type = cursor.U32();
    const uint32_t flags = cursor.U32();
    const uint64_t stored_bytes = cursor.U64();
    const uint64_t plain_bytes = cursor.U64();
    const uint64_t checksum = cursor.U64();
    const uint32_t name_bytes = cursor.U32();
    cursor.U32();
    if (!cursor.ok() || name_bytes > kArchiveNameBytesMax) break;
    const std::string_view name = AsText(cursor.Take(name_bytes));
    const Bytes stored = cursor.Take(stored_bytes);
    if (!cursor.ok()) break;
    if (type == kEndType) {
      ByteCursor count(stored, std::endian::little);
      reader.is_complete_ = count.U64() == reader.entries_.size() && count.ok() && cursor.AtEnd();
      break;
    }
    if (reader.entries_.size() >= limits.sections_max) {
      return Error{ErrorCode::kResourceLimit,
                   StrFormat("the archive has more than {} sections", limits.sections_max)};
    }
    reader.entries_.push_back({static_cast<ArchiveSection>(type), name, plain_bytes});
    reader.stored_.push_back({stored, checksum, (flags & kFlagZstd) != 0});
  }
  if (reader.entries_.empty() && !reader.is_complete_) {
    return Error{ErrorCode::kTruncated, "the archive ends before its first whole section"};
  }
  return reader;
}

Result<std::string> ArchiveReader::Read(size_t index) const {
  const Entry& entry = entries_[index];
  const Stored& stored = stored_[index];
  std::string plain;
  if (stored.is_compressed) {
    if (entry.plain_bytes > limits_.section_bytes_max) {
      return Error{ErrorCode::kResourceLimit,
                   StrFormat("an archive section of {} bytes; {} are allowed", entry.plain_bytes,
                             limits_.section_bytes_max)};
    }
    TRY_ASSIGN(plain, internal::ZstdDecompress(stored.bytes, entry.plain_bytes));
  } else {
    plain = AsText(stored.bytes);
  }
  if (plain.size() != entry.plain_bytes ||
      Checksum(static_cast<uint32_t>(entry.type), entry.name, AsBytes(plain)) != stored.checksum) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("section {} of the archive is damaged", index)};
  }
  return plain;
}

size_t ArchiveReader::Find(ArchiveSection type, std::string_view name) const {
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return entry.type == type && entry.name == name; });
  return static_cast<size_t>(found - entries_.begin());
}

Result<Profile> ArchiveReader::ReadProfile(const DecodeLimits& limits) const {
  const size_t index = Find(ArchiveSection::kProfile, "");
  if (index == entries_.size()) return Error{ErrorCode::kNotFound, "the archive holds no profile"};
  TRY_ASSIGN(const std::string message, Read(index));
  TRY_ASSIGN(Profile profile, DecodePprof(AsBytes(message), limits));
  const auto read_summary = [&](ArchiveSection type, Status (*decode)(Bytes, Profile*)) {
    const size_t section = Find(type, "");
    if (section == entries_.size()) return;
    const Result<std::string> content = Read(section);
    if (!content || !decode(AsBytes(*content), &profile)) {
      profile.losses.Lose(LossStage::kParse, LossReason::kBadValue, 1, LossUnit::kRecords);
    }
  };
  read_summary(ArchiveSection::kBranches, DecodeBranchSection);
  read_summary(ArchiveSection::kMemory, DecodeMemorySection);
  read_summary(ArchiveSection::kFlow, DecodeFlowSection);
  const auto unknown =
      std::ranges::count_if(entries_, [](const Entry& entry) { return !IsKnown(entry.type); });
  if (unknown > 0) {
    profile.losses.Lose(LossStage::kParse, LossReason::kUnknownRecord,
                        static_cast<uint64_t>(unknown), LossUnit::kRecords);
  }
  if (!is_complete_)
    profile.losses.Lose(LossStage::kParse, LossReason::kTruncated, 1, LossUnit::kRecords);
  return profile;
}

}  // namespace ptarmigan
