// Every recording made by others that has texts of perf 6.1 beside it: what we deliver equals what perf prints.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/str_format.h"
#include "decode/perf_data_file.h"
#include "decode/record_types.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

struct SeenSample {
  uint32_t event;
  int32_t pid;
  int32_t tid;
  uint64_t ip;
  uint64_t first_in_chain;  // without markers; 0 if there is none
  uint64_t ip_in_file;      // the ip's offset in the mapped file, else the ip
  uint64_t period;
  uint64_t time_ns;
  bool has_time;
  bool guest;
};

// Keeps what the texts speak of, and counts events by perf's names of record types.
class RecordingSink : public EventSink {
 public:
  void OnSample(const CapturedSample& sample) override {
    uint64_t first = 0;
    for (const uint64_t entry : sample.chain) {
      if (IsContextMarker(entry)) continue;
      first = entry;
      break;
    }
    samples.push_back({sample.event, sample.identity.pid, sample.identity.tid, sample.ip.value,
                       first, InFile(sample.identity.pid, sample.ip.value), sample.period,
                       sample.identity.time_ns, sample.identity.has_time, IsGuest(sample.cpumode)});
    ++counts["SAMPLE"];
  }
  void OnMmap(const MmapEvent& mmap) override {
    maps_[mmap.pid].push_back({mmap.start.value, mmap.length_bytes, mmap.file_offset.value});
    ++counts["MMAP"];
  }
  void OnComm(const CommEvent&) override { ++counts["COMM"]; }
  void OnFork(const TaskEvent& fork) override {
    if (fork.pid != fork.parent_pid) maps_[fork.pid] = maps_[fork.parent_pid];
    ++counts["FORK"];
  }
  void OnExit(const TaskEvent&) override { ++counts["EXIT"]; }
  void OnLost(const LostEvent& lost) override {
    ++counts[lost.samples_only ? "LOST_SAMPLES" : "LOST"];
  }
  void OnThrottle(const ThrottleEvent& event) override {
    ++counts[event.throttled ? "THROTTLE" : "UNTHROTTLE"];
  }
  void OnSwitch(const SwitchEvent&) override { ++counts["SWITCH"]; }
  void OnKsymbol(const KsymbolEvent&) override { ++counts["KSYMBOL"]; }
  void OnTextPoke(const TextPokeEvent&) override { ++counts["TEXT_POKE"]; }
  void OnCgroup(const CgroupEvent&) override { ++counts["CGROUP"]; }
  void OnAux(const AuxEvent&) override { ++counts["AUX"]; }
  void OnAuxChunk(const AuxChunk&) override { ++counts["AUXTRACE"]; }
  void OnOther(const OtherRecord& record) override {
    switch (record.type) {
      case kRecordItraceStart:
        ++counts["ITRACE_START"];
        break;
      case kRecordNamespaces:
        ++counts["NAMESPACES"];
        break;
      case kRecordBpfEvent:
        ++counts["BPF_EVENT"];
        break;
      case kRecordAuxOutputHwId:
        ++counts["AUX_OUTPUT_HW_ID"];
        break;
      case kRecordAuxtraceInfo:
        ++counts["AUXTRACE_INFO"];
        break;
      case kRecordThreadMap:
        ++counts["THREAD_MAP"];
        break;
      case kRecordCpuMap:
        ++counts["CPU_MAP"];
        break;
      case kRecordTimeConv:
        ++counts["TIME_CONV"];
        break;
      case kRecordFinishedInit:
        ++counts["FINISHED_INIT"];
        break;
      default:
        ++counts[StrFormat("type {}", record.type)];
        break;
    }
  }

  std::vector<SeenSample> samples;
  std::map<std::string, uint64_t> counts;

 private:
  struct Map {
    uint64_t start;
    uint64_t length;
    uint64_t file_offset;
  };
  uint64_t InFile(int32_t pid, uint64_t ip) const {
    const auto maps = maps_.find(pid);
    if (maps == maps_.end()) return ip;
    for (auto map = maps->second.rbegin(); map != maps->second.rend(); ++map) {
      if (ip - map->start < map->length) return ip - map->start + map->file_offset;
    }
    return ip;
  }
  std::map<int32_t, std::vector<Map>> maps_;
};

struct Drained {
  std::string bytes;
  std::unique_ptr<EventSource> source;
  RecordingSink sink;
};

std::unique_ptr<Drained> Drain(const std::string& path) {
  auto drained = std::make_unique<Drained>();
  drained->bytes = ReadTestFile(path);
  auto source = OpenPerfDataBytes(AsBytes(drained->bytes), path);
  if (!source) {
    ADD_FAILURE() << source.error().message;
    return nullptr;
  }
  drained->source = *std::move(source);
  for (;;) {
    const auto outcome = drained->source->Poll(drained->sink);
    if (!outcome) {
      ADD_FAILURE() << outcome.error().message;
      return nullptr;
    }
    if (*outcome == PollOutcome::kEnd) break;
  }
  EXPECT_TRUE(drained->source->losses().Balances());
  return drained;
}

template <typename T>
std::optional<T> Number(std::string_view text, int base = 10) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words;
  for (;;) {
    const size_t start = line.find_first_not_of(" \t");
    if (start == std::string_view::npos) return words;
    line.remove_prefix(start);
    const size_t end = line.find_first_of(" \t");
    words.push_back(line.substr(0, end));
    line.remove_prefix(end == std::string_view::npos ? line.size() : end);
  }
}

// One sample of `perf script -F ...`; -1 and nothing where the text does not say.
struct PrintedSample {
  int32_t pid = -1;
  int32_t tid = -1;
  std::optional<uint64_t> time_us;
  std::optional<uint64_t> period;
  std::optional<uint64_t> ip;
  std::string event;
};

// "43325196.779752:" -> microseconds
std::optional<uint64_t> PrintedTime(std::string_view word) {
  const size_t dot = word.find('.');
  if (dot == std::string_view::npos || word.size() != dot + 8 || word.back() != ':')
    return std::nullopt;
  const auto seconds = Number<uint64_t>(word.substr(0, dot));
  const auto micros = Number<uint64_t>(word.substr(dot + 1, 6));
  if (!seconds || !micros) return std::nullopt;
  return *seconds * 1000000 + *micros;
}

PrintedSample ParsePrinted(std::string_view line, bool has_ids, bool has_period) {
  PrintedSample sample;
  const std::vector<std::string_view> words = Words(line);
  size_t next = 0;
  if (has_ids) {
    // A comm may hold spaces: the time is found first, and pid/tid is before it.
    while (next < words.size() && !PrintedTime(words[next])) ++next;
    if (next == words.size()) {
      ADD_FAILURE() << "no time in: " << line;
      return sample;
    }
    sample.time_us = PrintedTime(words[next]);
    size_t ids = next - 1;
    if (words[ids].starts_with('[')) --ids;
    // "5802/5802", or the tid is padded away: "0/0"
    const size_t slash = words[ids].find('/');
    sample.pid = Number<int32_t>(words[ids].substr(0, slash)).value_or(-2);
    sample.tid = Number<int32_t>(words[ids].substr(slash + 1)).value_or(-2);
    ++next;
    if (has_period) sample.period = Number<uint64_t>(words[next++]);
  } else {
    next = words.size() - 1;
  }
  sample.event = words[next].substr(0, words[next].size() - 1);
  if (next + 1 < words.size()) sample.ip = Number<uint64_t>(words.back(), 16);
  return sample;
}

std::vector<PrintedSample> ParseScript(const std::string& text, bool* has_ids) {
  std::vector<PrintedSample> printed;
  const std::vector<std::string_view> lines = Lines(text);
  const std::string_view fields = lines.front().substr(lines.front().find("-F ") + 3);
  *has_ids = fields.find("pid") != std::string_view::npos;
  const bool has_period = fields.find("period") != std::string_view::npos;
  bool chain = false;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty() || lines[i].starts_with('#')) continue;
    if (!lines[i].starts_with('\t')) {
      printed.push_back(ParsePrinted(lines[i], *has_ids, has_period));
      chain = i + 1 < lines.size() && (lines[i + 1].starts_with('\t') || lines[i + 1].empty());
      if (chain) printed.back().ip.reset();
      continue;
    }
    // The first line of the call chain.
    if (chain) printed.back().ip = Number<uint64_t>(Words(lines[i]).front(), 16);
    chain = false;
  }
  return printed;
}

bool SameAddress(const SeenSample& seen, uint64_t printed) {
  // In call chains perf prints user addresses as offsets into the file.
  return printed == seen.ip || printed == seen.first_in_chain || printed == seen.ip_in_file;
}

struct Golden {
  std::string recording;  // relative to the data folder, as found
  std::string base;       // path of the texts without their ending
};

void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.recording; }

// Recordings with a text of that ending beside them.
std::vector<Golden> GoldensWith(const std::string& ending) {
  std::vector<Golden> goldens;
  const std::string root = TestDataPath("");
  if (root.empty()) return goldens;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    std::string path = entry.path().string();
    if (path.ends_with(".gz")) path.resize(path.size() - 3);
    if (!entry.is_regular_file() || !path.ends_with(ending)) continue;
    const std::string base = path.substr(0, path.size() - ending.size());
    for (const std::string& recording : {base, base + ".gz"}) {
      if (std::filesystem::exists(recording)) {
        goldens.push_back({recording, base});
        break;
      }
    }
  }
  std::sort(goldens.begin(), goldens.end(),
            [](const Golden& a, const Golden& b) { return a.recording < b.recording; });
  return goldens;
}

std::string ReadText(const std::string& path) {
  return ReadTestFile(std::filesystem::exists(path) ? path : path + ".gz");
}

std::string TestName(const ::testing::TestParamInfo<Golden>& info) {
  std::string name;
  const std::filesystem::path path(info.param.recording);
  for (const char c : path.parent_path().filename().string() + "_" + path.filename().string()) {
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return name;
}

std::string BareName(std::string_view name) { return std::string(NameWithoutModifiers(name)); }

// --- perf script ---

class PerfScript : public ::testing::TestWithParam<Golden> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PerfScript);

TEST_P(PerfScript, ShowsTheSamplesThatWeDeliver) {
  bool has_ids = false;
  const std::vector<PrintedSample> printed =
      ParseScript(ReadText(GetParam().base + ".perf-script.txt"), &has_ids);
  const auto drained = Drain(GetParam().recording);
  ASSERT_NE(drained, nullptr);
  std::vector<SeenSample> seen;
  // perf script drops guest samples.
  for (const SeenSample& sample : drained->sink.samples) {
    if (!sample.guest) seen.push_back(sample);
  }
  ASSERT_EQ(seen.size(), printed.size());
  size_t wrong = 0;
  for (size_t i = 0; i < seen.size() && wrong < 10; ++i) {
    const PrintedSample& expected = printed[i];
    const std::string& name = drained->source->description().events[seen[i].event].name;
    bool same = BareName(name) == BareName(expected.event);
    if (has_ids) {
      same = same && seen[i].pid == expected.pid && seen[i].tid == expected.tid &&
             (!expected.time_us || *expected.time_us == seen[i].time_ns / 1000) &&
             (!expected.period || *expected.period == seen[i].period) &&
             (!expected.ip || SameAddress(seen[i], *expected.ip));
    }
    if (same) continue;
    ++wrong;
    ADD_FAILURE() << StrFormat(
        "sample {}: {} {}/{} time {} period {} ip {:x} chain {:x}; perf: {} {}/{} {} {} {:x}", i,
        name, seen[i].pid, seen[i].tid, seen[i].time_ns / 1000, seen[i].period, seen[i].ip,
        seen[i].first_in_chain, expected.event, expected.pid, expected.tid,
        expected.time_us.value_or(0), expected.period.value_or(0), expected.ip.value_or(0));
  }
}

INSTANTIATE_TEST_SUITE_P(Recordings, PerfScript,
                         ::testing::ValuesIn(GoldensWith(".perf-script.txt")), TestName);

// --- perf report --stats, perf evlist ---

class PerfHeader : public ::testing::TestWithParam<Golden> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PerfHeader);

// Types that end in the reader and reach no sink.
bool IsOurOwnBusiness(std::string_view type) {
  for (const std::string_view own :
       {"TOTAL", "ATTR", "EVENT_TYPE", "TRACING_DATA", "BUILD_ID", "FINISHED_ROUND", "ID_INDEX",
        "EVENT_UPDATE", "FEATURE", "COMPRESSED", "COMPRESSED2"}) {
    if (type == own) return true;
  }
  return false;
}

TEST_P(PerfHeader, CountsTheRecordsThatWeDeliver) {
  const auto drained = Drain(GetParam().recording);
  ASSERT_NE(drained, nullptr);
  EXPECT_FALSE(drained->source->description().events.empty());
  std::map<std::string, uint64_t> expected;
  std::vector<std::string> names;
  bool in_evlist = false;
  bool aggregated = false;
  uint64_t samples_by_event = 0;  // a group's sample counts once for each of its events
  const std::string text = ReadText(GetParam().base + ".perf-header.txt");
  for (const std::string_view line : Lines(text)) {
    if (line.starts_with("# perf evlist")) {
      in_evlist = true;
    } else if (line.starts_with("# perf report")) {
      in_evlist = false;
    } else if (in_evlist && line.find(": ") != std::string_view::npos && !line.starts_with('#')) {
      names.emplace_back(line.substr(0, line.find(": ")));
    } else if (line.starts_with("Aggregated stats")) {
      aggregated = true;
    } else if (aggregated && !line.starts_with(' ')) {
      aggregated = false;
    } else if (!aggregated && line.find("SAMPLE events:") != std::string_view::npos) {
      samples_by_event += Number<uint64_t>(Words(line).back()).value_or(0);
    } else if (aggregated) {
      const std::vector<std::string_view> words = Words(line);
      if (words.size() < 3 || words[1] != "events:" || IsOurOwnBusiness(words[0])) continue;
      std::string type(words[0]);
      if (type == "MMAP2") type = "MMAP";
      if (type == "SWITCH_CPU_WIDE") type = "SWITCH";
      expected[type] += Number<uint64_t>(words[2]).value_or(0);
    }
  }
  if (samples_by_event > 0) expected["SAMPLE"] = samples_by_event;
  if (expected.empty()) {
    // perf 6.1 refuses this recording: it is read all the same.
    EXPECT_GT(drained->sink.counts["SAMPLE"], 0U);
    return;
  }
  std::vector<std::string> own_names;
  for (const EventDescription& event : drained->source->description().events)
    own_names.push_back(event.name);
  ASSERT_TRUE(names.empty() || own_names.size() == names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].starts_with("unknown attr type")) continue;
    EXPECT_EQ(BareName(own_names[i]), BareName(names[i]));
  }
  for (const auto& [type, count] : expected) EXPECT_EQ(drained->sink.counts[type], count) << type;
  for (const auto& [type, count] : drained->sink.counts) EXPECT_EQ(expected[type], count) << type;
}

INSTANTIATE_TEST_SUITE_P(Recordings, PerfHeader,
                         ::testing::ValuesIn(GoldensWith(".perf-header.txt")), TestName);

// --- quipper's text of every event ---

constexpr uint64_t kSplitMappingsMax = 6;

class QuipperText : public ::testing::TestWithParam<Golden> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(QuipperText);

TEST_P(QuipperText, ListsTheRecordsThatWeDeliver) {
  static const std::map<std::string_view, std::string> kTypes = {
      {"mmap_event", "MMAP"},
      {"comm_event", "COMM"},
      {"fork_event", "FORK"},
      {"exit_event", "EXIT"},
      {"sample_event", "SAMPLE"},
      {"lost_event", "LOST"},
      {"aux_event", "AUX"},
      {"lost_samples_event", "LOST_SAMPLES"},
      {"throttle_event", "THROTTLE"},
      {"context_switch_event", "SWITCH"},
      {"auxtrace_event", "AUXTRACE"},
      {"itrace_start_event", "ITRACE_START"},
      {"namespaces_event", "NAMESPACES"},
      {"auxtrace_info_event", "AUXTRACE_INFO"},
      {"time_conv_event", "TIME_CONV"},
      {"thread_map_event", "THREAD_MAP"}};
  std::map<std::string, uint64_t> expected;
  const std::string text = ReadText(GetParam().base + ".pb_text");
  for (const std::string_view line : Lines(text)) {
    if (!line.starts_with("  ") || !line.ends_with(" {")) continue;
    const auto type = kTypes.find(line.substr(2, line.size() - 4));
    if (type != kTypes.end()) ++expected[type->second];
  }
  const auto drained = Drain(GetParam().recording);
  ASSERT_NE(drained, nullptr);
  // Its throttle events are both kinds.
  drained->sink.counts["THROTTLE"] += drained->sink.counts["UNTHROTTLE"];
  drained->sink.counts.erase("UNTHROTTLE");
  // It joins the pieces of a mapping that huge pages had split; PerfHeader compares the exact number.
  EXPECT_GE(drained->sink.counts["MMAP"], expected["MMAP"]);
  EXPECT_LE(drained->sink.counts["MMAP"], expected["MMAP"] + kSplitMappingsMax);
  expected["MMAP"] = drained->sink.counts["MMAP"];
  for (const auto& [name, type] : kTypes)
    EXPECT_EQ(drained->sink.counts[type], expected[type]) << type;
}

INSTANTIATE_TEST_SUITE_P(Recordings, QuipperText, ::testing::ValuesIn(GoldensWith(".pb_text")),
                         TestName);

// --- the other converter's totals ---

class PerfToProfile : public ::testing::TestWithParam<Golden> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PerfToProfile);

TEST_P(PerfToProfile, HasTheTotalsThatWeDeliver) {
  if (GetParam().recording.find(".perf_data.pb") != std::string::npos)
    GTEST_SKIP() << "quipper's own format";
  if (GetParam().recording.find("spe-wrapped") != std::string::npos) {
    GTEST_SKIP() << "its samples are made from the trace (decoded elsewhere), not read";
  }
  const std::string text = ReadText(GetParam().base + ".p2p.txt");
  const auto drained = Drain(GetParam().recording);
  ASSERT_NE(drained, nullptr);
  std::vector<uint64_t> expected;  // samples and period sum by event
  bool refused = false;
  for (const std::string_view line : Lines(text)) {
    if (line.starts_with("result\texit 1")) refused = true;
    const size_t type = line.find("/count\t");
    if (type == std::string_view::npos || line.starts_with('#')) continue;
    const std::string_view value = line.substr(type + 7);
    expected.push_back(Number<uint64_t>(value.substr(0, value.find('\t'))).value_or(UINT64_MAX));
  }
  const auto& events = drained->source->description().events;
  if (refused) {
    // What it refuses for registers, zstd or one damaged record, we read. Some hold a trace and no samples.
    EXPECT_GT(
        drained->sink.counts["SAMPLE"] + drained->sink.counts["AUX"] + drained->sink.counts["MMAP"],
        0U);
    return;
  }
  ASSERT_EQ(expected.size(), 2 * events.size());
  std::vector<uint64_t> totals(expected.size());
  for (const SeenSample& sample : drained->sink.samples) {
    totals[2 * sample.event] += 1;
    totals[2 * sample.event + 1] += sample.period;
  }
  EXPECT_EQ(totals, expected);
}

INSTANTIATE_TEST_SUITE_P(Recordings, PerfToProfile, ::testing::ValuesIn(GoldensWith(".p2p.txt")),
                         TestName);

// --- what perf 6.1 refuses for its age, or stops at ---

struct Refused {
  const char* recording;
  uint64_t samples;  // counted by walking over the records' headers with other tools
};

void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.recording; }

class RefusedByPerf : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedByPerf, IsReadAllTheSame) {
  const std::string path = TestDataPath(GetParam().recording);
  if (path.empty()) GTEST_SKIP() << TestDataMissing(GetParam().recording);
  const auto drained = Drain(path);
  ASSERT_NE(drained, nullptr);
  EXPECT_EQ(drained->sink.samples.size(), GetParam().samples);
  EXPECT_EQ(drained->source->losses().Lost(LossStage::kParse, LossReason::kUnknownEvent), 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Recordings, RefusedByPerf,
    ::testing::Values(
        // attrs of perf 6.14 and newer
        Refused{"kdab-perfparser/cpp-inlining.perf.data", 539},
        Refused{"linux-perf-data/sleep.data", 7},
        Refused{"linux-perf-data/sleep.compressed.data", 8},
        Refused{"linux-perf-data/sleep.compressed2.data", 7},
        // simpleperf's several events, whose sample types differ
        Refused{"simpleperf/perf_with_trace_offcpu_v2.data", 304},
        Refused{"simpleperf/perf_with_tracepoint_event.data", 45},
        Refused{"simpleperf/debug_unwind_small_map_range.data", 1},
        // 228 records, one of which has the size 0
        Refused{"perf_data_converter/perf.data.piped.corrupted.zero_size_sample-3.2", 227}),
    [](const auto& tested) {
      std::string name;
      for (const char c : std::string(tested.param.recording)) {
        name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
      }
      return name;
    });

// --- the rest ---

TEST(Goldens, AreThere) {
  if (TestDataPath("perf_data_converter").empty())
    GTEST_SKIP() << TestDataMissing("perf_data_converter/...");
  EXPECT_GE(GoldensWith(".perf-script.txt").size(), 40U);
  EXPECT_GE(GoldensWith(".pb_text").size(), 15U);
}

}  // namespace
}  // namespace ptarmigan
