#include "export/flow_section.h"

#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "export/internal/section_bytes.h"

namespace ptarmigan {
namespace {

using internal::AppendU32;
using internal::AppendU64;

constexpr uint32_t kNone = UINT32_MAX;
constexpr uint32_t kHasDigest = 1;
constexpr unsigned kExitShift = 8;  // above the entry

class Encoder {
 public:
  explicit Encoder(const Profile& profile) : flow_(profile.summary.flow) {
    for (const auto& function : flow_.functions) Note(function.location);
    for (const auto& calls : flow_.calls) {
      Note(calls.callee);
      Note(calls.caller);
    }
    for (const auto& interval : flow_.intervals) {
      Note(interval.function);
      Note(interval.caller);
    }
    Count(numbers_.size());
    uint32_t next = 0;
    for (auto& [id, number] : numbers_) {
      number = next++;
      AppendU32(profile.locations[id].mapping, &out_);
      AppendU64(profile.locations[id].address, &out_);
    }
  }

  std::string Encode() && {
    Text(flow_.source);
    Count(flow_.threads.size());
    for (const auto& thread : flow_.threads) Thread(thread);
    Count(flow_.functions.size());
    for (const auto& function : flow_.functions) {
      Place(function.location);
      Numbers({function.instructions, function.calls, function.indirect_calls, function.jumps,
               function.interrupts});
    }
    Count(flow_.calls.size());
    for (const auto& calls : flow_.calls) {
      Place(calls.callee);
      Place(calls.caller);
      AppendU32(static_cast<uint32_t>(calls.entry), &out_);
      Numbers({calls.count, calls.unwound, calls.instructions, calls.self_instructions,
               calls.uncertainty_ns, calls.unbounded});
      Durations(calls.total);
      Durations(calls.self);
    }
    Count(flow_.intervals.size());
    for (const auto& interval : flow_.intervals) Interval(interval);
    Count(flow_.marks.size());
    for (const auto& mark : flow_.marks) {
      AppendU32(mark.thread, &out_);
      AppendU32(static_cast<uint32_t>(mark.kind), &out_);
      Numbers({mark.begin_ns, mark.end_ns});
    }
    Count(flow_.missing_code.size());
    for (const auto& [object, bytes] : flow_.missing_code) {
      Text(object);
      AppendU64(bytes, &out_);
    }
    Numbers({flow_.intervals_cut, flow_.marks_cut});
    return std::move(out_);
  }

 private:
  void Note(uint32_t location) {
    if (location != kNone) numbers_[location] = 0;
  }
  void Count(size_t count) { AppendU32(static_cast<uint32_t>(count), &out_); }
  void Place(uint32_t location) {
    AppendU32(location == kNone ? kNone : numbers_.at(location), &out_);
  }
  void Numbers(std::initializer_list<uint64_t> numbers) {
    for (const uint64_t number : numbers) AppendU64(number, &out_);
  }
  void Text(std::string_view text) {
    Count(text.size());
    out_ += text;
  }
  void Durations(const DurationCounts& durations) {
    Numbers({durations.sum_ns(), durations.max_ns()});
    uint32_t steps = 0;
    durations.ForEachStep([&](uint32_t, uint64_t) { ++steps; });
    AppendU32(steps, &out_);
    durations.ForEachStep([&](uint32_t step, uint64_t count) {
      AppendU32(step, &out_);
      AppendU64(count, &out_);
    });
  }
  void Thread(const FlowSummary::Thread& thread) {
    AppendU32(static_cast<uint32_t>(thread.pid), &out_);
    AppendU32(static_cast<uint32_t>(thread.tid), &out_);
    AppendU32(thread.cpu.value_or(kNone), &out_);
    AppendU32(thread.ip_digest ? kHasDigest : 0, &out_);
    Text(thread.name);
    const FlowBytes& bytes = thread.bytes;
    Numbers({thread.instructions, thread.blocks, thread.branches, thread.calls, thread.returns,
             thread.ip_digest.value_or(0), thread.verified, thread.suspect, thread.bad,
             bytes.decoded, bytes.before_sync, bytes.after_error, bytes.overflow, bytes.no_image,
             bytes.padding, bytes.dropped, thread.begin_ns, thread.end_ns, thread.uncertainty_ns});
    Count(thread.gaps.size());
    for (const auto& [reason, count] : thread.gaps) {
      Text(reason);
      AppendU64(count, &out_);
    }
    Count(thread.errors.size());
    for (const auto& error : thread.errors) {
      Numbers({error.offset, static_cast<uint64_t>(error.code)});
      Text(error.reason);
    }
    AppendU64(thread.errors_cut, &out_);
  }
  void Interval(const FlowSummary::Interval& interval) {
    AppendU32(interval.thread, &out_);
    AppendU32(interval.stack, &out_);
    Place(interval.function);
    Place(interval.caller);
    AppendU32(interval.depth, &out_);
    AppendU32(static_cast<uint32_t>(interval.entry) | static_cast<uint32_t>(interval.exit)
                                                          << kExitShift,
              &out_);
    AppendU32(interval.uncertainty_ns, &out_);
    Numbers(
        {interval.begin_ns, interval.end_ns, interval.begin_instruction, interval.instructions});
  }

  const FlowSummary& flow_;
  std::map<uint32_t, uint32_t> numbers_;  // LocationId -> place
  std::string out_;
};

class Decoder {
 public:
  explicit Decoder(Bytes content) : cursor_(content, std::endian::little) {}

  Status Decode(Profile* profile) {
    ReadPlaces(*profile);
    flow_.source = Text();
    for (uint32_t left = Count(180); left > 0; --left) ReadThread();
    for (uint32_t left = Count(44); left > 0; --left) {
      FlowSummary::Function& function = flow_.functions.emplace_back();
      function.location = Place();
      Read({&function.instructions, &function.calls, &function.indirect_calls, &function.jumps,
            &function.interrupts});
    }
    for (uint32_t left = Count(100); left > 0; --left) ReadCalls();
    for (uint32_t left = Count(60); left > 0; --left) ReadInterval();
    for (uint32_t left = Count(24); left > 0; --left) {
      FlowSummary::Mark& mark = flow_.marks.emplace_back();
      mark.thread = Thread();
      mark.kind = Enumerator(cursor_.U32(), FlowSummary::Mark::Kind::kBad);
      Read({&mark.begin_ns, &mark.end_ns});
      valid_ &= mark.begin_ns <= mark.end_ns;
    }
    for (uint32_t left = Count(12); left > 0; --left) {
      const std::string object = Text();
      flow_.missing_code[object] = cursor_.U64();
    }
    Read({&flow_.intervals_cut, &flow_.marks_cut});
    if (!cursor_.ok() || !cursor_.AtEnd()) {
      return Error{ErrorCode::kTruncated, "the archive's flow section has another size"};
    }
    if (!valid_) {
      return Error{ErrorCode::kInvalidInput, "the archive's flow section contradicts itself"};
    }
    profile->summary.flow = std::move(flow_);
    return OkStatus();
  }

 private:
  // How many entries follow; 0 where they cannot all be there.
  uint32_t Count(size_t entry_bytes) {
    const uint32_t count = cursor_.U32();
    if (valid_ && count <= cursor_.remaining() / entry_bytes) return count;
    valid_ = false;
    return 0;
  }
  void Read(std::initializer_list<uint64_t*> numbers) {
    for (uint64_t* number : numbers) *number = cursor_.U64();
  }
  std::string Text() { return std::string(AsText(cursor_.Take(Count(1)))); }
  // `last` is the largest enumerator.
  template <typename Enum>
  Enum Enumerator(uint32_t number, Enum last) {
    valid_ &= number <= static_cast<uint32_t>(last);
    return static_cast<Enum>(number);
  }

  void ReadPlaces(const Profile& profile) {
    const internal::LocationsByPlace by_place = internal::IndexByPlace(profile);
    for (uint32_t left = Count(12); left > 0; --left) {
      const MappingId mapping = cursor_.U32();
      const auto found = by_place.find({mapping, cursor_.U64()});
      valid_ &= found != by_place.end();
      if (!valid_) return;
      places_.push_back(found->second);
    }
  }
  LocationId Place() {
    const uint32_t number = cursor_.U32();
    if (number == kNone) return kNone;
    if (number < places_.size()) return places_[number];
    valid_ = false;
    return kNone;
  }
  uint32_t Thread() {
    const uint32_t thread = cursor_.U32();
    valid_ &= thread < flow_.threads.size();
    return thread;
  }

  void ReadThread() {
    FlowSummary::Thread& thread = flow_.threads.emplace_back();
    thread.pid = static_cast<int32_t>(cursor_.U32());
    thread.tid = static_cast<int32_t>(cursor_.U32());
    if (const uint32_t cpu = cursor_.U32(); cpu != kNone) thread.cpu = cpu;
    const bool has_digest = (cursor_.U32() & kHasDigest) != 0;
    thread.name = Text();
    FlowBytes& bytes = thread.bytes;
    uint64_t digest = 0;
    Read({&thread.instructions, &thread.blocks, &thread.branches, &thread.calls, &thread.returns,
          &digest, &thread.verified, &thread.suspect, &thread.bad, &bytes.decoded,
          &bytes.before_sync, &bytes.after_error, &bytes.overflow, &bytes.no_image, &bytes.padding,
          &bytes.dropped, &thread.begin_ns, &thread.end_ns, &thread.uncertainty_ns});
    if (has_digest) thread.ip_digest = digest;
    for (uint32_t left = Count(12); left > 0; --left) {
      const std::string reason = Text();
      thread.gaps[reason] = cursor_.U64();
    }
    for (uint32_t left = Count(20); left > 0; --left) {
      FlowSummary::Error& error = thread.errors.emplace_back();
      error.offset = cursor_.U64();
      error.code = static_cast<int64_t>(cursor_.U64());
      error.reason = Text();
    }
    thread.errors_cut = cursor_.U64();
  }

  void ReadCalls() {
    FlowSummary::Calls& calls = flow_.calls.emplace_back();
    calls.callee = Place();
    calls.caller = Place();
    calls.entry = Enumerator(cursor_.U32(), FlowSummary::Entry::kInterrupt);
    Read({&calls.count, &calls.unwound, &calls.instructions, &calls.self_instructions,
          &calls.uncertainty_ns, &calls.unbounded});
    for (DurationCounts* durations : {&calls.total, &calls.self}) {
      uint64_t sum_ns = 0;
      uint64_t max_ns = 0;
      Read({&sum_ns, &max_ns});
      durations->AddSum(sum_ns, max_ns);
      for (uint32_t left = Count(12); left > 0; --left) {
        const uint32_t step = cursor_.U32();
        valid_ &= durations->AddStep(step, cursor_.U64());
      }
      // What reports subtract from each other.
      valid_ &= durations->count() <= calls.count;
    }
    valid_ &= calls.unbounded <= calls.total.count();
  }

  void ReadInterval() {
    FlowSummary::Interval& interval = flow_.intervals.emplace_back();
    interval.thread = Thread();
    interval.stack = cursor_.U32();
    interval.function = Place();
    interval.caller = Place();
    interval.depth = cursor_.U32();
    const uint32_t flags = cursor_.U32();
    interval.entry = Enumerator(flags & ((1U << kExitShift) - 1), FlowSummary::Entry::kInterrupt);
    interval.exit = Enumerator(flags >> kExitShift, FlowSummary::Exit::kOpen);
    interval.uncertainty_ns = cursor_.U32();
    Read({&interval.begin_ns, &interval.end_ns, &interval.begin_instruction,
          &interval.instructions});
    valid_ &= interval.begin_ns <= interval.end_ns &&
              interval.instructions <= UINT64_MAX - interval.begin_instruction;
  }

  ByteCursor cursor_;
  FlowSummary flow_;
  std::vector<LocationId> places_;
  bool valid_ = true;
};

}  // namespace

std::string EncodeFlowSection(const Profile& profile) { return Encoder(profile).Encode(); }

Status DecodeFlowSection(Bytes content, Profile* profile) {
  return Decoder(content).Decode(profile);
}

}  // namespace ptarmigan
