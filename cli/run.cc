#include "cli/run.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "cli/common_options.h"

namespace ptarmigan::cli {

int Run(int argc, char** argv) {
  const std::string_view called_as = argc > 0 ? argv[0] : "ptarmigan";
  if (called_as.substr(called_as.rfind('/') + 1) == "perf_to_profile")
    return RunPerfToProfile(argc, argv);

  // What stands behind "--" belongs to a command or to a second list of files, never to our own options.
  std::vector<std::string> words(argv + 1, argv + argc);
  TrailingWords trailing;
  const auto separator = std::find(words.begin(), words.end(), "--");
  if (separator != words.end()) {
    trailing.assign(separator + 1, words.end());
    words.erase(separator, words.end());
  }

  CLI::App app("Hardware-assisted profiler: samples or recordings in, pprof and reports out",
               "ptarmigan");
  app.require_subcommand(1);
  app.set_help_flag("-h,--help", "Print this help");
  VerbFunction verb;
  AddDoctor(&app, &verb);
  AddRecord(&app, trailing, &verb);
  AddConvert(&app, &verb);
  AddReport(&app, &verb);
  AddVersion(&app, &verb);
  AddCompletion(&app, &verb);
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone : kExitInputError;
  }
  return verb();
}

}  // namespace ptarmigan::cli
