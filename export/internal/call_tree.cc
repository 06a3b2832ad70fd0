#include "export/internal/call_tree.h"

#include <algorithm>
#include <string>

#include "base/str_format.h"

namespace ptarmigan::internal {
namespace {

void AddTo(int64_t* sum, int64_t value) {
  *sum = static_cast<int64_t>(static_cast<uint64_t>(*sum) + static_cast<uint64_t>(value));
}

}  // namespace

CallTree::CallTree(const Profile& profile, const CallTreeOptions& options)
    : profile_(profile),
      types_(profile.sample_types.size()),
      location_frames_(profile.locations.size()) {
  frames_.emplace_back();
  nodes_.emplace_back();
  self_.assign(types_, 0);
  FrameNames names(profile);
  for (size_t i = 0; i < profile.samples.size(); ++i) AddSample(i, &names, options);
}

uint32_t CallTree::FrameIndex(const Frame& frame) {
  const auto [found, is_new] =
      frame_index_.try_emplace(frame, static_cast<uint32_t>(frames_.size()));
  if (is_new) frames_.push_back(frame);
  return found->second;
}

uint32_t CallTree::Child(uint32_t parent, uint32_t frame, FunctionId function) {
  const auto [found, is_new] =
      children_.try_emplace(uint64_t{parent} << 32 | frame, static_cast<uint32_t>(nodes_.size()));
  if (is_new) {
    nodes_.push_back({.parent = parent,
                      .frame = frame,
                      .level = nodes_[parent].level + 1,
                      .function = function});
    self_.resize(self_.size() + types_, 0);
  }
  return found->second;
}

uint32_t CallTree::RootOf(LabelSetId labels, const CallTreeOptions& options) {
  if (!options.with_comm) return 0;
  std::string comm;
  int64_t pid = -1;
  for (const auto& label : profile_.Labels(labels)) {
    if (profile_.Text(label.key) == "comm") comm = profile_.Text(label.text);
    if (profile_.Text(label.key) == "pid") pid = label.number;
  }
  std::ranges::replace(comm, ' ', '_');
  if (options.with_pid) comm += pid >= 0 ? StrFormat("-{}", pid) : "-?";
  return Child(0, FrameIndex({.name = names_.Intern(comm)}), kNoId);
}

void CallTree::AddSample(size_t index, FrameNames* names, const CallTreeOptions& options) {
  const Profile::Sample& sample = profile_.samples[index];
  uint32_t at = RootOf(sample.labels, options);
  const auto stack = profile_.Stack(sample.stack);
  for (size_t i = stack.size(); i-- > 0;) {
    const std::vector<NamedFrame>& frames = names->Frames(stack[i]);
    const Profile::Location& location = profile_.locations[stack[i]];
    std::vector<uint32_t>& known = location_frames_[stack[i]];
    if (known.empty()) {
      for (const NamedFrame& frame : frames) {
        const StringId object =
            location.mapping == kNoId ? 0 : profile_.mappings[location.mapping].file;
        known.push_back(FrameIndex({.name = names_.Intern(names->Text(frame.name)),
                                    .object = object,
                                    .is_kernel = frame.is_kernel,
                                    .is_inlined = frame.is_inlined}));
      }
    }
    const auto lines = profile_.Lines(location);
    for (size_t j = frames.size(); j-- > 0;) {
      at = Child(at, known[j], j < lines.size() ? lines[j].function : kNoId);
    }
  }
  const auto values = profile_.Values(index);
  for (size_t t = 0; t < types_; ++t) AddTo(&self_[at * types_ + t], values[t]);
}

std::vector<int64_t> CallTree::Totals() const {
  std::vector<int64_t> totals = self_;
  for (size_t id = nodes_.size(); id-- > 1;) {
    for (size_t t = 0; t < types_; ++t)
      AddTo(&totals[nodes_[id].parent * types_ + t], totals[id * types_ + t]);
  }
  return totals;
}

std::vector<uint32_t> CallTree::Preorder(
    const std::function<bool(uint32_t, uint32_t)>& before) const {
  // Children of node n: sorted[first[n]] to sorted[first[n + 1]].
  std::vector<uint32_t> first(nodes_.size() + 1, 0);
  for (size_t id = 1; id < nodes_.size(); ++id) ++first[nodes_[id].parent + 1];
  for (size_t id = 0; id < nodes_.size(); ++id) first[id + 1] += first[id];
  std::vector<uint32_t> sorted(nodes_.size() - 1);
  std::vector<uint32_t> next = first;
  for (uint32_t id = 1; id < nodes_.size(); ++id) sorted[next[nodes_[id].parent]++] = id;
  std::vector<uint32_t> order;
  order.reserve(nodes_.size());
  std::vector<uint32_t> open = {0};
  while (!open.empty()) {
    const uint32_t id = open.back();
    open.pop_back();
    order.push_back(id);
    const auto begin = sorted.begin() + first[id];
    const auto end = sorted.begin() + first[id + 1];
    std::sort(begin, end, before);
    for (auto child = end; child != begin;) open.push_back(*--child);
  }
  return order;
}

}  // namespace ptarmigan::internal
