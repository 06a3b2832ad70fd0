// PerfDataWriter: writes raw records into a perf.data file (PERFFILE version 2, this machine's byte order) that perf
// and we can read.
//
//   header │ sample ids │ attrs │ records … │ table of feature sections │ features
//     ▲                          ▲
//     │ data size 0 until Finish │ flushed at the end of every round
//
// If the writer is killed, the file has no features and its data size is 0: we read it up to its last whole record
// (perf refuses it, as its own). The layout is that of tools/perf/Documentation/perf.data-file-format.txt (Linux 6.18).
//
// RawRecordSink cannot fail: the first error of writing is kept, what comes after it is dropped, and Finish returns
// it. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "model/event_source.h"
#include "model/recording.h"

namespace ptarmigan {

struct PerfDataWriterOptions {
  // The recorder's arguments may hold secrets: written only if asked.
  bool command_line = false;
};

class PerfDataWriter : public RawRecordSink {
 public:
  // Creates the file (mode 0600: it holds addresses and maybe stacks; an existing one is replaced) and writes header
  // and attrs of `description`, whose events and ids must be complete. kUnsupported for another byte order,
  // kInvalidInput without events.
  static Result<std::unique_ptr<PerfDataWriter>> Create(const std::string& path,
                                                        const RecordingDescription& description,
                                                        const PerfDataWriterOptions& options = {});
  ~PerfDataWriter() override;

  // Appends a record as it is, and its payload. One whose header does not tell its true size is an error.
  void OnRecord(const RawRecord& record) override;
  // PERF_RECORD_FINISHED_ROUND, if there were records since the last one; flushes.
  void OnRoundEnd() override;

  // Writes the features of `description` (strings, CPUs, events, build ids, clock; times of the first and last sample
  // are found by the writer) and completes the header. Nothing may be written afterwards.
  Status Finish(const RecordingDescription& description);

  // The first error of writing, for a caller that wants to stop early.
  const Status& status() const { return status_; }
  uint64_t records() const { return records_; }
  uint64_t data_bytes() const { return data_bytes_; }

 private:
  PerfDataWriter(Fd fd, std::string path, const PerfDataWriterOptions& options)
      : fd_(std::move(fd)), path_(std::move(path)), options_(options) {}

  Status WriteStart(const RecordingDescription& description);
  void FindTimeField(const RecordingDescription& description);
  void NoteSampleTime(Bytes record);
  void Append(Bytes bytes);
  void AppendPayload(const RawRecord& record);
  void Flush();
  std::vector<std::byte> Header(const std::vector<unsigned>& features) const;

  Fd fd_;
  std::string path_;
  PerfDataWriterOptions options_;
  Status status_;
  std::vector<std::byte> buffer_;
  uint64_t attrs_offset_ = 0;
  uint64_t attrs_bytes_ = 0;
  uint64_t attr_entry_bytes_ = 0;
  uint64_t data_offset_ = 0;
  uint64_t data_bytes_ = 0;  // buffered ones too
  uint64_t records_ = 0;
  bool round_open_ = false;
  bool finished_ = false;
  // Where a sample's time stands; 0: the events do not agree or have none.
  size_t time_offset_bytes_ = 0;
  uint64_t first_sample_ns_ = UINT64_MAX;
  uint64_t last_sample_ns_ = 0;
};

}  // namespace ptarmigan
