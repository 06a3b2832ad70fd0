#include "export/internal/frame_names.h"

#include <algorithm>
#include <array>

#include "base/str_format.h"

namespace ptarmigan::internal {
namespace {

// Bracketed names of user mappings; every other bracketed name is the kernel or one of its modules.
constexpr std::array<std::string_view, 12> kUserBrackets = {
    "[vdso]",    "[vsyscall]", "[vvar]", "[heap]", "[stack", "[anon",
    "[uprobes]", "[unknown]",  "[jit",   "[java",  "[[",     "[]"};

// Linux puts user code into the lower half of the address space on every architecture it has.
constexpr uint64_t kKernelHalf = uint64_t{1} << 63;

}  // namespace

std::string_view BaseName(std::string_view path) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  return path.substr(path.rfind('/') + 1);  // npos + 1 == 0
}

bool IsKernelCode(const Profile& profile, MappingId mapping, uint64_t address) {
  const std::string_view file =
      mapping == kNoId ? "" : profile.Text(profile.mappings[mapping].file);
  if (file.starts_with('[')) {
    return std::none_of(kUserBrackets.begin(), kUserBrackets.end(),
                        [file](std::string_view user) { return file.starts_with(user); });
  }
  if (BaseName(file) == "vmlinux" || file.starts_with("vmlinux-")) return true;
  if (file.ends_with(".ko") || file.ends_with(".ko.xz") || file.ends_with(".ko.zst") ||
      file.ends_with(".ko.gz")) {
    return true;
  }
  return file.empty() && address >= kKernelHalf;
}

FrameNames::FrameNames(const Profile& profile)
    : profile_(profile), frames_(profile.locations.size()) {}

const std::vector<NamedFrame>& FrameNames::Frames(LocationId id) {
  std::vector<NamedFrame>& frames = frames_[id];
  if (!frames.empty()) return frames;
  const Profile::Location& location = profile_.locations[id];
  const bool is_kernel = IsKernelCode(profile_, location.mapping, location.address);
  const auto lines = profile_.Lines(location);
  const auto object_name = [&] {
    const std::string_view file =
        location.mapping == kNoId
            ? ""
            : BaseName(profile_.Text(profile_.mappings[location.mapping].file));
    if (file.empty()) return std::string("[unknown]");
    return file.starts_with('[') ? std::string(file) : StrFormat("[{}]", file);
  };
  for (uint32_t i = 0; i < lines.size(); ++i) {
    const FunctionId function = lines[i].function;
    std::string_view name;
    if (function != kNoId) {
      name = profile_.Text(profile_.functions[function].name);
      if (name.empty()) name = profile_.Text(profile_.functions[function].system_name);
    }
    frames.push_back({.location = id,
                      .line = i,
                      .name = names_.Intern(name.empty() ? object_name() : name),
                      .is_kernel = is_kernel,
                      .is_inlined = i + 1 < lines.size()});
  }
  if (frames.empty()) {
    frames.push_back(
        {.location = id, .line = 0, .name = names_.Intern(object_name()), .is_kernel = is_kernel});
  }
  return frames;
}

}  // namespace ptarmigan::internal
