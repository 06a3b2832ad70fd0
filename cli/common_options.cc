#include "cli/common_options.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "base/file.h"
#include "base/log.h"
#include "base/str_format.h"
#include "decode/pt_decoder.h"

namespace ptarmigan::cli {
namespace {

// A number and the letters behind it; nothing if there is no number.
struct NumberWithUnit {
  double number = 0;
  std::string_view unit;
};

Result<NumberWithUnit> SplitUnit(std::string_view text) {
  NumberWithUnit split;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), split.number);
  if (error != std::errc() || split.number < 0) {
    return Error{ErrorCode::kInvalidInput, StrFormat("'{}' is not a number with a unit", text)};
  }
  split.unit = text.substr(static_cast<size_t>(end - text.data()));
  return split;
}

}  // namespace

void AddCommonOptions(CLI::App* app, CommonOptions* options) {
  app->add_option("--binary-path", options->binary_paths,
                  "Where to look for objects: by build id, or by the recorded path below DIR")
      ->type_name("DIR")
      ->allow_extra_args(false);  // inputs may follow
  app->add_option("--debuginfod", options->debuginfod_urls,
                  "Ask this debuginfod server for debug files")
      ->type_name("URL")
      ->allow_extra_args(false);
  app->add_flag("--no-symbols", options->no_symbols, "Keep addresses only");
  app->add_flag("--no-inlines", options->no_inlines, "Leave inlined functions out");
  app->add_flag("--no-demangle", options->no_demangle, "Show names as linked");
  app->add_option("--sample-type", options->sample_type,
                  "The value to order by, or to write where a format has one")
      ->type_name("TYPE");
  app->add_option("--threads", options->threads,
                  "Threads for loading symbols and decoding traces (default: all processors)");
  app->add_option("--decoder", options->decoder,
                  "What decodes Intel PT: fast, libipt, or both, to compare them")
      ->type_name("NAME")
      ->check(CLI::IsMember({"fast", "libipt", "both"}));
  app->add_option("--memory-limit", options->memory_limit,
                  "Upper bound of this process's memory, e.g. 1G")
      ->type_name("SIZE");
  app->add_option("--label", options->labels, "More labels on samples: cpu; command (a comment)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"cpu", "command"}));
}

Result<ImportOptions> MakeImportOptions(const CommonOptions& options) {
  ImportOptions import;
  import.symbolizer.symbols = !options.no_symbols;
  import.symbolizer.inlines = !options.no_inlines;
  import.symbolizer.demangle = !options.no_demangle;
  import.symbolizer.binary_paths = options.binary_paths;
  import.symbolizer.debuginfod_urls = options.debuginfod_urls;
  import.symbolizer.threads = options.threads;
  import.pipeline.trace.threads =
      options.threads != 0 ? options.threads : std::max(std::thread::hardware_concurrency(), 1U);
  if (options.decoder == "libipt") import.pipeline.trace.pt_walker = PtWalkerKind::kLibipt;
  if (options.decoder == "both") import.pipeline.trace.pt_walker = PtWalkerKind::kBoth;
  for (const std::string& label : options.labels) {
    if (label == "cpu") import.pipeline.label_cpu = true;
    if (label == "command") import.pipeline.command_line = true;
  }
  if (!options.memory_limit.empty()) {
    TRY_ASSIGN(import.pipeline.memory_bytes_max, ParseSize(options.memory_limit));
  }
  return import;
}

size_t IntervalsWithin(const ImportOptions& options, size_t intervals_max) {
  // Each is in memory up to four times while it is sorted and named.
  constexpr uint64_t kBytes = 4 * sizeof(FlowSummary::Interval);
  const uint64_t limit = options.pipeline.memory_bytes_max;
  if (limit == 0) return intervals_max;
  return static_cast<size_t>(std::clamp<uint64_t>(limit / 2 / kBytes, 1, intervals_max));
}

Result<std::chrono::nanoseconds> ParseDuration(std::string_view text) {
  TRY_ASSIGN(const NumberWithUnit split, SplitUnit(text));
  double seconds = split.number;
  if (split.unit == "ns")
    seconds /= 1e9;
  else if (split.unit == "us")
    seconds /= 1e6;
  else if (split.unit == "ms")
    seconds /= 1000;
  else if (split.unit == "m" || split.unit == "min")
    seconds *= 60;
  else if (split.unit == "h")
    seconds *= 3600;
  else if (!split.unit.empty() && split.unit != "s") {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("'{}': the unit is one of ns, us, ms, s, m, h", text)};
  }
  constexpr double kSecondsMax = 1e9;  // 30 years
  if (seconds > kSecondsMax)
    return Error{ErrorCode::kInvalidInput, StrFormat("'{}' is too long", text)};
  return std::chrono::nanoseconds(std::llround(seconds * 1e9));
}

Result<uint64_t> ParseMoment(std::string_view text) {
  constexpr uint64_t kSecond = 1'000'000'000;
  constexpr size_t kDigits = 9;
  const size_t point = text.find('.');
  std::string nanoseconds(point == std::string_view::npos ? "" : text.substr(point + 1));
  nanoseconds.resize(std::max(nanoseconds.size(), kDigits), '0');
  const std::string_view whole = text.substr(0, point);
  const auto number = [](std::string_view digits, uint64_t* value) {
    const char* end = digits.data() + digits.size();
    const auto [at, error] = std::from_chars(digits.data(), end, *value);
    return error == std::errc() && at == end;
  };
  uint64_t seconds = 0;
  uint64_t fraction = 0;
  if (!number(whole, &seconds) ||
      !number(std::string_view(nanoseconds).substr(0, kDigits), &fraction) ||
      seconds > UINT64_MAX / kSecond - 1) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("'{}' is no time in seconds, like 421.999965691", text)};
  }
  return seconds * kSecond + fraction;
}

Result<uint64_t> ParseSize(std::string_view text) {
  TRY_ASSIGN(const NumberWithUnit split, SplitUnit(text));
  double scale = 1;
  std::string_view unit = split.unit;
  if (unit.ends_with("iB"))
    unit.remove_suffix(2);
  else if (unit.ends_with("B"))
    unit.remove_suffix(1);
  if (unit == "k" || unit == "K")
    scale = 1 << 10;
  else if (unit == "M")
    scale = 1 << 20;
  else if (unit == "G")
    scale = 1 << 30;
  else if (!unit.empty())
    return Error{ErrorCode::kInvalidInput, StrFormat("'{}': the unit is one of k, M, G", text)};
  constexpr double kBytesMax = 1e15;
  if (split.number * scale > kBytesMax)
    return Error{ErrorCode::kInvalidInput, StrFormat("'{}' is too large", text)};
  return static_cast<uint64_t>(split.number * scale);
}

Result<Profile> ReadProfiles(const std::vector<std::string>& paths, const ImportOptions& options) {
  std::vector<Profile> profiles;
  for (const std::string& path : paths) {
    ProgressBar bar(path);
    ImportOptions with_progress = options;
    with_progress.progress = [&bar](double fraction, uint64_t samples) {
      bar.Update(fraction, samples);
    };
    TRY_ASSIGN(Profile profile, ReadProfile(path, with_progress));
    profiles.push_back(std::move(profile));
  }
  if (profiles.size() == 1) return std::move(profiles.front());
  std::vector<const Profile*> pointers;
  pointers.reserve(profiles.size());
  for (const Profile& profile : profiles) pointers.push_back(&profile);
  return MergeProfiles(pointers);
}

int Fail(const Error& error) {
  Log(LogLevel::kError, error.message);
  return kExitInputError;
}

void PrintLosses(const LossLedger& losses) {
  const std::string sentence = losses.Sentence();
  if (!sentence.empty()) LogNotice(sentence);
}

Status WriteStandardOutput(std::string_view text) {
  return WriteAll(STDOUT_FILENO, AsBytes(text), "standard output");
}

ProgressBar::ProgressBar(std::string title)
    : title_(std::move(title)),
      is_terminal_(::isatty(STDERR_FILENO) == 1),
      // Nothing is shown for what is done at once.
      next_(std::chrono::steady_clock::now() + std::chrono::milliseconds(400)) {}

void ProgressBar::Update(double fraction, uint64_t samples) {
  if (!is_terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  shown_ = true;
  constexpr int kBarColumns = 30;
  std::string line = StrFormat("\r{}: ", title_);
  if (fraction >= 0) {
    const int filled = static_cast<int>(fraction * kBarColumns);
    line += StrFormat("[{}{}] {:3.0f} %  ", std::string(static_cast<size_t>(filled), '='),
                      std::string(static_cast<size_t>(kBarColumns - filled), ' '), fraction * 100);
  }
  line += StrFormat("{} samples\x1b[K", samples);
  [[maybe_unused]] const Status ignored = WriteAll(STDERR_FILENO, AsBytes(line), "standard error");
}

void ProgressBar::Done() {
  if (!shown_) return;
  shown_ = false;
  [[maybe_unused]] const Status ignored =
      WriteAll(STDERR_FILENO, AsBytes("\r\x1b[K"), "standard error");
}

bool UseColour() {
  const char* no_colour = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) == 1 && (no_colour == nullptr || *no_colour == '\0');
}

size_t TerminalWidth() {
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 120;
}

}  // namespace ptarmigan::cli
