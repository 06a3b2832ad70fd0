#include "tests/encoders/pt_perf_data.h"

#include <algorithm>
#include <random>

#include "base/check.h"
#include "tests/support/byte_writer.h"
#include "tests/support/jit_dump_writer.h"
#include "tests/support/perf_bytes.h"

namespace ptarmigan {
namespace {

using Mode = PtPerfDataOptions::Mode;

// Records, by include/uapi/linux/perf_event.h and tools/lib/perf/include/perf/event.h (Linux 6.1).
enum Record : uint32_t {
  kMmap = 1,
  kLost = 2,
  kComm = 3,
  kFork = 7,
  kSample = 9,
  kMmap2 = 10,
  kAux = 11,
  kItraceStart = 12,
  kSwitchCpuWide = 15,
  kBuildId = 67,
  kFinishedRound = 68,
  kIdIndex = 69,
  kAuxtraceInfo = 70,
  kAuxtrace = 71,
  kTimeConv = 79,
};
constexpr uint16_t kMiscKernel = 1;
constexpr uint16_t kMiscUser = 2;
constexpr uint16_t kMiscExec = 1U << 13;       // COMM
constexpr uint16_t kMiscSwitchOut = 1U << 13;  // SWITCH
constexpr uint16_t kMiscBuildId = 1U << 14;    // MMAP2
constexpr uint16_t kMiscBuildIdSize = 1U << 15;
constexpr uint64_t kAuxOverwrite = 2;

constexpr uint64_t kPtId = 100;
constexpr uint64_t kDummyId = 50;
constexpr uint64_t kClockId = 60;
constexpr uint64_t kSampleType = 1 | 2 | 4 | 128 | uint64_t{1} << 16;  // IP TID TIME CPU IDENTIFIER
constexpr uint64_t kCallchain = 32;
constexpr uint64_t kPeriod = 256;
constexpr uint64_t kAuxBytes = uint64_t{1} << 20;
constexpr uint64_t kExcludeKernel = uint64_t{1} << 5;
constexpr uint64_t kExcludeHypervisor = uint64_t{1} << 6;
constexpr uint64_t kPeriodValue = 1000;
constexpr uint32_t kAttrBytes = 128;  // what perf 6.1 knows
constexpr uint32_t kNoCpu = UINT32_MAX;

class PtPerfDataRecorder {
 public:
  PtPerfDataRecorder(const PtWalk& walk, const PtPerfDataOptions& options)
      : walk_(walk), options_(options), random_(options.trace.seed) {}

  PtPerfData Record();

 private:
  // A record to be written in order of time.
  struct Timed {
    uint64_t time_ns = 0;
    std::string bytes;
  };

  bool per_cpu() const { return options_.mode == Mode::kPerCpu; }
  uint64_t Random(uint64_t below) { return random_() % below; }
  const PtStep& StepOf(uint32_t number) const { return walk_.steps()[number]; }
  int32_t TidOf(unsigned thread) const { return PtPerfData::kPid + static_cast<int32_t>(thread); }
  std::string Trailer(unsigned thread, uint64_t time_ns, uint64_t id) const;
  void Add(uint64_t time_ns, uint32_t type, uint16_t misc, const std::string& body);

  PerfAttr Attr(uint32_t type, uint64_t config, uint64_t id) const;
  uint64_t PtConfig() const;
  void AddEvents();
  void AddFeatures();
  void AddDescriptions();
  void AddTasks();
  void AddCode();
  void AddMap(PtRegion region, const std::string& path);
  void AddJit();
  void AddStream(unsigned index, const std::vector<uint32_t>& steps);
  void AddBuffers(unsigned index, const PtTrace& trace);
  void AddSnapshot(unsigned index, const PtTrace& trace);
  void AddSamples(unsigned index, const PtTrace& trace);
  void AddSample(unsigned index, const PtTrace& trace, const PtTrace::Pause& pause);
  void AddSwitches(const std::vector<uint32_t>& steps);
  struct Piece {
    unsigned index = 0;  // thread or CPU
    size_t begin = 0;    // of the trace's bytes
    size_t end = 0;
    uint64_t flags = 0;
  };
  void AddPiece(const PtTrace& trace, const Piece& piece);
  uint64_t TscAt(const PtTrace& trace, size_t offset) const;
  PtPerfData::Window WindowFrom(unsigned index, const PtTrace& trace, size_t begin,
                                size_t visible_end) const;
  void CollectVisible();

  const PtWalk& walk_;
  const PtPerfDataOptions& options_;
  std::mt19937_64 random_;
  PtPerfData recording_;
  PerfFileBuilder file_;
  std::vector<PerfAttr> attrs_;
  std::vector<Timed> timed_;
  std::string buffers_;                                        // AUXTRACE records and their bytes
  std::vector<std::pair<uint64_t, uint64_t>> auxtrace_index_;  // offset in buffers_, size
};

std::string PtPerfDataRecorder::Trailer(unsigned thread, uint64_t time_ns, uint64_t id) const {
  return ByteWriter()
      .U32(PtPerfData::kPid)
      .U32(static_cast<uint32_t>(TidOf(thread)))
      .U64(time_ns)
      .U32(0)
      .U32(0)
      .U64(id)
      .bytes();
}

void PtPerfDataRecorder::Add(uint64_t time_ns, uint32_t type, uint16_t misc,
                             const std::string& body) {
  timed_.push_back({time_ns, RecordBytes(type, misc, body)});
}

PerfAttr PtPerfDataRecorder::Attr(uint32_t type, uint64_t config, uint64_t id) const {
  PerfAttr attr;
  attr.type = type;
  attr.config = config;
  attr.period = 1;
  attr.sample_type = kSampleType;
  attr.read_format = 4;  // ID
  attr.flags =
      PerfAttr::kSampleIdAll | kExcludeHypervisor | (options_.trace.kernel ? 0 : kExcludeKernel);
  attr.size_bytes = kAttrBytes;
  attr.ids = {id};
  return attr;
}

// Bits as in /sys/bus/event_source/devices/intel_pt/format.
uint64_t PtPerfDataRecorder::PtConfig() const {
  const PtTraceSettings& trace = options_.trace;
  uint64_t config = 1 | uint64_t{1} << 13;  // pt, branch
  if (trace.cyc) config |= 2 | trace.cyc_threshold / 2 << 19;
  if (trace.mtc && trace.tsc) config |= uint64_t{1} << 9 | uint64_t{trace.mtc_period} << 14;
  if (trace.tsc) config |= uint64_t{1} << 10;
  if (!trace.return_compression) config |= uint64_t{1} << 11;
  if (trace.ptwrite) config |= uint64_t{1} << 12 | uint64_t{1} << 5;
  if (trace.power) config |= uint64_t{1} << 4;
  if (trace.event_trace) config |= uint64_t{1} << 31;
  return config;
}

void PtPerfDataRecorder::AddEvents() {
  attrs_.push_back(Attr(PtPerfData::kPmuType, PtConfig(), kPtId));
  PerfAttr dummy = Attr(1, 9, kDummyId);
  constexpr uint64_t kMmapCommTaskMmap2CommExec = 0x01802300;
  constexpr uint64_t kContextSwitch = uint64_t{1} << 26;
  dummy.flags |= kMmapCommTaskMmap2CommExec | (per_cpu() ? kContextSwitch : 0);
  attrs_.push_back(dummy);
  if (options_.mode == Mode::kSamples) {
    PerfAttr clock = Attr(1, 0, kClockId);
    clock.period = 1000000;
    clock.sample_type |= kCallchain | kPeriod | kAuxBytes;
    clock.aux_sample_bytes = static_cast<uint32_t>(options_.sample_bytes_max);
    attrs_.push_back(clock);
  }
  for (const PerfAttr& attr : attrs_) file_.AddAttr(attr);
}

void PtPerfDataRecorder::AddFeatures() {
  constexpr unsigned kFeatureBuildId = 2;
  constexpr unsigned kFeatureOsRelease = 4;
  constexpr unsigned kFeatureArch = 6;
  constexpr unsigned kFeatureCpuid = 9;
  constexpr unsigned kFeatureEventDesc = 12;
  constexpr unsigned kFeaturePmuMappings = 16;
  constexpr unsigned kFeatureAuxtrace = 18;
  file_.AddFeature(kFeatureOsRelease, HeaderString("6.1.0"));
  file_.AddFeature(kFeatureArch, HeaderString("x86_64"));
  file_.AddFeature(kFeatureCpuid, HeaderString("GenuineIntel,6,143,8"));
  ByteWriter events;
  events.U32(attrs_.size()).U32(kAttrBytes);
  for (const PerfAttr& attr : attrs_) {
    const bool is_pt = attr.type == PtPerfData::kPmuType;
    const char* name = is_pt ? "intel_pt//u" : attr.config == 9 ? "dummy:u" : "cpu-clock:u";
    events.Text(AttrBytes(attr, std::endian::little)).U32(attr.ids.size()).Text(HeaderString(name));
    for (const uint64_t id : attr.ids) events.U64(id);
  }
  file_.AddFeature(kFeatureEventDesc, events.bytes());
  ByteWriter pmus;
  pmus.U32(2).U32(1).Text(HeaderString("software"));
  pmus.U32(PtPerfData::kPmuType).Text(HeaderString("intel_pt"));
  file_.AddFeature(kFeaturePmuMappings, pmus.bytes());

  ByteWriter build_ids;
  for (const auto& [path, content] : recording_.files) {
    for (const PtRegion region : {PtRegion::kProgram, PtRegion::kLibrary, PtRegion::kKernel}) {
      if (!walk_.program().Has(region) || content != walk_.program().Elf(region)) continue;
      const std::string id = walk_.program().BuildId(region);
      const bool is_kernel = region == PtRegion::kKernel;
      ByteWriter body;
      body.U32(is_kernel ? UINT32_MAX : uint32_t{PtPerfData::kPid});
      body.Text(id).U8(id.size()).U8(0).U16(0);
      body.Text(PaddedName(is_kernel ? "[kernel.kallsyms]" : path));
      const uint16_t mode = is_kernel ? kMiscKernel : kMiscUser;
      build_ids.Text(
          RecordBytes(kBuildId, static_cast<uint16_t>(mode | kMiscBuildIdSize), body.bytes()));
    }
  }
  file_.AddFeature(kFeatureBuildId, build_ids.bytes());

  // header, ids, attrs with their sections; then the records before the buffers
  constexpr uint64_t kHeaderBytes = 104;
  constexpr uint64_t kSectionBytes = 16;
  const uint64_t before = kHeaderBytes + attrs_.size() * (8 + kAttrBytes + kSectionBytes) +
                          file_.data().size() - buffers_.size();
  ByteWriter index;
  index.U64(auxtrace_index_.size());
  for (const auto& [offset, size] : auxtrace_index_) index.U64(before + offset).U64(size);
  if (!auxtrace_index_.empty()) file_.AddFeature(kFeatureAuxtrace, index.bytes());
}

// Records that stand in front and have no time.
void PtPerfDataRecorder::AddDescriptions() {
  if (options_.id_index) {
    ByteWriter ids;
    ids.U64(attrs_.size());
    for (const PerfAttr& attr : attrs_) {
      ids.U64(attr.ids[0]).U64(0);
      ids.U64(per_cpu() ? 0 : UINT64_MAX).U64(per_cpu() ? UINT64_MAX : PtPerfData::kPid);
    }
    file_.AddRecord(kIdIndex, 0, ids.bytes());
  }
  const PtTraceSettings& trace = options_.trace;
  constexpr uint64_t kSwitchesByEvent = 3;  // of the kind SWITCH_CPU_WIDE
  ByteWriter body;
  body.U32(1).U32(0);  // type: Intel PT
  body.U64(PtPerfData::kPmuType).U64(PtPerfData::kTimeShift).U64(PtPerfData::kTimeMult);
  body.U64(PtPerfData::kTimeZeroNs).U64(1);
  body.U64(1U << 10).U64(1U << 11);  // bits of tsc and noretcomp
  body.U64(per_cpu() ? kSwitchesByEvent : 0).U64(options_.mode == Mode::kSnapshot ? 1 : 0);
  body.U64(per_cpu() ? 1 : 0);
  body.U64(1U << 9).U64(0xfU << 14);  // bits of mtc and mtc_period
  body.U64(2 * PtTraceSettings::kTscPerCtc).U64(2);
  body.U64(2);  // bit of cyc
  body.U64(PtTraceSettings::kNominalRatio).U64(0);
  file_.AddRecord(kAuxtraceInfo, 0, body.bytes());
  if (!trace.tsc) return;
  file_.AddRecord(kTimeConv, 0,
                  ByteWriter()
                      .U64(PtPerfData::kTimeShift)
                      .U64(PtPerfData::kTimeMult)
                      .U64(PtPerfData::kTimeZeroNs)
                      .U64(0)
                      .U64(0)
                      .U8(1)
                      .PadTo(8)
                      .bytes());
}

void PtPerfDataRecorder::AddTasks() {
  const uint64_t start_ns = PtPerfData::TimeNs(walk_.options().start_tsc) - 10000;
  Add(start_ns, kComm, kMiscExec,
      ByteWriter()
          .U32(PtPerfData::kPid)
          .U32(PtPerfData::kPid)
          .Text(PaddedName("program"))
          .Text(Trailer(0, start_ns, kDummyId))
          .bytes());
  for (unsigned thread = 0; thread < walk_.threads(); ++thread) {
    const uint64_t time_ns = start_ns + 5000 + thread;
    if (thread > 0) {
      Add(time_ns, kFork, 0,
          ByteWriter()
              .U32(PtPerfData::kPid)
              .U32(PtPerfData::kPid)
              .U32(static_cast<uint32_t>(TidOf(thread)))
              .U32(PtPerfData::kPid)
              .U64(time_ns)
              .Text(Trailer(0, time_ns, kDummyId))
              .bytes());
    }
    if (options_.mode == Mode::kSamples || (per_cpu() && thread > 0)) continue;
    Add(time_ns, kItraceStart, 0,
        ByteWriter()
            .U32(PtPerfData::kPid)
            .U32(static_cast<uint32_t>(TidOf(thread)))
            .Text(Trailer(thread, time_ns, kPtId))
            .bytes());
  }
}

void PtPerfDataRecorder::AddMap(PtRegion region, const std::string& path) {
  const PtProgram& program = walk_.program();
  const PtCode& code = program.CodeOf(region);
  const uint64_t length = (code.bytes.size() + 0xfff) / 0x1000 * 0x1000;
  const uint64_t time_ns = PtPerfData::TimeNs(walk_.options().start_tsc) - 9000;
  ByteWriter body;
  if (region == PtRegion::kKernel) {
    body.U32(UINT32_MAX).U32(0).U64(code.address).U64(length).U64(code.address);
    body.Text(PaddedName("[kernel.kallsyms]_text")).Text(Trailer(0, time_ns, kDummyId));
    Add(time_ns, kMmap, kMiscKernel, body.bytes());
    return;
  }
  const bool has_id = options_.build_ids_in_maps && region != PtRegion::kJit;
  body.U32(PtPerfData::kPid).U32(PtPerfData::kPid).U64(code.address).U64(length);
  body.U64(region == PtRegion::kJit ? 0 : PtProgram::kTextOffset);
  if (has_id) {
    const std::string id = program.BuildId(region);
    body.U8(id.size()).U8(0).U16(0).Text(id);
  } else {
    body.U32(8).U32(1).U64(1000 + static_cast<uint64_t>(region)).U64(0);  // device, inode
  }
  body.U32(5).U32(2).Text(PaddedName(path));  // PROT_READ | PROT_EXEC, MAP_PRIVATE
  body.Text(Trailer(0, time_ns, kDummyId));
  Add(time_ns, kMmap2, static_cast<uint16_t>(kMiscUser | (has_id ? kMiscBuildId : 0)),
      body.bytes());
}

// One anonymous mapping for all slots, and a jitdump whose times are TSC ticks.
void PtPerfDataRecorder::AddJit() {
  constexpr size_t kFlagsAt = 32;
  JitDumpWriter dump(std::endian::little, PtPerfData::kPid);
  const PtProgram& program = walk_.program();
  const auto load = [&](size_t slot, size_t version, uint64_t tsc) {
    const PtCode& code = program.code()[program.JitCode(slot, version)];
    dump.Load(tsc, code.address, code.bytes.size(), program.functions()[code.function].name,
              code.bytes);
  };
  for (size_t slot = 0; slot < program.options().jit_slots; ++slot) {
    load(slot, 0, walk_.options().start_tsc - 1000);
  }
  for (const PtCodeChange& change : walk_.code_changes()) {
    const uint64_t tsc = change.step == 0 ? 0 : StepOf(change.step - 1).tsc + 1;
    load(change.slot, change.version, tsc);
  }
  std::string bytes = dump.bytes();
  bytes[kFlagsAt] = 1;  // JITDUMP_FLAGS_ARCH_TIMESTAMP
  recording_.files[options_.directory + "/jit-" + std::to_string(PtPerfData::kPid) + ".dump"] =
      bytes;
}

void PtPerfDataRecorder::AddCode() {
  const PtProgram& program = walk_.program();
  const std::pair<PtRegion, std::string> objects[] = {
      {PtRegion::kProgram, options_.directory + "/program"},
      {PtRegion::kLibrary, options_.directory + "/libpt.so"},
      {PtRegion::kKernel, options_.directory + "/vmlinux"}};
  for (const auto& [region, path] : objects) {
    if (!program.Has(region)) continue;
    if (region == PtRegion::kKernel && !options_.trace.kernel) continue;
    recording_.files[path] = program.Elf(region);
    AddMap(region, path);
  }
  if (!program.Has(PtRegion::kJit)) return;
  // The mapping covers every slot.
  const PtCode& first = program.CodeOf(PtRegion::kJit);
  const PtCode& last = program.code()[program.JitCode(program.options().jit_slots - 1, 0)];
  const uint64_t time_ns = PtPerfData::TimeNs(walk_.options().start_tsc) - 8000;
  const uint64_t length = last.address + 0x10000 - first.address;
  const auto map = [&](uint64_t start, uint64_t bytes, const std::string& path) {
    Add(time_ns, kMmap2, kMiscUser,
        ByteWriter()
            .U32(PtPerfData::kPid)
            .U32(PtPerfData::kPid)
            .U64(start)
            .U64(bytes)
            .U64(0)
            .U32(0)
            .U32(0)
            .U64(0)
            .U64(0)
            .U32(7)
            .U32(2)
            .Text(PaddedName(path))
            .Text(Trailer(0, time_ns, kDummyId))
            .bytes());
  };
  map(first.address, length, "//anon");
  AddJit();
  map(last.address + 0x100000, 0x1000,
      options_.directory + "/jit-" + std::to_string(PtPerfData::kPid) + ".dump");
}

// Time of the last packet that begins before an offset.
uint64_t PtPerfDataRecorder::TscAt(const PtTrace& trace, size_t offset) const {
  const auto packet =
      std::lower_bound(trace.packets.begin(), trace.packets.end(), offset,
                       [](const PtPacketPlace& place, size_t at) { return place.offset < at; });
  if (packet == trace.packets.begin()) return walk_.options().start_tsc;
  return StepOf(std::prev(packet)->step).tsc + 1;
}

void PtPerfDataRecorder::AddPiece(const PtTrace& trace, const Piece& piece) {
  const uint64_t tsc = TscAt(trace, piece.end);
  const uint64_t time_ns = PtPerfData::TimeNs(tsc) + 1;
  const unsigned thread = per_cpu() ? 0 : piece.index;
  Add(time_ns, kAux, 0,
      ByteWriter()
          .U64(piece.begin)
          .U64(piece.end - piece.begin)
          .U64(piece.flags)
          .Text(Trailer(thread, time_ns, kPtId))
          .bytes());
  const bool was_cut = piece.flags != 0 && piece.flags != kAuxOverwrite;
  if (was_cut && options_.lost_records) {
    Add(time_ns, kLost, 0,
        ByteWriter().U64(kDummyId).U64(3).Text(Trailer(thread, time_ns, kDummyId)).bytes());
  }
  std::string bytes = trace.bytes.substr(piece.begin, piece.end - piece.begin);
  const std::string padded = ByteWriter().Text(bytes).PadTo(8).bytes();
  auxtrace_index_.emplace_back(buffers_.size(), 48);
  buffers_ +=
      RecordBytes(kAuxtrace, 0,
                  ByteWriter()
                      .U64(padded.size())
                      .U64(piece.begin)
                      .U64(options_.reference_tsc == UINT64_MAX ? tsc : options_.reference_tsc)
                      .U32(piece.index)
                      .U32(per_cpu() ? UINT32_MAX : static_cast<uint32_t>(TidOf(piece.index)))
                      .U32(per_cpu() ? piece.index : kNoCpu)
                      .U32(0)
                      .bytes());
  buffers_ += padded;
}

// Steps visible from an offset on.
PtPerfData::Window PtPerfDataRecorder::WindowFrom(unsigned index, const PtTrace& trace,
                                                  size_t begin, size_t visible_end) const {
  PtPerfData::Window window{.thread = index, .visible = {}};
  const auto sync =
      std::lower_bound(trace.syncs.begin(), trace.syncs.end(), begin,
                       [](const PtTrace::Sync& place, size_t at) { return place.offset < at; });
  if (sync == trace.syncs.end() || sync->visible >= visible_end) return window;
  window.visible.assign(trace.visible.begin() + static_cast<ptrdiff_t>(sync->visible),
                        trace.visible.begin() + static_cast<ptrdiff_t>(visible_end));
  return window;
}

void PtPerfDataRecorder::AddBuffers(unsigned index, const PtTrace& trace) {
  std::vector<size_t> restarts;
  for (const PtTrace::Gap& gap : trace.gaps) {
    if (gap.kind == PtTrace::Gap::Kind::kRestart) restarts.push_back(gap.offset);
  }
  std::vector<size_t> cuts = restarts;
  for (size_t at = 0; options_.chunk_bytes > 0 && at < trace.bytes.size();) {
    at += 1 + options_.chunk_bytes / 2 + Random(options_.chunk_bytes);
    if (at < trace.bytes.size()) cuts.push_back(at);
  }
  cuts.push_back(trace.bytes.size());
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  size_t begin = 0;
  for (const size_t end : cuts) {
    const bool ended_early = std::find(restarts.begin(), restarts.end(), end) != restarts.end();
    AddPiece(trace, {index, begin, end, ended_early ? options_.restart_flags : 0});
    begin = end;
  }
  PtPerfData::Window window = WindowFrom(index, trace, 0, trace.visible.size());
  window.bytes = trace.bytes.size();
  recording_.windows.push_back(window);
}

void PtPerfDataRecorder::AddSnapshot(unsigned index, const PtTrace& trace) {
  const size_t begin = trace.bytes.size() - std::min(trace.bytes.size(), options_.snapshot_bytes);
  AddPiece(trace, {index, begin, trace.bytes.size(), kAuxOverwrite});
  PtPerfData::Window window = WindowFrom(index, trace, begin, trace.visible.size());
  window.bytes = trace.bytes.size() - begin;
  recording_.windows.push_back(window);
}

void PtPerfDataRecorder::AddSample(unsigned index, const PtTrace& trace,
                                   const PtTrace::Pause& pause) {
  const size_t begin = pause.offset - std::min<size_t>(pause.offset, options_.sample_bytes_max);
  PtPerfData::Window window = WindowFrom(index, trace, begin, pause.visible);
  const PtStep& last = StepOf(trace.visible[pause.visible - 1]);
  // The interrupt comes behind it: the stack is that of the next step of this thread.
  uint32_t path = last.path;
  for (uint32_t i = trace.visible[pause.visible - 1] + 1; i < walk_.steps().size(); ++i) {
    if (StepOf(i).thread != last.thread || StepOf(i).Is(PtStep::kKernel)) continue;
    path = StepOf(i).path;
    break;
  }
  window.time_ns = PtPerfData::TimeNs(last.tsc + 1);
  window.ip = pause.next;
  window.bytes = pause.offset - begin;
  constexpr uint64_t kUserMarker = static_cast<uint64_t>(-512);  // PERF_CONTEXT_USER
  const std::vector<uint64_t> returns = walk_.ReturnAddresses(path);
  const std::string padded =
      ByteWriter().Text(trace.bytes.substr(begin, window.bytes)).PadTo(8).bytes();
  ByteWriter body;
  body.U64(kClockId).U64(window.ip).U32(PtPerfData::kPid);
  body.U32(static_cast<uint32_t>(TidOf(last.thread))).U64(window.time_ns).U32(0).U32(0);
  body.U64(kPeriodValue).U64(2 + returns.size()).U64(kUserMarker).U64(window.ip);
  for (const uint64_t address : returns) body.U64(address);
  body.U64(padded.size()).Text(padded);
  CHECK(body.size() + 8 <= UINT16_MAX);
  Add(window.time_ns, kSample, kMiscUser, body.bytes());
  recording_.windows.push_back(window);
}

void PtPerfDataRecorder::AddSamples(unsigned index, const PtTrace& trace) {
  size_t interrupts = 0;
  for (const PtTrace::Pause& pause : trace.pauses) {
    if (!pause.interrupt || ++interrupts % options_.interrupts_per_sample != 0) continue;
    AddSample(index, trace, pause);
  }
}

// Who leaves the CPU and who comes, where the steps go on with another thread or after another CPU's.
void PtPerfDataRecorder::AddSwitches(const std::vector<uint32_t>& steps) {
  constexpr uint64_t kInBeforeTicks = 20;
  const auto tid_of = [this](uint32_t step) {
    return static_cast<uint32_t>(TidOf(StepOf(step).thread));
  };
  const auto add = [&](uint64_t time_ns, uint32_t step, uint16_t misc, uint32_t other) {
    const uint32_t pid = other == 0 ? 0 : uint32_t{PtPerfData::kPid};
    ByteWriter body;
    body.U32(pid).U32(other).U32(PtPerfData::kPid).U32(tid_of(step)).U64(time_ns);
    body.U32(StepOf(step).cpu).U32(0).U64(kDummyId);
    Add(time_ns, kSwitchCpuWide, misc, body.bytes());
  };
  const auto in_ns = [&](uint32_t step) {
    return PtPerfData::TimeNs(StepOf(step).tsc - kInBeforeTicks);
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    const uint32_t next = steps[i];
    if (i == 0) {
      add(in_ns(next), next, 0, 0);
      continue;
    }
    const uint32_t last = steps[i - 1];
    const bool idle = next != last + 1;
    if (!idle && StepOf(next).thread == StepOf(last).thread) continue;
    const uint64_t out_ns = PtPerfData::TimeNs(StepOf(last).tsc + kInBeforeTicks);
    add(out_ns, last, kMiscSwitchOut, idle ? 0 : tid_of(next));
    add(in_ns(next), next, 0, idle ? 0 : tid_of(last));
  }
}

void PtPerfDataRecorder::AddStream(unsigned index, const std::vector<uint32_t>& steps) {
  if (steps.empty()) return;
  if (per_cpu()) AddSwitches(steps);
  const PtTrace trace = EncodePt(walk_, steps, options_.trace);
  recording_.overflows += trace.overflows;
  switch (options_.mode) {
    case Mode::kPerThread:
    case Mode::kPerCpu:
      AddBuffers(index, trace);
      break;
    case Mode::kSnapshot:
      AddSnapshot(index, trace);
      break;
    case Mode::kSamples:
      AddSamples(index, trace);
      break;
  }
}

void PtPerfDataRecorder::CollectVisible() {
  recording_.visible.resize(walk_.threads());
  for (const PtPerfData::Window& window : recording_.windows) {
    recording_.trace_bytes += window.bytes;
    for (const uint32_t step : window.visible) {
      recording_.visible[StepOf(step).thread].push_back(step);
    }
  }
  for (auto& steps : recording_.visible) {
    std::sort(steps.begin(), steps.end());
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  }
}

PtPerfData PtPerfDataRecorder::Record() {
  AddEvents();
  AddDescriptions();
  AddTasks();
  AddCode();
  if (per_cpu()) {
    for (unsigned cpu = 0; cpu < walk_.options().cpus; ++cpu) AddStream(cpu, walk_.StepsOfCpu(cpu));
  } else {
    for (unsigned i = 0; i < walk_.threads(); ++i) AddStream(i, walk_.StepsOfThread(i));
  }
  CollectVisible();
  std::stable_sort(timed_.begin(), timed_.end(),
                   [](const Timed& a, const Timed& b) { return a.time_ns < b.time_ns; });
  for (const Timed& record : timed_) file_.AddBytes(record.bytes);
  file_.AddBytes(buffers_);
  AddFeatures();
  file_.AddFinishedRound();
  recording_.perf_data = file_.File();
  return std::move(recording_);
}

}  // namespace

uint64_t PtPerfData::TimeNs(uint64_t tsc) {
  const uint64_t quotient = tsc >> kTimeShift;
  const uint64_t rest = tsc & ((uint64_t{1} << kTimeShift) - 1);
  return kTimeZeroNs + quotient * kTimeMult + (rest * kTimeMult >> kTimeShift);
}

PtPerfData RecordPt(const PtWalk& walk, const PtPerfDataOptions& options) {
  return PtPerfDataRecorder(walk, options).Record();
}

}  // namespace ptarmigan
