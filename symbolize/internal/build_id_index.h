// BuildIdIndex: the ELF files of a directory by build id, whatever their names. People collect binaries under names of
// their own; the build id is what tells.
//
// Thread-safe. A directory is read once, when it is asked about first.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "model/build_id.h"

namespace ptarmigan::internal {

class BuildIdIndex {
 public:
  // Entries of a directory that are looked at, in the order of their names; what comes beyond is not found.
  static constexpr size_t kFilesMax = 4096;

  // The files directly in `directory` (or `directory` itself, if it is a file) with this build id, by name.
  std::vector<std::string> Find(const std::string& directory, const BuildId& build_id);

 private:
  using Files = std::multimap<std::string, std::string>;  // build id in hex -> path
  static Files Read(const std::string& directory);

  std::mutex mutex_;
  std::map<std::string, Files> directories_;
};

}  // namespace ptarmigan::internal
