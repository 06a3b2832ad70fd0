// Control-flow traces of recordings whose true flow is known (pt-synth), through the whole pipeline: what each thread ran,
// what each function did, in which stacks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
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

INSTANTIATE_TEST_SUITE_P(
    Recordings, PtSynth,
    testing::Values("shapes.ret-mtc-psb2k", "shapes.noret-mtc-psb4k", "shapes.ret-cyc",
                    "shapes.tsconly", "shapes.ovf", "shapes.irq", "shapes.chunked",
                    "shapes.samples", "shapes.ring", "dispatch.noret-cyc-psb4k",
                    "dispatch.ret-mtc-buildidmmap", "dispatch.samples-overlap", "dispatch.ovf-irq",
                    "dispatch.notime", "coro.ret-mtc", "coro.pad-tnt64", "coro.samples",
                    "coro.ring", "jit.ret-mtc", "jit.noret-cyc", "threads.perthread-ret-cyc",
                    "threads.perthread-mtc-irq", "threads.percpu-cyc"),
    [](const auto& test) {
      std::string name = test.param;
      std::ranges::replace_if(
          name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
      return name;
    });

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
