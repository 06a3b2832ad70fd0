// Sessions with AUX areas, on a scripted kernel: what the tracer wrote comes out byte for byte, whatever goes wrong.
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "decode/coresight_setup.h"
#include "hw/hardware_source.h"
#include "hw/internal/attr_bits.h"
#include "hw/perf_session.h"
#include "tests/hw/fake_root.h"
#include "tests/hw/pmu_trees.h"
#include "tests/hw/scripted_kernel.h"

namespace ptarmigan {
namespace {

constexpr uint32_t kPtType = 8;

// What came out of a session.
class AuxRecorder : public RawRecordSink {
 public:
  struct Piece {
    uint64_t offset;
    std::vector<std::byte> bytes;
  };

  void OnRecord(const RawRecord& record) override {
    ByteCursor cursor(record.bytes);
    const uint32_t type = cursor.U32();
    order.push_back(type);
    ++by_type[type];
    if (type == internal::kRecordAuxtraceInfo) auxtrace_info = AsText(record.bytes);
    if (type != internal::kRecordAuxtrace) {
      EXPECT_TRUE(record.payload.empty());
      return;
    }
    cursor.Skip(4);
    const uint64_t size = cursor.U64();
    const uint64_t offset = cursor.U64();
    cursor.Skip(8);
    const uint32_t ring = cursor.U32();
    EXPECT_EQ(cursor.S32(), -1);
    cpu_of_ring[ring] = cursor.U32();
    EXPECT_EQ(size, (record.payload.size() + record.payload_rest.size() + 7) / 8 * 8);
    Piece& piece = pieces[ring].emplace_back();
    piece.offset = offset;
    piece.bytes.assign(record.payload.begin(), record.payload.end());
    piece.bytes.insert(piece.bytes.end(), record.payload_rest.begin(), record.payload_rest.end());
  }
  void OnRoundEnd() override {}

  // The trace of a ring, put together.
  std::vector<std::byte> Trace(uint32_t ring) const {
    std::vector<std::byte> trace;
    const auto found = pieces.find(ring);
    if (found == pieces.end()) return trace;
    for (const Piece& piece : found->second) {
      EXPECT_EQ(piece.offset, trace.size());
      trace.insert(trace.end(), piece.bytes.begin(), piece.bytes.end());
    }
    return trace;
  }

  std::string auxtrace_info;
  std::vector<uint32_t> order;
  std::map<uint32_t, size_t> by_type;
  std::map<uint32_t, std::vector<Piece>> pieces;
  std::map<uint32_t, uint32_t> cpu_of_ring;
};

std::vector<std::byte> Bytes0(size_t count, unsigned seed) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(1 + (seed + i * 13) % 251);
  return bytes;
}

class AuxSession : public testing::Test {
 protected:
  AuxSession() {
    IceLake(&sys_);
    sys_.File("devices/system/cpu/online", "0-1\n");
    options_.target.kind = PerfTarget::Kind::kAllCpus;
    options_.kernel = &kernel_;
    options_.proc_root = proc_.path();
    options_.sysfs_root = sys_.path();
    options_.aux_bytes = kAuxBytes;
  }
  void UsePt(AuxMode mode) {
    auto setup = SetUpSource({.name = "pt", .aux_mode = mode}, EventRoots{sys_.path(), ""});
    ASSERT_TRUE(setup.has_value()) << setup.error().message;
    options_.events = setup->events;
    options_.aux_mode = setup->aux_mode;
    options_.clockid = -1;
    options_.context_switches = setup->needs_switches;
  }
  void Open() {
    auto session = PerfSession::Open(options_);
    ASSERT_TRUE(session.has_value()) << session.error().message;
    session_ = *std::move(session);
    ASSERT_TRUE(session_->Poll(recorder_, 0).has_value());
    ASSERT_TRUE(session_->Enable().has_value());
  }
  void Poll() { ASSERT_TRUE(session_->Poll(recorder_, 0).has_value()); }
  void StopAndPoll() {
    session_->Stop();
    const auto outcome = session_->Poll(recorder_, 0);
    ASSERT_TRUE(outcome.has_value());
    ASSERT_EQ(*outcome, PollOutcome::kEnd);
  }
  ScriptedKernel::Event* Pt(int32_t cpu) { return kernel_.Find(kPtType, cpu); }

  static constexpr uint64_t kAuxBytes = 16384;
  FakeRoot proc_;
  FakeRoot sys_;
  ScriptedKernel kernel_;
  PerfSessionOptions options_;
  std::unique_ptr<PerfSession> session_;
  AuxRecorder recorder_;
};

TEST_F(AuxSession, AFullTraceIsByteExactPerCpuAcrossEveryWrap) {
  UsePt(AuxMode::kFull);
  Open();
  std::map<int32_t, std::vector<std::byte>> written;
  // Odd sizes, so that every piece begins and ends at another place; many times around the area.
  for (unsigned step = 0; step < 200; ++step) {
    for (const int32_t cpu : {0, 1}) {
      const std::vector<std::byte> bytes = Bytes0(501 + 37 * (step % 11) + 8 * unsigned(cpu), step);
      ASSERT_EQ(kernel_.Trace(Pt(cpu), bytes), bytes.size());
      written[cpu].insert(written[cpu].end(), bytes.begin(), bytes.end());
    }
    if (step % 7 == 6) Poll();
  }
  StopAndPoll();
  for (const uint32_t ring : {0U, 1U}) {
    EXPECT_EQ(recorder_.Trace(ring), written[static_cast<int32_t>(recorder_.cpu_of_ring[ring])]);
  }
  const PerfSessionStatistics statistics = session_->statistics();
  EXPECT_EQ(statistics.aux_bytes, written[0].size() + written[1].size());
  EXPECT_EQ(statistics.aux_records, 400U);
  EXPECT_EQ(statistics.aux_truncated + statistics.aux_partial + statistics.aux_collisions, 0U);
  session_.reset();
  EXPECT_EQ(kernel_.mapped(), 0U);
  EXPECT_TRUE(kernel_.events().empty());
}

TEST_F(AuxSession, WhatTracedAndItsClockComeFirst) {
  UsePt(AuxMode::kFull);
  Open();
  ASSERT_GE(recorder_.order.size(), 2U);
  EXPECT_EQ(recorder_.order[0], internal::kRecordAuxtraceInfo);
  EXPECT_EQ(recorder_.order[1], internal::kRecordTimeConv);
}

TEST_F(AuxSession, TruncationIsCountedAndTracingStartedAgain) {
  for (const bool stays_enabled : {false, true}) {
    kernel_.stays_enabled_when_truncated = stays_enabled;
    recorder_ = AuxRecorder();
    UsePt(AuxMode::kFull);
    Open();
    const std::vector<std::byte> flood = Bytes0(kAuxBytes + 100, 1);
    EXPECT_EQ(kernel_.Trace(Pt(0), flood), kAuxBytes - 1);
    EXPECT_EQ(kernel_.Trace(Pt(0), flood), 0U);
    Poll();
    // Off and on, in this order; the other CPU is left alone.
    const std::vector<std::string>& calls = kernel_.calls();
    ASSERT_GE(calls.size(), 2U);
    EXPECT_EQ(calls[calls.size() - 2], "disable " + std::to_string(Pt(0)->id));
    EXPECT_EQ(calls.back(), "enable " + std::to_string(Pt(0)->id));
    const std::vector<std::byte> after = Bytes0(640, 2);
    EXPECT_EQ(kernel_.Trace(Pt(0), after), after.size());
    StopAndPoll();
    const PerfSessionStatistics statistics = session_->statistics();
    EXPECT_EQ(statistics.aux_truncated, 1U);
    EXPECT_EQ(statistics.aux_restarts, 1U);
    EXPECT_EQ(statistics.aux_bytes, kAuxBytes - 1 + after.size());
    std::vector<std::byte> expected(flood.begin(), flood.begin() + kAuxBytes - 1);
    expected.insert(expected.end(), after.begin(), after.end());
    EXPECT_EQ(recorder_.Trace(0), expected);
    session_.reset();
  }
}

TEST_F(AuxSession, GapsAndCollisionsAreCounted) {
  UsePt(AuxMode::kFull);
  Open();
  kernel_.Trace(Pt(0), Bytes0(64, 1), internal::kAuxPartial);
  kernel_.Trace(Pt(1), Bytes0(64, 2), internal::kAuxCollision);
  kernel_.Trace(Pt(1), Bytes0(64, 3), internal::kAuxCollision | internal::kAuxPartial);
  StopAndPoll();
  EXPECT_EQ(session_->statistics().aux_partial, 2U);
  EXPECT_EQ(session_->statistics().aux_collisions, 2U);
  EXPECT_EQ(session_->statistics().aux_restarts, 0U);
}

TEST_F(AuxSession, AFullDataRingLosesRecordsButNoTrace) {
  options_.ring_bytes = 4096;
  UsePt(AuxMode::kFull);
  Open();
  std::vector<std::byte> written;
  for (unsigned i = 0; i < 100; ++i) {
    const std::vector<std::byte> bytes = Bytes0(96, i);
    kernel_.Trace(Pt(0), bytes);
    written.insert(written.end(), bytes.begin(), bytes.end());
  }
  ASSERT_GT(Pt(0)->lost, 0U);
  StopAndPoll();
  EXPECT_EQ(recorder_.Trace(0), written);
  EXPECT_EQ(session_->statistics().lost_records, Pt(0)->lost);
}

TEST_F(AuxSession, ASnapshotKeepsTheNewestOfEachCpu) {
  UsePt(AuxMode::kSnapshot);
  Open();
  const std::vector<std::byte> lots = Bytes0(3 * kAuxBytes + 1234, 5);
  const std::vector<std::byte> little = Bytes0(720, 6);
  kernel_.Trace(Pt(0), lots);
  kernel_.Trace(Pt(1), little);
  Poll();
  EXPECT_EQ(recorder_.by_type[internal::kRecordAuxtrace], 0U);  // not before the end
  StopAndPoll();
  const std::vector<std::byte> newest(lots.end() - kAuxBytes, lots.end());
  EXPECT_EQ(recorder_.Trace(0), newest);
  EXPECT_EQ(recorder_.Trace(1), little);
}

TEST_F(AuxSession, WindowsOnSamplesAreAGroupWithTheTracer) {
  UsePt(AuxMode::kSamples);
  Open();
  const ScriptedKernel::Event* pt = Pt(1);
  ASSERT_NE(pt, nullptr);
  const ScriptedKernel::Event* sampler = nullptr;
  for (const ScriptedKernel::Event* event : kernel_.events()) {
    if (event->attr.Samples(kSampleAux) && event->target.cpu == 1) sampler = event;
  }
  ASSERT_NE(sampler, nullptr);
  EXPECT_EQ(sampler->target.group_fd, pt->fd);
  EXPECT_EQ(sampler->attr.aux_sample_bytes, 4096U);
  EXPECT_EQ(sampler->ring, pt->ring);
  EXPECT_TRUE(pt->ring->aux_overwrites);
  const RecordingDescription& description = session_->description();
  ASSERT_EQ(description.events.size(), 3U);
  EXPECT_EQ(description.events[1].group_leader, 0U);
  kernel_.Trace(Pt(0), Bytes0(100, 1));
  StopAndPoll();
  EXPECT_EQ(recorder_.by_type[internal::kRecordAuxtrace], 0U);
}

TEST_F(AuxSession, AFilterIsGivenToEveryTracerAndWrittenDown) {
  options_.aux_filter = "filter 0x1400/0x80@/bin/prog";
  UsePt(AuxMode::kFull);
  Open();
  for (const int32_t cpu : {0, 1}) EXPECT_EQ(kernel_.filters[Pt(cpu)->id], options_.aux_filter);
  EXPECT_EQ(kernel_.filters.size(), 2U);
  EXPECT_NE(recorder_.auxtrace_info.find(options_.aux_filter), std::string::npos);
}

TEST_F(AuxSession, AFilterThatIsRefusedSaysWhy) {
  options_.aux_filter = "start 0x10@/bin/prog";
  for (const auto& [error, words] :
       {std::pair{EOPNOTSUPP, "fewer filters"}, std::pair{EINVAL, "not understood"}}) {
    kernel_.on_ioctl = [code = error](const ScriptedKernel::Event&, unsigned long request) {
      return request == PERF_EVENT_IOC_SET_FILTER ? code : 0;
    };
    UsePt(AuxMode::kFull);
    const auto session = PerfSession::Open(options_);
    ASSERT_FALSE(session.has_value());
    EXPECT_NE(session.error().message.find(words), std::string::npos) << session.error().message;
  }
}

TEST_F(AuxSession, SnapshotsAreTakenWhileTracingGoesOn) {
  options_.snapshot_at_end = false;
  UsePt(AuxMode::kSnapshot);
  Open();
  const std::vector<std::byte> first = Bytes0(800, 1);
  kernel_.Trace(Pt(0), first);
  const auto bytes = session_->TakeSnapshot(recorder_);
  ASSERT_TRUE(bytes.has_value());
  EXPECT_EQ(*bytes, first.size());
  EXPECT_EQ(recorder_.pieces[0].at(0).bytes, first);
  EXPECT_TRUE(Pt(0)->enabled && Pt(1)->enabled);
  const std::vector<std::byte> second = Bytes0(2 * kAuxBytes, 2);
  kernel_.Trace(Pt(0), second);
  ASSERT_TRUE(session_->TakeSnapshot(recorder_).has_value());
  const std::vector<std::byte> newest(second.end() - kAuxBytes, second.end());
  ASSERT_EQ(recorder_.pieces[0].size(), 2U);
  EXPECT_EQ(recorder_.pieces[0][1].bytes, newest);
  EXPECT_GT(recorder_.pieces[0][1].offset, first.size());
  kernel_.Trace(Pt(0), first);
  StopAndPoll();
  EXPECT_EQ(recorder_.pieces[0].size(), 2U);
}

TEST_F(AuxSession, ASnapshotCanBeTakenWhenTheTargetHasEnded) {
  options_.snapshot_at_end = false;
  UsePt(AuxMode::kSnapshot);
  Open();
  const std::vector<std::byte> bytes = Bytes0(720, 1);
  kernel_.Trace(Pt(0), bytes);
  StopAndPoll();
  EXPECT_TRUE(recorder_.pieces.empty());
  ASSERT_TRUE(session_->TakeSnapshot(recorder_).has_value());
  EXPECT_EQ(recorder_.pieces[0].at(0).bytes, bytes);
  EXPECT_FALSE(Pt(0)->enabled || Pt(1)->enabled);
}

TEST_F(AuxSession, CoreSightIsDescribedAsItsDecoderWantsIt) {
  FakeRoot board;
  JunoBoard(&board);
  options_.sysfs_root = board.path();
  const EventRoots roots{board.path(), ""};
  auto setup = SetUpSource({.name = "coresight", .terms = "cycacc"}, roots);
  ASSERT_TRUE(setup.has_value()) << setup.error().message;
  UseSource(*setup, &options_);
  Open();
  const auto read = ReadCoreSightSetup(AsBytes(recorder_.auxtrace_info), std::endian::native);
  ASSERT_TRUE(read.has_value());
  ASSERT_EQ(read->units.size(), 6U);
  EXPECT_EQ(read->pmu_type, 8U);
  for (const EtmUnit& unit : read->units) {
    EXPECT_EQ(unit.protocol, unit.cpu < 4 ? EtmProtocol::kEtm4 : EtmProtocol::kEte);
    EXPECT_EQ(unit.trace_id, 0x10 + 2 * unit.cpu);
    // CCI, CID and TS of TRCCONFIGR.
    EXPECT_EQ(unit.config, 1U << 4 | 1U << 6 | 1U << 11);
    EXPECT_EQ(unit.idr0, 0x28000ea1U);
    EXPECT_EQ(unit.devarch, unit.cpu < 4 ? 0U : 0x47705a13U);
  }
  const std::vector<std::byte> bytes = Bytes0(1600, 3);
  for (const int32_t cpu : {1, 5}) kernel_.Trace(Pt(cpu), bytes);
  EXPECT_EQ(Pt(6), nullptr);
  StopAndPoll();
  EXPECT_EQ(session_->statistics().aux_bytes, 2 * bytes.size());
}

TEST_F(AuxSession, WhatMayNotBeLockedIsTriedSmaller) {
  options_.aux_bytes = 0;
  kernel_.on_map = [](uint64_t bytes, bool aux) { return aux && bytes > (1 << 20) ? EPERM : 0; };
  UsePt(AuxMode::kFull);
  Open();
  EXPECT_EQ(Pt(0)->ring->aux_bytes, uint64_t{1} << 20);
  const std::vector<std::string>& notes = session_->notes();
  EXPECT_TRUE(std::ranges::any_of(notes, [](const std::string& note) {
    return note.find("AUX areas of 1024 KiB instead of 4096 KiB") != std::string::npos;
  }));
}

TEST_F(AuxSession, AnAreaThatWasAskedForIsNotMadeSmaller) {
  for (const int error : {EPERM, ENOMEM}) {
    kernel_.on_map = [error](uint64_t, bool aux) { return aux ? error : 0; };
    UsePt(AuxMode::kFull);
    const auto session = PerfSession::Open(options_);
    ASSERT_FALSE(session.has_value());
    EXPECT_NE(session.error().message.find("--aux"), std::string::npos) << session.error().message;
    EXPECT_EQ(kernel_.mapped(), 0U);  // nothing is left that would keep an exclusive PMU busy
    EXPECT_TRUE(kernel_.events().empty());
  }
}

TEST_F(AuxSession, ATracerInUseSaysSo) {
  kernel_.on_open = [](const EventAttr& attr, const PerfOpenTarget& target) {
    return attr.type == kPtType && target.cpu == 1 ? EBUSY : 0;
  };
  UsePt(AuxMode::kFull);
  const auto session = PerfSession::Open(options_);
  ASSERT_FALSE(session.has_value());
  EXPECT_EQ(session.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(session.error().message.find("exclusively"), std::string::npos);
  EXPECT_EQ(kernel_.mapped(), 0U);
}

TEST_F(AuxSession, RunningOutOfDescriptorsSaysSo) {
  uint64_t opened = 0;
  kernel_.on_open = [&opened](const EventAttr&, const PerfOpenTarget& target) {
    return target.cpu == 1 && ++opened > 0 ? EMFILE : 0;
  };
  UsePt(AuxMode::kFull);
  const auto session = PerfSession::Open(options_);
  ASSERT_FALSE(session.has_value());
  EXPECT_EQ(session.error().code, ErrorCode::kResourceLimit);
}

TEST_F(AuxSession, ACpuThatIsGoneIsLeftOut) {
  kernel_.on_open = [](const EventAttr&, const PerfOpenTarget& target) {
    return target.cpu == 1 ? ENODEV : 0;
  };
  UsePt(AuxMode::kFull);
  Open();
  EXPECT_EQ(Pt(1), nullptr);
  kernel_.Trace(Pt(0), Bytes0(80, 1));
  StopAndPoll();
  EXPECT_EQ(recorder_.Trace(0).size(), 80U);
}

}  // namespace
}  // namespace ptarmigan
