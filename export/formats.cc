#include "export/formats.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"
#include "base/str_format.h"
#include "base/text_lines.h"
#include "export/archive.h"
#include "export/autofdo.h"
#include "export/bolt.h"
#include "export/chrome_trace.h"
#include "export/firefox.h"
#include "export/folded.h"
#include "export/html.h"
#include "export/internal/compression.h"
#include "export/internal/foreign.h"
#include "export/legacy_profiles.h"
#include "export/perf_script_text.h"
#include "export/perfetto.h"
#include "export/speedscope.h"

namespace ptarmigan {
namespace {

const std::array<FormatTraits, 14>& Table() {
  static const std::array<FormatTraits, 14> table = {{
      {Format::kPprof,
       "pprof",
       {".pb.gz", ".pprof", ".pb", ".prof"},
       true,
       true,
       false,
       "deduplicated pprof"},
      {Format::kFolded,
       "folded",
       {".folded", ".collapsed"},
       true,
       true,
       false,
       "folded stacks, one value"},
      {Format::kSpeedscope,
       "speedscope",
       {".speedscope.json"},
       true,
       false,
       false,
       "JSON for speedscope"},
      {Format::kFirefox,
       "firefox",
       {".json", ".json.gz"},
       true,
       false,
       false,
       "JSON for the Firefox Profiler"},
      {Format::kPerfetto,
       "perfetto",
       {".perfetto-trace", ".pftrace"},
       true,
       false,
       false,
       "timeline of a control-flow trace, for Perfetto"},
      {Format::kChromeTrace,
       "chrome",
       {".trace.json"},
       true,
       false,
       false,
       "the same as JSON of Chrome's tracing"},
      {Format::kHtml, "html", {".html", ".htm"}, true, false, false, "one self-contained page"},
      {Format::kArchive, "archive", {".ptarmigan"}, true, true, false, "profile, symbols and host"},
      {Format::kAutofdo,
       "autofdo",
       {".afdo.txt", ".afdo"},
       false,
       false,
       true,
       "LLVM sample profile, as text"},
      {Format::kBolt, "bolt", {".fdata"}, false, false, true, "branch data for llvm-bolt"},
      {Format::kBoltPreaggregated,
       "bolt-preagg",
       {".preagg"},
       false,
       false,
       true,
       "branches for perf2bolt --pa"},
      {Format::kPerfData,
       "perf-data",
       {".perf.data", "perf.data"},
       false,
       false,
       false,
       "raw records"},
      {Format::kPerfScript, "perf-script", {}, false, true, false, "text of perf script"},
      {Format::kLegacyProfile, "legacy", {}, false, true, false, "gperftools and Java profiles"},
  }};
  return table;
}

}  // namespace

std::span<const FormatTraits> AllFormats() { return Table(); }

const FormatTraits& TraitsOf(Format format) {
  const auto found = std::ranges::find(Table(), format, &FormatTraits::format);
  CHECK(found != Table().end());
  return *found;
}

Result<Format> FormatFromName(std::string_view name) {
  std::string known;
  for (const FormatTraits& traits : Table()) {
    if (traits.name == name && !traits.suffixes.empty()) return traits.format;
    if (!traits.suffixes.empty()) known += (known.empty() ? "" : ", ") + std::string(traits.name);
  }
  return Error{ErrorCode::kInvalidInput, StrFormat("no format '{}'; there are: {}", name, known)};
}

Result<Format> FormatFromPath(std::string_view path) {
  // "x.speedscope.json" ends in ".json" too: the longest suffix decides.
  const FormatTraits* best = nullptr;
  size_t best_size = 0;
  std::string known;
  for (const FormatTraits& traits : Table()) {
    for (const std::string_view suffix : traits.suffixes) {
      if (suffix == traits.suffixes.front())
        known += (known.empty() ? "" : ", ") + std::string(suffix);
      if (suffix.size() <= best_size || !path.ends_with(suffix)) continue;
      best = &traits;
      best_size = suffix.size();
    }
  }
  if (best != nullptr) return best->format;
  return Error{
      ErrorCode::kInvalidInput,
      StrFormat(
          "the name '{}' does not say which format to write: end it in one of {}, or use --to",
          path, known)};
}

namespace {

// Plain bytes of something compressed; as much as there is of a prefix.
constexpr size_t kSniffedBytes = 4096;

Result<Format> SniffPlain(Bytes bytes) {
  const std::string_view text = AsText(bytes);
  if (text.starts_with("PERFILE2") || text.starts_with("2ELIFREP") ||
      text.starts_with("PERFFILE")) {
    return Format::kPerfData;
  }
  if (IsArchive(bytes)) return Format::kArchive;
  if (LooksLikeLegacyProfile(bytes)) return Format::kLegacyProfile;
  if (!internal::LooksLikeText(bytes)) {
    const std::string_view foreign = internal::DescribeForeign(bytes);
    if (foreign.empty()) return Format::kPprof;
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("not a profile or recording: it is {}", foreign)};
  }
  if (LooksLikePerfScript(bytes)) return Format::kPerfScript;
  LineReader lines(text);
  std::string_view line;
  while (lines.Next(&line)) {
    line = Trim(line);
    if (line.empty() || line.starts_with('#')) continue;
    if (ParseNumber<int64_t>(line.substr(line.find_last_of(" \t") + 1)) &&
        line.find_first_of(" \t") != std::string_view::npos) {
      return Format::kFolded;
    }
    // One stack may be longer than the prefix.
    if (lines.rest().empty() && bytes.size() >= kSniffedBytes &&
        line.find(';') != std::string_view::npos) {
      return Format::kFolded;
    }
    break;
  }
  return Error{ErrorCode::kInvalidInput,
               StrFormat("not a profile or recording: it is {}", internal::DescribeForeign(bytes))};
}

}  // namespace

Result<Format> SniffFormat(Bytes prefix) {
  if (!internal::IsGzip(prefix) && !internal::IsZstd(prefix)) return SniffPlain(prefix);
  TRY_ASSIGN(const std::string plain, internal::InflatePrefix(prefix, kSniffedBytes));
  return SniffPlain(AsBytes(plain));
}

namespace {

Result<Profile> DecodePlain(Bytes bytes, Format format, const DecodeLimits& limits) {
  switch (format) {
    case Format::kPprof:
      return DecodePprof(bytes, limits);
    case Format::kFolded:
      return ReadFolded(bytes);
    case Format::kPerfScript:
      return ReadPerfScript(bytes);
    case Format::kLegacyProfile:
      return ReadLegacyProfile(bytes, limits);
    case Format::kArchive: {
      TRY_ASSIGN(const ArchiveReader archive, ArchiveReader::Open(bytes));
      return archive.ReadProfile(limits);
    }
    default:
      return Error{
          ErrorCode::kUnsupported,
          StrFormat("a file of format '{}' cannot be read as a profile", TraitsOf(format).name)};
  }
}

}  // namespace

Result<Profile> DecodeAny(Bytes bytes, std::string_view name, const DecodeLimits& limits) {
  std::string inflated;
  const auto decode = [&]() -> Result<Profile> {
    TRY_ASSIGN(const Format format, SniffFormat(bytes));
    if (format == Format::kPprof || (!internal::IsGzip(bytes) && !internal::IsZstd(bytes))) {
      return DecodePlain(bytes, format, limits);
    }
    TRY_ASSIGN(inflated, internal::Inflate(bytes, limits.plain_bytes_max));
    return DecodePlain(AsBytes(inflated), format, limits);
  };
  auto profile = decode();
  if (!profile) return std::move(profile).error().WithContext(name);
  return profile;
}

Result<ObjectWriteSummary> WriteObjectProfile(const ObjectBranches& branches, CodeLines* lines,
                                              Format format, const ObjectWriteOptions& options,
                                              ByteSink* sink) {
  ObjectWriteSummary summary;
  switch (format) {
    case Format::kAutofdo: {
      TRY_ASSIGN(const AutofdoSummary written, WriteAutofdo(branches, lines, sink));
      summary.without_function = written.blocks_without_function;
      summary.by_symbols = written.by_symbols;
      return summary;
    }
    case Format::kBolt: {
      TRY_ASSIGN(const BoltSummary written, WriteBoltFdata(branches, lines, sink));
      summary.without_function = written.branches_without_function;
      return summary;
    }
    case Format::kBoltPreaggregated: {
      TRY_ASSIGN(const BoltSummary written,
                 WriteBoltPreaggregated(branches, options.dialect, lines, sink));
      summary.without_function = written.branches_without_function;
      return summary;
    }
    default:
      return Error{ErrorCode::kUnsupported,
                   StrFormat("the format '{}' is not made from one object's branches",
                             TraitsOf(format).name)};
  }
}

Status WriteProfile(const Profile& profile, Format format, const WriteOptions& options,
                    ByteSink* sink) {
  TRY(profile.CheckValid());
  TRY_ASSIGN(const size_t sample_type, profile.SampleTypeIndex(options.sample_type));
  switch (format) {
    case Format::kPprof:
      return WritePprof(profile, sink, options.pprof);
    case Format::kFolded:
      return WriteFolded(profile, {.sample_type = sample_type}, sink);
    case Format::kSpeedscope:
      return WriteSpeedscope(profile, {.sample_type = sample_type, .title = options.title}, sink);
    case Format::kFirefox:
      return WriteFirefox(profile, {.sample_type = sample_type, .title = options.title}, sink);
    case Format::kPerfetto:
      return WritePerfetto(profile, sink);
    case Format::kChromeTrace:
      return WriteChromeTrace(profile, sink);
    case Format::kHtml:
      return WriteHtml(profile,
                       {.page = options.html_template,
                        .sample_type = sample_type,
                        .title = options.title,
                        .other = options.other,
                        .other_title = options.other_title},
                       sink);
    case Format::kArchive: {
      TRY_ASSIGN(ArchiveWriter archive, ArchiveWriter::Begin(sink));
      TRY(archive.AddProfile(profile));
      if (!options.host_json.empty())
        TRY(archive.Add(ArchiveSection::kHost, "", AsBytes(options.host_json)));
      return archive.Finish();
    }
    default:
      return Error{ErrorCode::kUnsupported,
                   StrFormat("the format '{}' is not made from a profile", TraitsOf(format).name)};
  }
}

}  // namespace ptarmigan
