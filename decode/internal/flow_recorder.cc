#include "decode/internal/flow_recorder.h"

#include <algorithm>
#include <bit>

namespace ptarmigan::internal {
namespace {

constexpr uint32_t kLengthMax = uint32_t{1} << 30;
constexpr uint32_t k32BitFlag = uint32_t{1} << 31;
// Nobody asks for more; keeps a damaged trace from walking through a whole object.
constexpr uint32_t kWalkMax = 1 << 16;

BranchKind KindOf(Instruction::Kind kind) {
  switch (kind) {
    case Instruction::Kind::kConditionalJump:
      return BranchKind::kConditionalJump;
    case Instruction::Kind::kJump:
      return BranchKind::kJump;
    case Instruction::Kind::kIndirectJump:
      return BranchKind::kIndirectJump;
    case Instruction::Kind::kCall:
      return BranchKind::kCall;
    case Instruction::Kind::kIndirectCall:
      return BranchKind::kIndirectCall;
    case Instruction::Kind::kReturn:
      return BranchKind::kReturn;
    case Instruction::Kind::kSystemReturn:
      return BranchKind::kSystemReturn;
    case Instruction::Kind::kNoTransfer:
      break;
  }
  return BranchKind::kNone;
}

// Far transfers into the kernel, which Instruction does not tell from instructions that stay: SYSCALL, SYSENTER, INT.
bool IsSystemCall(Bytes code) {
  const auto byte = [&](size_t at) {
    return at < code.size() ? std::to_integer<uint8_t>(code[at]) : uint8_t{0};
  };
  return (byte(0) == 0x0f && (byte(1) == 0x05 || byte(1) == 0x34)) || byte(0) == 0xcd;
}

}  // namespace

FlowRecorder::FlowRecorder(const Options& options)
    : options_(options), decoder_64_(Arch::kX86_64), decoder_32_(Arch::kX86) {
  blocks_.emplace_back();
  code_.emplace_back();
  edges_.emplace_back();
  spaces_.emplace_back().blocks = std::make_unique<CompactIndex>();
  space_ids_.try_emplace({nullptr, 0}, 0);
  function_ids_.try_emplace(FunctionKey(), 0);
}

void FlowRecorder::SetCode(const CodeImage* image, size_t epoch) {
  const auto [found, is_new] =
      space_ids_.try_emplace({image, epoch}, static_cast<uint32_t>(spaces_.size()));
  if (is_new) {
    Space& space = spaces_.emplace_back();
    space.image = image;
    space.epoch = epoch;
    space.blocks = std::make_unique<CompactIndex>();
  }
  if (found->second == space_) return;
  space_ = found->second;
  LeaveBlock(block_ != 0 ? Arrival::kFlow : arrival_);
}

// The next block is looked for with care.
void FlowRecorder::LeaveBlock(Arrival arrival) {
  if (block_ != 0) from_ = block_;
  block_ = 0;
  arrival_ = arrival;
}

void FlowRecorder::Begin(FlowSegment* segment, FlowStrand::Start start) {
  segment_ = segment;
  tracker_.Begin(segment, options_.want_calls);
  block_ = 0;
  from_ = 0;
  arrival_ = Arrival::kBegin;
  begin_ = start;
  stopped_at_ = 0;
  instructions_ = 0;
  last_ticks_ = 0;
  last_cycles_ = 0;
  has_time_ = false;
}

void FlowRecorder::OnGap() {
  from_ = 0;
  block_ = 0;
  arrival_ = Arrival::kBegin;
  begin_ = FlowStrand::Start::kGap;
  stopped_at_ = 0;
}

void FlowRecorder::OnStoppedBehindBlock(bool by_kernel) {
  const HotBlock& last = blocks_[block_];
  // No branch of a program enters the kernel. (Other ways into it count as none: kNone.)
  const bool is_branch = last.ending != BranchKind::kNone &&
                         last.ending != BranchKind::kSystemCall &&
                         last.ending != BranchKind::kSystemReturn;
  if (options_.check_landings && by_kernel && block_ != 0 && is_branch) {
    segment_->checks.reasons |= FlowChecks::kImplausible;
  }
  // Behind a system call or a call of code that is not traced execution goes on; elsewhere it does not.
  const bool comes_back = last.ending == BranchKind::kNone || last.ending == BranchKind::kCall ||
                          last.ending == BranchKind::kIndirectCall ||
                          last.ending == BranchKind::kSystemCall;
  OnStopped(comes_back ? last.end : 0);
}

void FlowRecorder::OnStopped(uint64_t resume) {
  if (options_.want_contexts && tracker_.has_strand()) {
    tracker_.Credit(instructions_);
    tracker_.Outside();
  }
  stopped_at_ = resume;
  LeaveBlock(Arrival::kResume);
}

void FlowRecorder::OnResumed(uint64_t address) {
  const uint64_t expected = stopped_at_;
  stopped_at_ = 0;
  if (block_ != 0 || from_ == 0) {
    // Nothing ran before in this segment.
    from_ = 0;
    block_ = 0;
    arrival_ = Arrival::kBegin;
    if (expected != address || expected == 0) begin_ = FlowStrand::Start::kEnabled;
    return;
  }
  if (expected == address) {
    arrival_ = Arrival::kResume;
    return;
  }
  interrupted_at_ = expected;
  arrival_ = Arrival::kElsewhere;
  const Space& space = spaces_[space_];
  if (options_.check_landings && space.image != nullptr) {
    segment_->checks.reasons |= landing_check_.ReasonsAgainstResuming(
        {space.image, space.epoch}, address, expected, code_[from_].is_64_bit);
  }
}

void FlowRecorder::OnArrival(uint64_t address) {
  if (block_ == 0 || blocks_[block_].ending == BranchKind::kNone) return;
  OnBlock({.start = address, .last = address - 1, .instructions = 0});
}

void FlowRecorder::OnInterrupt(uint64_t from) {
  interrupted_at_ = from;
  LeaveBlock(Arrival::kInterrupt);
}

void FlowRecorder::OnEvent(FlowEvent::Kind kind, uint64_t address, uint64_t value) {
  if (segment_->events.size() >= kEventsMax) return;
  segment_->events.push_back({.kind = kind,
                              .address = {address},
                              .ticks = last_ticks_,
                              .instruction = instructions_,
                              .value = value});
}

void FlowRecorder::AddAnchor(uint64_t ticks, uint64_t cycles) {
  std::vector<FlowAnchor>& anchors = segment_->anchors;
  if (has_time_ && ticks < last_ticks_) return;  // a clock never goes back
  has_time_ = true;
  last_ticks_ = ticks;
  last_cycles_ = std::max(last_cycles_, cycles);
  // Time that passes without an instruction belongs before the next one, unless it was spent outside, which shows in two
  // anchors at one instruction.
  if (anchors.size() >= 2 && anchors.back().instruction == instructions_ &&
      anchors[anchors.size() - 2].instruction == instructions_) {
    anchors.back().ticks = ticks;
    anchors.back().cycles = last_cycles_;
    return;
  }
  anchors.push_back({instructions_, ticks, last_cycles_});
}

void FlowRecorder::Step(uint32_t id, const HotEdge& edge, uint64_t start) {
  const CallTracker::Callee callee = {id, edge.function, edge.lands_on_start};
  tracker_.Credit(instructions_);
  switch (edge.step) {
    case FlowStep::kCall:
      if (edge.knows_start) {
        ++(edge.lands_on_start ? segment_->checks.calls_to_starts
                               : segment_->checks.calls_elsewhere);
      }
      tracker_.Call(callee, blocks_[edge.from].end, false);
      return;
    case FlowStep::kReturn:
      if (tracker_.Return(start)) return;
      if (options_.check_landings && std::has_single_bit(tracker_.innermost_return() ^ start)) {
        segment_->checks.reasons |= FlowChecks::kReturnMismatch;
      }
      tracker_.StartStrand(FlowStrand::Start::kReturn, callee, instructions_);
      return;
    case FlowStep::kTailCall:
      tracker_.Replace(callee);
      return;
    case FlowStep::kLeap:
      tracker_.StartStrand(FlowStrand::Start::kLeap, callee, instructions_);
      return;
    case FlowStep::kInterrupt:
      if (arrival_ == Arrival::kElsewhere) {
        // Back where an earlier interrupt struck, or from code that was not traced.
        if (tracker_.Resume(start) || tracker_.Return(start)) return;
        // Or the handler of a signal: who waits for what is known where all frames are.
        tracker_.StartStrand(FlowStrand::Start::kEnabled, callee, instructions_);
        return;
      }
      tracker_.Call(callee, interrupted_at_, true);
      return;
    case FlowStep::kBegin:
      tracker_.StartStrand(begin_, callee, instructions_);
      return;
    case FlowStep::kResume:
    case FlowStep::kStay:
      return;
  }
}

uint32_t FlowRecorder::FindEdge(const Block& block) {
  const uint32_t to = FindBlock(block);
  const bool by_flow = block_ != 0;
  const uint32_t from = by_flow ? block_ : arrival_ == Arrival::kBegin ? 0 : from_;
  const Arrival arrival = by_flow ? Arrival::kFlow : arrival_;
  const CompactIndex::Key key = {static_cast<uint64_t>(from) << 32 | to,
                                 static_cast<uint32_t>(arrival)};
  const uint32_t next = static_cast<uint32_t>(edges_.size());
  const uint32_t id = edge_index_.FindOrInsert(key, next);
  if (id == next) AddEdge(from, to, block, arrival);
  if (by_flow && blocks_[from].space == space_) {
    HotBlock& source = blocks_[from];
    if (source.next[0] == 0) {
      source.next[0] = id;
    } else {
      source.next[1] = id;  // the latest: where a return led before it will lead again
    }
  }
  return id;
}

void FlowRecorder::AddEdge(uint32_t from, uint32_t to, const Block& block, Arrival arrival) {
  HotEdge& edge = edges_.emplace_back();
  FlowEdge& told = fresh_.edges.emplace_back();
  const CodeBlock& target = code_[to];
  edge.start = block.start;
  edge.length = LengthAndMode(block);
  edge.to = to;
  edge.from = from;
  edge.function = blocks_[to].function;
  edge.lands_on_start = target.knows_function && target.start == target.function;
  edge.knows_start = target.knows_function;
  if (from == 0) {
    told = {.to = to, .step = FlowStep::kBegin};
  } else if (arrival == Arrival::kResume) {
    told = {.from = from, .to = to, .step = FlowStep::kResume};
  } else if (arrival == Arrival::kInterrupt || arrival == Arrival::kElsewhere) {
    told = {.from = from, .to = to, .step = FlowStep::kInterrupt};
  } else {
    told = FlowEdge::Between(from, code_[from], to, target);
  }
  edge.step = told.step;
  const Space& space = spaces_[space_];
  if (options_.check_landings && arrival == Arrival::kFlow && from != 0 &&
      target.instructions > 0 && space.image != nullptr) {
    edge.reasons = static_cast<uint8_t>(
        landing_check_.ReasonsAgainst({space.image, space.epoch}, code_[from], target));
  }
}

uint32_t FlowRecorder::FindBlock(const Block& block) {
  const uint32_t length =
      static_cast<uint32_t>(std::min<uint64_t>(block.last - block.start, kLengthMax));
  const CompactIndex::Key key = {block.start, block.is_64_bit ? length : length | k32BitFlag};
  const uint32_t next = static_cast<uint32_t>(blocks_.size());
  const uint32_t id = spaces_[space_].blocks->FindOrInsert(key, next);
  if (id == next) AddBlock(block);
  return id;
}

void FlowRecorder::AddBlock(const Block& block) {
  HotBlock& added = blocks_.emplace_back();
  CodeBlock& added_code = code_.emplace_back();
  BlockIdentity& told = fresh_.blocks.emplace_back();
  const Space& space = spaces_[space_];
  added.space = space_;
  told.block.start = {block.start};
  told.block.last = {block.last};
  told.block.instructions = block.instructions;
  told.block.is_64_bit = block.is_64_bit;
  told.block.epoch = static_cast<uint32_t>(space.epoch);
  told.image = space.image;
  told.code = space.epoch;
  if (block.instructions == 0) {
    told.block.last = told.block.start;
    added.end = block.start;
    if (space.image != nullptr) DescribeBlock(space, &told, &added.function);
    added_code = told.block;
    return;
  }
  if (block.last_size_bytes != 0) {
    told.block.ending = block.ending;
    told.block.last_size_bytes = block.last_size_bytes;
  } else {
    InstructionBuffer buffer;
    const Bytes code = CodeAt(block.last, &buffer);
    const Instruction last = Decode(code, block.is_64_bit);
    told.block.ending = IsSystemCall(code) ? BranchKind::kSystemCall : KindOf(last.kind);
    told.block.last_size_bytes = static_cast<uint8_t>(last.size_bytes);
  }
  added.ending = told.block.ending;
  added.end = block.last + told.block.last_size_bytes;
  if (space.image != nullptr) DescribeBlock(space, &told, &added.function);
  added_code = told.block;
}

void FlowRecorder::DescribeBlock(const Space& space, BlockIdentity* told, uint32_t* function_id) {
  CodeBlock& block = told->block;
  const std::span<const CodeRegion> regions = space.image->Regions(space.epoch);
  const auto after =
      std::upper_bound(regions.begin(), regions.end(), block.start,
                       [](VirtAddr at, const CodeRegion& region) { return at < region.start; });
  const CodeRegion* region = after != regions.begin() && std::prev(after)->Contains(block.start)
                                 ? &*std::prev(after)
                                 : nullptr;
  if (region != nullptr && region->content != 0) {
    told->image = nullptr;
    told->code = region->content;
  }
  FunctionKey key;
  const CodeFunction function = space.image->FunctionContaining(block.start, space.epoch);
  if (!function.empty()) {
    key = {function.start.value, true};
    block.function = function.start;
    block.knows_function = true;
  } else if (region != nullptr) {
    // Code without symbols: all of a region is taken for one function.
    key = {region->start.value, false};
    block.function = region->start;
  }
  *function_id =
      function_ids_.try_emplace(key, static_cast<uint32_t>(function_ids_.size())).first->second;
}

Bytes FlowRecorder::CodeAt(uint64_t address, InstructionBuffer* buffer) const {
  const Space& space = spaces_[space_];
  if (space.image == nullptr) return {};
  return InstructionBytesAt(*space.image, {address}, space.epoch, buffer);
}

Instruction FlowRecorder::InstructionAt(uint64_t address, bool is_64_bit) const {
  InstructionBuffer buffer;
  return Decode(CodeAt(address, &buffer), is_64_bit);
}

bool FlowRecorder::InstructionsBefore(const Block& block, uint64_t address, uint32_t* count,
                                      uint64_t* last) const {
  uint64_t at = block.start;
  *count = 0;
  *last = at;
  while (at != address) {
    if (at > address || *count >= std::min(kWalkMax, block.instructions)) return false;
    const Instruction instruction = InstructionAt(at, block.is_64_bit);
    if (instruction.size_bytes == 0) return false;
    *last = at;
    at += instruction.size_bytes;
    ++*count;
  }
  return true;
}

void FlowRecorder::Abandon() {
  for (const uint32_t id : touched_) edges_[id].count = 0;
  touched_.clear();
}

void FlowRecorder::Finish(RecordedGraph* graph) {
  FlowSegment& segment = *segment_;
  segment.has_cycles = last_cycles_ != 0;
  if (options_.want_contexts) tracker_.Finish(instructions_);
  segment.instructions = instructions_;
  segment.has_time = has_time_;
  segment.stopped_at = {stopped_at_};
  segment.edges.reserve(touched_.size());
  for (const uint32_t id : touched_) {
    segment.edges.push_back({id, edges_[id].count});
    segment.checks.reasons |= edges_[id].reasons;
    edges_[id].count = 0;
  }
  touched_.clear();
  if (has_time_) {
    segment.begin_ticks = segment.anchors.front().ticks;
    segment.end_ticks = segment.anchors.back().ticks;
  }
  uint64_t uncertainty = 0;
  for (size_t i = 1; i < segment.anchors.size(); ++i) {
    const FlowAnchor& low = segment.anchors[i - 1];
    const FlowAnchor& high = segment.anchors[i];
    if (high.instruction != low.instruction) {
      uncertainty = std::max(uncertainty, high.ticks - low.ticks);
    }
  }
  segment.uncertainty_ticks = uncertainty;
  graph->blocks.insert(graph->blocks.end(), fresh_.blocks.begin(), fresh_.blocks.end());
  graph->edges.insert(graph->edges.end(), fresh_.edges.begin(), fresh_.edges.end());
  graph->last_block = block_;
  fresh_.Clear();
}

}  // namespace ptarmigan::internal
