#include "pipeline/internal/trace_flow.h"

#include <algorithm>
#include <set>

#include "base/str_format.h"
#include "decode/coresight_flow.h"
#include "decode/instruction_bytes.h"
#include "decode/pt_decoder.h"

namespace ptarmigan::internal {
namespace {

// A timeline with more of them shows nothing.
constexpr size_t kMarksMax = size_t{1} << 18;

std::string_view GapName(FlowEvent::Kind kind) {
  switch (kind) {
    case FlowEvent::Kind::kDisabled:
      return "disabled";
    case FlowEvent::Kind::kOverflow:
      return "overflow";
    case FlowEvent::Kind::kInterrupted:
      return "interrupt";
    case FlowEvent::Kind::kMissingCode:
      return "no_image";
    case FlowEvent::Kind::kUnknownPath:
      return "unknown_path";
    case FlowEvent::Kind::kError:
      return "error";
    default:
      return {};
  }
}

// What the checks of a segment said, in words.
std::string TextOf(uint32_t reasons) {
  std::string text;
  const auto add = [&](uint32_t reason, std::string_view words) {
    if ((reasons & reason) == 0) return;
    if (!text.empty()) text += ", ";
    text += words;
  };
  add(FlowChecks::kDecoderError, "the packets do not fit the code");
  add(FlowChecks::kEndNotReached, "the next synchronisation point is elsewhere");
  add(FlowChecks::kReturnMismatch, "returns to where no call came from");
  add(FlowChecks::kCallIntoFunction, "calls into the middle of functions");
  add(FlowChecks::kBudget, "too many instructions without a packet");
  add(FlowChecks::kImplausible, "implausible flow");
  add(FlowChecks::kMissingCode, "code is missing");
  add(FlowChecks::kLostRecords, "records of mappings were lost");
  return text;
}

}  // namespace

TraceFlow::TraceFlow(const TraceStreams& streams, CodeImages& images,
                     const TraceFlowOptions& options)
    : streams_(streams),
      images_(images),
      options_(options),
      is_coresight_(streams.kind() == TraceKind::kCoreSight) {
  if (!options_.want_calls) return;
  calls_ = std::make_unique<CallTimes>(options_.intervals,
                                       [this](uint64_t ticks) { return MomentNs(ticks); });
}

uint32_t TraceFlow::ThreadOf(int32_t pid, int32_t tid) {
  const auto [found, is_new] =
      thread_of_.try_emplace({pid, tid}, static_cast<uint32_t>(summary_.threads.size()));
  if (is_new) {
    FlowSummary::Thread& thread = summary_.threads.emplace_back();
    thread.pid = pid;
    thread.tid = tid;
    states_.emplace_back();
  }
  return found->second;
}

uint32_t TraceFlow::OwnerOf(int32_t pid, int32_t tid, const CodeImages::Life* life) {
  const uint64_t id = life != nullptr ? life->id : 0;
  const auto [found, is_new] =
      owner_of_.try_emplace({id, tid}, static_cast<uint32_t>(owners_.size()));
  if (is_new) {
    CallStackBuilder::TraitsOf traits;
    if (life != nullptr) {
      traits = [image = life->image](const CodeBlock& block) {
        return CodeImages::TraitsOf(*image, block);
      };
    }
    const uint32_t thread = ThreadOf(pid, tid);
    CallStackBuilder::Sink* sink =
        calls_ != nullptr ? calls_->SinkOf(found->second, thread, tid) : nullptr;
    owners_.push_back({.pid = pid,
                       .tid = tid,
                       .life = id,
                       .image = life != nullptr ? life->image : nullptr,
                       .thread = thread,
                       .stacks = std::make_unique<CallStackBuilder>(std::move(traits), sink)});
  }
  return found->second;
}

// A stint of a thread is as many occupants as its process had lives in that time.
std::vector<CodeOccupant> TraceFlow::OccupantsOf(const TraceStream& stream) {
  std::vector<CodeOccupant> occupants;
  const std::vector<TraceStint>& stints = stream.stints;
  for (size_t i = 0; i < stints.size(); ++i) {
    const TraceStint& stint = stints[i];
    const uint64_t until_ns = i + 1 < stints.size() ? stints[i + 1].since_ns : UINT64_MAX;
    const CodeImages::Life* current = images_.LifeAt(stint.pid, stint.since_ns);
    const auto add = [&](uint64_t since_ns, const CodeImages::Life* life) {
      CodeOccupant occupant;
      occupant.since_ticks = occupants.empty() ? 0 : ToTicks(since_ns);
      occupant.owner = OwnerOf(stint.pid, stint.tid, life);
      occupant.image = life != nullptr ? life->image : nullptr;
      occupants.push_back(occupant);
    };
    add(stint.since_ns, current);
    for (const CodeImages::Life& life : images_.LivesOf(stint.pid)) {
      if (life.since_ns > stint.since_ns && life.since_ns < until_ns && &life != current) {
        add(life.since_ns, &life);
      }
    }
  }
  return occupants;
}

std::vector<std::vector<CodeOccupant>> TraceFlow::AllOccupants() {
  std::vector<std::vector<CodeOccupant>> occupants;
  for (const TraceStream& stream : streams_.streams()) {
    occupants.push_back(OccupantsOf(stream));
    std::set<uint32_t> threads;
    for (const CodeOccupant& occupant : occupants.back()) {
      threads.insert(owners_[occupant.owner].thread);
    }
    for (const uint32_t thread : threads) ++states_[thread].streams;
  }
  return occupants;
}

Status TraceFlow::Run() {
  summary_.source = source();
  TRY(is_coresight_ ? RunCoreSight() : RunPt());
  UseWaiting();
  for (const TraceOwner& owner : owners_) owner.stacks->Break();
  std::ranges::stable_sort(summary_.marks, {}, [](const FlowSummary::Mark& mark) {
    return std::pair(mark.thread, mark.begin_ns);
  });
  for (const FlowStatistics::MissingObject& object : statistics_.missing) {
    summary_.missing_code[object.name] += object.bytes;
  }
  return OkStatus();
}

Status TraceFlow::RunPt() {
  const PtRecording recording = streams_.PtDescription();
  pt_ = recording.config;
  PtOptions options;
  options.threads = options_.threads;
  options.walker = options_.pt_walker;
  options.want_path = options_.want_digest;
  options.want_calls = options_.want_calls;
  TRY_ASSIGN(const std::unique_ptr<PtDecoder> decoder,
             PtDecoder::Create(recording.config, options));
  std::vector<std::vector<CodeOccupant>> occupants = AllOccupants();
  for (stream_ = 0; stream_ < streams_.streams().size(); ++stream_) {
    const TraceStream& source = streams_.streams()[stream_];
    PtStream stream;
    stream.bytes = source.bytes;
    stream.begin_offset = source.begin_offset;
    stream.occupants = std::move(occupants[stream_]);
    stream.breaks = source.breaks;
    const uint32_t first_owner = stream.occupants.front().owner;
    const FlowBytes before = decoder->statistics().bytes;
    in_segments_ = {};
    TRY(decoder->Decode(stream, *this));
    // What lies in no segment is the stream's first thread's.
    const FlowBytes& after = decoder->statistics().bytes;
    FlowBytes& bytes = summary_.threads[owners_[first_owner].thread].bytes;
    bytes.before_sync += after.before_sync - before.before_sync - in_segments_.before_sync;
    bytes.dropped += after.dropped - before.dropped - in_segments_.dropped;
  }
  statistics_ = decoder->statistics();
  return OkStatus();
}

Status TraceFlow::RunCoreSight() {
  CoreSightFlowOptions options;
  options.want_path = options_.want_digest;
  options.want_calls = options_.want_calls;
  options.time = streams_.time_conversion();
  TRY_ASSIGN(const std::unique_ptr<CoreSightFlow> decoder,
             CoreSightFlow::Create(streams_.coresight(), streams_.trace_ids(), options));
  std::vector<std::vector<CodeOccupant>> occupants = AllOccupants();
  for (stream_ = 0; stream_ < streams_.streams().size(); ++stream_) {
    const TraceStream& source = streams_.streams()[stream_];
    CoreSightStream stream;
    stream.bytes = source.bytes;
    stream.begin_offset = source.begin_offset;
    stream.cpu = source.cpu;
    stream.pieces = source.pieces;
    stream.occupants = std::move(occupants[stream_]);
    if (source.tid < 0) {
      stream.occupant_of = [this](uint32_t thread, uint64_t time_ns) {
        return OccupantOf(static_cast<int32_t>(thread), time_ns);
      };
    }
    TRY(decoder->Decode(stream, *this));
  }
  statistics_ = decoder->statistics();
  return OkStatus();
}

// A thread that the trace names. It may run in any stream.
std::optional<CodeOccupant> TraceFlow::OccupantOf(int32_t tid, uint64_t time_ns) {
  const int32_t pid = streams_.ProcessOf(tid);
  if (pid < 0) return std::nullopt;
  const CodeImages::Life* life = images_.LifeAt(pid, time_ns == 0 ? UINT64_MAX : time_ns);
  const uint32_t owner = OwnerOf(pid, tid, life);
  ThreadState& state = states_[owners_[owner].thread];
  state.streams = std::max(state.streams, streams_.streams().size());
  return CodeOccupant{.owner = owner, .image = life != nullptr ? life->image : nullptr};
}

void TraceFlow::OnFlowSegment(const FlowGraph& graph, const FlowSegment& segment) {
  // (It only grows.)
  graph_.blocks.insert(graph_.blocks.end(),
                       graph.blocks.begin() + static_cast<ptrdiff_t>(graph_.blocks.size()),
                       graph.blocks.end());
  graph_.edges.insert(graph_.edges.end(),
                      graph.edges.begin() + static_cast<ptrdiff_t>(graph_.edges.size()),
                      graph.edges.end());
  const TraceOwner& owner = owners_[segment.owner];
  if (options_.want_digest) {
    while (offsets_.size() < graph_.blocks.size()) {
      LearnBlock(graph_.blocks[offsets_.size()], owner);
    }
  }
  Count(graph, segment);
  ThreadState& state = states_[owner.thread];
  if (state.streams == 1) {
    Use(segment, stream_);
    return;
  }
  waiting_bytes_ += segment.path.size() * sizeof(uint32_t) +
                    segment.contexts.size() * sizeof(segment.contexts[0]) +
                    segment.frames.size() * sizeof(OpenFrame) +
                    segment.calls.size() * sizeof(CallEvent);
  if (waiting_bytes_ > options_.waiting_bytes_max) {
    // Its order is lost; what it ran has been counted.
    state.digest_lost = true;
    return;
  }
  state.waiting.push_back({order_++, stream_, segment});
}

// What does not depend on the order.
void TraceFlow::Count(const FlowGraph& graph, const FlowSegment& segment) {
  const TraceOwner& owner = owners_[segment.owner];
  FlowSummary::Thread& thread = summary_.threads[owner.thread];
  const uint32_t cpu = streams_.streams()[stream_].cpu;
  if (thread.bytes.Sum() == 0 && cpu != RecordIdentity::kNoCpu) {
    thread.cpu = cpu;
  } else if (thread.cpu && *thread.cpu != cpu) {
    thread.cpu.reset();
  }
  has_cycles_ |= segment.has_cycles;
  CountTime(segment, &thread);
  if (options_.intervals.count_max > 0) NoteMarks(segment);
  thread.instructions += segment.instructions;
  thread.bytes += segment.bytes;
  in_segments_ += segment.bytes;
  thread.verified += segment.trust == FlowTrust::kVerified ? 1 : 0;
  thread.suspect += segment.trust == FlowTrust::kSuspect ? 1 : 0;
  thread.bad += segment.trust == FlowTrust::kBad ? 1 : 0;
  for (const EdgeCount& count : segment.edges) {
    const FlowEdge& edge = graph.edges[count.edge];
    thread.blocks += count.count;
    if (edge.taken) thread.branches += count.count;
    // (A call of the next instruction only asks for the program counter.)
    const bool is_call = edge.kind == BranchKind::kCall || edge.kind == BranchKind::kIndirectCall;
    if (is_call && edge.step != FlowStep::kStay) {
      thread.calls += count.count;
    }
    if (edge.kind == BranchKind::kReturn) thread.returns += count.count;
    if (!IsUsed(segment)) continue;
    EdgeSum& sum = edges_[{owner.life, count.edge}];
    if (sum.count == 0) sum = {.owner = segment.owner, .edge = count.edge};
    sum.count += count.count;
  }
  for (const FlowEvent& event : segment.events) {
    const std::string_view name = GapName(event.kind);
    if (!name.empty()) ++thread.gaps[std::string(name)];
    if (event.kind != FlowEvent::Kind::kError) continue;
    if (thread.errors.size() >= FlowSummary::Thread::kErrorsMax) {
      ++thread.errors_cut;
      continue;
    }
    thread.errors.push_back({.offset = segment.begin_offset,
                             .code = static_cast<int64_t>(event.value),
                             .reason = TextOf(segment.checks.reasons)});
  }
}

void TraceFlow::CountTime(const FlowSegment& segment, FlowSummary::Thread* thread) {
  if (!segment.has_time) return;
  has_time_ = true;
  const uint64_t begin_ns = MomentNs(segment.begin_ticks);
  if (begin_ns == 0) return;
  if (thread->begin_ns == 0 || begin_ns < thread->begin_ns) thread->begin_ns = begin_ns;
  thread->end_ns = std::max(thread->end_ns, MomentNs(segment.end_ticks));
  thread->uncertainty_ns = std::max(thread->uncertainty_ns, ToNs(segment.uncertainty_ticks));
}

// What a timeline shows beside what ran.
void TraceFlow::NoteMarks(const FlowSegment& segment) {
  using Kind = FlowSummary::Mark::Kind;
  const uint32_t thread = owners_[segment.owner].thread;
  for (const FlowEvent& event : segment.events) {
    if (event.kind == FlowEvent::Kind::kOverflow) {
      AddMark(Kind::kOverflow, event.ticks, event.ticks, thread);
    } else if (event.kind == FlowEvent::Kind::kMissingCode) {
      AddMark(Kind::kMissingCode, event.ticks, event.ticks, thread);
    } else if (event.kind == FlowEvent::Kind::kError) {
      AddMark(Kind::kError, event.ticks, event.ticks, thread);
    }
  }
  if (segment.trust == FlowTrust::kVerified) return;
  AddMark(segment.trust == FlowTrust::kSuspect ? Kind::kSuspect : Kind::kBad, segment.begin_ticks,
          segment.end_ticks, thread);
}

void TraceFlow::AddMark(FlowSummary::Mark::Kind kind, uint64_t begin_ticks, uint64_t end_ticks,
                        uint32_t thread) {
  const int32_t tid = summary_.threads[thread].tid;
  if (begin_ticks == 0 || (options_.intervals.tid >= 0 && options_.intervals.tid != tid)) return;
  const uint64_t begin_ns = MomentNs(begin_ticks);
  const uint64_t end_ns = MomentNs(end_ticks);
  if (end_ns < options_.intervals.from_ns || begin_ns >= options_.intervals.to_ns) return;
  if (summary_.marks.size() >= kMarksMax) {
    ++summary_.marks_cut;
    return;
  }
  summary_.marks.push_back(
      {.thread = thread, .kind = kind, .begin_ns = begin_ns, .end_ns = end_ns});
}

void TraceFlow::Use(const FlowSegment& segment, size_t stream) {
  const TraceOwner& owner = owners_[segment.owner];
  ThreadState& state = states_[owner.thread];
  if (options_.want_digest) Digest(segment.path, &state);
  const bool may_resume = stream != state.last_stream && !streams_.streams()[stream].is_window;
  state.last_stream = stream;
  if (IsUsed(segment)) {
    owner.stacks->Add(graph_, segment, may_resume);
  } else {
    owner.stacks->Break();
  }
}

// Where the instructions of a block begin.
void TraceFlow::LearnBlock(const CodeBlock& block, const TraceOwner& owner) {
  std::vector<uint16_t>& offsets = offsets_.emplace_back();
  if (owner.image == nullptr || block.instructions == 0) return;
  VirtAddr next = block.start;
  for (uint32_t i = 0; i < block.instructions; ++i) {
    const uint64_t size = InstructionBytes(block, *owner.image, next);
    if (size == 0 || next - block.start > UINT16_MAX) break;
    offsets.push_back(static_cast<uint16_t>(next - block.start));
    next = next + size;
  }
  if (offsets.size() != block.instructions || block.start + offsets.back() != block.last) {
    offsets.clear();
  }
}

uint64_t TraceFlow::InstructionBytes(const CodeBlock& block, const CodeImage& image,
                                     VirtAddr address) const {
  InstructionBuffer buffer;
  if (!is_coresight_) {
    const Bytes code = InstructionBytesAt(image, address, block.epoch, &buffer);
    return (block.is_64_bit ? decoder_64_ : decoder_32_).Decode(code).size_bytes;
  }
  // A64 and A32 instructions are of one size; T32's are of two (Arm ARM, F3.1: the first halfword says which).
  constexpr uint64_t kWide = 4;
  constexpr uint64_t kNarrow = 2;
  if (block.last - block.start == kWide * (block.instructions - 1)) return kWide;
  const Bytes code = InstructionBytesAt(image, address, block.epoch, &buffer);
  if (code.size() < kNarrow) return 0;
  constexpr unsigned kFirstWide = 0b11101;
  return std::to_integer<unsigned>(code[1]) >> 3 >= kFirstWide ? kWide : kNarrow;
}

void TraceFlow::Digest(const std::vector<uint32_t>& path, ThreadState* state) {
  for (const uint32_t edge : path) {
    const uint32_t id = graph_.edges[edge].to;
    if (id == kNoFlowId) continue;
    const CodeBlock& block = graph_.blocks[id];
    if (offsets_[id].size() != block.instructions) state->digest_lost = true;
    for (const uint16_t offset : offsets_[id]) state->digest.Add(block.start + offset);
  }
}

void TraceFlow::UseWaiting() {
  for (size_t i = 0; i < states_.size(); ++i) {
    ThreadState& state = states_[i];
    std::ranges::sort(state.waiting, [](const WaitingSegment& a, const WaitingSegment& b) {
      return std::pair(a.segment.begin_ticks, a.order) < std::pair(b.segment.begin_ticks, b.order);
    });
    for (const WaitingSegment& waiting : std::exchange(state.waiting, {})) {
      Use(waiting.segment, waiting.stream);
    }
    if (options_.want_digest && !state.digest_lost) {
      summary_.threads[i].ip_digest = state.digest.value();
    }
  }
}

std::vector<TraceFlow::EdgeSum> TraceFlow::Edges() const {
  std::vector<EdgeSum> sums;
  sums.reserve(edges_.size());
  for (const auto& [key, sum] : edges_) sums.push_back(sum);
  return sums;
}

}  // namespace ptarmigan::internal
