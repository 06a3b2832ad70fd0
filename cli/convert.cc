#include <CLI/CLI.hpp>
#include <memory>
#include <string_view>

#include "base/file.h"
#include "base/log.h"
#include "base/str_format.h"
#include "cli/common_options.h"
#include "export/formats.h"
#include "web/embedded.h"

namespace ptarmigan::cli {
namespace {

struct ConvertOptions {
  std::vector<std::string> inputs;
  std::string output;
  std::string format;
  CommonOptions common;
};

Status Convert(const ConvertOptions& options) {
  TRY_ASSIGN(const Format format, options.format.empty() ? FormatFromPath(options.output)
                                                         : FormatFromName(options.format));
  TRY_ASSIGN(const ImportOptions import, MakeImportOptions(options.common));
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
  TRY(WriteProfile(profile, format, write, &sink));
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
