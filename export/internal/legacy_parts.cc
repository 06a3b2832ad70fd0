#include "export/internal/legacy_parts.h"

#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "base/str_format.h"
#include "base/text_lines.h"
#include "export/internal/memory_map.h"

namespace ptarmigan::internal {
namespace {

// Frames of the profiler's own machinery at the leaf, by kind of profile: malloc and its like, lock and unlock
// hooks, the signal handler. pprof leaves them out when it shows such a profile.
constexpr std::string_view kAllocatorFrames =
    "(c|m|re|v|pv)alloc|c?free|(do_|(__)?posix_)?memalign|tcmalloc::.*|"
    "tc_((c|m|re|v|pv)alloc|c?free|(posix_)?memalign|(new|delete)(array)?(_nothrow)?)|"
    "malloc_zone_(malloc|calloc|valloc|realloc|memalign|free)|runtime\\..*|BaseArena::.*|"
    "(::)?do_malloc(_no_errno|_pages)?|DoSampledAllocation|MallocedMemBlock::MallocedMemBlock|_M_"
    "allocate|"
    "__builtin_(vec_)?(delete|new)|__gnu_cxx::new_allocator::allocate|__libc_malloc|"
    "__malloc_alloc_template::allocate|allocate|cpp_alloc|operator "
    "new(\\[\\])?|simple_alloc::allocate";
constexpr std::string_view kKeptRuntimeFrames = "runtime\\.(panic|reflectcall|call[0-9]*)";
constexpr std::string_view kLockFrames =
    "(base::)?(RecordLockProfileData|Submit(Mutex|SpinLock)ProfileData).*|"
    "((base::)?Mutex::)?(AwaitCommon|Unlock|UnlockSlow|ReaderUnlock).*|((base::)?MutexLock::)?~"
    "MutexLock.*|"
    "(SpinLock::)?(Slow)?Unlock.*|(SpinLockHolder::)?~SpinLockHolder.*";
constexpr std::string_view kSignalFrames =
    "(ProfileData::(Add|prof_handler)|CpuProfiler::prof_handler|__pthread_sighandler|__restore)";

void SetDropFrames(Profile* profile) {
  std::string_view drop = kSignalFrames;
  for (const auto& type : profile->sample_types) {
    const std::string_view name = profile->Text(type.type);
    if (name.ends_with("space")) {
      drop = kAllocatorFrames;
      profile->keep_frames = profile->strings.Intern(kKeptRuntimeFrames);
    }
    if (name == "contentions") drop = kLockFrames;
  }
  profile->drop_frames = profile->strings.Intern(drop);
}

}  // namespace

void LegacyProfile::AddType(std::string_view type, std::string_view unit) {
  profile_.sample_types.push_back({profile_.strings.Intern(type), profile_.strings.Intern(unit)});
  ++types_;
}

void LegacyProfile::SetPeriod(std::string_view type, std::string_view unit, int64_t period) {
  profile_.period_type = {profile_.strings.Intern(type), profile_.strings.Intern(unit)};
  profile_.period = period;
}

Status LegacyProfile::Add(std::span<const uint64_t> addresses, std::span<const int64_t> values,
                          std::optional<int64_t> block_bytes) {
  frames_ += addresses.size();
  if (samples() >= limits_.entries_max || frames_ > limits_.entries_max) {
    return Error{ErrorCode::kResourceLimit,
                 StrFormat("the profile has more than {} samples or frames", limits_.entries_max)};
  }
  addresses_.emplace_back(addresses.begin(), addresses.end());
  values_.insert(values_.end(), values.begin(), values.end());
  block_bytes_.push_back(block_bytes);
  return OkStatus();
}

LocationId LegacyProfile::Locate(uint64_t address,
                                 const std::unordered_map<uint64_t, LegacySymbol>& symbols) {
  const auto [known, is_new] =
      locations_.try_emplace(address, static_cast<LocationId>(profile_.locations.size()));
  if (!is_new) return known->second;
  Profile::Location location;
  const auto symbol = symbols.find(address);
  if (symbol == symbols.end()) {
    location.address = address;
    return profile_.AddLocation(location, {});
  }
  // Names stand for functions in these profiles: the first file wins.
  const auto [function, is_new_function] = functions_.try_emplace(
      symbol->second.name, static_cast<FunctionId>(profile_.functions.size()));
  if (is_new_function) {
    Profile::Function added;
    added.name = added.system_name = profile_.strings.Intern(symbol->second.name);
    added.file = profile_.strings.Intern(symbol->second.file);
    profile_.functions.push_back(added);
  }
  const Profile::Line line = {function->second, symbol->second.line, 0};
  return profile_.AddLocation(location, std::span(&line, 1));
}

Result<Profile> LegacyProfile::Finish(std::string_view maps,
                                      const std::unordered_map<uint64_t, LegacySymbol>& symbols) {
  if (samples() == 0 && profile_.losses.Lost(LossUnit::kRecords) > 0) {
    return Error{ErrorCode::kInvalidInput, "no line of the profile reads as a sample"};
  }
  std::vector<LocationId> frames;
  for (size_t i = 0; i < samples(); ++i) {
    frames.clear();
    for (const uint64_t address : addresses_[i]) frames.push_back(Locate(address, symbols));
    Profile::Label label;
    if (block_bytes_[i]) {
      label.key = profile_.strings.Intern("bytes");
      label.number = *block_bytes_[i];
    }
    const LabelSetId labels = profile_.AddLabelSet(std::span(&label, block_bytes_[i] ? 1 : 0));
    profile_.AddSample({profile_.AddStack(frames), labels},
                       std::span(values_).subspan(i * types_, types_));
  }
  AssignMappings(ParseMemoryMap(maps), &profile_);
  SetDropFrames(&profile_);
  TRY(profile_.CheckValid());
  return std::move(profile_);
}

bool ParseAddresses(std::string_view text, std::vector<uint64_t>* addresses) {
  for (size_t at = 0; (at = text.find("0x", at)) != std::string_view::npos;) {
    at += 2;
    const size_t end = std::min(text.find_first_not_of("0123456789abcdef", at), text.size());
    if (end == at) continue;
    const auto address = ParseNumber<uint64_t>(text.substr(at, end - at), 16);
    if (!address) return false;
    addresses->push_back(*address);
    at = end;
  }
  return true;
}

int64_t ScaleCount(int64_t value, double factor) {
  const double scaled = static_cast<double>(value) * factor;
  constexpr double kMax = 9.2e18;
  if (std::isnan(scaled)) return 0;
  if (scaled >= kMax) return std::numeric_limits<int64_t>::max();
  if (scaled <= -kMax) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(scaled);
}

HeapValue ScaleHeapValue(HeapValue seen, int64_t rate_bytes) {
  if (seen.count == 0 || seen.bytes == 0) return {};
  if (rate_bytes <= 1) return seen;
  const double mean_bytes = static_cast<double>(seen.bytes) / static_cast<double>(seen.count);
  const double factor = 1 / (1 - std::exp(-mean_bytes / static_cast<double>(rate_bytes)));
  return {ScaleCount(seen.count, factor), ScaleCount(seen.bytes, factor)};
}

}  // namespace ptarmigan::internal
