// ptarmigan: one binary, a verb per job. docs/commands.md says what a user can rely on.
#include <csignal>
#include <exception>

#include "base/heap.h"
#include "base/log.h"
#include "cli/common_options.h"
#include "cli/run.h"
#include "symbolize/symbolizer.h"

int main(int argc, char** argv) {
  ptarmigan::UseLargePagesForHeap();
  int exit_code = 0;
  if (ptarmigan::RunSymbolizerChildIfAsked(argc, argv, &exit_code)) return exit_code;
  // A reader that goes away (`| head`) is an error of write(2), not a silent death.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return ptarmigan::cli::Run(argc, argv);
  } catch (const std::exception& error) {
    ptarmigan::Log(ptarmigan::LogLevel::kError, error.what());
    return ptarmigan::cli::kExitInputError;
  }
}
