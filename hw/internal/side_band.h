// What was there before the session: names, threads and executable mappings of the processes, the kernel and its
// modules, as records at time 0. Everything is read from /proc and may vanish while we read: what is gone is left out
// and counted.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/proc_fs.h"
#include "hw/internal/record_builder.h"
#include "model/build_id.h"
#include "model/event_source.h"

namespace ptarmigan::internal {

struct SideBandOptions {
  std::string proc_root = "/proc";
  std::string sysfs_root = "/sys";
  std::string modules_root = "/lib/modules";
  std::string os_release;  // names the folder below modules_root
  // Build id of the object at a path that this process can open; may be empty.
  std::function<BuildId(const std::string& path)> build_id_of;
  RecordTrailer trailer;
  uint32_t stream = 0;
};

struct SideBandCounts {
  uint64_t records = 0;
  uint64_t processes = 0;
  uint64_t processes_vanished = 0;
};

class SideBand {
 public:
  explicit SideBand(SideBandOptions options);

  // [kernel.kallsyms]_text and the modules.
  void WriteKernel(RawRecordSink& sink);
  // One process: COMM and FORK for its threads, MMAP2 for its executable mappings.
  void WriteProcess(int32_t pid, RawRecordSink& sink);
  void WriteAllProcesses(RawRecordSink& sink);

  // The control groups (version 2) that exist, at most kCgroupsMax.
  void WriteCgroups(RawRecordSink& sink);
  static constexpr size_t kCgroupsMax = 65536;

  const SideBandCounts& counts() const { return counts_; }
  // kallsyms shows zeros to this user (kernel.kptr_restrict): there is no kernel mapping.
  bool kernel_addresses_hidden() const { return kernel_addresses_hidden_; }

 private:
  struct KernelMapping {
    uint64_t start;
    uint64_t length_bytes;
    uint64_t file_offset;
    std::string path;
    BuildId build_id;
  };
  struct FileKey {
    uint64_t device;
    uint64_t inode;
    auto operator<=>(const FileKey&) const = default;
  };

  void Emit(RawRecordSink& sink, int32_t pid, int32_t tid);
  void WriteComm(int32_t pid, int32_t tid, std::string_view comm, RawRecordSink& sink);
  void WriteMapping(int32_t pid, const ProcMap& map, bool own_mounts, RawRecordSink& sink);
  void WriteKernelMapping(const KernelMapping& mapping, RawRecordSink& sink);
  void WriteModules(RawRecordSink& sink);
  void WriteCgroup(const std::string& mount, const std::string& group, RawRecordSink& sink);
  BuildId BuildIdOf(int32_t pid, const ProcMap& map, bool own_mounts);
  bool SharesOurMounts(int32_t pid) const;

  SideBandOptions options_;
  ProcFs proc_;
  RecordBuilder builder_;
  SideBandCounts counts_;
  std::map<FileKey, BuildId> build_ids_;
  bool kernel_addresses_hidden_ = false;
};

// The NT_GNU_BUILD_ID note in the content of /sys/kernel/notes or /sys/module/NAME/notes/.note.gnu.build-id.
BuildId BuildIdFromNotes(std::string_view notes);

}  // namespace ptarmigan::internal
