// The call tree of a profile by what frames say (name, object, inlined or not), for formats that draw or list
// it: processes and addresses that say the same are one. Sums wrap instead of overflowing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "export/internal/frame_names.h"
#include "model/profile.h"

namespace ptarmigan::internal {

struct CallTreeOptions {
  // The first frame of every sample is its label `comm`, with spaces as '_' (and "-pid" behind it).
  bool with_comm = false;
  bool with_pid = false;
  // Frames with the same name are the same, whatever their object, inlined or not.
  bool by_name_only = false;
};

class CallTree {
 public:
  struct Frame {
    StringId name = 0;    // in a table of the tree's own
    StringId object = 0;  // the mapping's file, in the profile's table
    bool is_kernel = false;
    bool is_inlined = false;
    auto operator<=>(const Frame&) const = default;
  };
  struct Node {
    uint32_t parent = 0;
    uint32_t frame = 0;
    uint32_t level = 0;
    FunctionId function = kNoId;  // the first one met with this name: for file and line
  };

  CallTree(const Profile& profile, const CallTreeOptions& options);

  // Node 0 is the root above all; its frame says nothing. Parents come before their children.
  size_t size() const { return nodes_.size(); }
  const Node& node(uint32_t id) const { return nodes_[id]; }
  const Frame& frame(uint32_t id) const { return frames_[nodes_[id].frame]; }
  std::string_view Name(uint32_t id) const { return names_.Get(frame(id).name); }
  // Values of the samples that end at a node, one per sample type.
  std::span<const int64_t> Self(uint32_t id) const {
    return std::span(self_).subspan(id * types_, types_);
  }
  // Self and all below: [node * sample types + type].
  std::vector<int64_t> Totals() const;
  // All nodes, parents before children, siblings in the order that `before(a, b)` gives.
  std::vector<uint32_t> Preorder(const std::function<bool(uint32_t, uint32_t)>& before) const;

 private:
  uint32_t FrameIndex(const Frame& frame);
  uint32_t Child(uint32_t parent, uint32_t frame, FunctionId function);
  void AddSample(size_t index, FrameNames* names, const CallTreeOptions& options);
  uint32_t RootOf(LabelSetId labels, const CallTreeOptions& options);

  const Profile& profile_;
  size_t types_;
  StringTable names_;
  std::vector<Frame> frames_;
  std::map<Frame, uint32_t> frame_index_;
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, uint32_t> children_;  // parent << 32 | frame
  std::vector<int64_t> self_;
  std::vector<std::vector<uint32_t>> location_frames_;  // by location: indexes into frames_
};

}  // namespace ptarmigan::internal
