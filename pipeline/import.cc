#include "pipeline/import.h"

#include <elf.h>
#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "base/str_format.h"
#include "decode/perf_data_file.h"
#include "decode/perf_script_source.h"
#include "elf/elf_file.h"
#include "export/compressed_file.h"
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

namespace {

// Of a compressed text, which is read from memory.
constexpr uint64_t kScriptBytesMax = uint64_t{1} << 30;

enum class InputKind { kPerfData, kPerfScript, kCompressedPerfScript, kOther };

// A profile shows by its first bytes that it is no text; all mappings of a text may stand before its first sample.
bool HoldsPerfScript(Bytes compressed) {
  constexpr size_t kFirstBytes = 4096;
  const auto first = ReadCompressedPrefix(compressed, kFirstBytes);
  if (!first.has_value() || first->find('\0') != std::string::npos) return false;
  const auto prefix = ReadCompressedPrefix(compressed, kScriptSniffBytes);
  return prefix.has_value() && HasBranchStackText(AsBytes(*prefix));
}

Result<InputKind> KindOf(const std::string& path) {
  if (path == "-") return InputKind::kPerfData;
  TRY_ASSIGN(const Fd fd, OpenFile(path, O_RDONLY | O_NONBLOCK));
  TRY_ASSIGN(const FileIdentity identity, IdentifyFile(fd.get()));
  if (identity.is_directory) {
    return PathExists(JoinPath(path, "data")) ? InputKind::kPerfData : InputKind::kOther;
  }
  // A FIFO can only be read once: it is pipe mode, as from standard input.
  if (!identity.is_regular) return InputKind::kPerfData;
  TRY_ASSIGN(const MappedFile file, MappedFile::FromFd(fd.get(), path));
  if (IsPerfData(file.bytes())) return InputKind::kPerfData;
  if (IsCompressedFile(file.bytes())) {
    return HoldsPerfScript(file.bytes()) ? InputKind::kCompressedPerfScript : InputKind::kOther;
  }
  const Bytes prefix = file.bytes().first(std::min(file.bytes().size(), kScriptSniffBytes));
  return HasBranchStackText(prefix) ? InputKind::kPerfScript : InputKind::kOther;
}

// Where the segments of `binary` stand if they were loaded where they are linked to.
PerfScriptOptions AssumedMappings(const std::string& binary) {
  PerfScriptOptions options;
  const auto file = ElfFile::Open(binary);
  if (!file.has_value()) return options;
  for (const ElfSegment& segment : (*file)->segments()) {
    if (segment.type != PT_LOAD || (segment.flags & PF_X) == 0) continue;
    MmapEvent event;
    event.cpumode = CpuMode::kUser;
    event.start = {segment.vaddr.value};
    event.length_bytes = segment.memory_bytes;
    event.file_offset = segment.offset;
    event.path = binary;
    event.build_id = (*file)->build_id();
    options.assumed_mappings.push_back(std::move(event));
  }
  return options;
}

}  // namespace

Result<bool> IsRecording(const std::string& path) {
  TRY_ASSIGN(const InputKind kind, KindOf(path));
  return kind != InputKind::kOther;
}

Result<std::unique_ptr<EventSource>> OpenRecording(const std::string& path,
                                                   const std::string& binary) {
  TRY_ASSIGN(const InputKind kind, KindOf(path));
  if (kind != InputKind::kPerfScript && kind != InputKind::kCompressedPerfScript) {
    return OpenPerfData(path);
  }
  const PerfScriptOptions options =
      PathExists(binary) ? AssumedMappings(binary) : PerfScriptOptions();
  if (kind == InputKind::kPerfScript) return OpenPerfScript(path, options);
  TRY_ASSIGN(const MappedFile file, MappedFile::Open(path));
  auto text = ReadCompressedFile(file.bytes(), kScriptBytesMax);
  if (!text) return std::move(text).error().WithContext(path);
  return OpenPerfScriptText(std::move(*text), path, options);
}

Result<Profile> ReadProfile(const std::string& path, const ImportOptions& options) {
  TRY_ASSIGN(const bool is_recording, IsRecording(path));
  if (!is_recording) {
    TRY_ASSIGN(const MappedFile file, MappedFile::Open(path));
    return DecodeAny(file.bytes(), path);
  }
  TRY_ASSIGN(const std::unique_ptr<EventSource> source, OpenRecording(path, options.binary));
  SymbolizerOptions symbols = options.symbolizer;
  const std::string kernel_copy = JoinPath(path, "kcore_dir");
  if (symbols.kernel_copy.empty() && PathExists(kernel_copy)) symbols.kernel_copy = kernel_copy;
  Symbolizer symbolizer(symbols);
  return ImportRecording(*source, symbolizer, options.pipeline, options.progress);
}

}  // namespace ptarmigan
