#include "decode/perf_script_source.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/file.h"
#include "base/str_format.h"
#include "base/text_lines.h"

namespace ptarmigan {
namespace {

constexpr size_t kPollLines = 4096;
// A larger number is no count of samples; and 2^24 such lines still fit into the ledger.
constexpr uint64_t kRepeatsPerSampleMax = uint64_t{1} << 40;
// PERF_SAMPLE_BRANCH_USER, PERF_SAMPLE_BRANCH_ANY (include/uapi/linux/perf_event.h).
constexpr uint64_t kBranchUser = 1U << 0;
constexpr uint64_t kBranchAny = 1U << 3;
constexpr uint32_t kProtectionExecute = 4;
// The process of samples and mappings of a text that names none.
constexpr int32_t kAnyPid = 1;

// The name and value of PERF_BR_* and PERF_BR_SPEC_*, as perf prints them (tools/perf/util/branch.c).
constexpr std::array<std::pair<std::string_view, uint8_t>, 14> kBranchTypes = {{{"COND", 1},
                                                                                {"UNCOND", 2},
                                                                                {"IND", 3},
                                                                                {"CALL", 4},
                                                                                {"IND_CALL", 5},
                                                                                {"RET", 6},
                                                                                {"SYSCALL", 7},
                                                                                {"SYSRET", 8},
                                                                                {"COND_CALL", 9},
                                                                                {"COND_RET", 10},
                                                                                {"ERET", 11},
                                                                                {"IRQ", 12},
                                                                                {"SERROR", 13},
                                                                                {"NO_TX", 14}}};
constexpr std::array<std::pair<std::string_view, uint8_t>, 3> kSpecNames = {
    {{"SPEC_WRONG_PATH", 1}, {"NON_SPEC_CORRECT_PATH", 2}, {"SPEC_CORRECT_PATH", 3}}};

template <typename Table>
uint8_t ValueOf(const Table& table, std::string_view name) {
  for (const auto& [known, value] : table) {
    if (known == name) return value;
  }
  return 0;
}

// "0x" and hex digits; perf prints 0 without it.
std::optional<uint64_t> ReadAddress(std::string_view text) {
  if (text == "0") return 0;
  if (!text.starts_with("0x")) return std::nullopt;
  return ParseHex(text);
}

std::string_view TakeField(std::string_view* rest) {
  const size_t slash = rest->find('/');
  const std::string_view field = rest->substr(0, slash);
  rest->remove_prefix(slash == std::string_view::npos ? rest->size() : slash + 1);
  return field;
}

// One entry of a branch stack. Text that perf adds behind the known fields is ignored.
std::optional<BranchRecord> ReadBranch(std::string_view word) {
  BranchRecord branch;
  if (word.find('/') == std::string_view::npos) return std::nullopt;
  const auto from = ReadAddress(TakeField(&word));
  const auto to = ReadAddress(TakeField(&word));
  if (!from || !to) return std::nullopt;
  branch.from = *from;
  branch.to = *to;
  const std::string_view outcome = TakeField(&word);
  branch.mispredicted = outcome.starts_with('M');
  branch.predicted = outcome.starts_with('P');
  branch.in_transaction = TakeField(&word) == "X";
  branch.abort = TakeField(&word) == "A";
  const std::string_view cycles = TakeField(&word);
  if (!cycles.empty() && cycles != "-") {
    const auto number = ParseNumber<uint64_t>(cycles);
    if (!number) return std::nullopt;
    branch.cycles = std::min<uint64_t>(*number, UINT16_MAX) & UINT16_MAX;
  }
  branch.type = ValueOf(kBranchTypes, TakeField(&word)) & 15;
  branch.spec = ValueOf(kSpecNames, TakeField(&word)) & 3;
  return branch;
}

bool LooksLikeBranch(std::string_view word) {
  return word.starts_with("0x") && word.find("/0") != std::string_view::npos &&
         ReadBranch(word).has_value();
}

// Where the entries of a branch stack begin in a line; npos if it has none.
size_t FindBranches(std::string_view line) {
  for (size_t at = line.find("0x"); at != std::string_view::npos; at = line.find("0x", at + 2)) {
    if (at > 0 && kBlanks.find(line[at - 1]) == std::string_view::npos) continue;
    std::string_view rest = line.substr(at);
    if (LooksLikeBranch(TakeWord(&rest))) return at;
  }
  return std::string_view::npos;
}

bool IsComment(std::string_view text) {
  return text.starts_with('#') || text.starts_with(';') || text.starts_with("//");
}

// "PID/TID:" or "-1/0:".
bool ReadTaskIds(std::string_view word, int32_t* pid, int32_t* tid) {
  if (!word.ends_with(':')) return false;
  word.remove_suffix(1);
  const size_t slash = word.find('/');
  if (slash == std::string_view::npos) return false;
  const auto first = ParseNumber<int32_t>(word.substr(0, slash));
  const auto second = ParseNumber<int32_t>(word.substr(slash + 1));
  if (!first || !second) return false;
  *pid = *first;
  *tid = *second;
  return true;
}

// Behind "PERF_RECORD_MMAP2 " or "PERF_RECORD_MMAP ":
//   2113428/2113428: [0x7fd4efb57000(0x204000) @ 0 08:04 19532229 3585508847]: r-xp /usr/lib64/libdl-2.17.so
//   2113428/2113428: [0x7fd4efb57000(0x204000) @ 0 <0123456789abcdef>]: r-xp /usr/lib64/libdl-2.17.so
std::optional<MmapEvent> ReadMmap(std::string_view text) {
  MmapEvent event;
  event.cpumode = CpuMode::kUser;
  if (!ReadTaskIds(TakeWord(&text), &event.pid, &event.tid)) return std::nullopt;
  std::string_view range = TakeWord(&text);
  const size_t open = range.find('(');
  if (!range.starts_with('[') || open == std::string_view::npos || !range.ends_with(')')) {
    return std::nullopt;
  }
  const auto start = ReadAddress(range.substr(1, open - 1));
  const auto length = ReadAddress(range.substr(open + 1, range.size() - open - 2));
  if (!start || !length || TakeWord(&text) != "@") return std::nullopt;
  event.start = {*start};
  event.length_bytes = *length;
  std::string_view offset = TakeWord(&text);
  if (offset.ends_with("]:")) {
    offset.remove_suffix(2);
  } else {
    const size_t close = text.find("]:");
    if (close == std::string_view::npos) return std::nullopt;
    const std::string_view identity = Trim(text.substr(0, close));
    if (identity.starts_with('<') && identity.ends_with('>')) {
      if (const auto id = BuildId::FromHex(identity.substr(1, identity.size() - 2))) {
        event.build_id = *id;
      }
    }
    text.remove_prefix(close + 2);
  }
  const auto file_offset = ReadAddress(offset);
  if (!file_offset) return std::nullopt;
  event.file_offset = {*file_offset};
  const std::string_view protection = TakeWord(&text);
  event.executable = protection.find('x') != std::string_view::npos;
  event.protection = event.executable ? kProtectionExecute : 0;
  event.path = Trim(text);
  if (event.path.empty()) return std::nullopt;
  if (event.pid < 0) event.cpumode = CpuMode::kKernel;
  return event;
}

// "comm 27409/28744 [000] 441995.133575: 1010 cycles:u:", any part of which may be missing.
struct SampleHeader {
  std::optional<int32_t> pid;
  std::optional<int32_t> tid;
  std::optional<uint32_t> cpu;
  std::optional<uint64_t> time_ns;
  std::optional<uint64_t> period;
};

std::optional<uint64_t> ReadTime(std::string_view word) {
  const size_t dot = word.find('.');
  if (!word.ends_with(':') || dot == std::string_view::npos) return std::nullopt;
  const std::string_view fraction = word.substr(dot + 1, word.size() - dot - 2);
  constexpr size_t kNanosecondDigits = 9;
  constexpr uint64_t kSecondsMax = 9'000'000'000;
  if (!IsDigits(fraction) || fraction.size() > kNanosecondDigits) return std::nullopt;
  const auto seconds = ParseNumber<uint64_t>(word.substr(0, dot));
  auto nanoseconds = ParseNumber<uint64_t>(fraction);
  if (!seconds || *seconds > kSecondsMax || !nanoseconds) return std::nullopt;
  for (size_t digits = fraction.size(); digits < kNanosecondDigits; ++digits) *nanoseconds *= 10;
  return *seconds * 1'000'000'000 + *nanoseconds;
}

// Words that mean nothing here (the command's name, the event's) are passed over.
SampleHeader ReadSampleHeader(std::string_view text) {
  SampleHeader header;
  std::string_view before;
  for (std::string_view word = TakeWord(&text); !word.empty(); word = TakeWord(&text)) {
    int32_t pid = 0;
    int32_t tid = 0;
    const bool is_cpu = word.size() > 2 && word.starts_with('[') && word.ends_with(']');
    if (!header.pid && word.find('/') != std::string_view::npos &&
        ReadTaskIds(std::string(word) + ":", &pid, &tid)) {
      header.pid = pid;
      header.tid = tid;
    } else if (is_cpu && IsDigits(word.substr(1, word.size() - 2))) {
      header.cpu = ParseNumber<uint32_t>(word.substr(1, word.size() - 2));
    } else if (!header.time_ns && ReadTime(word)) {
      header.time_ns = ReadTime(word);
    } else if (word.ends_with(':') && IsDigits(before)) {
      header.period = ParseNumber<uint64_t>(before);
    }
    before = word;
  }
  return header;
}

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Calls visit(text behind the record's name) for each line that maps an object.
template <typename Visit>
bool VisitMmapLine(std::string_view line, Visit visit) {
  constexpr std::string_view kRecord = "PERF_RECORD_MMAP";
  const size_t at = line.find(kRecord);
  if (at == std::string_view::npos) return false;
  line.remove_prefix(at + kRecord.size());
  if (line.starts_with('2')) line.remove_prefix(1);
  if (!line.starts_with(' ')) return false;
  visit(line);
  return true;
}

class PerfScriptSource final : public EventSource {
 public:
  PerfScriptSource(MappedFile mapped, Bytes bytes, PerfScriptOptions options)
      : mapped_(std::move(mapped)),
        size_bytes_(bytes.size()),
        lines_(AsText(bytes)),
        options_(std::move(options)) {}

  PerfScriptSource(std::string text, PerfScriptOptions options)
      : text_(std::move(text)),
        size_bytes_(text_.size()),
        lines_(text_),
        options_(std::move(options)) {}

  // False if there is no branch stack.
  bool Start();

  const RecordingDescription& description() const override { return description_; }
  Result<PollOutcome> Poll(EventSink& sink) override;
  const LossLedger& losses() const override { return losses_; }
  double Progress() const override {
    return size_bytes_ == 0
               ? 1.0
               : 1.0 - static_cast<double>(lines_.rest().size()) / static_cast<double>(size_bytes_);
  }

 private:
  void AssumeMappings(EventSink& sink);
  void OnLine(std::string_view line, EventSink& sink);
  void OnMmap(std::string_view text, EventSink& sink);
  void OnBranches(std::string_view line, size_t branches_at, EventSink& sink);
  bool OnChainLine(std::string_view line);
  void UseHeader(const SampleHeader& header);
  void Deliver(EventSink& sink);
  void Reset();
  void Lose(LossReason reason) { losses_.Lose(LossStage::kParse, reason, 1, LossUnit::kRecords); }

  MappedFile mapped_;
  std::string text_;
  size_t size_bytes_ = 0;
  LineReader lines_;
  PerfScriptOptions options_;
  RecordingDescription description_;
  LossLedger losses_;
  bool samples_name_process_ = false;
  bool started_ = false;

  // The sample whose lines are being read.
  CapturedSample sample_;
  bool has_lines_ = false;
  uint64_t repeats_ = 1;
  uint64_t repeats_left_ = kScriptRepeatsMax;
};

bool PerfScriptSource::Start() {
  // What a sample looks like decides whose the mappings before it are.
  LineReader lines(lines_.rest());
  std::string_view line;
  std::string_view header;  // of the sample, on a line of its own
  bool found = false;
  while (!found && lines.Next(&line)) {
    const size_t at = FindBranches(line);
    found = at != std::string_view::npos;
    if (found) {
      samples_name_process_ =
          ReadSampleHeader(line.substr(0, at)).pid || ReadSampleHeader(header).pid;
    } else if (Trim(line).empty()) {
      header = {};
    } else if (Trim(line).ends_with(':') && line.find("PERF_RECORD_") == std::string_view::npos) {
      header = line;
    }
  }
  if (!found) return false;
  description_.source = "perf script";
  EventDescription event;
  event.name = "branches";
  event.attr.type = kPerfTypeHardware;
  event.attr.config = 4;  // PERF_COUNT_HW_BRANCH_INSTRUCTIONS
  event.attr.sample_period = 1;
  event.attr.sample_type = kSampleIp | kSampleBranchStack;
  if (samples_name_process_) event.attr.sample_type |= kSampleTid;
  description_.processes_are_made_up = !samples_name_process_;
  event.attr.branch_sample_type = kBranchUser | kBranchAny;
  description_.events.push_back(std::move(event));
  Reset();
  return true;
}

void PerfScriptSource::Reset() {
  sample_.identity = {};
  sample_.identity.pid = sample_.identity.tid = samples_name_process_ ? -1 : kAnyPid;
  sample_.cpumode = CpuMode::kUser;
  sample_.has_ip = sample_.has_chain = sample_.has_branches = sample_.has_period = false;
  sample_.period = 1;
  sample_.chain.clear();
  sample_.branches.clear();
  has_lines_ = false;
  repeats_ = 1;
}

void PerfScriptSource::AssumeMappings(EventSink& sink) {
  if (options_.assumed_mappings.empty()) return;
  std::unordered_set<std::string> mapped;  // file names
  LineReader lines(lines_.rest());
  for (std::string_view line; lines.Next(&line);) {
    VisitMmapLine(line, [&](std::string_view text) {
      const auto event = ReadMmap(text);
      if (event && event->executable) mapped.insert(std::string(BaseName(event->path)));
    });
  }
  for (MmapEvent& event : options_.assumed_mappings) {
    if (mapped.contains(std::string(BaseName(event.path)))) continue;
    event.pid = event.tid = kAnyPid;
    sink.OnMmap(event);
  }
}

Result<PollOutcome> PerfScriptSource::Poll(EventSink& sink) {
  if (!started_) {
    started_ = true;
    AssumeMappings(sink);
  }
  std::string_view line;
  for (size_t count = 0; count < kPollLines; ++count) {
    if (!lines_.Next(&line)) {
      Deliver(sink);
      return PollOutcome::kEnd;
    }
    OnLine(line, sink);
  }
  return PollOutcome::kMore;
}

void PerfScriptSource::OnLine(std::string_view line, EventSink& sink) {
  const std::string_view text = Trim(line);
  if (text.empty()) {
    Deliver(sink);
    return;
  }
  if (VisitMmapLine(line, [&](std::string_view rest) { OnMmap(rest, sink); })) return;
  if (text.find("PERF_RECORD_") != std::string_view::npos) {
    Lose(LossReason::kIgnored);  // tasks and names: not needed for branches
    return;
  }
  if (IsComment(text)) return;
  if (const size_t at = FindBranches(line); at != std::string_view::npos) {
    OnBranches(line, at, sink);
    return;
  }
  // Names of commands are padded on the left or on the right, so that only the end tells a header from a chain.
  if (text.ends_with(':')) {
    Deliver(sink);
    UseHeader(ReadSampleHeader(text));
    return;
  }
  const bool is_indented = kBlanks.find(line.front()) != std::string_view::npos;
  if (is_indented) {
    if (!OnChainLine(text)) Lose(LossReason::kMissingText);
    return;
  }
  if (IsDigits(text)) {
    Deliver(sink);
    const auto repeats = ParseNumber<uint64_t>(text);
    const bool is_good = repeats && *repeats <= kRepeatsPerSampleMax;
    if (!is_good) Lose(LossReason::kMissingText);
    repeats_ = is_good ? *repeats : 1;
    return;
  }
  Lose(LossReason::kMissingText);
}

void PerfScriptSource::OnMmap(std::string_view text, EventSink& sink) {
  Deliver(sink);
  auto event = ReadMmap(text);
  if (!event) {
    Lose(LossReason::kMissingText);
    return;
  }
  if (!samples_name_process_ && event->pid >= 0) event->pid = event->tid = kAnyPid;
  sink.OnMmap(*event);
}

// A line of a call chain: an address, perhaps with its symbol.
bool PerfScriptSource::OnChainLine(std::string_view line) {
  const auto address = ParseHex(TakeWord(&line));
  if (!address) return false;
  if (sample_.chain.size() >= kScriptChainMax) {
    Lose(LossReason::kLimit);
    return true;
  }
  if (!sample_.has_ip) {
    sample_.has_ip = true;
    sample_.ip = {*address};
    sample_.chain.push_back(kContextUser);
  }
  sample_.chain.push_back(*address);
  sample_.has_chain = has_lines_ = true;
  return true;
}

void PerfScriptSource::UseHeader(const SampleHeader& header) {
  if (header.pid) sample_.identity.pid = *header.pid;
  if (header.tid) sample_.identity.tid = *header.tid;
  if (header.cpu) sample_.identity.cpu = *header.cpu;
  if (header.time_ns) {
    sample_.identity.time_ns = *header.time_ns;
    sample_.identity.has_time = true;
  }
  if (header.period) {
    sample_.period = *header.period;
    sample_.has_period = true;
  }
}

// The line that ends a sample. What stands before the entries is the sample's header, its address, or both.
void PerfScriptSource::OnBranches(std::string_view line, size_t branches_at, EventSink& sink) {
  const std::string_view before = Trim(line.substr(0, branches_at));
  if (!before.empty()) {
    const std::string_view last = before.substr(before.find_last_of(kBlanks) + 1);
    if (const auto address = ParseHex(last)) {
      sample_.has_ip = true;
      sample_.ip = {*address};
    }
    UseHeader(ReadSampleHeader(before));
  }
  std::string_view rest = line.substr(branches_at);
  for (std::string_view word = TakeWord(&rest); !word.empty(); word = TakeWord(&rest)) {
    const auto branch = ReadBranch(word);
    if (!branch || sample_.branches.size() >= kScriptBranchesMax) {
      Lose(branch ? LossReason::kLimit : LossReason::kBadValue);
      break;
    }
    sample_.branches.push_back(*branch);
  }
  sample_.has_branches = has_lines_ = true;
  Deliver(sink);
}

void PerfScriptSource::Deliver(EventSink& sink) {
  if (has_lines_) {
    // The address of a sample without one is where its newest branch led.
    if (!sample_.has_ip && !sample_.branches.empty()) {
      sample_.has_ip = true;
      sample_.ip = {sample_.branches.front().to};
    }
    const uint64_t wanted = repeats_;
    const uint64_t delivered = std::min(wanted, repeats_left_);
    repeats_left_ -= delivered;
    losses_.Capture(wanted);
    losses_.Keep(delivered);
    if (wanted > delivered) losses_.Lose(LossStage::kParse, LossReason::kLimit, wanted - delivered);
    for (uint64_t i = 0; i < delivered; ++i) sink.OnSample(sample_);
  }
  Reset();
}

}  // namespace

namespace {

Result<std::unique_ptr<EventSource>> Started(std::unique_ptr<PerfScriptSource> source,
                                             const std::string& name) {
  if (source->Start()) return std::unique_ptr<EventSource>(std::move(source));
  return Error{ErrorCode::kInvalidInput, StrFormat("{}: has no branch stacks", name)};
}

}  // namespace

Result<std::unique_ptr<EventSource>> OpenPerfScriptBytes(Bytes bytes, const std::string& name,
                                                         const PerfScriptOptions& options) {
  return Started(std::make_unique<PerfScriptSource>(MappedFile(), bytes, options), name);
}

Result<std::unique_ptr<EventSource>> OpenPerfScriptText(std::string text, const std::string& name,
                                                        const PerfScriptOptions& options) {
  return Started(std::make_unique<PerfScriptSource>(std::move(text), options), name);
}

Result<std::unique_ptr<EventSource>> OpenPerfScript(const std::string& path,
                                                    const PerfScriptOptions& options) {
  TRY_ASSIGN(MappedFile mapped, MappedFile::Open(path));
  const Bytes bytes = mapped.bytes();
  return Started(std::make_unique<PerfScriptSource>(std::move(mapped), bytes, options), path);
}

bool HasBranchStackText(Bytes prefix) {
  LineReader lines(AsText(prefix));
  for (std::string_view line; lines.Next(&line);) {
    if (line.find('\0') != std::string_view::npos) return false;
    if (FindBranches(line) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace ptarmigan
