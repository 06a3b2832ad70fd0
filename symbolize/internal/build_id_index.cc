#include "symbolize/internal/build_id_index.h"

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "elf/elf_file.h"
#include "symbolize/internal/safe_open.h"

namespace ptarmigan::internal {

BuildIdIndex::Files BuildIdIndex::Read(const std::string& directory) {
  std::set<std::string> paths;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  if (error) {
    paths.insert(directory);  // perhaps a file
  } else {
    for (; entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      paths.insert(entry->path().string());
      if (paths.size() > kFilesMax) paths.erase(std::prev(paths.end()));
    }
  }
  Files files;
  for (const std::string& path : paths) {
    const Result<Fd> opened = OpenRegularFile(path);
    if (!opened) continue;
    const auto file = ElfFile::FromFd(opened->get(), path);
    if (!file || (*file)->build_id().empty()) continue;
    files.emplace((*file)->build_id().ToHex(), path);
  }
  return files;
}

std::vector<std::string> BuildIdIndex::Find(const std::string& directory, const BuildId& build_id) {
  std::vector<std::string> found;
  if (build_id.empty()) return found;
  const std::lock_guard lock(mutex_);
  auto known = directories_.find(directory);
  if (known == directories_.end()) {
    known = directories_.emplace(directory, Read(directory)).first;
  }
  const auto [begin, end] = known->second.equal_range(build_id.ToHex());
  for (auto file = begin; file != end; ++file) found.push_back(file->second);
  return found;
}

}  // namespace ptarmigan::internal
