// PtDecoder on bad and cut traces, several threads, and captures of real processors.
#include "decode/pt_decoder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/str_format.h"
#include "tests/decode/flow_totals.h"
#include "tests/decode/pt_synth.h"
#include "tests/decode/pt_walkers.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

// Everything that a sink is told, as text.
class FlowText : public FlowSink {
 public:
  void OnFlowSegment(const FlowGraph& graph, const FlowSegment& segment) override {
    text_ += StrFormat("segment {} {}..{} owner {} continues {} stopped {:x} instructions {}\n",
                       segment.number, segment.begin_offset, segment.end_offset, segment.owner,
                       segment.continues, segment.stopped_at.value, segment.instructions);
    text_ += StrFormat("time {} {} {} {} trust {} reasons {:x} returns {} {} calls {} {}\n",
                       segment.has_time, segment.begin_ticks, segment.end_ticks,
                       segment.uncertainty_ticks, static_cast<int>(segment.trust),
                       segment.checks.reasons, segment.checks.returns_matched,
                       segment.checks.returns_unmatched, segment.checks.calls_to_starts,
                       segment.checks.calls_elsewhere);
    text_ += StrFormat("bytes {} {} {} {} {} {}\n", segment.bytes.decoded,
                       segment.bytes.before_sync, segment.bytes.after_error, segment.bytes.overflow,
                       segment.bytes.no_image, segment.bytes.padding);
    for (const EdgeCount& count : segment.edges) {
      const FlowEdge& edge = graph.edges[count.edge];
      text_ += StrFormat("edge {} {} {} {} {}\n", count.edge, edge.from, edge.to,
                         static_cast<int>(edge.step), count.count);
    }
    for (const CallNode& node : segment.contexts) {
      text_ += StrFormat("node {} {} {} {} {} {}\n", node.parent, node.edge, node.instructions,
                         node.ticks, node.ticks_outside, node.calls);
    }
    for (const FlowStrand& strand : segment.strands) {
      text_ += StrFormat("strand {} {} {} {} {} {}\n", static_cast<int>(strand.start), strand.root,
                         strand.edge, strand.frames_begin, strand.frames_size, strand.last_context);
    }
    for (const OpenFrame& frame : segment.frames) {
      text_ += StrFormat("frame {} {:x} {}\n", frame.context, frame.return_address.value,
                         frame.is_interrupt);
    }
    for (const CallEvent& call : segment.calls) {
      text_ += StrFormat("call {} {} {} {} {}\n", static_cast<int>(call.kind), call.context,
                         call.instruction, call.ticks, call.uncertainty_ticks);
    }
    for (const uint32_t edge : segment.path) text_ += StrFormat("{} ", edge);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class NoSink : public FlowSink {
 public:
  void OnFlowSegment(const FlowGraph&, const FlowSegment&) override {}
};

std::unique_ptr<PtDecoder> MakeDecoder(const PtConfig& config, const PtOptions& options) {
  auto decoder = PtDecoder::Create(config, options);
  return decoder ? std::move(*decoder) : nullptr;
}

TEST(PtDecoder, SaysTheSameWithAnyNumberOfThreads) {
  for (const char* name : {"shapes.ret-cyc", "dispatch.ovf-irq", "coro.ret-mtc", "jit.noret-cyc",
                           "threads.percpu-cyc"}) {
    const std::string path = TestDataPath(std::string("pt-synth/") + name + ".perf.data");
    if (path.empty()) GTEST_SKIP() << TestDataMissing("pt-synth");
    const PtSynth synth(path, TestDataPath("pt-synth/symfs"));
    std::string first;
    for (const size_t threads : {1U, 2U, 4U, 8U}) {
      PtOptions options;
      options.threads = threads;
      options.want_path = true;
      options.want_calls = true;
      const auto decoder = MakeDecoder(synth.recording().config, options);
      if (decoder == nullptr) GTEST_SKIP() << PtUnsupportedSentence();
      FlowText text;
      for (const auto& [tid, trace] : synth.traces()) {
        ASSERT_TRUE(decoder->Decode(synth.Stream(tid, trace), text).has_value());
      }
      if (threads == 1) first = text.text();
      ASSERT_GT(text.text().size(), 10000U);
      ASSERT_TRUE(text.text() == first) << name << " with " << threads << " threads";
    }
  }
}

TEST(PtDecoder, CutAtEveryOffsetEveryByteIsInOneCount) {
  const std::string path = TestDataPath("pt-synth/coro.ret-mtc.perf.data");
  if (path.empty()) GTEST_SKIP() << TestDataMissing("pt-synth");
  const PtSynth synth(path, TestDataPath("pt-synth/symfs"));
  const auto& [tid, trace] = *synth.traces().begin();
  const auto decoder = MakeDecoder(synth.recording().config, {});
  if (decoder == nullptr) GTEST_SKIP() << PtUnsupportedSentence();
  NoSink sink;
  uint64_t bytes = 0;
  // Both sides of every cut; the first two segments and a bit are enough.
  const size_t end = std::min<size_t>(trace.size(), 5000);
  for (size_t cut = 0; cut <= end; ++cut) {
    ASSERT_TRUE(decoder->Decode(synth.Stream(tid, Bytes(trace).first(cut)), sink).has_value());
    ASSERT_TRUE(
        decoder->Decode(synth.Stream(tid, Bytes(trace).subspan(cut, end - cut)), sink).has_value());
    bytes += end;
    ASSERT_EQ(decoder->statistics().bytes.Sum(), bytes) << "cut at " << cut;
  }
}

TEST(PtDecoder, DamagedRecordingsEndWithBalancedCounts) {
  const std::string folder = TestDataPath("pt-synth/corrupt");
  if (folder.empty()) GTEST_SKIP() << TestDataMissing("pt-synth");
  size_t files = 0;
  const auto names = ListDirectory(folder);
  ASSERT_TRUE(names.has_value());
  for (const std::string& name : *names) {
    if (!name.ends_with(".perf.data")) continue;
    const PtSynth synth(JoinPath(folder, name), TestDataPath("pt-synth/symfs"));
    const auto decoder = MakeDecoder(synth.recording().config, {});
    if (decoder == nullptr) GTEST_SKIP() << PtUnsupportedSentence();
    NoSink sink;
    for (const auto& [tid, trace] : synth.traces()) {
      ASSERT_TRUE(decoder->Decode(synth.Stream(tid, trace), sink).has_value());
    }
    std::vector<PtStream> streams;
    for (const auto& [tid, trace] : synth.traces()) streams.push_back(synth.Stream(tid, trace));
    for (const PtSynthWindow& window : synth.windows()) {
      ASSERT_TRUE(decoder->Decode(synth.Stream(1, window.bytes), sink).has_value());
      streams.push_back(synth.Stream(1, window.bytes));
    }
    EXPECT_EQ(ComparePtWalkersInAllWays(synth.recording().config, streams).difference, "") << name;
    EXPECT_EQ(decoder->statistics().bytes.Sum(), synth.bytes()) << name;
    ++files;
  }
  EXPECT_GT(files, 20U);
}

TEST(PtDecoder, MissingCodeIsNamedOnce) {
  const std::string path = TestDataPath("pt-synth/corrupt/shapes.ret-mtc-psb2k.nomap.perf.data");
  if (path.empty()) GTEST_SKIP() << TestDataMissing("pt-synth");
  const PtSynth synth(path, TestDataPath("pt-synth/symfs"));
  const auto decoder = MakeDecoder(synth.recording().config, {});
  if (decoder == nullptr) GTEST_SKIP() << PtUnsupportedSentence();
  NoSink sink;
  const auto& [tid, trace] = *synth.traces().begin();
  ASSERT_TRUE(decoder->Decode(synth.Stream(tid, trace), sink).has_value());
  ASSERT_EQ(decoder->statistics().missing.size(), 1U);
  EXPECT_EQ(decoder->statistics().missing[0].name, "");
  EXPECT_EQ(decoder->statistics().missing[0].segments, decoder->statistics().segments);
  EXPECT_GT(decoder->statistics().bytes.no_image, trace.size() / 2);
}

// Pages of memory: an array of addresses, and the pages in that order.
ArrayCodeImage PagesImage(const std::string& addresses, const std::string& pages) {
  constexpr size_t kPageBytes = 4096;
  ArrayCodeImage image;
  ByteCursor cursor(AsBytes(addresses));
  for (size_t at = 0; at + kPageBytes <= pages.size(); at += kPageBytes) {
    image.AddRegion({.start = {cursor.U64()}, .bytes = AsBytes(pages).subspan(at, kPageBytes)});
  }
  return image;
}

uint64_t InstructionsOf(Bytes trace, const CodeImage& image, const PtConfig& config) {
  PtOptions options;
  options.want_path = true;
  const auto decoder = MakeDecoder(config, options);
  if (decoder == nullptr) return 0;
  FlowTotals totals(image);
  PtStream stream;
  stream.bytes = trace;
  stream.occupants = {{.image = &image}};
  EXPECT_TRUE(decoder->Decode(stream, totals).has_value());
  EXPECT_TRUE(totals.path_agrees());
  EXPECT_EQ(decoder->statistics().bytes.Sum(), trace.size());
  EXPECT_EQ(decoder->statistics().suspect, 0U);
  EXPECT_EQ(ComparePtWalkersInAllWays(config, {stream}).difference, "");
  return totals.instructions();
}

TEST(PtDecoder, DecodesCapturesOfRealProcessors) {
  struct Capture {
    const char* folder;
    const char* trace;
    const char* addresses;
    const char* pages;
    uint64_t instructions;
  };
  if (!PtDecoder::Create({}, {})) GTEST_SKIP() << PtUnsupportedSentence();
  for (const Capture& capture :
       {Capture{"Unzip", "trace", "data.addr", "data", 149576},
        Capture{"foo", "trace", "data.addr", "data.gz", 117967},
        Capture{"icelake_tip", "ptlog", "pagecache.addr", "pagecache.dump", 15}}) {
    const std::string folder = TestDataPath(std::string("libxdc-intelpt/") + capture.folder);
    if (folder.empty()) GTEST_SKIP() << TestDataMissing("libxdc-intelpt");
    const std::string addresses = ReadTestFile(JoinPath(folder, capture.addresses));
    const std::string pages = ReadTestFile(JoinPath(folder, capture.pages));
    const std::string trace = ReadTestFile(JoinPath(folder, capture.trace));
    const ArrayCodeImage image = PagesImage(addresses, pages);
    EXPECT_EQ(InstructionsOf(AsBytes(trace), image, {}), capture.instructions) << capture.folder;
  }
}

TEST(PtDecoder, DecodesLldbsTraces) {
  const std::string folder = TestDataPath("lldb-intelpt");
  if (folder.empty()) GTEST_SKIP() << TestDataMissing("lldb-intelpt");
  if (!PtDecoder::Create({}, {})) GTEST_SKIP() << PtUnsupportedSentence();
  PtConfig config;
  config.cpu_is_intel = true;
  config.cpu_family = 6;
  config.cpu_model = 79;
  config.cpu_stepping = 1;
  const auto add = [&](ArrayCodeImage* image, const std::string& file, uint64_t address,
                       std::vector<std::string>* files) {
    files->push_back(ReadTestFile(JoinPath(folder, file)));
    image->AddRegion({.start = {address}, .bytes = AsBytes(files->back())});
  };
  std::vector<std::string> files;
  files.reserve(4);
  ArrayCodeImage one;
  add(&one, "intelpt-trace/a.out", 0x400000, &files);
  const std::string trace = ReadTestFile(JoinPath(folder, "intelpt-trace/3842849.trace"));
  EXPECT_EQ(InstructionsOf(AsBytes(trace), one, config), 21U);
  ArrayCodeImage three;
  add(&three, "intelpt-trace-multi-file/a.out", 0x400000, &files);
  add(&three, "intelpt-trace-multi-file/libfoo.so", 140737349783552, &files);
  add(&three, "intelpt-trace-multi-file/libbar.so", 140737347678208, &files);
  const std::string multi =
      ReadTestFile(JoinPath(folder, "intelpt-trace-multi-file/multi-file.trace"));
  EXPECT_EQ(InstructionsOf(AsBytes(multi), three, config), 45U);
}

TEST(PtDecoder, UnknownProcessorsAreDecodedWithoutErrata) {
  PtConfig config;
  config.cpu_is_intel = true;
  config.cpu_family = 200;
  const auto decoder = MakeDecoder(config, {});
  if (decoder == nullptr) GTEST_SKIP() << PtUnsupportedSentence();
  EXPECT_TRUE(decoder->statistics().unknown_cpu);
}

TEST(PtDecoder, OldestSegmentsGoFirstWhereMemoryIsBounded) {
  const std::string path = TestDataPath("pt-synth/shapes.ret-mtc-psb2k.perf.data");
  if (path.empty()) GTEST_SKIP() << TestDataMissing("pt-synth");
  const PtSynth synth(path, TestDataPath("pt-synth/symfs"));
  PtOptions options;
  options.bytes_max = 5000;
  const auto decoder = MakeDecoder(synth.recording().config, options);
  if (decoder == nullptr) GTEST_SKIP() << PtUnsupportedSentence();
  NoSink sink;
  const auto& [tid, trace] = *synth.traces().begin();
  ASSERT_TRUE(decoder->Decode(synth.Stream(tid, trace), sink).has_value());
  const FlowBytes& bytes = decoder->statistics().bytes;
  EXPECT_EQ(bytes.Sum(), trace.size());
  EXPECT_GT(bytes.dropped, trace.size() - 5000 - 1);
  EXPECT_GT(bytes.decoded, 2000U);
}

}  // namespace
}  // namespace ptarmigan
