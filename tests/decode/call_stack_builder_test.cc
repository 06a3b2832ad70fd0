// Calls joined over segments: programs are acted out on a CallTracker, as a walker would, and what CallStackBuilder makes of
// its segments is compared with the play.
#include "decode/call_stack_builder.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/str_format.h"
#include "decode/internal/call_tracker.h"

namespace ptarmigan {
namespace {

// Functions are letters; function 'f' begins at AddressOf('f').
VirtAddr AddressOf(char function) { return {uint64_t{static_cast<uint8_t>(function)} << 12}; }

// One thread that runs through functions. Every step is one instruction, and one tick of the clock where it has one.
class Play {
 public:
  explicit Play(bool has_time = true) : has_time_(has_time) { BeginSegment(); }

  // Instructions of what runs.
  void Run(uint64_t instructions) { now_ += instructions; }
  void Start(char function, FlowStrand::Start start = FlowStrand::Start::kSegment) {
    tracker_.Credit(now_);
    tracker_.StartStrand(start, Callee(function, AddressOf(function), FlowStep::kBegin), now_);
  }
  // Calls return to 0x10 behind where the caller begins for each of its calls: `site` tells them apart.
  void Call(char caller, char callee, unsigned site = 1) {
    tracker_.Credit(++now_);
    tracker_.Call(Callee(callee, AddressOf(callee), FlowStep::kCall), Landing(caller, site).value,
                  false);
  }
  void Interrupt(char interrupted, char handler) {
    tracker_.Credit(now_);
    tracker_.Call(Callee(handler, AddressOf(handler), FlowStep::kInterrupt),
                  Landing(interrupted, 9).value, true);
  }
  void Jump(char callee) {
    tracker_.Credit(++now_);
    tracker_.Replace(Callee(callee, AddressOf(callee), FlowStep::kTailCall));
  }
  // Behind the caller's call; what no frame waits for begins a strand.
  void Return(char caller, unsigned site = 1) { Go(caller, site, FlowStrand::Start::kReturn); }
  // longjmp and the like, into the middle of a function.
  void Leap(char function) {
    tracker_.Credit(++now_);
    tracker_.StartStrand(FlowStrand::Start::kLeap,
                         Callee(function, Landing(function, 7), FlowStep::kLeap), now_);
  }
  // The segment ends, and another begins that goes on where this one ended.
  void NextSegment(CallStackBuilder* builder) {
    EndSegment(builder);
    const char running = running_;
    BeginSegment();
    segment_.continues = true;
    tracker_.StartStrand(FlowStrand::Start::kSegment,
                         Callee(running, Landing(running, 8), FlowStep::kBegin), now_);
  }
  void EndSegment(CallStackBuilder* builder) {
    if (has_time_) segment_.anchors.push_back({now_, kFirstTick + begin_ + now_});
    segment_.has_time = has_time_;
    if (has_time_) {
      segment_.begin_ticks = kFirstTick + begin_;
      segment_.end_ticks = kFirstTick + begin_ + now_;
    }
    segment_.instructions = now_;
    tracker_.Finish(now_);
    builder->Add(graph_, segment_);
    begin_ += now_;
    now_ = 0;
  }
  const FlowGraph& graph() const { return graph_; }

  static constexpr uint64_t kFirstTick = 1000;

 private:
  static VirtAddr Landing(char function, unsigned site) {
    return AddressOf(function) + 0x10 * site;
  }
  void Go(char function, unsigned site, FlowStrand::Start start) {
    tracker_.Credit(++now_);
    running_ = function;
    const VirtAddr landing = Landing(function, site);
    if (tracker_.Return(landing.value)) return;
    tracker_.StartStrand(start, Callee(function, landing, FlowStep::kReturn), now_);
  }
  internal::CallTracker::Callee Callee(char function, VirtAddr start, FlowStep step) {
    running_ = function;
    const auto [block, is_new_block] =
        blocks_.try_emplace(start.value, static_cast<uint32_t>(graph_.blocks.size()));
    if (is_new_block) {
      graph_.blocks.push_back({.start = start,
                               .last = start,
                               .instructions = 1,
                               .function = AddressOf(function),
                               .knows_function = true});
    }
    const auto [edge, is_new_edge] =
        edges_.try_emplace({block->second, step}, static_cast<uint32_t>(graph_.edges.size()));
    if (is_new_edge) graph_.edges.push_back({.from = 0, .to = block->second, .step = step});
    return {edge->second, static_cast<uint32_t>(function), start == AddressOf(function)};
  }
  void BeginSegment() {
    segment_ = {};
    if (has_time_) segment_.anchors.push_back({0, kFirstTick + begin_});
    tracker_.Begin(&segment_, /*want_calls=*/true);
  }

  const bool has_time_;
  FlowGraph graph_;
  FlowSegment segment_;
  internal::CallTracker tracker_;
  std::map<uint64_t, uint32_t> blocks_;
  std::map<std::pair<uint32_t, FlowStep>, uint32_t> edges_;
  uint64_t begin_ = 0;  // of the segment, instructions
  uint64_t now_ = 0;    // in the segment
  char running_ = '?';
};

// What was reported, a line each: "f call..return depth 1: 3 to 9, self 4".
class Calls : public CallStackBuilder::Sink {
 public:
  explicit Calls(const Play& play) : play_(play) {}
  void OnCall(const CallInterval& call) override {
    constexpr const char* kEntries[] = {"unknown", "call", "jump", "interrupt"};
    constexpr const char* kExits[] = {"return", "jump", "unwound", "open"};
    const FlowGraph& graph = play_.graph();
    const VirtAddr function = graph.blocks[graph.edges[call.edge].to].function;
    std::string line = StrFormat(
        "{} {}..{} depth {}: {} to {}, self {}", static_cast<char>(function.value >> 12),
        kEntries[static_cast<size_t>(call.entry)], kExits[static_cast<size_t>(call.exit)],
        call.depth, call.begin_instruction, call.end_instruction(), call.self_instructions);
    if (call.stack != 0) line += StrFormat(", stack {}", call.stack);
    lines.push_back(line);
    if (!call.has_time) return;
    // A tick is an instruction here.
    EXPECT_EQ(call.begin_ticks, Play::kFirstTick + call.begin_instruction) << line;
    EXPECT_EQ(call.end_ticks, Play::kFirstTick + call.end_instruction()) << line;
    EXPECT_EQ(call.self_ticks, call.self_instructions) << line;
    ++timed;
  }

  std::vector<std::string> lines;
  size_t timed = 0;

 private:
  const Play& play_;
};

using Lines = std::vector<std::string>;

class CallStackBuilderTest : public testing::Test {
 protected:
  Play play_;
  Calls calls_{play_};
  CallStackBuilder builder_{nullptr, &calls_};
};

TEST_F(CallStackBuilderTest, CallsAreReportedAsTheyEndCalleesFirst) {
  play_.Start('m');
  play_.Run(2);
  play_.Call('m', 'f');
  play_.Run(3);
  play_.Call('f', 'g');
  play_.Run(5);
  play_.Return('f');
  play_.Return('m');
  play_.EndSegment(&builder_);
  builder_.Break();
  EXPECT_EQ(calls_.lines, (Lines{"g call..return depth 2: 7 to 13, self 6",
                                 "f call..return depth 1: 3 to 14, self 5",
                                 "m unknown..open depth 0: 0 to 14, self 3"}));
  EXPECT_EQ(calls_.timed, 3U);
}

TEST_F(CallStackBuilderTest, ACallMayBeginAndEndInDifferentSegments) {
  play_.Start('m');
  play_.Call('m', 'f');
  play_.Call('f', 'g');
  play_.Run(10);
  play_.NextSegment(&builder_);
  play_.Run(10);
  play_.NextSegment(&builder_);
  play_.Return('f');
  play_.Call('f', 'g', 2);
  play_.Return('f', 2);
  play_.Return('m');
  play_.EndSegment(&builder_);
  EXPECT_EQ(calls_.lines, (Lines{"g call..return depth 2: 2 to 23, self 21",
                                 "g call..return depth 2: 24 to 25, self 1",
                                 "f call..return depth 1: 1 to 26, self 3"}));
}

TEST_F(CallStackBuilderTest, ATailCallIsInsideOfWhatItReplaces) {
  play_.Start('m');
  play_.Call('m', 'f');
  play_.Call('f', 'a');
  play_.Return('f');
  play_.Jump('g');
  play_.Call('g', 'b');
  play_.Return('g');
  play_.NextSegment(&builder_);
  play_.Jump('h');
  play_.Run(4);
  play_.Return('m');
  play_.EndSegment(&builder_);
  EXPECT_EQ(
      calls_.lines,
      (Lines{"a call..return depth 2: 2 to 3, self 1", "b call..return depth 2: 5 to 6, self 1",
             "g jump..jump depth 1: 4 to 7, self 2", "h jump..return depth 1: 7 to 12, self 5",
             // Of its 11 instructions g and h ran 8, a one.
             "f call..return depth 1: 1 to 12, self 2"}));
}

TEST_F(CallStackBuilderTest, WhatLongjmpLeavesIsUnwound) {
  play_.Start('m');
  play_.Call('m', 'f');
  play_.Call('f', 'g');
  play_.Call('g', 'l');
  play_.Leap('m');
  play_.Run(2);
  play_.Call('m', 'f', 2);
  play_.Return('m', 2);
  play_.EndSegment(&builder_);
  EXPECT_EQ(
      calls_.lines,
      (Lines{"l call..unwound depth 3: 3 to 4, self 1", "g call..unwound depth 2: 2 to 4, self 1",
             "f call..unwound depth 1: 1 to 4, self 1", "f call..return depth 1: 7 to 8, self 1"}));
  EXPECT_EQ(builder_.counts().frames_unwound, 3U);
}

TEST_F(CallStackBuilderTest, AReturnPastFramesUnwindsAllButTheOneThatReturns) {
  play_.Start('m');
  play_.Call('m', 'f');
  play_.Call('f', 'g');
  play_.NextSegment(&builder_);
  play_.Return('m');
  play_.EndSegment(&builder_);
  EXPECT_EQ(calls_.lines, (Lines{"g call..unwound depth 2: 2 to 3, self 1",
                                 "f call..return depth 1: 1 to 3, self 1"}));
}

TEST_F(CallStackBuilderTest, CoroutinesHaveStacksOfTheirOwnAndNoTimeWhileOthersRun) {
  play_.Start('m');
  play_.Call('m', 's');  // switches to another stack, by a return to where nobody called
  play_.Return('c', 3);
  play_.Run(10);
  play_.Call('c', 'd');
  play_.Call('d', 's', 2);
  play_.Return('m');  // and back
  play_.Run(20);
  play_.Call('m', 's', 4);
  play_.Return('d', 2);
  play_.Return('c');
  play_.EndSegment(&builder_);
  builder_.Break();
  EXPECT_EQ(calls_.lines, (Lines{"s call..return depth 1: 1 to 15, self 1",
                                 "s call..return depth 2: 14 to 37, self 1, stack 1",
                                 "d call..return depth 1: 13 to 38, self 2, stack 1",
                                 "c unknown..open depth 0: 2 to 38, self 11, stack 1",
                                 "s call..open depth 1: 36 to 38, self 2",
                                 "m unknown..open depth 0: 0 to 38, self 22"}));
  EXPECT_EQ(builder_.counts().switches, 2U);
}

TEST_F(CallStackBuilderTest, AnInterruptIsInsideOfWhatItStruck) {
  play_.Start('m');
  play_.Call('m', 'f');
  play_.Interrupt('f', 'i');
  play_.Run(7);
  play_.EndSegment(&builder_);
  builder_.Break();
  EXPECT_EQ(calls_.lines, (Lines{"i interrupt..open depth 2: 1 to 8, self 7",
                                 "f call..open depth 1: 1 to 8, self 0",
                                 "m unknown..open depth 0: 0 to 8, self 1"}));
}

TEST_F(CallStackBuilderTest, AGapEndsWhatIsOpen) {
  play_.Start('m');
  play_.Call('m', 'f');
  play_.Run(3);
  play_.Start('g', FlowStrand::Start::kGap);
  play_.Run(2);
  play_.EndSegment(&builder_);
  builder_.Break();
  EXPECT_EQ(calls_.lines, (Lines{"f call..open depth 1: 1 to 4, self 3",
                                 "m unknown..open depth 0: 0 to 4, self 1",
                                 "g unknown..open depth 0: 4 to 6, self 2"}));
  EXPECT_EQ(builder_.counts().frames_lost, 1U);
}

TEST(CallStackBuilder, WithoutAClockCallsAreCountedInInstructions) {
  Play play(/*has_time=*/false);
  Calls calls(play);
  CallStackBuilder builder(nullptr, &calls);
  play.Start('m');
  play.Call('m', 'f');
  play.Run(4);
  play.Return('m');
  play.EndSegment(&builder);
  EXPECT_EQ(calls.lines, (Lines{"f call..return depth 1: 1 to 6, self 5"}));
  EXPECT_EQ(calls.timed, 0U);
}

TEST(CallStackBuilder, RecursionDeeperThanItsBoundLosesTheOutermostFrames) {
  Play play;
  Calls calls(play);
  CallStackBuilder builder(nullptr, &calls);
  play.Start('m');
  constexpr size_t kSegments = 6;
  for (size_t segment = 0; segment < kSegments; ++segment) {
    for (size_t i = 0; i < 16000; ++i) play.Call(segment == 0 && i == 0 ? 'm' : 'f', 'f');
    play.NextSegment(&builder);
  }
  play.EndSegment(&builder);
  EXPECT_GT(builder.counts().frames_lost, 0U);
  EXPECT_LE(calls.lines.size(), kSegments * 16000 + 1);
}

}  // namespace
}  // namespace ptarmigan
