#include "decode/perf_data_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/str_format.h"
#include "decode/internal/perf_data_source.h"

namespace ptarmigan {
namespace {

using internal::FdFeed;
using internal::FileHeader;
using internal::MemoryFeed;
using internal::PerfDataSource;

constexpr size_t kSpoolBytes = size_t{1} << 20;

// The number of a directory's "data.<number>", or nothing.
bool IsDataPart(std::string_view name) {
  constexpr std::string_view kPrefix = "data.";
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  unsigned number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size();
}

// Opens what lies in memory: `file` is the index of the kept mapping, or -1.
Status AddMemory(PerfDataSource* source, Bytes bytes, int file, const std::string& name) {
  TRY_ASSIGN(const FileHeader header, internal::ReadFileHeader(bytes, name));
  source->mutable_description()->byte_order = header.order;
  Bytes data;
  if (header.is_pipe) {
    source->mutable_description()->source = "perf.data (pipe)";
    source->mutable_description()->build_ids_follow = true;
    data = bytes.subspan(internal::kPipeHeaderBytes);
  } else {
    TRY_ASSIGN(const internal::FileContents contents,
               internal::ReadFileContents(bytes, header, name, source->features(),
                                          source->mutable_description(), source->mutable_losses()));
    data = contents.data;
  }
  source->AddFeed(std::make_unique<MemoryFeed>(data), data, file);
  return OkStatus();
}

Status AddMapped(PerfDataSource* source, MappedFile mapped, int file, const std::string& name) {
  const Bytes bytes = mapped.bytes();
  source->Keep(std::move(mapped));
  return AddMemory(source, bytes, file, name);
}

Result<std::unique_ptr<EventSource>> OpenDirectory(const std::string& path) {
  const std::string main_file = JoinPath(path, "data");
  if (!PathExists(main_file)) {
    return Error{
        ErrorCode::kInvalidInput,
        StrFormat("{} is a directory without a file named data, so it is no perf.data directory",
                  path)};
  }
  auto source = std::make_unique<PerfDataSource>();
  TRY_ASSIGN(MappedFile main_mapping, MappedFile::Open(main_file));
  TRY(AddMapped(source.get(), std::move(main_mapping), 0, main_file));
  TRY_ASSIGN(const std::vector<std::string> names, ListDirectory(path));
  int files = 1;
  for (const std::string& name : names) {
    if (!IsDataPart(name)) continue;
    TRY_ASSIGN(MappedFile part, MappedFile::Open(JoinPath(path, name)));
    const Bytes bytes = part.bytes();
    source->Keep(std::move(part));
    source->AddFeed(std::make_unique<MemoryFeed>(bytes), bytes, files++);
  }
  source->StartReading();
  return std::unique_ptr<EventSource>(std::move(source));
}

// Copies the rest of a pipe behind `start` into an unlinked file.
Result<Fd> Spool(Bytes start, int fd, const std::string& name) {
  const char* directory = std::getenv("TMPDIR");
  std::string path = JoinPath(directory != nullptr ? directory : "/tmp", "ptarmigan-XXXXXX");
  Fd file(::mkostemp(path.data(), O_CLOEXEC));
  if (!file.valid()) return ErrnoError("cannot create the temporary file " + path, errno);
  ::unlink(path.c_str());
  TRY(WriteAll(file.get(), start, path));
  std::vector<std::byte> buffer(kSpoolBytes);
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError("cannot read " + name, errno);
    if (got == 0) return file;
    TRY(WriteAll(file.get(), Bytes(buffer).first(static_cast<size_t>(got)), path));
  }
}

Result<std::unique_ptr<EventSource>> OpenMapped(MappedFile mapped, const std::string& name) {
  auto source = std::make_unique<PerfDataSource>();
  TRY(AddMapped(source.get(), std::move(mapped), 0, name));
  source->StartReading();
  return std::unique_ptr<EventSource>(std::move(source));
}

Result<std::unique_ptr<EventSource>> OpenStream(Fd fd, const std::string& name) {
  const int raw_fd = fd.get();
  auto feed = std::make_unique<FdFeed>(std::move(fd), name);
  const Bytes start = feed->Window(internal::kPipeHeaderBytes);
  TRY(feed->status());
  // In file mode the first bytes cannot be judged without the rest of the header.
  auto header = internal::ReadFileHeader(
      start.first(std::min(start.size(), internal::kPipeHeaderBytes)), name);
  if (header && header->is_pipe) {
    auto source = std::make_unique<PerfDataSource>();
    source->mutable_description()->byte_order = header->order;
    source->mutable_description()->source = "perf.data (pipe)";
    source->mutable_description()->build_ids_follow = true;
    feed->Consume(internal::kPipeHeaderBytes);
    source->AddFeed(std::move(feed), {}, -1);
    source->StartReading();
    return std::unique_ptr<EventSource>(std::move(source));
  }
  if (start.size() < internal::kPipeHeaderBytes || !internal::HasPerfMagic(start))
    return std::move(header).error();
  TRY_ASSIGN(const Fd spooled, Spool(start, raw_fd, name));
  TRY_ASSIGN(MappedFile mapped, MappedFile::FromFd(spooled.get(), name));
  return OpenMapped(std::move(mapped), name);
}

}  // namespace

Result<std::unique_ptr<EventSource>> OpenPerfData(const std::string& path) {
  Fd fd;
  if (path == "-") {
    fd = Fd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
    if (!fd.valid()) return ErrnoError("cannot read standard input", errno);
  } else {
    TRY_ASSIGN(fd, OpenFile(path, O_RDONLY));
  }
  const std::string name = path == "-" ? "standard input" : path;
  TRY_ASSIGN(const FileIdentity identity, IdentifyFile(fd.get()));
  if (identity.is_directory) return OpenDirectory(path);
  if (!identity.is_regular) return OpenStream(std::move(fd), name);
  if (identity.size_bytes == 0)
    return Error{ErrorCode::kInvalidInput, StrFormat("{} is empty", name)};
  TRY_ASSIGN(MappedFile mapped, MappedFile::FromFd(fd.get(), name));
  return OpenMapped(std::move(mapped), name);
}

Result<std::unique_ptr<EventSource>> OpenPerfDataBytes(Bytes bytes, const std::string& name) {
  auto source = std::make_unique<PerfDataSource>();
  TRY(AddMemory(source.get(), bytes, -1, name));
  source->StartReading();
  return std::unique_ptr<EventSource>(std::move(source));
}

bool IsPerfData(Bytes prefix) { return internal::HasPerfMagic(prefix); }

}  // namespace ptarmigan
