#include "tests/encoders/pt_variety.h"

#include <algorithm>

#include "base/str_format.h"

namespace ptarmigan {

PtProgramOptions PtProgramOfSeed(uint64_t seed) {
  PtProgramOptions options;
  options.seed = seed;
  options.functions = 4 + seed % 13;
  options.is_64_bit = seed % 7 != 3;
  options.kernel = options.is_64_bit && seed % 5 == 0;
  return options;
}

PtWalkOptions PtWalkOfSeed(const PtProgramOptions& program) {
  PtWalkOptions options;
  options.seed = program.seed * 3 + 1;
  options.steps = 3000;
  options.threads = program.kernel ? 1 : 1 + program.seed % 3;
  options.cpus = 1 + program.seed % 2;
  options.signals_apart = program.seed % 3 == 0 ? 0 : 300;
  options.interrupts_apart = program.seed % 4 == 0 ? 0 : 200;
  return options;
}

PtTraceSettings PtSettingsOfSeed(uint64_t seed, const PtProgramOptions& program) {
  PtTraceSettings settings;
  settings.seed = seed;
  settings.return_compression = seed % 2 == 0;
  settings.tsc = seed % 11 != 1;
  settings.mtc = settings.tsc && seed % 5 != 1;
  settings.cyc = seed % 3 == 1;
  settings.cyc_threshold = seed % 6 == 1 ? 8 : 0;
  settings.frequency_changes = seed % 4 == 2;
  settings.psb_bytes = seed % 9 == 0 ? 0 : size_t{128} << seed % 3;
  settings.long_tnt = seed % 5 == 2;
  settings.padding = seed % 4 == 1;
  settings.vary_compression = seed % 3 == 0;
  settings.ptwrite = seed % 3 == 2;
  settings.transactions = seed % 7 == 5;
  settings.paging = seed % 5 == 3;
  settings.power = seed % 6 == 2;
  settings.event_trace = seed % 8 == 3;
  settings.triggers = seed % 8 == 5;
  settings.modes = seed % 7 == 4;
  settings.kernel = program.kernel && seed % 2 == 0;
  settings.overflows_apart = seed % 4 == 3 ? 400 : 0;
  settings.lost_max = 300;
  settings.restarts_apart = seed % 10 == 4 ? 500 : 0;
  settings.stop_at_end = seed % 13 == 5;
  return settings;
}

std::string PtFirstDifference(const std::vector<uint64_t>& expected,
                              const std::vector<uint64_t>& decoded) {
  const auto [e, d] =
      std::mismatch(expected.begin(), expected.end(), decoded.begin(), decoded.end());
  if (e == expected.end() && d == decoded.end()) return "";
  std::string text = StrFormat("{} expected, {} decoded; they part at {}:", expected.size(),
                               decoded.size(), e - expected.begin());
  for (auto at = e; at != expected.end() && at < e + 4; ++at) text += StrFormat(" {:x}", *at);
  text += " instead of";
  for (auto at = d; at != decoded.end() && at < d + 4; ++at) text += StrFormat(" {:x}", *at);
  return text;
}

}  // namespace ptarmigan
