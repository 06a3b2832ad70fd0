#include <CLI/CLI.hpp>
#include <memory>
#include <string_view>

#include "base/file.h"
#include "base/log.h"
#include "base/str_format.h"
#include "cli/common_options.h"
#include "export/formats.h"
#include "pipeline/object_branches.h"
#include "web/embedded.h"

namespace ptarmigan::cli {
namespace {

struct ConvertOptions {
  std::vector<std::string> inputs;
  std::string output;
  std::string format;
  std::string binary;
  bool bolt_traces = false;
  CommonOptions common;
};

// A profile for a compiler or optimizer is one of one binary: what else was recorded is told, not silently left out.
Status WriteForObject(const ConvertOptions& options, const Profile& profile, Format format,
                      const SymbolizerOptions& symbols, ByteSink* sink) {
  TRY_ASSIGN(const PgoObject object, PgoObject::Select(profile, options.binary, symbols));
  const ObjectBranches& branches = object.branches();
  const ObjectWriteOptions write{.dialect = options.bolt_traces ? PreaggregatedDialect::kTraces
                                                                : PreaggregatedDialect::kBranches};
  TRY_ASSIGN(const ObjectWriteSummary summary,
             WriteObjectProfile(branches, object.lines(), format, write, sink));
  std::string left_out;
  const auto leave_out = [&](uint64_t count, std::string_view what) {
    if (count != 0) left_out += StrFormat("{}{} {}", left_out.empty() ? "" : ", ", count, what);
  };
  leave_out(branches.edges_elsewhere, "branches of other objects");
  leave_out(branches.branches_unplaced, "branches outside the file's segments");
  leave_out(branches.ranges_rejected, "executions that the code proves impossible");
  leave_out(summary.without_function, "executions or branches without a function");
  if (summary.by_symbols) {
    LogWarning(StrFormat(
        "{}: debug information names none of the code that ran, so only functions are counted; "
        "compile it with -g1 or more, or tell where its debug file is",
        branches.path));
  }
  if (!left_out.empty() || options.binary.empty()) {
    LogWarning(StrFormat("the profile is that of {}{}{}", branches.path,
                         left_out.empty() ? "" : "; left out: ", left_out));
  }
  return OkStatus();
}

Status Convert(const ConvertOptions& options) {
  TRY_ASSIGN(const Format format, options.format.empty() ? FormatFromPath(options.output)
                                                         : FormatFromName(options.format));
  TRY_ASSIGN(ImportOptions import, MakeImportOptions(options.common));
  import.binary = options.binary;
  import.pipeline.memory_details = format == Format::kArchive;
  if (format == Format::kArchive) {
    import.pipeline.trace.intervals_max = IntervalsWithin(import, kArchiveIntervalsMax);
  }
  if (format == Format::kPerfetto || format == Format::kChromeTrace) {
    import.pipeline.trace.intervals_max = IntervalsWithin(import, kTimelineIntervalsMax);
  }
  if (PathExists(options.binary)) {
    // The recording may call it otherwise than by this path.
    import.symbolizer.binary_paths.push_back(
        options.binary.substr(0, options.binary.rfind('/') + 1) + ".");
  }
  TRY_ASSIGN(const Profile profile, ReadProfiles(options.inputs, import));
  if (profile.samples.empty()) {
    PrintLosses(profile.losses);
    return Error{
        ErrorCode::kInvalidInput,
        StrFormat("{}: holds no samples, so there is nothing to write", options.inputs.front())};
  }
  WriteOptions write;
  write.sample_type = options.common.sample_type;
  write.html_template = ReportHtmlTemplate();
  TRY_ASSIGN(OutputFile out, OutputFile::Create(options.output));
  FileSink sink(&out);
  if (TraitsOf(format).written_from_object) {
    TRY(WriteForObject(options, profile, format, import.symbolizer, &sink));
  } else {
    TRY(WriteProfile(profile, format, write, &sink));
  }
  TRY(out.Commit());
  PrintLosses(profile.losses);
  return OkStatus();
}

int RunConvert(const ConvertOptions& options) {
  const Status status = Convert(options);
  return status ? kExitDone : Fail(status.error());
}

}  // namespace

void AddConvert(CLI::App* app, VerbFunction* chosen) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* verb =
      app->add_subcommand("convert", "Turn recordings and profiles into other formats");
  verb->add_option("inputs", options->inputs,
                   "perf.data (- for pipe mode), pprof, folded stacks, perf script text, archives")
      ->required()
      ->type_name("IN");
  verb->add_option("-o,--output", options->output, "Where to write; the suffix chooses the format")
      ->required()
      ->type_name("OUT");
  verb->add_option("--to", options->format, "The format, whatever the suffix");
  verb->add_option("--binary", options->binary,
                   "autofdo, bolt: the object to write the profile of, by path, file name or build "
                   "id (default: the one with the most branches)")
      ->type_name("OBJECT");
  verb->add_flag("--bolt-traces", options->bolt_traces,
                 "bolt-preagg: write traces (T, R), which LLVM 20 and later read");
  AddCommonOptions(verb, &options->common);
  verb->callback([options, chosen] { *chosen = [options] { return RunConvert(*options); }; });
}

int RunPerfToProfile(int argc, char** argv) {
  auto options = std::make_shared<ConvertOptions>();
  options->inputs.resize(1);
  options->format = "pprof";
  CLI::App app("Turns a perf.data into a pprof profile", "perf_to_profile");
  bool force = false;
  app.add_option("-i", options->inputs[0], "The recording")->required();
  app.add_option("-o", options->output, "The profile")->required();
  app.add_flag("-f", force, "Replace the output file if it exists");
  bool jit_support = false;
  app.add_flag("-j", jit_support, "Accepted for compatibility: JIT symbols are always used");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone : kExitInputError;
  }
  if (!force && PathExists(options->output)) {
    return Fail({ErrorCode::kInvalidInput, options->output + ": exists; -f replaces it"});
  }
  return RunConvert(*options);
}

}  // namespace ptarmigan::cli
