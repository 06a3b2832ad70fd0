#include "hw/internal/side_band.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "base/file.h"
#include "base/str_format.h"
#include "hw/internal/attr_bits.h"

namespace ptarmigan::internal {
namespace {

constexpr uint64_t kKallsymsBytesMax = uint64_t{256} << 20;
constexpr size_t kBuildIdsMax = 65536;  // entries of the cache; beyond it files are read again
constexpr uint32_t kProtRead = 1;
constexpr uint32_t kProtWrite = 2;
constexpr uint32_t kProtExec = 4;
constexpr uint32_t kMapPrivate = 2;

template <typename Handler>
void ForEachLine(std::string_view text, Handler handler) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    handler(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::string_view TakeWord(std::string_view* text) {
  const size_t end = std::min(text->find_first_of(" \t"), text->size());
  const std::string_view word = text->substr(0, end);
  text->remove_prefix(std::min(text->find_first_not_of(" \t", end), text->size()));
  return word;
}

uint64_t NumberOr0(std::string_view text, int base) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() ? value : 0;
}

struct KernelText {
  uint64_t text = 0;   // _text
  uint64_t stext = 0;  // _stext
  uint64_t etext = 0;  // _etext
  bool zeros = false;  // addresses are hidden
};

void TakeSymbols(std::string_view lines, KernelText* found) {
  ForEachLine(lines, [found](std::string_view line) {
    if (!line.ends_with("text")) return;
    const std::string_view address = TakeWord(&line);
    TakeWord(&line);
    uint64_t* place = line == "_text"    ? &found->text
                      : line == "_stext" ? &found->stext
                      : line == "_etext" ? &found->etext
                                         : nullptr;
    if (place == nullptr || *place != 0) return;
    *place = NumberOr0(address, 16);
    if (*place == 0) found->zeros = true;
  });
}

// The list is in the order of addresses, so that the end of the text is found before most of its 10 MB are read (and
// made by the kernel).
KernelText ReadKernelText(const std::string& path) {
  KernelText found;
  auto file = OpenFile(path, O_RDONLY);
  if (!file) return found;
  std::string buffer;
  constexpr size_t kChunkBytes = size_t{64} << 10;
  for (uint64_t total = 0; total < kKallsymsBytesMax && found.etext == 0;) {
    const size_t kept = buffer.size();
    buffer.resize(kept + kChunkBytes);
    const ssize_t count = ::read(file->get(), buffer.data() + kept, kChunkBytes);
    if (count < 0 && errno == EINTR) {
      buffer.resize(kept);
      continue;
    }
    if (count <= 0) {
      TakeSymbols(std::string_view(buffer).substr(0, kept), &found);
      return found;
    }
    total += static_cast<uint64_t>(count);
    buffer.resize(kept + static_cast<size_t>(count));
    const size_t end = buffer.rfind('\n');
    if (end == std::string::npos) continue;
    TakeSymbols(std::string_view(buffer).substr(0, end + 1), &found);
    buffer.erase(0, end + 1);
  }
  return found;
}

std::string ModuleNameOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
  std::string name(path.substr(0, path.find(".ko")));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Module name -> path of its file, from modules.dep ("kernel/fs/x.ko.xz: kernel/lib/y.ko.xz").
std::map<std::string, std::string> ModulePaths(const std::string& folder) {
  std::map<std::string, std::string> paths;
  auto text = ReadFile(JoinPath(folder, "modules.dep"));
  if (!text) return paths;
  ForEachLine(*text, [&paths, &folder](std::string_view line) {
    const std::string_view path = line.substr(0, line.find(':'));
    if (path.empty()) return;
    paths[ModuleNameOf(path)] = path.starts_with('/') ? std::string(path) : JoinPath(folder, path);
  });
  return paths;
}

std::string ReadLink(const std::string& path) {
  std::array<char, 256> target = {};
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  return length > 0 ? std::string(target.data(), static_cast<size_t>(length)) : std::string();
}

// The build-id form of an MMAP2 record's 24 bytes of file identity.
void PutBuildId(const BuildId& build_id, RecordBuilder* builder) {
  constexpr size_t kRoomBytes = 20;
  const Bytes bytes = build_id.bytes().first(std::min(build_id.bytes().size(), kRoomBytes));
  builder->Put<uint8_t>(static_cast<uint8_t>(bytes.size()));
  builder->Put<uint8_t>(0);
  builder->Put<uint16_t>(0);
  builder->PutBytes(bytes);
  for (size_t i = bytes.size(); i < kRoomBytes; ++i) builder->Put<uint8_t>(0);
}

}  // namespace

BuildId BuildIdFromNotes(std::string_view notes) {
  constexpr uint32_t kNtGnuBuildId = 3;
  ByteCursor cursor(AsBytes(notes));
  while (cursor.ok() && cursor.remaining() >= 12) {
    const uint32_t name_size = cursor.U32();
    const uint32_t content_size = cursor.U32();
    const uint32_t type = cursor.U32();
    const Bytes name = cursor.Take(name_size);
    cursor.AlignTo(4);
    const Bytes content = cursor.Take(content_size);
    cursor.AlignTo(4);
    if (type == kNtGnuBuildId && AsText(name) == std::string_view("GNU\0", 4))
      return BuildId(content);
  }
  return {};
}

SideBand::SideBand(SideBandOptions options)
    : options_(std::move(options)), proc_(options_.proc_root) {}

void SideBand::Emit(RawRecordSink& sink, int32_t pid, int32_t tid) {
  RecordTrailer trailer = options_.trailer;
  trailer.pid = pid;
  trailer.tid = tid;
  sink.OnRecord(RawRecord{builder_.Finish(trailer), options_.stream});
  ++counts_.records;
}

void SideBand::WriteComm(int32_t pid, int32_t tid, std::string_view comm, RawRecordSink& sink) {
  builder_.Begin(kRecordComm, 0);
  builder_.Put<int32_t>(pid);
  builder_.Put<int32_t>(tid);
  builder_.PutText(comm);
  Emit(sink, pid, tid);
}

bool SideBand::SharesOurMounts(int32_t pid) const {
  const std::string ours = ReadLink(JoinPath(options_.proc_root, "self/ns/mnt"));
  const std::string theirs = ReadLink(proc_.PathOf(pid, "ns/mnt"));
  return ours == theirs || theirs.empty();
}

BuildId SideBand::BuildIdOf(int32_t pid, const ProcMap& map, bool own_mounts) {
  if (!options_.build_id_of || (map.path != "[vdso]" && !map.path.starts_with('/'))) return {};
  if (map.path.starts_with("//") || map.path.starts_with("/memfd:") ||
      map.path.starts_with("/dev/") || map.path.starts_with("/SYSV")) {
    return {};
  }
  const FileKey key = {uint64_t{map.device_major} << 32 | map.device_minor, map.inode};
  const bool cacheable = map.inode != 0 || map.path == "[vdso]";
  if (const auto found = build_ids_.find(key); cacheable && found != build_ids_.end())
    return found->second;
  std::string path = map.path;
  if (map.path != "[vdso]") {
    // The mapped file itself where the name leads elsewhere or nowhere (Linux 4.3 or later, CAP_SYS_ADMIN or
    // CAP_CHECKPOINT_RESTORE).
    if (map.deleted)
      path = proc_.PathOf(pid, StrFormat("map_files/{:x}-{:x}", map.start, map.end));
    else if (!own_mounts)
      path = JoinPath(proc_.PathOf(pid, "root"), map.path);
  }
  BuildId id = options_.build_id_of(path);
  if (cacheable && build_ids_.size() < kBuildIdsMax) build_ids_[key] = id;
  return id;
}

void SideBand::WriteMapping(int32_t pid, const ProcMap& map, bool own_mounts, RawRecordSink& sink) {
  const BuildId build_id = BuildIdOf(pid, map, own_mounts);
  builder_.Begin(kRecordMmap2, static_cast<uint16_t>(
                                   build_id.empty() ? kMiscUser : kMiscUser | kMiscMmapBuildId));
  builder_.Put<int32_t>(pid);
  builder_.Put<int32_t>(pid);
  builder_.Put<uint64_t>(map.start);
  builder_.Put<uint64_t>(map.end - map.start);
  builder_.Put<uint64_t>(map.file_offset);
  if (build_id.empty()) {
    builder_.Put<uint32_t>(map.device_major);
    builder_.Put<uint32_t>(map.device_minor);
    builder_.Put<uint64_t>(map.inode);
    builder_.Put<uint64_t>(0);
  } else {
    PutBuildId(build_id, &builder_);
  }
  const uint32_t protection = (map.readable ? kProtRead : 0) | (map.writable ? kProtWrite : 0) |
                              (map.executable ? kProtExec : 0);
  builder_.Put<uint32_t>(protection);
  builder_.Put<uint32_t>(kMapPrivate);
  // The kernel's own spelling in live records.
  std::string path = map.path.empty() ? "//anon" : map.path;
  if (map.deleted) path += " (deleted)";
  builder_.PutText(path);
  Emit(sink, pid, pid);
}

void SideBand::WriteProcess(int32_t pid, RawRecordSink& sink) {
  auto comm = proc_.Comm(pid, pid);
  auto maps = comm ? proc_.Maps(pid) : Result<std::vector<ProcMap>>(Error{});
  if (!comm || (!maps && maps.error().code == ErrorCode::kNotFound)) {
    ++counts_.processes_vanished;
    return;
  }
  ++counts_.processes;
  WriteComm(pid, pid, *comm, sink);
  if (maps) {
    const bool own_mounts = SharesOurMounts(pid);
    for (const ProcMap& map : *maps) {
      if (map.executable) WriteMapping(pid, map, own_mounts, sink);
    }
  }
  auto tids = proc_.Tids(pid);
  if (!tids) return;
  for (const int32_t tid : *tids) {
    if (tid == pid) continue;
    auto thread_comm = proc_.Comm(pid, tid);
    if (!thread_comm) continue;
    builder_.Begin(kRecordFork, 0);
    builder_.Put<int32_t>(pid);
    builder_.Put<int32_t>(pid);  // parent
    builder_.Put<int32_t>(tid);
    builder_.Put<int32_t>(pid);
    builder_.Put<uint64_t>(0);
    Emit(sink, pid, tid);
    WriteComm(pid, tid, *thread_comm, sink);
  }
}

void SideBand::WriteAllProcesses(RawRecordSink& sink) {
  auto pids = proc_.Pids();
  if (!pids) return;
  for (const int32_t pid : *pids) WriteProcess(pid, sink);
}

void SideBand::WriteCgroup(const std::string& mount, const std::string& group,
                           RawRecordSink& sink) {
  struct stat info = {};
  if (::stat((mount + group).c_str(), &info) != 0) return;
  builder_.Begin(kRecordCgroup, 0);
  // Where inode numbers have 64 bits, a group's is its id (kernfs_ino in include/linux/kernfs.h).
  builder_.Put<uint64_t>(info.st_ino);
  builder_.PutText(group);
  Emit(sink, 0, 0);
}

void SideBand::WriteCgroups(RawRecordSink& sink) {
  std::string mount = JoinPath(options_.sysfs_root, "fs/cgroup");
  if (!PathExists(JoinPath(mount, "cgroup.controllers"))) mount = JoinPath(mount, "unified");
  if (!PathExists(JoinPath(mount, "cgroup.controllers"))) return;
  std::vector<std::string> waiting = {"/"};
  for (size_t written = 0; !waiting.empty() && written < kCgroupsMax; ++written) {
    const std::string group = std::move(waiting.back());
    waiting.pop_back();
    WriteCgroup(mount, group, sink);
    auto names = ListDirectory(mount + group);
    if (!names) continue;  // removed meanwhile
    for (const std::string& name : *names) {
      std::string below = group == "/" ? group + name : JoinPath(group, name);
      struct stat info = {};
      const bool is_group = ::lstat((mount + below).c_str(), &info) == 0 && S_ISDIR(info.st_mode);
      if (is_group && waiting.size() < kCgroupsMax) waiting.push_back(std::move(below));
    }
  }
}

void SideBand::WriteKernelMapping(const KernelMapping& mapping, RawRecordSink& sink) {
  const bool with_id = !mapping.build_id.empty();
  builder_.Begin(with_id ? kRecordMmap2 : kRecordMmap,
                 static_cast<uint16_t>(with_id ? kMiscKernel | kMiscMmapBuildId : kMiscKernel));
  builder_.Put<int32_t>(-1);
  builder_.Put<int32_t>(0);
  builder_.Put<uint64_t>(mapping.start);
  builder_.Put<uint64_t>(mapping.length_bytes);
  builder_.Put<uint64_t>(mapping.file_offset);
  if (with_id) {
    PutBuildId(mapping.build_id, &builder_);
    builder_.Put<uint32_t>(kProtExec);
    builder_.Put<uint32_t>(0);
  }
  builder_.PutText(mapping.path);
  Emit(sink, -1, 0);
}

void SideBand::WriteModules(RawRecordSink& sink) {
  auto modules = ReadFile(JoinPath(options_.proc_root, "modules"));
  if (!modules) return;
  const auto paths = ModulePaths(JoinPath(options_.modules_root, options_.os_release));
  // "name size uses dependents state 0xaddress [taints]"
  ForEachLine(*modules, [this, &paths, &sink](std::string_view line) {
    const std::string name(TakeWord(&line));
    const uint64_t size = NumberOr0(TakeWord(&line), 10);
    for (int i = 0; i < 3; ++i) TakeWord(&line);
    const uint64_t start = NumberOr0(TakeWord(&line), 16);
    if (name.empty() || size == 0 || start == 0) return;
    KernelMapping mapping{start, size, 0, StrFormat("[{}]", name), {}};
    if (const auto path = paths.find(name); path != paths.end()) mapping.path = path->second;
    auto notes =
        ReadFile(StrFormat("{}/module/{}/notes/.note.gnu.build-id", options_.sysfs_root, name));
    if (notes) mapping.build_id = BuildIdFromNotes(*notes);
    WriteKernelMapping(mapping, sink);
  });
}

void SideBand::WriteKernel(RawRecordSink& sink) {
  const KernelText text = ReadKernelText(JoinPath(options_.proc_root, "kallsyms"));
  const uint64_t start = text.text != 0 ? text.text : text.stext;
  kernel_addresses_hidden_ = start == 0 && text.zeros;
  if (start != 0 && text.etext > start) {
    // The name after ']' is the symbol by which readers find out how far the kernel was moved.
    const char* name = text.text != 0 ? "[kernel.kallsyms]_text" : "[kernel.kallsyms]_stext";
    KernelMapping mapping{start, text.etext - start, start, name, {}};
    auto notes = ReadFile(JoinPath(options_.sysfs_root, "kernel/notes"));
    if (notes) mapping.build_id = BuildIdFromNotes(*notes);
    WriteKernelMapping(mapping, sink);
  }
  WriteModules(sink);
}

}  // namespace ptarmigan::internal
