#include "export/internal/fact_comments.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>

#include "base/str_format.h"

namespace ptarmigan::internal {
namespace {

constexpr std::string_view kPrefix = "ptarmigan.";
constexpr std::string_view kSamples = "samples";
constexpr std::string_view kLost = "lost";
constexpr std::string_view kEvent = "event";
constexpr std::string_view kStacks = "stacks";
constexpr std::string_view kStackCut = "stack_cut";
constexpr std::string_view kLbrCheck = "lbr_check";
constexpr std::string_view kFrames = "frames";
constexpr std::string_view kUnsymbolized = "frame_unsymbolized";
constexpr std::string_view kTraceBytes = "trace_bytes";

#define PTARMIGAN_X(name, text) LossStage::name,
constexpr LossStage kStages[] = {PTARMIGAN_LOSS_STAGES(PTARMIGAN_X)};
#undef PTARMIGAN_X
#define PTARMIGAN_X(name, text) LossReason::name,
constexpr LossReason kReasons[] = {PTARMIGAN_LOSS_REASONS(PTARMIGAN_X)};
#undef PTARMIGAN_X
constexpr LossUnit kUnits[] = {LossUnit::kSamples, LossUnit::kRecords, LossUnit::kBytes};

// "name", with \" \\ and \n inside: a comment stays one line.
std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n') {
      quoted += "\\n";
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

// Reads `key=value key="quoted value" ...` from the left. The first thing that is not as asked for
// makes every later answer empty and Done() false.
class FactReader {
 public:
  explicit FactReader(std::string_view line) : rest_(line) {}

  bool Done() const { return ok_ && rest_.empty(); }

  std::string Word(std::string_view key) {
    if (!TakeKey(key)) return "";
    const size_t end = std::min(rest_.find(' '), rest_.size());
    std::string word(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return word;
  }

  std::string Quoted(std::string_view key) {
    std::string text;
    if (!TakeKey(key) || !rest_.starts_with('"')) return Fail();
    for (size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == '"') {
        rest_.remove_prefix(i + 1);
        return text;
      }
      const bool escaped = rest_[i] == '\\';
      if (escaped && ++i == rest_.size()) break;
      text += escaped && rest_[i] == 'n' ? '\n' : rest_[i];
    }
    return Fail();
  }

  uint64_t Number(std::string_view key) {
    const std::string word = Word(key);
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size()) Fail();
    return number;
  }

  // One of `all`, by its name.
  template <typename Enum, size_t N>
  Enum OneOf(std::string_view key, const Enum (&all)[N], std::string_view (*name)(Enum)) {
    const std::string word = Word(key);
    const auto found =
        std::find_if(std::begin(all), std::end(all), [&](Enum one) { return name(one) == word; });
    if (found != std::end(all)) return *found;
    Fail();
    return all[0];
  }

 private:
  bool TakeKey(std::string_view key) {
    if (!first_ && !Skip(" ")) return false;
    first_ = false;
    return Skip(key) && Skip("=");
  }
  bool Skip(std::string_view text) {
    if (!ok_ || !rest_.starts_with(text)) {
      Fail();
      return false;
    }
    rest_.remove_prefix(text.size());
    return true;
  }
  std::string Fail() {
    ok_ = false;
    return "";
  }

  std::string_view rest_;
  bool first_ = true;
  bool ok_ = true;
};

bool ParseLosses(std::string_view key, FactReader* facts, LossLedger* losses) {
  if (key == kSamples) {
    const uint64_t captured = facts->Number("captured");
    const uint64_t kept = facts->Number("kept");
    if (!facts->Done()) return false;
    losses->Capture(captured);
    losses->Keep(kept);
    return true;
  }
  const LossStage stage = facts->OneOf("stage", kStages, &LossStageName);
  const LossReason reason = facts->OneOf("reason", kReasons, &LossReasonName);
  const LossUnit unit = facts->OneOf("unit", kUnits, &LossUnitName);
  const uint64_t count = facts->Number("count");
  if (!facts->Done()) return false;
  losses->Lose(stage, reason, count, unit);
  return true;
}

bool ParseEvent(FactReader* facts, std::vector<EventTotal>* events) {
  EventTotal event;
  event.name = facts->Quoted("name");
  event.samples = facts->Number("samples");
  event.period_sum = facts->Number("period_sum");
  if (!facts->Done()) return false;
  events->push_back(std::move(event));
  return true;
}

bool ParseQuality(std::string_view key, FactReader* facts, Quality* quality) {
  Quality added;
  if (key == kStacks) {
    added.stacks_complete = facts->Number("complete");
  } else if (key == kFrames) {
    added.frames_symbolized = facts->Number("symbolized");
  } else if (key == kStackCut) {
    const std::string reason = facts->Quoted("reason");
    added.stacks_cut[reason] = facts->Number("samples");
  } else if (key == kLbrCheck) {
    const std::string result = facts->Quoted("result");
    added.lbr_checks[result] = facts->Number("samples");
  } else if (key == kTraceBytes) {
    const std::string fate = facts->Quoted("fate");
    added.trace_bytes[fate] = facts->Number("bytes");
  } else {
    const std::string object = facts->Quoted("object");
    const std::string reason = facts->Quoted("reason");
    added.frames_unsymbolized[{object, reason}] = facts->Number("frames");
  }
  if (!facts->Done()) return false;
  quality->Merge(added);
  return true;
}

}  // namespace

std::vector<std::string> FactComments(const Profile& profile) {
  std::vector<std::string> lines;
  const auto add = [&lines](std::string_view key, const std::string& facts) {
    lines.push_back(StrFormat("{}{}: {}", kPrefix, key, facts));
  };
  const LossLedger& losses = profile.losses;
  if (losses.captured() != 0 || losses.kept() != 0) {
    add(kSamples, StrFormat("captured={} kept={}", losses.captured(), losses.kept()));
  }
  for (const LossEntry& entry : losses.Entries()) {
    add(kLost, StrFormat("stage={} reason={} unit={} count={}", LossStageName(entry.stage),
                         LossReasonName(entry.reason), LossUnitName(entry.unit), entry.count));
  }
  for (const EventTotal& event : profile.events) {
    add(kEvent, StrFormat("name={} samples={} period_sum={}", Quote(event.name), event.samples,
                          event.period_sum));
  }
  const Quality& quality = profile.quality;
  if (quality.empty()) return lines;
  add(kStacks, StrFormat("complete={}", quality.stacks_complete));
  for (const auto& [reason, samples] : quality.stacks_cut) {
    add(kStackCut, StrFormat("reason={} samples={}", Quote(reason), samples));
  }
  for (const auto& [result, samples] : quality.lbr_checks) {
    add(kLbrCheck, StrFormat("result={} samples={}", Quote(result), samples));
  }
  add(kFrames, StrFormat("symbolized={}", quality.frames_symbolized));
  for (const auto& [where, frames] : quality.frames_unsymbolized) {
    add(kUnsymbolized, StrFormat("object={} reason={} frames={}", Quote(where.first),
                                 Quote(where.second), frames));
  }
  for (const auto& [fate, bytes] : quality.trace_bytes) {
    add(kTraceBytes, StrFormat("fate={} bytes={}", Quote(fate), bytes));
  }
  return lines;
}

bool ParseFactComment(std::string_view comment, Profile* profile) {
  if (!comment.starts_with(kPrefix)) return false;
  comment.remove_prefix(kPrefix.size());
  const size_t colon = comment.find(": ");
  if (colon == std::string_view::npos) return false;
  const std::string_view key = comment.substr(0, colon);
  FactReader facts(comment.substr(colon + 2));
  if (key == kSamples || key == kLost) return ParseLosses(key, &facts, &profile->losses);
  if (key == kEvent) return ParseEvent(&facts, &profile->events);
  if (key == kStacks || key == kFrames || key == kStackCut || key == kLbrCheck ||
      key == kUnsymbolized || key == kTraceBytes) {
    return ParseQuality(key, &facts, &profile->quality);
  }
  return false;
}

}  // namespace ptarmigan::internal
