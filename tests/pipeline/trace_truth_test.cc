// Control-flow traces of recordings whose true flow is known (pt-synth), through the whole pipeline: what each thread ran,
// what each function did, in which stacks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/str_format.h"
#include "pipeline/import.h"
#include "tests/support/test_data.h"
#include "tests/support/truth_table.h"

namespace ptarmigan {
namespace {

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// As the truth calls an object.
std::string ModuleOf(std::string_view object) {
  const std::string_view name = BaseName(object);
  return name == "anon" ? "[jit]" : std::string(name);
}

class PtSynth : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string path = TestDataPath("pt-synth/" + GetParam() + ".perf.data");
    if (path.empty()) GTEST_SKIP() << TestDataMissing("pt-synth");
    ImportOptions options;
    options.symbolizer.binary_paths = {TestDataPath("pt-synth/symfs")};
    options.pipeline.trace.digest = true;
    options.pipeline.trace.intervals_max = size_t{1} << 20;
    auto profile = ReadProfile(path, options);
    ASSERT_TRUE(profile) << profile.error().message;
    profile_ = std::move(*profile);
    const TruthTable functions = Truth("functions");
    for (size_t row = 0; row < functions.size(); ++row) {
      const std::string module(functions.Cell(row, "#module"));
      const std::string name(functions.Cell(row, "name"));
      names_[{module, name}] = name;
      std::string aliases(functions.Cell(row, "aliases"));
      for (size_t at = 0; at < aliases.size();) {
        const size_t end = std::min(aliases.find(',', at), aliases.size());
        names_.try_emplace({module, aliases.substr(at, end - at)}, name);
        at = end + 1;
      }
    }
  }
  static TruthTable Truth(const std::string& table) {
    return TruthTable(
        ReadTestFile(TestDataPath("pt-synth/truth/" + GetParam() + "." + table + ".tsv.gz")));
  }
  // What the truth calls a function: code that no symbol covers there is called by its module.
  std::string NameOf(const std::string& module, std::string_view name) const {
    const auto found = names_.find({module, std::string(name)});
    return found != names_.end() ? found->second : "[unknown]@" + module;
  }
  std::string NameOf(LocationId id) const {
    const Profile::Location& location = profile_.locations[id];
    const auto lines = profile_.Lines(location);
    std::string_view name;
    if (!lines.empty() && lines.back().function != kNoId) {
      name = profile_.Text(profile_.functions[lines.back().function].system_name);
    }
    const std::string_view object = location.mapping == kNoId
                                        ? std::string_view()
                                        : profile_.Text(profile_.mappings[location.mapping].file);
    return NameOf(ModuleOf(object), name);
  }

  Profile profile_;

 private:
  std::map<std::pair<std::string, std::string>, std::string> names_;  // aliases to names
};

TEST_P(PtSynth, EveryThreadRanWhatItRan) {
  const TruthTable truth = Truth("flow");
  std::map<std::string, std::pair<std::string, std::string>> expected;
  for (size_t row = 0; row < truth.size(); ++row) {
    expected[std::string(truth.Cell(row, "#tid"))] = {std::string(truth.Cell(row, "instructions")),
                                                      std::string(truth.Cell(row, "fnv1a64"))};
  }
  std::map<std::string, std::pair<std::string, std::string>> seen;
  for (const FlowSummary::Thread& thread : profile_.summary.flow.threads) {
    if (thread.instructions == 0) continue;
    ASSERT_TRUE(thread.ip_digest);
    seen[StrFormat("{}", thread.tid)] = {StrFormat("{}", thread.instructions),
                                         StrFormat("{:016x}", *thread.ip_digest)};
  }
  EXPECT_EQ(seen, expected);
}

TEST_P(PtSynth, NoSegmentOfAnIntactTraceIsDoubted) {
  for (const FlowSummary::Thread& thread : profile_.summary.flow.threads) {
    EXPECT_EQ(thread.suspect, 0U);
    EXPECT_EQ(thread.bad, 0U);
    EXPECT_TRUE(thread.errors.empty());
  }
}

// Functions are compared by name where both sides have one. Entries of a PLT whose slot the dynamic linker fills by a function
// of its own (IRELATIVE), and a PLT's first entry, have a name or an address of their own here; the truth gives them to the
// symbol before them, _init, or to none. So objects are compared by their sums, too.
struct FunctionCounts {
  uint64_t instructions = 0;
  uint64_t calls = 0;
  uint64_t indirect_calls = 0;
  bool operator==(const FunctionCounts&) const = default;
  void Add(const FunctionCounts& other) {
    instructions += other.instructions;
    calls += other.calls;
    indirect_calls += other.indirect_calls;
  }
  friend std::ostream& operator<<(std::ostream& out, const FunctionCounts& counts) {
    return out << counts.instructions << " instructions, " << counts.calls << " calls, "
               << counts.indirect_calls << " indirect calls";
  }
};

TEST_P(PtSynth, EveryFunctionDidWhatItDid) {
  // A call whose target is behind a gap is in the truth, but in no trace.
  const bool has_gaps = GetParam().find("ovf") != std::string::npos ||
                        GetParam().find("ring") != std::string::npos ||
                        GetParam().find("samples") != std::string::npos;
  using Key = std::pair<std::string, std::string>;
  std::map<Key, FunctionCounts> expected;
  std::map<Key, FunctionCounts> seen;
  const TruthTable truth = Truth("functions");
  for (size_t row = 0; row < truth.size(); ++row) {
    const auto number = [&](std::string_view column) {
      return std::stoull(std::string(truth.Cell(row, column)));
    };
    FunctionCounts counts{.instructions = number("self_instructions")};
    if (!has_gaps) {
      counts.calls = number("direct_calls");
      counts.indirect_calls = number("indirect_calls");
    }
    expected[{std::string(truth.Cell(row, "#module")), std::string(truth.Cell(row, "name"))}].Add(
        counts);
  }
  for (const FlowSummary::Function& function : profile_.summary.flow.functions) {
    const Profile::Location& location = profile_.locations[function.location];
    const std::string module = ModuleOf(profile_.Text(profile_.mappings[location.mapping].file));
    FunctionCounts counts{.instructions = function.instructions};
    if (!has_gaps) {
      counts.calls = function.calls;
      counts.indirect_calls = function.indirect_calls;
    }
    seen[{module, NameOf(function.location)}].Add(counts);
  }
  std::map<std::string, FunctionCounts> expected_of_module;
  std::map<std::string, FunctionCounts> seen_of_module;
  for (const auto& [key, counts] : expected) expected_of_module[key.first].Add(counts);
  for (const auto& [key, counts] : seen) seen_of_module[key.first].Add(counts);
  EXPECT_EQ(seen_of_module, expected_of_module);
  size_t compared = 0;
  for (const auto& [key, counts] : expected) {
    if (key.second.starts_with("[unknown]") || key.second == "_init") continue;
    EXPECT_EQ(seen[key], counts) << key.first << " " << key.second;
    ++compared;
  }
  EXPECT_GT(compared, 2U);
}

// Of the instructions, what share ran in exactly the stack that the truth has for them. The truth's stacks go by the stack
// pointer, which no trace holds: the instructions of swapcontext behind its change of stacks belong to the other one there.
TEST_P(PtSynth, StacksAreThoseThatThereWere) {
  double share_min = 0.999;
  if (GetParam().starts_with("coro")) share_min = 0.97;
  if (GetParam().find("ovf") != std::string::npos || GetParam().find("ring") != std::string::npos ||
      GetParam().find("samples") != std::string::npos) {
    GTEST_SKIP() << "who called what runs behind a gap is in the truth, but in no trace";
  }
  std::map<std::string, uint64_t> expected;
  uint64_t whole = 0;
  const TruthTable truth = Truth("folded");
  for (size_t row = 0; row < truth.size(); ++row) {
    const uint64_t count = std::stoull(std::string(truth.Cell(row, "instructions")));
    expected[std::string(truth.Cell(row, "stack"))] += count;
    whole += count;
  }
  const auto column = profile_.SampleTypeIndex("instructions");
  ASSERT_TRUE(column);
  std::map<std::string, uint64_t> seen;
  uint64_t sum = 0;
  for (size_t i = 0; i < profile_.samples.size(); ++i) {
    const auto count = static_cast<uint64_t>(profile_.Values(i)[*column]);
    std::string stack;
    for (const LocationId id : profile_.Stack(profile_.samples[i].stack)) {
      stack.insert(0, NameOf(id) + (stack.empty() ? "" : ";"));
    }
    seen[stack] += count;
    sum += count;
  }
  EXPECT_EQ(sum, whole);
  uint64_t same = 0;
  for (const auto& [stack, count] : expected) {
    const auto found = seen.find(stack);
    if (found != seen.end()) same += std::min(count, found->second);
  }
  EXPECT_GE(static_cast<double>(same), share_min * static_cast<double>(whole));
}

TEST_P(PtSynth, CyclesAreCountedWhereTheTraceCountsThem) {
  const TruthTable manifest(ReadTestFile(TestDataPath("pt-synth/MANIFEST.tsv")));
  bool has_cycles = false;
  for (size_t row = 0; row < manifest.size(); ++row) {
    if (manifest.Cell(row, "file") != GetParam() + ".perf.data") continue;
    has_cycles = manifest.Cell(row, "settings").find("cyc=1") != std::string_view::npos;
  }
  const auto cycles = profile_.SampleTypeIndex("cycles");
  ASSERT_EQ(cycles.has_value(), has_cycles);
  if (!has_cycles) return;
  const auto wall = profile_.SampleTypeIndex("wall");
  ASSERT_TRUE(wall.has_value());
  // Threads wait for each other; time passes while packets are lost.
  if (GetParam().starts_with("threads") || GetParam().find("ovf") != std::string::npos) return;
  // Three cycles of the core are three ticks of the clock are a nanosecond there.
  const auto totals = profile_.Totals();
  EXPECT_NEAR(static_cast<double>(totals[*cycles]), 3.0 * static_cast<double>(totals[*wall]),
              0.02 * static_cast<double>(totals[*cycles]));
}

// Time of the recording's clock (pt-synth's README).
uint64_t NsOf(uint64_t tsc) {
  __extension__ using Wide = unsigned __int128;
  return 5000000000 + static_cast<uint64_t>(Wide{tsc} * 715827883 >> 31);
}

// A call of the truth.
struct TrueCall {
  int32_t tid = 0;
  uint32_t depth = 0;
  std::string callee;
  uint64_t call_ip = 0;
  uint64_t entry_ip = 0;
  uint64_t enter_n = 0;  // step of all threads
  uint64_t exit_n = 0;
  uint64_t enter_ns = 0;
  uint64_t exit_ns = 0;
  bool is_signal = false;
  std::string exit;
};

class PtSynthCalls : public PtSynth {
 protected:
  static constexpr uint64_t kInvisible = UINT64_MAX;

  void SetUp() override {
    PtSynth::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const TruthTable truth = Truth("calls");
    for (size_t row = 0; row < truth.size(); ++row) {
      const auto number = [&](std::string_view column, int base = 10) {
        const std::string text(truth.Cell(row, column));
        return text == "-" ? 0 : std::stoull(text, nullptr, base);
      };
      TrueCall& call = calls_.emplace_back();
      call.tid = static_cast<int32_t>(number("tid"));
      call.depth = static_cast<uint32_t>(number("depth"));
      call.callee = truth.Cell(row, "callee");
      call.call_ip = number("call_ip", 16);
      call.entry_ip = number("entry_ip", 16);
      call.enter_n = number("enter_n");
      call.exit_n = number("exit_n");
      call.enter_ns = NsOf(number("enter_tsc"));
      call.exit_ns = NsOf(number("exit_tsc"));
      call.is_signal = truth.Cell(row, "kind") == "signal";
      call.exit = truth.Cell(row, "exit");
    }
    const TruthTable segments = Truth("segments");
    uint64_t before = 0;
    for (size_t row = 0; row < segments.size(); ++row) {
      const uint64_t size = std::stoull(std::string(segments.Cell(row, "instructions")));
      segments_.push_back({std::stoull(std::string(segments.Cell(row, "first_n"))), size, before});
      before += size;
    }
  }
  static bool HasGaps() {
    return GetParam().find("ovf") != std::string::npos ||
           GetParam().find("ring") != std::string::npos ||
           GetParam().find("samples") != std::string::npos;
  }
  static bool IsThreads() { return GetParam().starts_with("threads"); }
  // The instructions that a thread's trace shows before step `n`, if step `first` and all up to `n` are in one piece.
  uint64_t IndexOf(uint64_t first, uint64_t n) const {
    for (const Segment& segment : segments_) {
      if (first >= segment.first_n && n <= segment.first_n + segment.size) {
        return segment.before + (n - segment.first_n);
      }
    }
    return kInvisible;
  }
  // As the truth has them: calls and signals, not tail calls.
  static bool IsCall(const FlowSummary::Interval& interval) {
    return interval.entry == FlowSummary::Entry::kCall ||
           interval.entry == FlowSummary::Entry::kInterrupt;
  }
  void ExpectSame(const FlowSummary::Interval& seen, const TrueCall& expected,
                  const std::string& what) {
    // Where no symbol covers the code, the truth has no name either; entries of a PLT are _init there.
    // Of code that a JIT compiler replaced it has one name per address.
    const uint64_t entry = profile_.locations[seen.function].address;
    if (!expected.callee.starts_with("[unknown]") && expected.callee != "_init" &&
        entry != expected.entry_ip) {
      EXPECT_EQ(NameOf(seen.function), expected.callee) << what;
    }
    EXPECT_EQ(seen.entry == FlowSummary::Entry::kInterrupt, expected.is_signal) << what;
    if (seen.caller != kNoId && !expected.is_signal) {
      EXPECT_EQ(profile_.locations[seen.caller].address & 0xfff, expected.call_ip & 0xfff) << what;
    }
    const bool is_bounded = seen.uncertainty_ns != FlowSummary::Interval::kUnbounded;
    if (seen.begin_ns == 0 || !is_bounded) return;
    CompareTimes(seen.begin_ns, expected.enter_ns, seen.uncertainty_ns);
    if (expected.exit == "ret") {
      CompareTimes(seen.end_ns, expected.exit_ns, seen.uncertainty_ns);
    }
  }
  // What is said of how far times may be off holds, but for a few of those that CYC packets tell.
  void ExpectTimesAsStated() const {
    EXPECT_LE(times_beyond_ * 20, times_compared_);
    EXPECT_LE(farthest_beyond_ns_, 3000U);
  }

  std::vector<TrueCall> calls_;

 private:
  // (Nanoseconds are rounded.)
  void CompareTimes(uint64_t seen_ns, uint64_t true_ns, uint64_t uncertainty_ns) {
    const uint64_t off = seen_ns < true_ns ? true_ns - seen_ns : seen_ns - true_ns;
    ++times_compared_;
    if (off <= uncertainty_ns + 2) return;
    ++times_beyond_;
    farthest_beyond_ns_ = std::max(farthest_beyond_ns_, off - uncertainty_ns);
  }

  uint64_t times_compared_ = 0;
  uint64_t times_beyond_ = 0;  // what was stated
  uint64_t farthest_beyond_ns_ = 0;
  struct Segment {
    uint64_t first_n;
    uint64_t size;
    uint64_t before;
  };
  std::vector<Segment> segments_;
};

// Of one thread, step by step: calls that began and ended where the trace shows every instruction are exactly there.
TEST_P(PtSynthCalls, CallsBeganAndEndedWhenTheyDid) {
  if (IsThreads()) GTEST_SKIP() << "the truth numbers the steps of all threads together";
  std::map<std::pair<uint64_t, bool>, const FlowSummary::Interval*> by_begin;
  for (const FlowSummary::Interval& interval : profile_.summary.flow.intervals) {
    if (IsCall(interval)) by_begin[{interval.begin_instruction, true}] = &interval;
  }
  size_t compared = 0;
  size_t left = 0;
  for (const TrueCall& call : calls_) {
    if (HasFailure()) break;
    if (call.exit == "open") continue;
    const uint64_t begin = IndexOf(call.enter_n - 1, call.enter_n);
    const uint64_t end = IndexOf(call.enter_n - 1, call.exit_n);
    if (begin == kInvisible || end == kInvisible) continue;
    const std::string what = StrFormat("{} at step {} ({})", call.callee, call.enter_n, call.exit);
    const auto found = by_begin.find({begin, true});
    ASSERT_NE(found, by_begin.end()) << what;
    const FlowSummary::Interval& seen = *found->second;
    ExpectSame(seen, call, what);
    if (call.exit == "ret") {
      EXPECT_EQ(seen.begin_instruction + seen.instructions, end) << what;
      EXPECT_EQ(seen.exit, FlowSummary::Exit::kReturn) << what;
    } else {
      // The truth goes by the stack pointer, which moves some instructions before control does. A stack that is left for
      // good (a coroutine's) is unwound there; no trace says that nobody will come back.
      if (seen.exit == FlowSummary::Exit::kOpen) {
        ++left;
      } else {
        EXPECT_LE(end, seen.begin_instruction + seen.instructions) << what;
        EXPECT_LE(seen.begin_instruction + seen.instructions, end + 16) << what;
      }
    }
    ++compared;
  }
  EXPECT_GT(compared, calls_.size() / 4);
  EXPECT_LE(left, GetParam().starts_with("coro") || HasGaps() ? 4U : 0U);
  ExpectTimesAsStated();
}

// The same calls in the same order, of each thread.
TEST_P(PtSynthCalls, ThreadsCalledWhatTheyCalled) {
  if (HasGaps()) GTEST_SKIP() << "calls across gaps are in the truth, but in no trace";
  const FlowSummary& flow = profile_.summary.flow;
  std::map<int32_t, std::vector<const FlowSummary::Interval*>> seen;
  std::map<int32_t, bool> has_begun;
  std::map<int32_t, std::vector<const TrueCall*>> expected;
  for (const TrueCall& call : calls_) expected[call.tid].push_back(&call);
  std::vector<const FlowSummary::Interval*> in_order;
  for (const FlowSummary::Interval& interval : flow.intervals) in_order.push_back(&interval);
  std::ranges::stable_sort(in_order, {}, [](const FlowSummary::Interval* interval) {
    return std::pair(interval->thread, interval->begin_instruction);
  });
  for (const FlowSummary::Interval* interval : in_order) {
    if (!IsCall(*interval)) continue;
    const int32_t tid = flow.threads[interval->thread].tid;
    if (!expected.contains(tid)) continue;
    has_begun[tid] |= NameOf(interval->function) == expected[tid].front()->callee;
    if (has_begun[tid]) seen[tid].push_back(interval);
  }
  for (const auto& [tid, calls] : expected) {
    ASSERT_GE(seen[tid].size(), calls.size()) << tid;
    // (Where the truth begins.)
    for (size_t i = 0; i < calls.size(); ++i) {
      const FlowSummary::Interval& interval = *seen[tid][i];
      const std::string what = StrFormat("{}: call {} of {}", tid, i, calls[i]->callee);
      ExpectSame(interval, *calls[i], what);
      EXPECT_EQ(calls[i]->exit == "open", interval.exit == FlowSummary::Exit::kOpen) << what;
      if (HasFailure()) return;
    }
  }
  ExpectTimesAsStated();
}

TEST_P(PtSynthCalls, SumsByCalleeAndCallerEqualTheIntervals) {
  const FlowSummary& flow = profile_.summary.flow;
  EXPECT_EQ(flow.intervals_cut, 0U);
  using Key = std::tuple<LocationId, LocationId, FlowSummary::Entry>;
  std::map<Key, FlowSummary::Calls> sums;
  for (const FlowSummary::Interval& interval : flow.intervals) {
    if (interval.entry == FlowSummary::Entry::kUnknown) continue;
    if (interval.exit == FlowSummary::Exit::kOpen) continue;
    FlowSummary::Calls& calls = sums[{interval.function, interval.caller, interval.entry}];
    ++calls.count;
    calls.instructions += interval.instructions;
    if (interval.exit == FlowSummary::Exit::kUnwound) ++calls.unwound;
    if (interval.begin_ns != 0) calls.total.Add(interval.end_ns - interval.begin_ns);
  }
  EXPECT_EQ(flow.calls.size(), sums.size());
  uint64_t self = 0;
  uint64_t self_ns = 0;
  for (const FlowSummary::Calls& calls : flow.calls) {
    const FlowSummary::Calls& sum = sums[{calls.callee, calls.caller, calls.entry}];
    EXPECT_EQ(calls.count, sum.count);
    EXPECT_EQ(calls.unwound, sum.unwound);
    EXPECT_EQ(calls.instructions, sum.instructions);
    EXPECT_TRUE(calls.total == sum.total);
    EXPECT_EQ(calls.self.count(), calls.total.count());
    EXPECT_LE(calls.self.sum_ns(), calls.total.sum_ns());
    EXPECT_LE(calls.self_instructions, calls.instructions);
    self += calls.self_instructions;
    self_ns += calls.self.sum_ns();
  }
  uint64_t all = 0;
  uint64_t all_ns = 0;
  for (const FlowSummary::Thread& thread : flow.threads) {
    all += thread.instructions;
    all_ns += thread.end_ns - thread.begin_ns;
  }
  EXPECT_LE(self, all);
  EXPECT_LE(self_ns, all_ns);
}

// Slices of one stack nest: none begins inside of another and ends outside of it.
TEST_P(PtSynthCalls, IntervalsOfAStackNest) {
  std::vector<const FlowSummary::Interval*> open;
  const FlowSummary::Interval* last = nullptr;
  for (const FlowSummary::Interval& interval : profile_.summary.flow.intervals) {
    if (last == nullptr || last->thread != interval.thread || last->stack != interval.stack) {
      open.clear();
    }
    last = &interval;
    const auto end = [](const FlowSummary::Interval& of) {
      return of.begin_instruction + of.instructions;
    };
    while (!open.empty() && end(*open.back()) <= interval.begin_instruction) open.pop_back();
    if (!open.empty()) {
      ASSERT_LE(end(interval), end(*open.back()));
      ASSERT_LE(open.back()->depth, interval.depth);
      if (interval.begin_ns != 0) {
        ASSERT_LE(open.back()->begin_ns, interval.begin_ns);
        ASSERT_LE(interval.end_ns, open.back()->end_ns);
      }
    }
    ASSERT_LE(interval.begin_ns, interval.end_ns);
    open.push_back(&interval);
  }
}

const auto kRecordings = testing::Values(
    "shapes.ret-mtc-psb2k", "shapes.noret-mtc-psb4k", "shapes.ret-cyc", "shapes.tsconly",
    "shapes.ovf", "shapes.irq", "shapes.chunked", "shapes.samples", "shapes.ring",
    "dispatch.noret-cyc-psb4k", "dispatch.ret-mtc-buildidmmap", "dispatch.samples-overlap",
    "dispatch.ovf-irq", "dispatch.notime", "coro.ret-mtc", "coro.pad-tnt64", "coro.samples",
    "coro.ring", "jit.ret-mtc", "jit.noret-cyc", "threads.perthread-ret-cyc",
    "threads.perthread-mtc-irq", "threads.percpu-cyc");

std::string TestName(const testing::TestParamInfo<std::string>& test) {
  std::string name = test.param;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Recordings, PtSynth, kRecordings, TestName);
INSTANTIATE_TEST_SUITE_P(Recordings, PtSynthCalls, kRecordings, TestName);

// Damage in the trace itself, or around it.
class DamagedPtSynth : public testing::TestWithParam<std::string> {
 protected:
  static std::optional<FlowSummary> Flow(const std::string& path) {
    ImportOptions options;
    options.symbolizer.binary_paths = {TestDataPath("pt-synth/symfs")};
    auto profile = ReadProfile(path, options);
    if (!profile) return std::nullopt;
    return std::move(profile->summary.flow);
  }
  static uint64_t BytesOf(const FlowSummary& flow) {
    uint64_t sum = 0;
    for (const FlowSummary::Thread& thread : flow.threads) sum += thread.bytes.Sum();
    return sum;
  }
};

TEST_P(DamagedPtSynth, EveryByteHasOneCount) {
  const std::string path = TestDataPath("pt-synth/corrupt/" + GetParam() + ".perf.data");
  if (path.empty()) GTEST_SKIP() << TestDataMissing("pt-synth");
  const std::string intact = GetParam().substr(0, GetParam().rfind('.'));
  const auto whole = Flow(TestDataPath("pt-synth/" + intact + ".perf.data"));
  const auto flow = Flow(path);
  ASSERT_TRUE(whole && flow);
  EXPECT_EQ(BytesOf(*flow), BytesOf(*whole));
}

INSTANTIATE_TEST_SUITE_P(
    Recordings, DamagedPtSynth,
    testing::Values("dispatch.noret-cyc-psb4k.auxflip0", "dispatch.noret-cyc-psb4k.auxflip1",
                    "dispatch.noret-cyc-psb4k.auxflip2", "shapes.ret-mtc-psb2k.auxflip0",
                    "shapes.ret-mtc-psb2k.auxflip1", "shapes.ret-mtc-psb2k.auxflip2",
                    "shapes.ret-mtc-psb2k.auxpartial", "shapes.ret-mtc-psb2k.auxtrunc",
                    "shapes.ret-mtc-psb2k.nobuildid", "shapes.ret-mtc-psb2k.nomap",
                    "shapes.ret-mtc-psb2k.zeroref", "shapes.samples.auxflip0",
                    "shapes.samples.auxflip1", "shapes.samples.auxflip2"),
    [](const auto& test) {
      std::string name = test.param;
      std::ranges::replace_if(
          name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
      return name;
    });

}  // namespace
}  // namespace ptarmigan
