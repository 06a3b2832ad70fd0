// A small profile of a control-flow trace, in which every field of its FlowSummary says something.
#pragma once

#include <string>
#include <vector>

#include "model/profile.h"
#include "model/profile_builder.h"

namespace ptarmigan {

// main calls work twice; the second time an interrupt strikes, and work's tail call to rest is still open at the end. A
// coroutine on a stack of its own. Only main is in a sample.
inline Profile FlowProfile() {
  ProfileBuilder builder;
  builder.SampleType("instructions", "count");
  Profile::Mapping mapping;
  mapping.start = {0x1000};
  mapping.limit = {0x9000};
  mapping.file = builder.String("/bin/app");
  const MappingId app = builder.Mapping(mapping);
  // In an order that pprof changes.
  const auto location = [&](uint64_t address, std::string_view name) {
    Profile::Function function;
    function.name = function.system_name = builder.String(name);
    const Profile::Line line = {.function = builder.Function(function)};
    return builder.Location({.mapping = app, .address = address}, {&line, 1});
  };
  const LocationId rest = location(0x4000, "rest");
  const LocationId work = location(0x3000, "work");
  const LocationId handler = location(0x5000, "handler \"quoted\"");
  const LocationId call_site = location(0x2010, "main");
  const LocationId main = location(0x2000, "main");
  const int64_t instructions = 1000;
  builder.Add({builder.Stack({&main, 1}), builder.LabelSet({})}, {&instructions, 1});

  FlowSummary& flow = builder.profile().summary.flow;
  flow.source = "pt";
  FlowSummary::Thread thread;
  thread.pid = 40;
  thread.tid = 42;
  thread.name = "app";
  thread.cpu = 3;
  thread.instructions = 1000;
  thread.blocks = 100;
  thread.branches = 90;
  thread.calls = 3;
  thread.returns = 2;
  thread.ip_digest = 0x123456789abcdef0;
  thread.verified = 4;
  thread.suspect = 2;
  thread.bad = 1;
  thread.bytes = {.decoded = 10,
                  .before_sync = 20,
                  .after_error = 30,
                  .overflow = 40,
                  .no_image = 50,
                  .padding = 60,
                  .dropped = 70};
  thread.gaps = {{"overflow", 2}, {"error", 1}};
  thread.errors = {{.offset = 77, .code = -5, .reason = "the packets do not fit the code"}};
  thread.errors_cut = 6;
  thread.begin_ns = 5000;
  thread.end_ns = 9000;
  thread.uncertainty_ns = 12;
  flow.threads.push_back(thread);
  thread.tid = 43;
  thread.name = "";
  thread.cpu.reset();
  thread.ip_digest.reset();
  flow.threads.push_back(thread);

  flow.functions = {{.location = work,
                     .instructions = 700,
                     .calls = 1,
                     .indirect_calls = 1,
                     .jumps = 2,
                     .interrupts = 3},
                    {.location = main, .instructions = 300}};
  FlowSummary::Calls calls;
  calls.callee = work;
  calls.caller = call_site;
  calls.count = 2;
  calls.unwound = 1;
  calls.instructions = 600;
  calls.self_instructions = 500;
  calls.total.Add(1000);
  calls.total.Add(500);
  calls.self.Add(900);
  calls.self.Add(500);
  calls.uncertainty_ns = 24;
  calls.unbounded = 1;
  flow.calls.push_back(calls);
  calls = {};
  calls.callee = handler;
  calls.entry = FlowSummary::Entry::kInterrupt;
  calls.count = 1;
  flow.calls.push_back(calls);

  using Entry = FlowSummary::Entry;
  using Exit = FlowSummary::Exit;
  const auto interval = [&](LocationId function, LocationId caller, uint32_t depth, Entry entry,
                            Exit exit, uint64_t begin_ns, uint64_t end_ns, uint64_t begin,
                            uint64_t instructions_in) {
    FlowSummary::Interval& added = flow.intervals.emplace_back();
    added.function = function;
    added.caller = caller;
    added.depth = depth;
    added.entry = entry;
    added.exit = exit;
    added.begin_ns = begin_ns;
    added.end_ns = end_ns;
    added.begin_instruction = begin;
    added.instructions = instructions_in;
    added.uncertainty_ns = 3;
  };
  interval(main, kNoId, 0, Entry::kUnknown, Exit::kOpen, 5000, 9000, 0, 1000);
  interval(work, call_site, 1, Entry::kCall, Exit::kReturn, 5000, 6000, 10, 200);
  interval(work, call_site, 1, Entry::kCall, Exit::kUnwound, 6000, 7001, 210, 400);
  interval(handler, kNoId, 2, Entry::kInterrupt, Exit::kReturn, 6500, 6500, 300, 10);
  interval(rest, work, 1, Entry::kTailCall, Exit::kOpen, 6600, 7001, 400, 210);
  interval(rest, kNoId, 0, Entry::kUnknown, Exit::kOpen, 7500, 8000, 700, 100);
  flow.intervals.back().stack = 1;
  interval(handler, kNoId, 0, Entry::kUnknown, Exit::kOpen, 5100, 5900, 0, 50);
  flow.intervals.back().thread = 1;
  flow.intervals.back().uncertainty_ns = FlowSummary::Interval::kUnbounded;
  flow.intervals_cut = 8;
  flow.marks = {
      {.thread = 0, .kind = FlowSummary::Mark::Kind::kOverflow, .begin_ns = 7100, .end_ns = 7100},
      {.thread = 0, .kind = FlowSummary::Mark::Kind::kSuspect, .begin_ns = 8100, .end_ns = 8300}};
  flow.marks_cut = 9;
  flow.missing_code = {{"/lib/gone.so", 321}};
  return builder.Finish();
}

}  // namespace ptarmigan
