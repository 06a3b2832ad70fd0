#include "pipeline/object_branches.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/str_format.h"
#include "decode/code_run.h"
#include "decode/instruction.h"
#include "elf/elf_file.h"
#include "pipeline/internal/basic_blocks.h"

namespace ptarmigan {
namespace {

constexpr FileVaddr kOutside = ObjectBranches::kOutside;
constexpr size_t kBuildIdDigitsMin = 8;
constexpr size_t kObjectsListedMax = 5;

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// An object of the profile: all mappings of one file.
struct Candidate {
  std::string_view path;
  std::string_view build_id;
  uint64_t branches = 0;  // sum of counts with a side in it

  // Code of the kernel and code without a file cannot be optimized.
  bool is_file() const { return path.find('/') != std::string_view::npos || !build_id.empty(); }
};

class Candidates {
 public:
  explicit Candidates(const Profile& profile) : profile_(profile) {
    std::map<std::pair<StringId, StringId>, uint32_t> known;
    for (const Profile::Mapping& mapping : profile.mappings) {
      const auto [entry, is_new] = known.try_emplace({mapping.file, mapping.build_id},
                                                     static_cast<uint32_t>(objects_.size()));
      if (is_new) {
        objects_.push_back(
            {.path = profile.Text(mapping.file), .build_id = profile.Text(mapping.build_id)});
      }
      of_mapping_.push_back(entry->second);
    }
    for (const BranchSummary::Edge& edge : profile.summary.branches.edges) {
      const auto from = ObjectOf(edge.from);
      const auto to = ObjectOf(edge.to);
      if (from) objects_[*from].branches += edge.count;
      if (to && to != from) objects_[*to].branches += edge.count;
    }
  }

  std::optional<uint32_t> ObjectOf(LocationId location) const {
    if (location >= profile_.locations.size()) return std::nullopt;
    const MappingId mapping = profile_.locations[location].mapping;
    return mapping < of_mapping_.size() ? std::optional(of_mapping_[mapping]) : std::nullopt;
  }
  const std::vector<Candidate>& objects() const { return objects_; }
  Result<uint32_t> Choose(const std::string& binary) const;

 private:
  std::string List() const;

  const Profile& profile_;
  std::vector<Candidate> objects_;
  std::vector<uint32_t> of_mapping_;
};

// Those with branches, the most first.
std::string Candidates::List() const {
  std::vector<const Candidate*> order;
  for (const Candidate& object : objects_) {
    if (object.branches != 0) order.push_back(&object);
  }
  std::ranges::stable_sort(order, std::greater(), &Candidate::branches);
  std::string list;
  for (size_t i = 0; i < std::min(order.size(), kObjectsListedMax); ++i) {
    list += StrFormat("{}{} ({})", i == 0 ? "" : ", ", order[i]->path, order[i]->branches);
  }
  if (order.size() > kObjectsListedMax)
    list += StrFormat(" and {} more", order.size() - kObjectsListedMax);
  return list.empty() ? "none" : list;
}

Result<uint32_t> Candidates::Choose(const std::string& binary) const {
  // A file tells its build id, which decides whatever the recording called it.
  std::string build_id = binary;
  if (binary.find('/') != std::string::npos || PathExists(binary)) {
    const auto file = ElfFile::Open(binary);
    if (file.has_value()) build_id = (*file)->build_id().ToHex();
  }
  const auto rank = [&](const Candidate& object) {
    if (binary.empty()) return object.is_file() ? 1 : 0;
    if (build_id.size() >= kBuildIdDigitsMin && object.build_id.starts_with(build_id)) return 3;
    if (object.path == binary) return 2;
    return BaseName(object.path) == BaseName(binary) ? 1 : 0;
  };
  const Candidate* best = nullptr;
  for (const Candidate& object : objects_) {
    if (object.branches == 0 || rank(object) == 0) continue;
    if (best == nullptr ||
        std::pair(rank(object), object.branches) > std::pair(rank(*best), best->branches)) {
      best = &object;
    }
  }
  if (best == nullptr) {
    return Error{
        ErrorCode::kInvalidInput,
        binary.empty()
            ? StrFormat("no branches of a file were recorded; objects with branches: {}", List())
            : StrFormat("no branches of '{}' were recorded; objects with branches: {}", binary,
                        List())};
  }
  return static_cast<uint32_t>(best - objects_.data());
}

// Locations of one object as the file's addresses.
class Placer {
 public:
  Placer(const Profile& profile, const Candidates& candidates, uint32_t object, const ElfFile& file)
      : profile_(profile), candidates_(candidates), object_(object), file_(file) {}

  // kOutside if it lies in another object, or in no segment of the file.
  FileVaddr Place(LocationId location) const {
    if (candidates_.ObjectOf(location) != object_) return kOutside;
    const Profile::Location& at = profile_.locations[location];
    const Profile::Mapping& mapping = profile_.mappings[at.mapping];
    const auto vaddr = file_.ToVaddr({at.address - mapping.start.value + mapping.offset.value});
    return vaddr.value_or(kOutside);
  }
  bool IsInObject(LocationId location) const { return candidates_.ObjectOf(location) == object_; }

 private:
  const Profile& profile_;
  const Candidates& candidates_;
  const uint32_t object_;
  const ElfFile& file_;
};

// What the object's code says about what was recorded.
class Code {
 public:
  explicit Code(const ElfFile& file) : file_(file), decoder_(file.arch()) {}

  Instruction At(FileVaddr address) const {
    return decoder_.Decode(file_.ReadAt(address, kInstructionBytesMax));
  }
  bool IsReturn(FileVaddr address) const {
    return address != kOutside && At(address).kind == Instruction::Kind::kReturn;
  }
  // Whether code may have run straight on from `start` to the branch at `branch`.
  bool MayRun(FileVaddr start, FileVaddr branch) const {
    const uint64_t length_bytes = branch - start;
    const CodeRun run = WalkCodeRun(
        file_.arch(), file_.ReadAt(start, length_bytes + kInstructionBytesMax), length_bytes);
    return run.verdict == CodeRun::Verdict::kStraight || run.verdict == CodeRun::Verdict::kUnknown;
  }

 private:
  const ElfFile& file_;
  const InstructionDecoder decoder_;
};

void CollectEdges(const BranchSummary& summary, const Placer& placer, const Code& code,
                  ObjectBranches* branches) {
  for (const BranchSummary::Edge& edge : summary.edges) {
    const FileVaddr from = placer.Place(edge.from);
    const FileVaddr to = placer.Place(edge.to);
    if (from == kOutside && to == kOutside) {
      const bool is_inside = placer.IsInObject(edge.from) || placer.IsInObject(edge.to);
      (is_inside ? branches->branches_unplaced : branches->edges_elsewhere) += edge.count;
      continue;
    }
    branches->edges.push_back({.from = from,
                               .to = to,
                               .count = edge.count,
                               .mispredicted = edge.mispredicted,
                               .is_return = code.IsReturn(from)});
  }
}

void Collect(const BranchSummary& summary, const Placer& placer, const Code& code,
             ObjectBranches* branches) {
  CollectEdges(summary, placer, code, branches);
  std::set<std::pair<FileVaddr, FileVaddr>> impossible;
  for (const BranchSummary::Block& block : summary.blocks) {
    const FileVaddr start = placer.Place(block.start);
    const FileVaddr branch = placer.Place(block.end);
    if (start == kOutside || branch == kOutside || branch < start) continue;
    // Runs with a number of instructions were checked when the recording was read.
    if (block.instructions == 0 && !code.MayRun(start, branch)) {
      impossible.emplace(start, branch);
      branches->ranges_rejected += block.count;
      continue;
    }
    const uint64_t size_bytes = std::max<uint64_t>(code.At(branch).size_bytes, 1);
    branches->blocks.push_back(
        {.start = start, .branch = branch, .end = branch + size_bytes, .count = block.count});
  }
  for (const BranchSummary::Trace& trace : summary.traces) {
    const FileVaddr to = placer.Place(trace.to);
    if (to == kOutside) continue;
    FileVaddr branch = placer.Place(trace.end);
    if (branch < to || impossible.contains({to, branch})) branch = kOutside;
    branches->traces.push_back({.from = placer.Place(trace.from),
                                .to = to,
                                .branch = branch,
                                .is_return = trace.is_return,
                                .count = trace.count,
                                .mispredicted = trace.mispredicted});
  }
}

// Sorted by `key`; those with equal keys (several places outside are one) add up.
template <typename T, typename Key>
void SortAndSum(std::vector<T>* list, Key key) {
  std::ranges::sort(*list, {}, key);
  size_t kept = 0;
  for (size_t i = 0; i < list->size(); ++i) {
    T& next = (*list)[i];
    if (kept > 0 && key((*list)[kept - 1]) == key(next)) {
      (*list)[kept - 1].count += next.count;
      if constexpr (requires { next.mispredicted; }) {
        (*list)[kept - 1].mispredicted += next.mispredicted;
      }
    } else {
      (*list)[kept++] = next;
    }
  }
  list->resize(kept);
}

}  // namespace

PgoObject::PgoObject() = default;
PgoObject::PgoObject(PgoObject&&) noexcept = default;
PgoObject& PgoObject::operator=(PgoObject&&) noexcept = default;
PgoObject::~PgoObject() = default;

Result<PgoObject> PgoObject::Select(const Profile& profile, const std::string& binary,
                                    const SymbolizerOptions& symbols) {
  const BranchSummary& summary = profile.summary.branches;
  if (summary.edges.empty()) {
    return Error{ErrorCode::kInvalidInput,
                 "no branch records: this format needs recordings with branch stacks of flow mode "
                 "(perf record -b)"};
  }
  const Candidates candidates(profile);
  TRY_ASSIGN(const uint32_t chosen, candidates.Choose(binary));
  const Candidate& candidate = candidates.objects()[chosen];
  PgoObject selected;
  selected.object_ = std::make_unique<CodeObject>();
  selected.object_->path = PathExists(binary) ? binary : std::string(candidate.path);
  if (const auto id = BuildId::FromHex(candidate.build_id)) selected.object_->build_id = *id;
  selected.symbolizer_ = std::make_unique<Symbolizer>(symbols);
  std::string reason;
  const auto file = selected.symbolizer_->OpenObject(*selected.object_, {}, &reason);
  if (file == nullptr) {
    return Error{ErrorCode::kNotFound,
                 StrFormat("{}: the file itself is needed: {}", candidate.path, reason)};
  }
  const ObjectSymbols* loaded = selected.symbolizer_->Load(*selected.object_);
  selected.lines_ = selected.symbolizer_->MakeCodeLines(*loaded);
  if (selected.lines_ == nullptr) {
    return Error{ErrorCode::kNotFound,
                 StrFormat("{}: has no symbols: {}", candidate.path, loaded->reason())};
  }

  ObjectBranches& branches = selected.branches_;
  branches.path = candidate.path;
  branches.file = loaded->file();
  branches.build_id = selected.object_->build_id;
  Collect(summary, Placer(profile, candidates, chosen, *file), Code(*file), &branches);
  SortAndSum(&branches.edges, [](const auto& edge) { return std::pair(edge.from, edge.to); });
  SortAndSum(&branches.blocks,
             [](const auto& block) { return std::pair(block.start, block.branch); });
  SortAndSum(&branches.traces, [](const auto& trace) {
    return std::tuple(trace.from, trace.to, trace.branch, trace.is_return);
  });
  branches.fall_throughs = internal::FindFallThroughs(*file, selected.lines_->Symbols(), branches);
  for (const Candidate& other : candidates.objects()) {
    if (&other != &candidate && other.branches != 0) ++branches.objects_elsewhere;
  }
  return selected;
}

}  // namespace ptarmigan
