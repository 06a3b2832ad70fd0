// The program behind main(), so that tests can call it.
#pragma once

namespace ptarmigan::cli {

// Parses the command line, runs one verb and returns its exit code (docs/commands.md).
int Run(int argc, char** argv);

}  // namespace ptarmigan::cli
