// Builds perf.data bytes field by field: fixtures, damaged input and fuzzing corpora. Knows nothing of the readers
// under test: layouts are written down here a second time, from include/uapi/linux/perf_event.h and perf's
// perf.data-file-format.txt.
//
//   PerfFileBuilder file;
//   file.AddAttr(PerfAttr());
//   file.AddSample({.ip = 0x1000, .pid = 7, .tid = 7, .time_ns = 100});
//   OpenPerfDataBytes(AsBytes(file.File()), "fixture");
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/byte_writer.h"

namespace ptarmigan {

// NUL-terminated and padded to 8 bytes, as names in records.
std::string PaddedName(std::string_view text);
// perf's header string: length with padding (64), then the text.
std::string HeaderString(std::string_view text, std::endian order = std::endian::little);

// struct perf_event_attr, by default: cycles, every 1000, with who, when, where and the period.
struct PerfAttr {
  static constexpr uint64_t kSampleIdAll = uint64_t{1} << 18;
  static constexpr uint64_t kDefaultSampleType = 1 | 2 | 4 | 128 | 256;  // IP TID TIME CPU PERIOD
  uint32_t type = 0;
  uint64_t config = 0;
  uint64_t period = 1000;
  uint64_t sample_type = kDefaultSampleType;
  uint64_t read_format = 0;
  uint64_t flags = kSampleIdAll;  // bit 0 is `disabled`, whatever the byte order
  uint64_t branch_sample_type = 0;
  uint64_t regs_user = 0;
  uint32_t stack_user_bytes = 0;
  uint64_t regs_intr = 0;
  uint32_t aux_sample_bytes = 0;
  uint32_t size_bytes = 136;
  std::vector<uint64_t> ids;
};
std::string AttrBytes(const PerfAttr& attr, std::endian order);

// A record of any type: header and body, the size filled in.
std::string RecordBytes(uint32_t type, uint16_t misc, std::string_view body,
                        std::endian order = std::endian::little);

// The fields of PerfAttr's default layout.
struct PerfWho {
  int32_t pid = 0;
  int32_t tid = 0;
  uint64_t time_ns = 0;
  uint32_t cpu = 0;
};
struct PerfSample {
  uint64_t ip = 0;
  PerfWho who;
  uint64_t period = 1;
  uint16_t misc = 2;  // user mode
};
struct PerfMap {
  PerfWho who;
  uint64_t start = 0;
  uint64_t length = 0;
  uint64_t file_offset = 0;
  std::string_view path;
  uint16_t misc = 2;
};

class PerfFileBuilder {
 public:
  explicit PerfFileBuilder(std::endian order = std::endian::little) : order_(order) {}

  std::endian order() const { return order_; }
  ByteWriter Writer() const { return ByteWriter(order_); }
  // The sample_id trailer of the default layout.
  std::string Trailer(const PerfWho& who) const;

  void AddAttr(const PerfAttr& attr) { attrs_.push_back(attr); }
  void AddRecord(uint32_t type, uint16_t misc, std::string_view body) {
    data_ += RecordBytes(type, misc, body, order_);
  }
  void AddSample(const PerfSample& sample);
  void AddMmap(const PerfMap& map);
  void AddComm(const PerfWho& who, std::string_view comm);
  void AddFinishedRound() { AddRecord(68, 0, ""); }
  void AddBytes(std::string_view bytes) { data_ += bytes; }
  void AddFeature(unsigned id, std::string bytes) { features_.emplace_back(id, std::move(bytes)); }

  const std::string& data() const { return data_; }
  // Version 2, or 1 with `version_1`.
  std::string File(bool version_1 = false) const;
  // As File, but as a killed recorder leaves it: no data size, no feature sections (their bits are set).
  std::string KilledFile() const;
  // Pipe mode: attrs become records in front.
  std::string Pipe() const;

 private:
  std::string Build(bool version_1, bool killed) const;

  std::endian order_;
  std::vector<PerfAttr> attrs_;
  std::string data_;
  std::vector<std::pair<unsigned, std::string>> features_;
};

}  // namespace ptarmigan
