#include "base/proc_fs.h"

#include <charconv>

#include "base/file.h"
#include "base/str_format.h"

namespace ptarmigan {
namespace {

// Reads a number in `base` at the front of `text` and removes it; false if there is none.
template <typename T>
bool TakeNumber(std::string_view& text, int base, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, base);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool TakeChar(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected) return false;
  text.remove_prefix(1);
  return true;
}

Result<std::vector<int32_t>> NumericEntries(const std::string& path) {
  TRY_ASSIGN(const std::vector<std::string> names, ListDirectory(path));
  std::vector<int32_t> numbers;
  for (const std::string& name : names) {
    std::string_view text = name;
    int32_t number = 0;
    if (TakeNumber(text, 10, &number) && text.empty()) numbers.push_back(number);
  }
  return numbers;
}

template <typename Handler>
void ForEachLine(std::string_view text, Handler handler) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    handler(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::optional<ProcMap> ParseProcMapLine(std::string_view line) {
  ProcMap map;
  if (!TakeNumber(line, 16, &map.start) || !TakeChar(line, '-') ||
      !TakeNumber(line, 16, &map.end) || !TakeChar(line, ' ') || line.size() < 5 ||
      map.end <= map.start) {
    return std::nullopt;
  }
  map.readable = line[0] == 'r';
  map.writable = line[1] == 'w';
  map.executable = line[2] == 'x';
  line.remove_prefix(4);
  if (!TakeChar(line, ' ') || !TakeNumber(line, 16, &map.file_offset) || !TakeChar(line, ' ') ||
      !TakeNumber(line, 16, &map.device_major) || !TakeChar(line, ':') ||
      !TakeNumber(line, 16, &map.device_minor) || !TakeChar(line, ' ') ||
      !TakeNumber(line, 10, &map.inode)) {
    return std::nullopt;
  }
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  constexpr std::string_view kDeleted = " (deleted)";
  if (line.ends_with(kDeleted)) {
    map.deleted = true;
    line.remove_suffix(kDeleted.size());
  }
  map.path = line;
  return map;
}

std::string ProcFs::PathOf(int32_t pid, std::string_view name) const {
  return StrFormat("{}/{}/{}", root_, pid, name);
}

Result<std::vector<int32_t>> ProcFs::Pids() const { return NumericEntries(root_); }

Result<std::vector<int32_t>> ProcFs::Tids(int32_t pid) const {
  return NumericEntries(PathOf(pid, "task"));
}

Result<std::string> ProcFs::Comm(int32_t pid, int32_t tid) const {
  TRY_ASSIGN(std::string name, ReadFile(PathOf(pid, StrFormat("task/{}/comm", tid))));
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

Result<std::vector<ProcMap>> ProcFs::Maps(int32_t pid) const {
  TRY_ASSIGN(const std::string text, ReadFile(PathOf(pid, "maps")));
  std::vector<ProcMap> maps;
  ForEachLine(text, [&maps](std::string_view line) {
    if (auto map = ParseProcMapLine(line)) maps.push_back(*std::move(map));
  });
  return maps;
}

Result<ProcStatus> ProcFs::Status(int32_t pid) const {
  TRY_ASSIGN(const std::string text, ReadFile(PathOf(pid, "status")));
  ProcStatus status;
  status.namespace_pid = pid;
  ForEachLine(text, [&status](std::string_view line) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    const std::string_view key = line.substr(0, colon);
    std::string_view value = line.substr(colon + 1);
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    if (key == "PPid") {
      TakeNumber(value, 10, &status.parent_pid);
    } else if (key == "Uid") {
      // real, effective, saved, file system
      const size_t tab = value.find('\t');
      if (tab == std::string_view::npos) return;
      value.remove_prefix(tab + 1);
      TakeNumber(value, 10, &status.effective_uid);
    } else if (key == "NSpid") {
      const size_t last = value.find_last_of(" \t");
      if (last != std::string_view::npos) value.remove_prefix(last + 1);
      TakeNumber(value, 10, &status.namespace_pid);
    }
  });
  return status;
}

Result<uint64_t> ProcFs::StartTimeTicks(int32_t pid, int32_t tid) const {
  const std::string path = PathOf(pid, StrFormat("task/{}/stat", tid));
  TRY_ASSIGN(const std::string text, ReadFile(path));
  // The name in parentheses may hold spaces and parentheses: count fields after the last ')'.
  std::string_view rest = text;
  const size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos) {
    return Error{ErrorCode::kInvalidInput, path + ": not a stat line"};
  }
  rest.remove_prefix(name_end + 1);
  constexpr int kFieldAfterName = 3;
  constexpr int kStartTimeField = 22;
  for (int field = kFieldAfterName; field <= kStartTimeField; ++field) {
    if (!TakeChar(rest, ' ')) break;
    if (field == kStartTimeField) {
      uint64_t ticks = 0;
      if (TakeNumber(rest, 10, &ticks)) return ticks;
      break;
    }
    rest.remove_prefix(std::min(rest.find(' '), rest.size()));
  }
  return Error{ErrorCode::kInvalidInput, path + ": no start time"};
}

Result<int64_t> ProcFs::Integer(std::string_view relative_path) const {
  const std::string path = JoinPath(root_, relative_path);
  TRY_ASSIGN(const std::string text, ReadFile(path));
  std::string_view rest = text;
  int64_t value = 0;
  if (!TakeNumber(rest, 10, &value))
    return Error{ErrorCode::kInvalidInput, path + ": not a number"};
  return value;
}

}  // namespace ptarmigan
