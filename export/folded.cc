#include "export/folded.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "base/str_format.h"
#include "base/text_lines.h"
#include "export/internal/call_tree.h"
#include "model/profile_builder.h"

namespace ptarmigan {
namespace {

using internal::CallTree;

constexpr std::string_view kKernelSuffix = "_[k]";
constexpr std::string_view kJitSuffix = "_[j]";
constexpr std::string_view kInlineSuffix = "_[i]";
constexpr size_t kFlushBytes = size_t{64} << 10;

std::string FrameText(const CallTree& tree, uint32_t node) {
  std::string text(tree.Name(node));
  for (char& c : text) {
    if (c == ';') c = ':';
    if (c == '\n' || c == '\r') c = ' ';
  }
  if (tree.frame(node).is_kernel) text += kKernelSuffix;
  return text;
}

}  // namespace

Status WriteFolded(const Profile& profile, const FoldedOptions& options, ByteSink* sink) {
  TRY(profile.CheckValid());
  const CallTree tree(
      profile,
      {.with_comm = options.comm_root, .with_pid = options.pid_in_root, .by_name_only = true});
  std::vector<std::string> texts(tree.size());
  for (uint32_t id = 1; id < tree.size(); ++id) texts[id] = FrameText(tree, id);
  const auto order = tree.Preorder([&](uint32_t a, uint32_t b) {
    return texts[a] != texts[b] ? texts[a] < texts[b] : tree.frame(a) < tree.frame(b);
  });
  std::string out;
  std::string path;                      // of the node
  std::vector<size_t> path_sizes = {0};  // by level
  const auto value_of = [&](uint32_t id) { return tree.Self(id)[options.sample_type]; };
  for (const uint32_t id : order) {
    if (id == 0) {
      if (value_of(id) != 0) out += StrFormat("[no frames] {}\n", value_of(id));
      continue;
    }
    const uint32_t level = tree.node(id).level;
    path_sizes.resize(level);
    path.resize(path_sizes.back());
    if (!path.empty()) path += ';';
    path += texts[id];
    path_sizes.push_back(path.size());
    if (value_of(id) == 0) continue;
    out += path;
    out += StrFormat(" {}\n", value_of(id));
    if (out.size() >= kFlushBytes) {
      TRY(sink->Write(out));
      out.clear();
    }
  }
  return sink->Write(out);
}

namespace {

// "12", "-3", and "12.5" of tools that scale.
std::optional<int64_t> ParseCount(std::string_view text) {
  if (const auto whole = ParseNumber<int64_t>(text)) return whole;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  constexpr double kMax = 9e18;
  if (error != std::errc() || end != text.data() + text.size() || !(std::abs(number) < kMax))
    return std::nullopt;
  return std::llround(number);
}

class FoldedReader {
 public:
  explicit FoldedReader(const FoldedLimits& limits) : limits_(limits) {
    builder_.SampleType("samples", "count");
    builder_.profile().default_sample_type = builder_.String("samples");
    const auto mapping = [this](std::string_view name) {
      Profile::Mapping made;
      made.file = builder_.String(name);
      made.has_functions = true;
      return made;
    };
    kernel_ = mapping("[kernel.kallsyms]");
    jit_ = mapping("[jit]");
    no_labels_ = builder_.LabelSet({});
  }

  // False if it is not a line of this format.
  bool Add(std::string_view line) {
    const size_t blank = line.find_last_of(" \t");
    if (blank == std::string_view::npos) return false;
    const auto count = ParseCount(line.substr(blank + 1));
    const std::string_view stack = Trim(line.substr(0, blank));
    if (!count || stack.empty()) return false;
    if (!ReadFrames(stack)) return false;
    const int64_t value = *count;
    builder_.Add({builder_.Stack(frames_), no_labels_}, std::span(&value, 1));
    return true;
  }

  ProfileBuilder& builder() { return builder_; }

 private:
  // From the leaf to the root, so that an inlined frame meets what it is inlined into.
  bool ReadFrames(std::string_view stack) {
    frames_.clear();
    lines_.clear();
    if (stack == "[no frames]") return true;
    for (bool more = true; more;) {
      const size_t semicolon = stack.rfind(';');
      more = semicolon != std::string_view::npos;
      std::string_view name = stack.substr(semicolon + 1);  // npos + 1 == 0
      stack = more ? stack.substr(0, semicolon) : std::string_view();
      if (frames_.size() + lines_.size() >= limits_.frames_per_stack_max) return false;
      MappingId mapping = kNoId;
      bool is_inlined = false;
      if (name.ends_with(kKernelSuffix)) {
        mapping = builder_.Mapping(kernel_);
      } else if (name.ends_with(kJitSuffix)) {
        mapping = builder_.Mapping(jit_);
      } else {
        is_inlined = more && name.ends_with(kInlineSuffix);
      }
      if (mapping != kNoId || is_inlined) name.remove_suffix(kKernelSuffix.size());
      Profile::Function function;
      function.name = function.system_name = builder_.String(name);
      lines_.push_back({builder_.Function(function), 0, 0});
      if (is_inlined) continue;
      Profile::Location location;
      location.mapping = mapping;
      frames_.push_back(builder_.Location(location, lines_));
      lines_.clear();
    }
    return true;
  }

  const FoldedLimits& limits_;
  ProfileBuilder builder_;
  Profile::Mapping kernel_;
  Profile::Mapping jit_;
  LabelSetId no_labels_ = 0;
  std::vector<LocationId> frames_;
  std::vector<Profile::Line> lines_;
};

}  // namespace

Result<Profile> ReadFolded(Bytes bytes, const FoldedLimits& limits) {
  FoldedReader reader(limits);
  LineReader lines(AsText(bytes));
  std::string_view line;
  uint64_t read = 0;
  uint64_t unreadable = 0;
  while (lines.Next(&line)) {
    const std::string_view text = Trim(line);
    if (text.empty() || text.starts_with('#')) continue;
    if (read + unreadable >= limits.lines_max) {
      return Error{ErrorCode::kResourceLimit,
                   StrFormat("more than {} folded stacks", limits.lines_max)};
    }
    ++(reader.Add(text) ? read : unreadable);
  }
  if (read == 0) {
    return Error{ErrorCode::kInvalidInput, "no line reads as a folded stack ('root;...;leaf 42')"};
  }
  Profile profile = reader.builder().Finish();
  if (unreadable > 0) {
    profile.losses.Lose(LossStage::kParse, LossReason::kMissingText, unreadable,
                        LossUnit::kRecords);
  }
  return profile;
}

}  // namespace ptarmigan
