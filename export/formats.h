// The formats that profiles are written in and read from: one table for `--to`, for suffixes and for looking at
// the first bytes of an input.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_cursor.h"
#include "base/result.h"
#include "export/bolt.h"
#include "export/pprof.h"
#include "export/sink.h"
#include "model/code_lines.h"
#include "model/object_branches.h"
#include "model/profile.h"

namespace ptarmigan {

enum class Format : uint8_t {
  kPprof,
  kFolded,
  kSpeedscope,
  kFirefox,
  kPerfetto,  // these two from FlowSummary::intervals
  kChromeTrace,
  kHtml,
  kArchive,
  kAutofdo,  // these three from the branches of one object: WriteObjectProfile
  kBolt,
  kBoltPreaggregated,
  kPerfData,       // raw records: hw and pipeline write them, decode reads them
  kPerfScript,     // the text of `perf script`; read only
  kLegacyProfile,  // gperftools, threadz, Java; read only
};

struct FormatTraits {
  Format format;
  std::string_view name;                   // of `--to`
  std::vector<std::string_view> suffixes;  // the first is the usual one
  bool written_from_profile = false;       // WriteProfile can
  bool read_as_profile = false;            // DecodeAny can
  bool written_from_object = false;        // WriteObjectProfile can
  std::string_view what;                   // for help texts
};

std::span<const FormatTraits> AllFormats();
const FormatTraits& TraitsOf(Format format);

// By the name that `--to` takes. kInvalidInput lists the names that can be written.
Result<Format> FormatFromName(std::string_view name);
// The format to write to `path`, by its suffix. kInvalidInput lists the suffixes.
Result<Format> FormatFromPath(std::string_view path);
// The format of an input by its first bytes (4 KiB are enough; all of a shorter file). gzip and zstd are looked
// through. kInvalidInput says what it is instead, where known.
Result<Format> SniffFormat(Bytes prefix);

// Reads every kind of profile (FormatTraits::read_as_profile) but not recordings. `name` is for messages only.
Result<Profile> DecodeAny(Bytes bytes, std::string_view name, const DecodeLimits& limits = {});

struct WriteOptions {
  // For formats that carry one value ("cpu" or "cpu/nanoseconds"); empty: the profile's default.
  std::string sample_type = {};
  // One line over the picture.
  std::string title = {};
  PprofOptions pprof = {};
  // kHtml: the page with its placeholder (docs/formats/html-data.md), from room web.
  std::string_view html_template = {};
  // kHtml: what to compare against ("before"), or null.
  const Profile* other = nullptr;
  std::string other_title = {};
  // kArchive: the description of the host. Symbol tables and code are added with an ArchiveWriter.
  std::string host_json = {};
};

struct ObjectWriteOptions {
  PreaggregatedDialect dialect = PreaggregatedDialect::kBranches;
};
// What of the object's branches did not get into the output, as sums of counts.
struct ObjectWriteSummary {
  uint64_t without_function = 0;
  bool by_symbols = false;  // AutofdoSummary::by_symbols
};
// Profiles for compilers and optimizers (FormatTraits::written_from_object). kUnsupported for other formats; the errors
// of WriteAutofdo, WriteBoltFdata and WriteBoltPreaggregated.
Result<ObjectWriteSummary> WriteObjectProfile(const ObjectBranches& branches, CodeLines* lines,
                                              Format format, const ObjectWriteOptions& options,
                                              ByteSink* sink);

// Writes the whole output to `sink`. kUnsupported if the format is not made from a profile; kNotFound if it has
// no such sample type; kInvalidInput if Profile::CheckValid refuses it.
Status WriteProfile(const Profile& profile, Format format, const WriteOptions& options,
                    ByteSink* sink);

}  // namespace ptarmigan
