#include "export/perf_script_text.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/str_format.h"
#include "base/text_lines.h"
#include "model/profile_builder.h"

namespace ptarmigan {
namespace {

struct Header {
  std::string_view comm;
  std::optional<int64_t> pid;
  std::optional<int64_t> tid;
  std::optional<int64_t> time_ns;
  std::optional<int64_t> period;
  std::string_view event;  // empty: not printed
  std::string_view rest;   // behind the event
};

struct Symbol {
  uint64_t address = 0;
  std::string_view name;    // without "+0x..."; empty: "[unknown]"
  std::string_view object;  // empty: "[unknown]"
  bool is_inlined = false;
};

// "27409/28744" or "29776": pid and tid, or the tid alone.
bool ReadThread(std::string_view word, Header* header) {
  const size_t slash = word.find('/');
  const auto first = ParseNumber<int64_t>(word.substr(0, slash));
  if (!first) return false;
  if (slash == std::string_view::npos) {
    header->tid = first;
    return true;
  }
  const auto second = ParseNumber<int64_t>(word.substr(slash + 1));
  if (!second) return false;
  header->pid = first;
  header->tid = second;
  return true;
}

// "441995.133575:" in nanoseconds.
std::optional<int64_t> ReadTime(std::string_view word) {
  if (!word.ends_with(':')) return std::nullopt;
  word.remove_suffix(1);
  const size_t dot = word.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  std::string_view fraction = word.substr(dot + 1);
  constexpr size_t kNanosecondDigits = 9;
  if (!IsDigits(word.substr(0, dot)) || !IsDigits(fraction) || fraction.size() > kNanosecondDigits)
    return std::nullopt;
  const auto seconds = ParseNumber<int64_t>(word.substr(0, dot));
  const auto part = ParseNumber<int64_t>(fraction);
  constexpr int64_t kSecondsMax = 9'000'000'000;
  if (!seconds || !part || *seconds > kSecondsMax) return std::nullopt;
  int64_t nanoseconds = *part;
  for (size_t digits = fraction.size(); digits < kNanosecondDigits; ++digits) nanoseconds *= 10;
  return *seconds * 1'000'000'000 + nanoseconds;
}

bool IsCpu(std::string_view word) {
  return word.size() > 2 && word.starts_with('[') && word.ends_with(']') &&
         IsDigits(word.substr(1, word.size() - 2));
}

// The part behind the time (or behind the thread where there is no time): "[period] event: rest".
bool ReadEvent(std::string_view text, Header* header) {
  std::string_view rest = text;
  std::string_view word = TakeWord(&rest);
  if (IsDigits(word)) {
    std::string_view after = rest;
    const std::string_view next = TakeWord(&after);
    if (next.size() > 1 && next.ends_with(':')) {
      header->period = ParseNumber<int64_t>(word);
      if (!header->period) return false;
      word = next;
      rest = after;
    }
  }
  if (word.size() > 1 && word.ends_with(':')) {
    header->event = word.substr(0, word.size() - 1);
    header->rest = Trim(rest);
    return true;
  }
  header->rest = Trim(text);
  return false;
}

// Splits what stands before the time into comm, thread and cpu. Flags such as "d..2" may stand behind the cpu.
bool ReadIdentity(std::string_view text, Header* header) {
  text = Trim(text);
  for (int words = 0; words < 3; ++words) {
    const size_t blank = text.find_last_of(kBlanks);
    const std::string_view last = text.substr(blank + 1);  // npos + 1 == 0
    const std::string_view before =
        blank == std::string_view::npos ? std::string_view() : Trim(text.substr(0, blank));
    if (ReadThread(last, header)) {
      header->comm = before;
      return true;
    }
    if (before.empty()) break;
    text = before;
  }
  header->comm = text;
  return !text.empty();
}

std::optional<Header> ReadHeader(std::string_view line) {
  Header header;
  std::string_view rest = line;
  // With a time, everything has its place around it.
  while (!rest.empty()) {
    const std::string_view word = TakeWord(&rest);
    if (word.empty()) break;
    header.time_ns = ReadTime(word);
    if (!header.time_ns) continue;
    const auto before = static_cast<size_t>(word.data() - line.data());
    if (before > 0 && !ReadIdentity(line.substr(0, before), &header)) return std::nullopt;
    ReadEvent(rest, &header);
    return header;
  }
  // Without: the first thread number behind which an event follows.
  rest = line;
  while (!rest.empty()) {
    const std::string_view word = TakeWord(&rest);
    if (word.empty()) break;
    if (!ReadThread(word, &header)) continue;
    std::string_view after = rest;
    if (std::string_view skipped = after; IsCpu(TakeWord(&skipped))) after = skipped;
    if (!ReadEvent(after, &header)) continue;
    header.comm = Trim(line.substr(0, static_cast<size_t>(word.data() - line.data())));
    return header;
  }
  return std::nullopt;
}

// "+0x1f" at the end of a name.
std::string_view WithoutOffset(std::string_view name) {
  const size_t plus = name.rfind("+0x");
  return plus != std::string_view::npos && ParseHex(name.substr(plus + 1)) ? name.substr(0, plus)
                                                                           : name;
}

// "59fef5 copy_user+0x1f (/lib/modules/vmlinux)". With `fields_before`, other hex numbers may stand before the
// address (a data address, a weight).
std::optional<Symbol> ReadSymbol(std::string_view text, bool fields_before) {
  text = Trim(text);
  if (!text.ends_with(')')) return std::nullopt;
  // The object is in the last parentheses; " (deleted)" and paths with blanks may be inside.
  int depth = 0;
  size_t open = text.size();
  while (open-- > 0) {
    if (text[open] == ')') ++depth;
    if (text[open] == '(' && --depth == 0) break;
  }
  if (open == std::string_view::npos || open == 0) return std::nullopt;
  Symbol symbol;
  const std::string_view object = text.substr(open + 1, text.size() - open - 2);
  std::string_view rest = text.substr(0, open);
  const auto address = ParseHex(TakeWord(&rest));
  if (!address) return std::nullopt;
  symbol.address = *address;
  for (std::string_view after = rest; fields_before;) {
    const auto next = ParseHex(TakeWord(&after));
    if (!next || Trim(after).empty()) break;  // the last word is the name, even "add"
    symbol.address = *next;
    rest = after;
  }
  symbol.name = WithoutOffset(Trim(rest));
  if (symbol.name == "[unknown]") symbol.name = {};
  if (object == "inlined") {
    symbol.is_inlined = true;
  } else if (object != "[unknown]") {
    symbol.object = object;
  }
  return symbol;
}

// "file.c:123", printed below a frame by `-F +srcline`.
bool ReadSourceLine(std::string_view text, std::string_view* file, int64_t* line) {
  text = Trim(text);
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 ||
      text.find_first_of(kBlanks) != std::string_view::npos)
    return false;
  const auto number = ParseNumber<int64_t>(text.substr(colon + 1));
  if (!number) return false;
  *file = text.substr(0, colon);
  *line = *number;
  return true;
}

struct Frame {
  Symbol symbol;
  std::string_view file;
  int64_t line = 0;
};

// Walks the text and hands over whole samples.
class Walker {
 public:
  struct Losses {
    uint64_t unreadable_lines = 0;
    uint64_t branch_records = 0;
    uint64_t cut_stacks = 0;
  };
  Walker(std::string_view text, size_t frames_max) : lines_(text), frames_max_(frames_max) {}

  // False at the end. The sample's views are good as long as the text.
  bool Next(Header* header, std::vector<Frame>* frames) {
    while (pending_ || ReadNextHeader()) {
      *header = *std::exchange(pending_, std::nullopt);
      ReadStack(frames);
      if (header->rest.find(" => ") != std::string_view::npos) {
        ++losses_.branch_records;
        continue;
      }
      if (frames->empty()) {
        if (const auto symbol = ReadSymbol(header->rest, true))
          frames->push_back({.symbol = *symbol, .file = {}});
      }
      return true;
    }
    return false;
  }
  const Losses& losses() const { return losses_; }

 private:
  bool ReadNextHeader() {
    std::string_view line;
    while (lines_.Next(&line)) {
      const std::string_view text = Trim(line);
      if (text.empty() || text.starts_with('#')) continue;
      pending_ = ReadHeader(line);
      if (pending_) return true;
      ++losses_.unreadable_lines;
    }
    return false;
  }

  void ReadStack(std::vector<Frame>* frames) {
    frames->clear();
    bool cut = false;
    std::string_view line;
    while (lines_.Next(&line)) {
      if (Trim(line).empty()) break;
      // Events without call chains follow each other without a blank line, and a comm may look like
      // an address ("dd", "cc").
      const bool is_indented = line.find_first_not_of(kBlanks) != 0;
      if (pending_ = ReadHeader(line); pending_ && (pending_->time_ns || !is_indented)) break;
      if (const auto symbol = ReadSymbol(line, false)) {
        pending_.reset();
        if (frames->size() < frames_max_) {
          frames->push_back({.symbol = *symbol, .file = {}});
        } else {
          cut = true;
        }
        continue;
      }
      if (pending_) break;
      std::string_view file;
      int64_t number = 0;
      if (!frames->empty() && ReadSourceLine(line, &file, &number)) {
        frames->back().file = file;
        frames->back().line = number;
      } else if (ParseHex(Trim(line)) && frames->size() < frames_max_) {  // `-F ip` alone
        frames->push_back(
            {.symbol = {.address = *ParseHex(Trim(line)), .name = {}, .object = {}}, .file = {}});
      } else {
        ++losses_.unreadable_lines;
      }
    }
    if (cut) ++losses_.cut_stacks;
  }

  LineReader lines_;
  size_t frames_max_;
  std::optional<Header> pending_;
  Losses losses_;
};

struct Event {
  std::string_view name;
  bool has_period = false;
  size_t type = 0;
};

class Reader {
 public:
  Reader(std::string_view text, const PerfScriptLimits& limits) : text_(text), limits_(limits) {}

  Result<Profile> Read() {
    TRY(FindEvents());
    AddTypes();
    Walker walker(text_, limits_.frames_per_stack_max);
    Header header;
    std::vector<Frame> frames;
    while (walker.Next(&header, &frames)) Add(header, frames);
    return Finish(walker.losses());
  }

 private:
  // Sample types must be known before the first sample.
  Status FindEvents() {
    Walker walker(text_, limits_.frames_per_stack_max);
    Header header;
    std::vector<Frame> frames;
    bool any = false;
    while (walker.Next(&header, &frames)) {
      any = true;
      if (header.event.empty()) continue;
      auto event = std::ranges::find(events_, header.event, &Event::name);
      if (event == events_.end()) {
        if (events_.size() >= limits_.events_max) {
          return Error{ErrorCode::kResourceLimit,
                       StrFormat("more than {} events in one text", limits_.events_max)};
        }
        event = events_.insert(events_.end(), {.name = header.event});
      }
      event->has_period |= header.period.has_value();
    }
    if (any) return OkStatus();
    if (walker.losses().branch_records > 0) {
      return Error{ErrorCode::kUnsupported,
                   "the text holds branch records ('from => to') and no samples: convert the "
                   "recording itself"};
    }
    return Error{ErrorCode::kInvalidInput, "no line reads as a sample of `perf script`"};
  }

  void AddTypes() {
    builder_.SampleType("samples", "count");
    for (Event& event : events_) {
      const std::string_view base = event.name.substr(0, event.name.find(':'));
      const bool is_clock = base == "cpu-clock" || base == "task-clock";
      event.type = is_clock && event.has_period ? builder_.SampleType("cpu", "nanoseconds")
                                                : builder_.SampleType(event.name, "count");
    }
    Profile& profile = builder_.profile();
    const size_t shown = events_.empty() ? 0 : events_[0].type;
    profile.default_sample_type = profile.sample_types[shown].type;
    if (!events_.empty()) profile.period_type = profile.sample_types[shown];
    values_.resize(profile.sample_types.size());
  }

  void Add(const Header& header, const std::vector<Frame>& frames) {
    std::ranges::fill(values_, 0);
    values_[0] = 1;
    const auto event = std::ranges::find(events_, header.event, &Event::name);
    if (event != events_.end()) values_[event->type] += header.period.value_or(1);
    stack_.clear();
    lines_.clear();
    for (size_t i = 0; i < frames.size(); ++i) AddFrame(frames[i], i + 1 == frames.size());
    labels_.clear();
    if (!header.comm.empty())
      labels_.push_back({.key = builder_.String("comm"), .text = builder_.String(header.comm)});
    if (header.pid) labels_.push_back({.key = builder_.String("pid"), .number = *header.pid});
    if (header.tid) labels_.push_back({.key = builder_.String("tid"), .number = *header.tid});
    builder_.Add({builder_.Stack(stack_), builder_.LabelSet(labels_)}, values_);
    ++samples_;
    if (header.time_ns) {
      first_ns_ = std::min(first_ns_, *header.time_ns);
      last_ns_ = std::max(last_ns_, *header.time_ns);
    }
  }

  // An inlined frame waits for the one that holds the instruction.
  void AddFrame(const Frame& frame, bool is_last) {
    if (!frame.symbol.name.empty()) {
      Profile::Function function;
      function.name = function.system_name = builder_.String(frame.symbol.name);
      function.file = builder_.String(frame.file);
      lines_.push_back({builder_.Function(function), frame.line, 0});
    }
    if (frame.symbol.is_inlined && !is_last) return;
    Profile::Location location;
    location.address = frame.symbol.address;
    if (!frame.symbol.object.empty()) {
      Profile::Mapping mapping;
      mapping.file = builder_.String(frame.symbol.object);
      mapping.has_functions = true;
      location.mapping = builder_.Mapping(mapping);
    }
    stack_.push_back(builder_.Location(location, lines_));
    lines_.clear();
  }

  Result<Profile> Finish(const Walker::Losses& losses) {
    Profile profile = builder_.Finish();
    if (first_ns_ <= last_ns_) profile.duration_ns = last_ns_ - first_ns_;
    profile.losses.Capture(samples_);
    profile.losses.Keep(samples_);
    const auto lose = [&](LossReason reason, uint64_t count) {
      if (count > 0) profile.losses.Lose(LossStage::kParse, reason, count, LossUnit::kRecords);
    };
    lose(LossReason::kMissingText, losses.unreadable_lines);
    lose(LossReason::kUnsupported, losses.branch_records);
    lose(LossReason::kLimit, losses.cut_stacks);
    return profile;
  }

  std::string_view text_;
  const PerfScriptLimits& limits_;
  std::vector<Event> events_;
  ProfileBuilder builder_;
  std::vector<int64_t> values_;
  std::vector<LocationId> stack_;
  std::vector<Profile::Line> lines_;
  std::vector<Profile::Label> labels_;
  uint64_t samples_ = 0;
  int64_t first_ns_ = std::numeric_limits<int64_t>::max();
  int64_t last_ns_ = std::numeric_limits<int64_t>::min();
};

}  // namespace

Result<Profile> ReadPerfScript(Bytes bytes, const PerfScriptLimits& limits) {
  return Reader(AsText(bytes), limits).Read();
}

bool LooksLikePerfScript(Bytes prefix) {
  LineReader lines(AsText(prefix));
  std::string_view line;
  while (lines.Next(&line)) {
    const std::string_view text = Trim(line);
    if (text.empty() || text.starts_with('#')) continue;
    const auto header = ReadHeader(line);
    return header && (!header->event.empty() || header->time_ns);
  }
  return false;
}

}  // namespace ptarmigan
