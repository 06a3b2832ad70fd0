#include "tests/decode/pt_synth.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "decode/perf_data_file.h"
#include "decode/record_types.h"

namespace ptarmigan {
namespace {

constexpr uint8_t kFunctionSymbol = 2;     // STT_FUNC
constexpr uint8_t kIndirectFunction = 10;  // STT_GNU_IFUNC
constexpr uint8_t kLocalBinding = 0;
constexpr uint8_t kGlobalBinding = 1;

// Of several symbols at one address pt-synth's README prefers the smallest.
std::tuple<int, size_t, size_t, std::string> Rank(uint8_t binding, const std::string& name) {
  const int kind = binding == kGlobalBinding ? 0 : binding == kLocalBinding ? 2 : 1;
  return {kind, name.find_first_not_of('_'), name.size(), name};
}

}  // namespace

class PtSynth::Collector : public EventSink {
 public:
  Collector(PtSynth* to, const RecordingDescription& description)
      : to_(to), description_(description) {}

  void OnOther(const OtherRecord& record) override {
    if (record.type != kRecordAuxtraceInfo) return;
    const auto read = ReadPtRecording(record.bytes, description_.byte_order);
    if (!read) return;
    to_->recording_ = *read;
    to_->recording_.SetCpu(description_.cpuid);
    for (const EventDescription& event : description_.events) {
      if (event.attr.type == read->pmu_type) to_->recording_.SetEventConfig(event.attr.config);
    }
  }
  void OnMmap(const MmapEvent& event) override {
    if (event.executable) {
      to_->AddMapping(event.path, event.start.value, event.length_bytes, event.file_offset.value,
                      event.identity.time_ns);
    }
  }
  void OnAuxChunk(const AuxChunk& chunk) override {
    std::vector<std::byte>& trace = to_->traces_[chunk.tid];
    trace.insert(trace.end(), chunk.data.begin(), chunk.data.end());
  }
  void OnSample(const CapturedSample& sample) override {
    if (sample.aux.empty()) return;
    to_->windows_.push_back({sample.identity.time_ns, {sample.aux.begin(), sample.aux.end()}});
  }
  void OnSwitch(const SwitchEvent& event) override {
    if (event.out) return;
    to_->switches_.push_back({.since_ticks = to_->recording_.config.ToTicks(event.identity.time_ns),
                              .owner = static_cast<uint32_t>(event.identity.tid),
                              .image = &to_->image_});
  }

 private:
  PtSynth* to_;
  const RecordingDescription& description_;
};

PtSynth::PtSynth(const std::string& path, const std::string& symfs)
    : bin_(symfs + "/ptsynth/bin/") {
  auto source = OpenPerfData(path);
  if (!source) return;
  Collector collector(this, (*source)->description());
  for (;;) {
    const auto outcome = (*source)->Poll(collector);
    if (!outcome || *outcome == PollOutcome::kEnd) break;
  }
}

PtSynth::Object* PtSynth::Open(const std::string& name) {
  for (Object& object : objects_) {
    if (object.name == name) return &object;
  }
  auto file = MappedFile::Open(bin_ + name);
  if (!file) return nullptr;
  Object& object = objects_.emplace_back(Object{name, std::move(*file), Fd(), nullptr});
  object.fd = Fd(open((bin_ + name).c_str(), O_RDONLY | O_CLOEXEC));
  auto elf = ElfFile::FromBytes(object.file.bytes(), name);
  if (elf) object.elf = std::move(*elf);
  return &object;
}

void PtSynth::AddMapping(const std::string& path, uint64_t start, uint64_t length, uint64_t offset,
                         uint64_t time_ns) {
  const std::string name = path.substr(path.rfind('/') + 1);
  Object* object = Open(name);
  if (object == nullptr) {
    image_.AddMissingObject({{start}, {start + length}}, path);
    return;
  }
  if (name.ends_with(".dump")) {
    AddJitDump(*object);
    return;
  }
  const Bytes bytes = object->file.bytes();
  if (offset >= bytes.size()) return;
  const uint64_t size = std::min<uint64_t>(length, bytes.size() - offset);
  if (mapped_.size() >= 1 && time_ns > 0) image_.StartEpoch(time_ns);
  image_.AddRegion({.start = {start},
                    .bytes = bytes.subspan(static_cast<size_t>(offset), static_cast<size_t>(size)),
                    .fd = object->fd.get(),
                    .file_offset = offset,
                    .content = 1 + static_cast<uint64_t>(object - &objects_.front())});
  mapped_.push_back({start, start + length, name});
  AddFunctions(*object, start, length, offset);
}

void PtSynth::AddFunctions(const Object& object, uint64_t start, uint64_t length, uint64_t offset) {
  if (object.elf == nullptr) return;
  struct Named {
    uint64_t size;
    uint8_t binding;
    std::string name;
  };
  std::map<uint64_t, Named> functions;
  const auto add = [&](const ElfSymbol& symbol) {
    if ((symbol.type != kFunctionSymbol && symbol.type != kIndirectFunction) ||
        symbol.section == 0 || symbol.size_bytes == 0) {
      return;
    }
    const auto file_offset = object.elf->ToOffset(symbol.value);
    if (!file_offset || file_offset->value < offset || file_offset->value >= offset + length)
      return;
    const uint64_t address = start + (file_offset->value - offset);
    std::string name(symbol.name.substr(0, symbol.name.find('@')));
    const auto found = functions.find(address);
    if (found == functions.end()) {
      functions[address] = {symbol.size_bytes, symbol.binding, name};
    } else if (Rank(symbol.binding, name) < Rank(found->second.binding, found->second.name)) {
      found->second = {std::max(found->second.size, symbol.size_bytes), symbol.binding, name};
    }
  };
  object.elf->ForEachSymbol(".symtab", add);
  object.elf->ForEachSymbol(".dynsym", add);
  uint64_t last_end = 0;
  for (auto at = functions.begin(); at != functions.end(); ++at) {
    const uint64_t end = at->first + at->second.size;
    names_[at->first] = {end, at->second.name};
    if (at->first < last_end) continue;
    const auto next = std::next(at);
    last_end = next == functions.end() ? end : std::min(end, next->first);
    image_.AddFunction({{at->first}, {last_end}});
  }
}

// jitdump: a header, then records {id, size, time, ...}; JIT_CODE_LOAD (0) has pid, tid, vma, address, size, index, name,
// code. Times are those of the TSC here.
void PtSynth::AddJitDump(const Object& object) {
  ByteCursor cursor(object.file.bytes());
  cursor.Skip(8);
  const uint32_t header_bytes = cursor.U32();
  ByteCursor records(object.file.bytes());
  records.Skip(header_bytes);
  uint64_t version = 0;
  while (records.remaining() >= 16) {
    ByteCursor record(records.Rest());
    const uint32_t id = record.U32();
    const uint32_t size = record.U32();
    const uint64_t ticks = record.U64();
    if (size < 16 || !records.Skip(size)) return;
    if (id != 0) continue;
    record.Skip(8 + 8);
    const uint64_t address = record.U64();
    const uint64_t code_bytes = record.U64();
    record.Skip(8);
    const std::string_view rest = AsText(record.Rest());
    const std::string name(rest.substr(0, rest.find('\0')));
    record.Skip(name.size() + 1);
    const Bytes code = record.Take(code_bytes);
    image_.StartEpoch(recording_.config.ToNs(ticks));
    image_.AddRegion({.start = {address}, .bytes = code, .content = 1000 + ++version});
    image_.AddFunction({{address}, {address + code_bytes}});
    names_[address] = {address + code_bytes, name};
    mapped_.push_back({address, address + code_bytes, "[jit]"});
  }
}

PtStream PtSynth::Stream(int32_t tid, Bytes bytes) const {
  PtStream stream;
  stream.bytes = bytes;
  if (tid >= 0) {
    stream.occupants = {{.owner = static_cast<uint32_t>(tid), .image = &image_}};
  } else {
    stream.occupants = switches_;
    // Who ran before the first switch is who was switched to first.
    if (stream.occupants.empty()) stream.occupants = {{.image = &image_}};
  }
  return stream;
}

std::string_view PtSynth::NameAt(uint64_t address) const {
  auto after = names_.upper_bound(address);
  if (after == names_.begin()) return {};
  --after;
  return address < after->second.first ? std::string_view(after->second.second)
                                       : std::string_view();
}

std::string_view PtSynth::ModuleAt(uint64_t address) const {
  for (const Mapped& mapped : mapped_) {
    if (address >= mapped.start && address < mapped.end) return mapped.module;
  }
  return {};
}

uint64_t PtSynth::bytes() const {
  uint64_t sum = 0;
  for (const auto& [tid, trace] : traces_) sum += trace.size();
  for (const PtSynthWindow& window : windows_) sum += window.bytes.size();
  return sum;
}

}  // namespace ptarmigan
