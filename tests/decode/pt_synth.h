// The recordings of pt-synth, taken apart for the decoder: what the pipeline does with events, done the short way. The
// traces of each AUX buffer, the windows of samples, code by time from the recorded mappings, who ran when.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "decode/pt_decoder.h"
#include "elf/elf_file.h"
#include "model/code_image.h"

namespace ptarmigan {

struct PtSynthWindow {
  uint64_t time_ns = 0;
  std::vector<std::byte> bytes;
};

class PtSynth {
 public:
  // `path` is a perf.data file; objects are found by their names in `symfs`/ptsynth/bin.
  PtSynth(const std::string& path, const std::string& symfs);

  const PtRecording& recording() const { return recording_; }
  const ArrayCodeImage& image() const { return image_; }
  // By tid, or by CPU where tid is -1.
  const std::map<int32_t, std::vector<std::byte>>& traces() const { return traces_; }
  const std::vector<PtSynthWindow>& windows() const { return windows_; }
  // Of one trace.
  PtStream Stream(int32_t tid, Bytes bytes) const;
  // "name" of the function symbol that holds an address; empty where there is none.
  std::string_view NameAt(uint64_t address) const;
  std::string_view ModuleAt(uint64_t address) const;
  uint64_t bytes() const;

 private:
  class Collector;
  struct Object {
    std::string name;
    MappedFile file;
    Fd fd;
    std::unique_ptr<ElfFile> elf;
  };
  struct Mapped {
    uint64_t start = 0;
    uint64_t end = 0;
    std::string module;
  };

  Object* Open(const std::string& name);
  void AddMapping(const std::string& path, uint64_t start, uint64_t length, uint64_t offset,
                  uint64_t time_ns);
  void AddFunctions(const Object& object, uint64_t start, uint64_t length, uint64_t offset);
  void AddJitDump(const Object& object);

  std::string bin_;
  PtRecording recording_;
  ArrayCodeImage image_;
  std::map<int32_t, std::vector<std::byte>> traces_;
  std::vector<PtSynthWindow> windows_;
  std::vector<CodeOccupant> switches_;
  std::deque<Object> objects_;
  std::vector<Mapped> mapped_;
  std::map<uint64_t, std::pair<uint64_t, std::string>> names_;  // start -> end, name
};

}  // namespace ptarmigan
