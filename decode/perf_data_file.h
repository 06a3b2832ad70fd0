// perf.data as an EventSource: what `perf record`, simpleperf and our own writer leave behind.
//
// Read are: file and pipe mode; versions 1 and 2; both byte orders; attrs older and newer than ours; perf.data
// directories (`perf record --threads`); zstd-compressed records; recordings that were cut short or whose recorder
// was killed; simpleperf's dialect. Files are mapped and read once from front to back with little memory whatever
// their length.
//
// Bad input ends in one sentence if nothing of it can be used. Otherwise what can be used is delivered and the rest
// is counted in losses().
#pragma once

#include <memory>
#include <string>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "model/event_source.h"

namespace ptarmigan {

// `path` is a file, a directory of `perf record --threads`, a FIFO, or "-" for standard input. A recording in file
// mode that comes through a pipe is copied to an unlinked temporary file first, since its end must be known.
Result<std::unique_ptr<EventSource>> OpenPerfData(const std::string& path);
// The same from memory, which must outlive the source. `name` is for messages.
Result<std::unique_ptr<EventSource>> OpenPerfDataBytes(Bytes bytes, const std::string& name);

// Whether a file that starts with these bytes (8 are enough) is a perf.data recording.
bool IsPerfData(Bytes prefix);

}  // namespace ptarmigan
