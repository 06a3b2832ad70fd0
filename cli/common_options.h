// Options that several verbs share, and small parsers of command-line values.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/import.h"

namespace ptarmigan::cli {

// Exit codes of every verb (docs/commands.md).
constexpr int kExitDone = 0;
constexpr int kExitConditionFound =
    1;  // what was asked for is there (a failed check, a regression)
constexpr int kExitInputError = 2;

// Calls in time that are kept of a trace, the longest ones (TraceOptions::intervals_max). Archives hold fewer.
constexpr size_t kTimelineIntervalsMax = size_t{1} << 21;
constexpr size_t kArchiveIntervalsMax = size_t{1} << 18;

// Common to record, convert, report, diff and push.
struct CommonOptions {
  std::vector<std::string> binary_paths;
  std::vector<std::string> debuginfod_urls;
  bool no_symbols = false;
  bool no_inlines = false;
  bool no_demangle = false;
  std::string sample_type;
  size_t threads = 0;
  std::string memory_limit;
  std::string decoder = "fast";     // of Intel PT: fast, libipt, both
  std::vector<std::string> labels;  // extra labels: cpu, command
};

void AddCommonOptions(CLI::App* app, CommonOptions* options);
// kInvalidInput for values that make no sense.
Result<ImportOptions> MakeImportOptions(const CommonOptions& options);

// The smaller of `intervals_max` and what fits into half of the memory limit, if there is one.
size_t IntervalsWithin(const ImportOptions& options, size_t intervals_max);

// "30s", "500ms", "50us", "2m", "1h", "1.5" (seconds).
Result<std::chrono::nanoseconds> ParseDuration(std::string_view text);
// "421.999965691": seconds of a recording's clock, as perf prints them; nanoseconds come out exact.
Result<uint64_t> ParseMoment(std::string_view text);
// "1G", "512M", "64k", "1048576".
Result<uint64_t> ParseSize(std::string_view text);

// A verb: the function that runs once its options are parsed. Returns the exit code.
using VerbFunction = std::function<int()>;
// What stands behind "--" on the command line (a command to run).
using TrailingWords = std::vector<std::string>;

// Each adds its subcommand to `app` and sets *chosen when it was asked for.
void AddConvert(CLI::App* app, VerbFunction* chosen);
void AddReport(CLI::App* app, VerbFunction* chosen);
void AddRecord(CLI::App* app, const TrailingWords& trailing, VerbFunction* chosen);
void AddDoctor(CLI::App* app, VerbFunction* chosen);
void AddVersion(CLI::App* app, VerbFunction* chosen);
void AddCompletion(CLI::App* app, VerbFunction* chosen);

// `perf_to_profile -i IN -o OUT [-f]`, as Go's pprof calls it.
int RunPerfToProfile(int argc, char** argv);

// Reads and merges the inputs.
Result<Profile> ReadProfiles(const std::vector<std::string>& paths, const ImportOptions& options);
// Prints "ptarmigan: error: <sentence>" and gives the exit code for it.
int Fail(const Error& error);
// The last line of stderr where input was partly bad; nothing if nothing was lost.
void PrintLosses(const LossLedger& losses);
Status WriteStandardOutput(std::string_view text);

// A progress bar on stderr if it is a terminal, erased by Done or the destructor.
class ProgressBar {
 public:
  explicit ProgressBar(std::string title);
  ~ProgressBar() { Done(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void Update(double fraction, uint64_t samples);
  void Done();

 private:
  std::string title_;
  bool is_terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

// Whether results may be coloured: stdout is a terminal and NO_COLOR is not set.
bool UseColour();
// Columns of the terminal on stdout, 120 where there is none.
size_t TerminalWidth();

}  // namespace ptarmigan::cli
