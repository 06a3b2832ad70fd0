#include "export/branch_section.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "export/internal/section_bytes.h"
#include "model/branch_summary.h"

namespace ptarmigan {
namespace {

using internal::AppendU32;
using internal::AppendU64;

constexpr uint32_t kNone = BranchSummary::kNone;
constexpr uint32_t kHasFunctionStart = 1;
constexpr uint32_t kIsReturn = 1;

class Encoder {
 public:
  explicit Encoder(const Profile& profile) : summary_(profile.summary.branches) {
    for (const auto& edge : summary_.edges) Note({edge.from, edge.to});
    for (const auto& block : summary_.blocks) Note({block.start, block.end});
    for (const auto& trace : summary_.traces) Note({trace.from, trace.to, trace.end});
    AppendU32(static_cast<uint32_t>(numbers_.size()), &out_);
    uint32_t next = 0;
    auto start = summary_.function_starts.begin();
    for (auto& [id, number] : numbers_) {
      number = next++;
      while (start != summary_.function_starts.end() && start->location < id) ++start;
      const bool has_start = start != summary_.function_starts.end() && start->location == id;
      AppendU32(profile.locations[id].mapping, &out_);
      AppendU32(has_start ? kHasFunctionStart : 0, &out_);
      AppendU64(profile.locations[id].address, &out_);
      AppendU64(has_start ? start->address : 0, &out_);
    }
  }

  std::string Encode() && {
    AppendU32(static_cast<uint32_t>(summary_.edges.size()), &out_);
    for (const auto& edge : summary_.edges) {
      AppendPlaces({edge.from, edge.to});
      AppendU64(edge.count, &out_);
      AppendU64(edge.mispredicted, &out_);
      AppendU64(edge.predicted, &out_);
      AppendU64(edge.cycles_sum, &out_);
    }
    AppendU32(static_cast<uint32_t>(summary_.blocks.size()), &out_);
    for (const auto& block : summary_.blocks) {
      AppendPlaces({block.start, block.end});
      AppendU64(block.count, &out_);
      AppendU32(block.instructions, &out_);
      AppendU32(block.cycles_size, &out_);
      for (const auto& [cycles, executions] : summary_.Cycles(block)) {
        AppendU32(cycles, &out_);
        AppendU64(executions, &out_);
      }
    }
    AppendU32(static_cast<uint32_t>(summary_.traces.size()), &out_);
    for (const auto& trace : summary_.traces) {
      AppendPlaces({trace.from, trace.to, trace.end});
      AppendU32(trace.is_return ? kIsReturn : 0, &out_);
      AppendU64(trace.count, &out_);
      AppendU64(trace.mispredicted, &out_);
    }
    AppendU64(summary_.ranges_rejected, &out_);
    AppendU64(summary_.wrong_path, &out_);
    return std::move(out_);
  }

 private:
  void Note(std::initializer_list<uint32_t> locations) {
    for (const uint32_t id : locations) {
      if (id != kNone) numbers_[id] = 0;
    }
  }
  void AppendPlaces(std::initializer_list<uint32_t> locations) {
    for (const uint32_t id : locations) AppendU32(id == kNone ? kNone : numbers_.at(id), &out_);
  }

  const BranchSummary& summary_;
  std::map<uint32_t, uint32_t> numbers_;  // LocationId -> place
  std::string out_;
};

class Decoder {
 public:
  explicit Decoder(Bytes content) : cursor_(content, std::endian::little) {}

  Status Decode(Profile* profile) {
    ReadPlaces(*profile);
    ReadEdges();
    ReadBlocks();
    ReadTraces();
    builder_.AddRejected(cursor_.U64());
    builder_.AddWrongPath(cursor_.U64());
    if (!cursor_.ok() || !cursor_.AtEnd()) {
      return Error{ErrorCode::kTruncated, "the archive's branch section has another size"};
    }
    if (!valid_) {
      return Error{ErrorCode::kInvalidInput, "the archive's branch section contradicts itself"};
    }
    profile->summary.branches = builder_.Finish();
    return OkStatus();
  }

 private:
  // How many entries follow; 0 where they cannot all be there.
  uint32_t Count(size_t entry_bytes) {
    const uint32_t count = cursor_.U32();
    if (count <= cursor_.remaining() / entry_bytes) return count;
    valid_ = false;
    return 0;
  }

  void ReadPlaces(const Profile& profile) {
    const internal::LocationsByPlace by_place = internal::IndexByPlace(profile);
    const uint32_t count = Count(24);
    for (uint32_t i = 0; i < count; ++i) {
      const MappingId mapping = cursor_.U32();
      const uint32_t flags = cursor_.U32();
      const uint64_t address = cursor_.U64();
      const uint64_t function_start = cursor_.U64();
      const auto found = by_place.find({mapping, address});
      if (found == by_place.end()) {
        valid_ = false;
        return;
      }
      places_.push_back(found->second);
      if ((flags & kHasFunctionStart) != 0)
        builder_.AddFunctionStart(found->second, function_start);
    }
  }

  LocationId Place() {
    const uint32_t number = cursor_.U32();
    if (number == kNone) return kNone;
    if (number < places_.size()) return places_[number];
    valid_ = false;
    return kNone;
  }

  void ReadEdges() {
    const uint32_t count = Count(40);
    for (uint32_t i = 0; i < count; ++i) {
      BranchSummary::Edge edge;
      edge.from = Place();
      edge.to = Place();
      edge.count = cursor_.U64();
      edge.mispredicted = cursor_.U64();
      edge.predicted = cursor_.U64();
      edge.cycles_sum = cursor_.U64();
      valid_ &= edge.mispredicted <= edge.count && edge.predicted <= edge.count - edge.mispredicted;
      builder_.AddEdge(edge);
    }
  }

  void ReadBlocks() {
    const uint32_t count = Count(24);
    for (uint32_t i = 0; i < count; ++i) {
      BranchSummary::Block block;
      block.start = Place();
      block.end = Place();
      block.count = cursor_.U64();
      block.instructions = cursor_.U32();
      valid_ &= block.start != kNone && block.end != kNone;
      builder_.AddBlock(block);
      std::vector<BranchSummary::CycleCount> cycles(Count(12));
      for (BranchSummary::CycleCount& cycle : cycles) {
        cycle.cycles = cursor_.U32();
        cycle.executions = cursor_.U64();
        valid_ &= &cycle == cycles.data() || (&cycle)[-1].cycles < cycle.cycles;
      }
      if (valid_) builder_.AddCycles({block.start, block.end}, cycles);
    }
  }

  void ReadTraces() {
    const uint32_t count = Count(32);
    for (uint32_t i = 0; i < count; ++i) {
      BranchSummary::Trace trace;
      trace.from = Place();
      trace.to = Place();
      trace.end = Place();
      trace.is_return = (cursor_.U32() & kIsReturn) != 0;
      trace.count = cursor_.U64();
      trace.mispredicted = cursor_.U64();
      builder_.AddTrace(trace);
    }
  }

  ByteCursor cursor_;
  std::vector<LocationId> places_;
  BranchSummaryBuilder builder_;
  bool valid_ = true;
};

}  // namespace

std::string EncodeBranchSection(const Profile& profile) { return Encoder(profile).Encode(); }

Status DecodeBranchSection(Bytes content, Profile* profile) {
  return Decoder(content).Decode(profile);
}

}  // namespace ptarmigan
