// CoreSight traces as control flow: random programs whose runs are known, written by our own encoder as an ETMv4 in frames
// and as an ETE without.
#include "decode/coresight_flow.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "decode/call_stack_builder.h"
#include "tests/encoders/etm_encoder.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

constexpr uint8_t kTraceId = 0x12;

CoreSightSetup SetupOf(EtmProtocol protocol) {
  CoreSightSetup setup;
  setup.units.push_back(
      {.cpu = 3,
       .protocol = protocol,
       .config = 1 << 11,  // TRCCONFIGR.TS
       .trace_id = kTraceId,
       .idr0 = 0x28000ea1,  // 64-bit time stamps, return stack, conditional branches as atoms
       .idr1 = protocol == EtmProtocol::kEte ? 0x4100fff3U : 0x4100f403U,
       .idr2 = 0x20001088,
       .idr8 = 0,
       .devarch = 0x47705a13});
  return setup;
}

ArrayCodeImage ImageOf(const A64Program& program) {
  ArrayCodeImage image;
  image.AddRegion({.start = {A64Program::kBase}, .bytes = AsBytes(program.code())});
  for (size_t i = 0; i < program.functions().size(); ++i) {
    const bool is_last = i + 1 == program.functions().size();
    const size_t end = is_last ? program.instructions().size() : program.functions()[i + 1];
    image.AddFunction({.start = {A64Program::AddressOf(program.functions()[i])},
                       .end = {A64Program::AddressOf(end)}});
  }
  return image;
}

// What the segments say, put together.
class Seen : public FlowSink {
 public:
  void OnFlowSegment(const FlowGraph& graph, const FlowSegment& segment) override {
    for (const uint32_t edge : segment.path) {
      const CodeBlock& block = graph.blocks[graph.edges[edge].to];
      for (uint32_t i = 0; i < block.instructions; ++i) path.push_back(block.start.value + 4 * i);
    }
    for (const EdgeCount& count : segment.edges) {
      const FlowEdge& edge = graph.edges[count.edge];
      if (!edge.taken) continue;
      branches[{graph.blocks[edge.from].last.value, graph.blocks[edge.to].start.value}] +=
          count.count;
    }
    builder.Add(graph, segment);
    graph_ = graph;
    bytes += segment.bytes;
    bad += segment.trust == FlowTrust::kBad ? 1 : 0;
    segments.push_back(segment);
  }
  std::map<std::vector<uint64_t>, uint64_t> Stacks() const {
    std::map<std::vector<uint64_t>, uint64_t> stacks;
    for (const CallTreeNode& node : builder.contexts()) {
      if (node.instructions == 0) continue;
      std::vector<uint64_t> stack = {graph_.blocks[node.block].function.value};
      for (uint32_t up = node.parent; up != kNoFlowId; up = builder.contexts()[up].parent) {
        stack.insert(stack.begin(), graph_.blocks[builder.contexts()[up].block].function.value);
      }
      stacks[stack] += node.instructions;
    }
    return stacks;
  }

  std::vector<uint64_t> path;
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> branches;
  CallStackBuilder builder;
  FlowBytes bytes;
  uint64_t bad = 0;
  std::vector<FlowSegment> segments;

 private:
  FlowGraph graph_;
};

struct Case {
  EtmProtocol protocol;
  uint64_t seed;
};

void PrintTo(const Case& test, std::ostream* out) {
  *out << EtmProtocolName(test.protocol) << " seed " << test.seed;
}

class CoreSightFlowOf : public testing::TestWithParam<Case> {
 protected:
  // Decodes pieces of `bytes` (all of it, if none are given).
  void Decode(const std::string& bytes, const CodeImage& image, Seen* seen,
              std::vector<TracePiece> pieces = {}) {
    const CoreSightSetup setup = SetupOf(GetParam().protocol);
    CoreSightFlowOptions options;
    options.want_path = true;
    options.time = TimeConversion{.shift = 0, .mult = 10};
    auto flow = CoreSightFlow::Create(setup, {{3, kTraceId}}, options);
    ASSERT_TRUE(flow) << flow.error().message;
    for (TracePiece& piece : pieces) piece.is_formatted = is_formatted();
    CoreSightStream stream;
    stream.bytes = AsBytes(bytes);
    stream.cpu = 3;
    stream.pieces = pieces;
    stream.occupants = {{.owner = 7, .image = &image}};
    const Status decoded = (*flow)->Decode(stream, *seen);
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(seen->bytes.Sum(), bytes.size());
    statistics_ = (*flow)->statistics();
    EXPECT_EQ(statistics_.bytes.Sum(), bytes.size());
  }
  bool is_formatted() const { return GetParam().protocol == EtmProtocol::kEtm4; }
  std::string Wrapped(const std::string& packets) const {
    return is_formatted() ? InFrames(packets, kTraceId) : packets;
  }

  FlowStatistics statistics_;
};

TEST_P(CoreSightFlowOf, ARunIsWhatRan) {
  const A64Program program(GetParam().seed);
  const ArrayCodeImage image = ImageOf(program);
  const EtmRun run(program, {.seed = GetParam().seed + 1});
  Seen seen;
  Decode(Wrapped(run.bytes), image, &seen);
  EXPECT_EQ(seen.path, run.path);
  EXPECT_EQ(seen.branches, run.branches);
  EXPECT_EQ(seen.Stacks(), run.stacks);
  EXPECT_EQ(seen.bad, 0U);
  EXPECT_EQ(statistics_.instructions, run.path.size());
}

TEST_P(CoreSightFlowOf, InterruptsTimeStampsAndSyncsDoNotDisturbIt) {
  const A64Program program(GetParam().seed);
  const ArrayCodeImage image = ImageOf(program);
  const EtmRun run(program, {.seed = GetParam().seed + 2,
                             .instructions_max = 5000,
                             .interrupts_apart = 70,
                             .timestamps_apart = 10,
                             .syncs_apart = 50});
  Seen seen;
  Decode(Wrapped(run.bytes), image, &seen);
  EXPECT_EQ(seen.path, run.path);
  EXPECT_EQ(seen.branches, run.branches);
  EXPECT_EQ(seen.Stacks(), run.stacks);
  EXPECT_EQ(seen.bad, 0U);
  ASSERT_FALSE(seen.segments.empty());
  EXPECT_TRUE(seen.segments.back().has_time);
  EXPECT_EQ(seen.segments.back().end_ticks, 10 * run.timestamps.back());
}

// The kernel hands out a buffer in pieces; in each the unit starts afresh, where it was interrupted.
TEST_P(CoreSightFlowOf, PiecesOfABufferAreOneRun) {
  const A64Program program(GetParam().seed);
  const ArrayCodeImage image = ImageOf(program);
  const EtmRun run(program, {.seed = GetParam().seed + 3});
  const std::string whole = Wrapped(run.bytes);
  const std::string twice = whole + std::string(32, '\0') + whole;
  Seen seen;
  Decode(twice, image, &seen,
         {{.begin = 0, .end = whole.size()}, {.begin = whole.size() + 32, .end = twice.size()}});
  std::vector<uint64_t> path = run.path;
  path.insert(path.end(), run.path.begin(), run.path.end());
  EXPECT_EQ(seen.path, path);
  EXPECT_GE(seen.bytes.padding, 32U);
  EXPECT_EQ(seen.bad, 0U);
}

TEST_P(CoreSightFlowOf, CodeThatIsMissingIsCounted) {
  const A64Program program(GetParam().seed);
  ArrayCodeImage image;
  image.AddMissingObject(
      {.start = {A64Program::kBase}, .end = {A64Program::AddressOf(program.instructions().size())}},
      "libgone.so");
  const EtmRun run(program, {.seed = GetParam().seed});
  Seen seen;
  Decode(Wrapped(run.bytes), image, &seen);
  EXPECT_TRUE(seen.path.empty());
  EXPECT_GT(seen.bytes.no_image, 0U);
  ASSERT_EQ(statistics_.missing.size(), 1U);
  EXPECT_EQ(statistics_.missing[0].name, "libgone.so");
  EXPECT_EQ(statistics_.missing[0].bytes, seen.bytes.no_image);
  EXPECT_EQ(statistics_.missing[0].first_address.value, run.path.front());
}

// Wherever a trace is cut, what stands before the cut is what ran, and every byte has one count.
TEST_P(CoreSightFlowOf, ATraceCutAnywhereIsTheBeginningOfTheRun) {
  const A64Program program(GetParam().seed);
  const ArrayCodeImage image = ImageOf(program);
  const EtmRun run(program,
                   {.seed = GetParam().seed, .instructions_max = 150, .interrupts_apart = 40});
  for (size_t size = 0; size <= run.bytes.size(); ++size) {
    Seen seen;
    Decode(Wrapped(run.bytes.substr(0, size)), image, &seen);
    if (HasFatalFailure()) return;
    ASSERT_LE(seen.path.size(), run.path.size());
    ASSERT_TRUE(std::equal(seen.path.begin(), seen.path.end(), run.path.begin())) << size;
  }
}

TEST_P(CoreSightFlowOf, FlippedBitsNeitherCrashNorUnbalanceTheCounts) {
  const A64Program program(GetParam().seed);
  const ArrayCodeImage image = ImageOf(program);
  const EtmRun run(program, {.seed = GetParam().seed, .instructions_max = 300, .syncs_apart = 30});
  const std::string whole = Wrapped(run.bytes);
  for (size_t bit = 0; bit < 8 * whole.size(); bit += 7) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    Seen seen;
    Decode(flipped, image, &seen);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, CoreSightFlowOf, testing::ValuesIn([] {
                           std::vector<Case> cases;
                           for (uint64_t seed = 1; seed <= 10; ++seed) {
                             cases.push_back({EtmProtocol::kEtm4, seed});
                             cases.push_back({EtmProtocol::kEte, seed});
                           }
                           return cases;
                         }()));

}  // namespace
}  // namespace ptarmigan
