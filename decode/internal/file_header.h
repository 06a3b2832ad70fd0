// The header of a perf.data file: where its attrs, its data and its feature sections lie.
#pragma once

#include <bit>
#include <bitset>
#include <cstdint>
#include <string>
#include <vector>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "decode/internal/feature_sections.h"
#include "decode/record_types.h"
#include "model/loss_ledger.h"
#include "model/recording.h"

namespace ptarmigan::internal {

struct FileSection {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
};

struct FileHeader {
  std::endian order = std::endian::native;
  bool is_pipe = false;  // nothing but the magic and its own size: records follow
  bool is_version_1 = false;
  uint64_t header_bytes = 0;
  uint64_t attr_bytes = 0;  // of one entry: the attr and the section of its ids
  FileSection attrs;
  FileSection data;
  FileSection event_types;  // version 1: names of events by config
  std::bitset<kFeatureBits> features;
};

// The bytes that every header has: the magic and the header's size.
inline constexpr size_t kPipeHeaderBytes = 16;
// A header up to the feature bits, which the first versions did not have.
inline constexpr size_t kFileHeaderBytesMin = 72;
inline constexpr size_t kFileHeaderBytes = 104;

// Whether `prefix` (8 bytes are enough) starts a perf.data file.
bool HasPerfMagic(Bytes prefix);
// `bytes` is as much of the file as there is, at least kFileHeaderBytes if the file has them. `name` is for messages.
Result<FileHeader> ReadFileHeader(Bytes bytes, const std::string& name);

struct FileContents {
  Bytes data;  // the records, as many as the file really has
  bool has_features = false;
};

// Reads attrs and feature sections into the description, and finds the data. A recorder that was killed leaves a
// data size of 0 and no feature sections: then the data goes up to the file's end and `cut_short` is set, as it is
// where the file ends too early.
Result<FileContents> ReadFileContents(Bytes file, const FileHeader& header, const std::string& name,
                                      FeatureReader* features, RecordingDescription* description,
                                      LossLedger* losses);

}  // namespace ptarmigan::internal
