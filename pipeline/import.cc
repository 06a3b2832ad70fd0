#include "pipeline/import.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.h"
#include "base/log.h"
#include "base/str_format.h"
#include "decode/perf_data_file.h"
#include "export/formats.h"

namespace ptarmigan {
Result<Profile> ImportRecording(EventSource& source, Symbolizer& symbolizer,
                                const PipelineOptions& options, const ProgressCallback& progress) {
  SamplePipeline pipeline(source.description(), symbolizer, options);
  for (;;) {
    Result<PollOutcome> outcome = source.Poll(pipeline);
    if (!outcome) {
      if (pipeline.samples() == 0) return std::move(outcome).error();
      LogWarning(outcome.error().message);
      break;
    }
    if (progress) progress(source.Progress(), pipeline.samples());
    if (*outcome == PollOutcome::kEnd) break;
  }
  return pipeline.Finish(source.losses());
}

Result<bool> IsRecording(const std::string& path) {
  if (path == "-") return true;
  TRY_ASSIGN(const Fd fd, OpenFile(path, O_RDONLY | O_NONBLOCK));
  TRY_ASSIGN(const FileIdentity identity, IdentifyFile(fd.get()));
  if (identity.is_directory) return PathExists(JoinPath(path, "header"));
  // A FIFO can only be read once: it is pipe mode, as from standard input.
  if (!identity.is_regular) return true;
  char prefix[64];
  const ssize_t count = ::pread(fd.get(), prefix, sizeof(prefix), 0);
  if (count < 0) return ErrnoError(path, errno);
  return IsPerfData(AsBytes({prefix, static_cast<size_t>(count)}));
}

Result<Profile> ReadProfile(const std::string& path, const ImportOptions& options) {
  TRY_ASSIGN(const bool is_recording, IsRecording(path));
  if (!is_recording) {
    TRY_ASSIGN(const MappedFile file, MappedFile::Open(path));
    return DecodeAny(file.bytes(), path);
  }
  TRY_ASSIGN(const std::unique_ptr<EventSource> source, OpenPerfData(path));
  Symbolizer symbolizer(options.symbolizer);
  return ImportRecording(*source, symbolizer, options.pipeline, options.progress);
}

}  // namespace ptarmigan
