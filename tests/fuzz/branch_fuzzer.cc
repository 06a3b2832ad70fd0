// Branch stacks of any content, in address spaces that change: no crash, bounded work, and every entry is counted once.
//
// Input: branch_sample_type (8 bytes), arm64 or x86 (1), then samples: what to do before (1: 0 nothing, 1 map 16 pages at
// the first entry's page, 2 fork), mode (1), entries (1), and as many struct perf_branch_entry.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_cursor.h"
#include "base/check.h"
#include "decode/branch_stack.h"
#include "decode/code_run.h"
#include "model/branch_summary.h"
#include "pipeline/sample_pipeline.h"
#include "symbolize/symbolizer.h"

namespace ptarmigan {
namespace {

constexpr size_t kSamplesMax = 2000;

BranchRecord ReadEntry(ByteCursor* cursor) {
  BranchRecord record;
  record.from = cursor->U64();
  record.to = cursor->U64();
  const uint64_t flags = cursor->U64();
  record.mispredicted = flags & 1;
  record.predicted = flags >> 1 & 1;
  record.cycles = flags >> 4 & 0xffff;
  record.type = flags >> 20 & 15;
  record.spec = flags >> 24 & 3;
  return record;
}

void Prepare(uint8_t what, const CapturedSample& sample, SamplePipeline* pipeline) {
  if (what == 1 && !sample.branches.empty()) {
    MmapEvent map;
    map.cpumode = CpuMode::kUser;
    map.pid = map.tid = 1;
    map.start = {sample.branches.front().to & ~uint64_t{0xfff}};
    map.length_bytes = 0x10000;
    map.path = "/nowhere/object";
    pipeline->OnMmap(map);
  } else if (what == 2) {
    TaskEvent fork;
    fork.pid = fork.tid = 1;
    fork.parent_pid = fork.parent_tid = 2;
    pipeline->OnFork(fork);
  }
}

void CheckSums(const Profile& profile, uint64_t entries, uint64_t wrong_path, uint64_t empty) {
  const BranchSummary& summary = profile.summary.branches;
  CHECK(profile.CheckValid().has_value());
  CHECK(profile.losses.Balances());
  uint64_t branches = 0;
  for (const auto& edge : summary.edges) {
    CHECK(edge.mispredicted + edge.predicted <= edge.count);
    branches += edge.count;
  }
  CHECK(branches + wrong_path + empty == entries);
  CHECK(summary.wrong_path == wrong_path || branches == 0);
  uint64_t runs = summary.ranges_rejected;
  for (const auto& block : summary.blocks) {
    runs += block.count;
    CHECK(FiguresOf(summary.Cycles(block)).executions <= block.count);
  }
  uint64_t traces = 0;
  uint64_t traces_with_run = 0;
  for (const auto& trace : summary.traces) {
    traces += trace.count;
    if (trace.end != BranchSummary::kNone) traces_with_run += trace.count;
  }
  CHECK(traces == branches);
  CHECK(traces_with_run + summary.ranges_rejected == runs);
}

}  // namespace
}  // namespace ptarmigan

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ptarmigan;
  const Bytes bytes = std::as_bytes(std::span(data, size));
  ByteCursor cursor(bytes, std::endian::little);
  RecordingDescription description;
  EventDescription& event = description.events.emplace_back();
  event.name = "cycles";
  event.attr.sample_type = kSampleBranchStack;
  event.attr.branch_sample_type = cursor.U64();
  description.arch = cursor.U8() % 2 == 0 ? Arch::kX86_64 : Arch::kArm64;
  if (!cursor.ok()) return 0;
  const BranchStackFormat format = BranchStackFormatOf(description, event);

  SymbolizerOptions options;
  options.symbols = false;
  Symbolizer symbolizer(options);
  SamplePipeline pipeline(description, symbolizer, {});
  uint64_t entries = 0;
  uint64_t wrong_path = 0;
  uint64_t empty = 0;
  std::vector<BranchEdge> edges;
  for (size_t samples = 0; samples < kSamplesMax && cursor.remaining() > 3; ++samples) {
    const uint8_t what = cursor.U8();
    CapturedSample sample;
    sample.cpumode = static_cast<CpuMode>(cursor.U8() % 6);
    sample.identity.pid = sample.identity.tid = 1;
    sample.period = 1;
    const uint8_t count = cursor.U8();
    for (size_t i = 0; i < count && cursor.remaining() >= 24; ++i) {
      sample.branches.push_back(ReadEntry(&cursor));
    }
    sample.has_branches = true;
    sample.ip = {sample.branches.empty() ? 0 : sample.branches.front().to};
    sample.has_ip = true;
    Prepare(what, sample, &pipeline);
    pipeline.OnSample(sample);
    if (format.mode != BranchStackMode::kFlow) continue;
    edges.clear();
    const BranchEntryCounts counts = AppendBranchStack(sample, format, &edges);
    CHECK(counts.all() == sample.branches.size());
    CHECK(counts.kept() == edges.size());
    entries += counts.all();
    wrong_path += counts.wrong_path;
    empty += counts.empty;
  }
  CheckSums(pipeline.Finish(LossLedger()), entries, wrong_path, empty);

  // The same bytes as code.
  for (const Arch arch : {Arch::kX86_64, Arch::kX86, Arch::kArm64}) {
    const uint64_t length = size == 0 ? 0 : data[0];
    CHECK(WalkCodeRun(arch, bytes, length).instructions <= length + 1);
    IsReturnInstruction(arch, bytes);
  }
  return 0;
}
