#include "hw/event_spec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/str_format.h"
#include "hw/internal/attr_bits.h"
#include "hw/internal/near_names.h"
#include "hw/internal/pmu_events.h"

namespace ptarmigan {
namespace {

using internal::SetBit;

struct GenericName {
  std::string_view name;   // the first of an event's names is the one that reports show
  std::string_view alias;  // empty: none
  uint32_t type;
  uint64_t config;
};

// perf_hw_id and perf_sw_ids.
constexpr std::array<GenericName, 22> kGenericNames = {{
    {"cycles", "cpu-cycles", kPerfTypeHardware, 0},
    {"instructions", "", kPerfTypeHardware, 1},
    {"cache-references", "", kPerfTypeHardware, 2},
    {"cache-misses", "", kPerfTypeHardware, 3},
    {"branches", "branch-instructions", kPerfTypeHardware, 4},
    {"branch-misses", "", kPerfTypeHardware, 5},
    {"bus-cycles", "", kPerfTypeHardware, 6},
    {"stalled-cycles-frontend", "idle-cycles-frontend", kPerfTypeHardware, 7},
    {"stalled-cycles-backend", "idle-cycles-backend", kPerfTypeHardware, 8},
    {"ref-cycles", "", kPerfTypeHardware, 9},
    {"cpu-clock", "", kPerfTypeSoftware, 0},
    {"task-clock", "", kPerfTypeSoftware, 1},
    {"page-faults", "faults", kPerfTypeSoftware, 2},
    {"context-switches", "cs", kPerfTypeSoftware, 3},
    {"cpu-migrations", "migrations", kPerfTypeSoftware, 4},
    {"minor-faults", "", kPerfTypeSoftware, 5},
    {"major-faults", "", kPerfTypeSoftware, 6},
    {"alignment-faults", "", kPerfTypeSoftware, 7},
    {"emulation-faults", "", kPerfTypeSoftware, 8},
    {"dummy", "", kPerfTypeSoftware, 9},
    {"bpf-output", "", kPerfTypeSoftware, 10},
    {"cgroup-switches", "", kPerfTypeSoftware, 11},
}};

struct CacheWord {
  std::string_view name;
  std::string_view alias;
};
constexpr std::array<CacheWord, 7> kCaches = {{{"L1-dcache", "l1-d"},
                                               {"L1-icache", "l1-i"},
                                               {"LLC", "L2"},
                                               {"dTLB", "d-tlb"},
                                               {"iTLB", "i-tlb"},
                                               {"branch", "bpu"},
                                               {"node", ""}}};
constexpr std::array<CacheWord, 3> kCacheOps = {
    {{"load", "loads"}, {"store", "stores"}, {"prefetch", "prefetches"}}};

bool EqualIgnoringCase(std::string_view a, std::string_view b) {
  const auto lower = [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [lower](char x, char y) { return lower(x) == lower(y); });
}

// "<cache>", "<cache>-misses", "<cache>-<op>s", "<cache>-<op>-misses"; perf's spelling without regard to case.
std::optional<EventAttr> CacheEvent(std::string_view name) {
  for (uint64_t cache = 0; cache < kCaches.size(); ++cache) {
    for (const std::string_view word : {kCaches[cache].name, kCaches[cache].alias}) {
      if (word.empty() || name.size() < word.size() ||
          !EqualIgnoringCase(name.substr(0, word.size()), word))
        continue;
      std::string_view rest = name.substr(word.size());
      uint64_t op = 0;
      bool op_given = false;
      for (uint64_t i = 0; i < kCacheOps.size() && !op_given; ++i) {
        for (const std::string_view op_word : {kCacheOps[i].alias, kCacheOps[i].name}) {
          const std::string with_dash = "-" + std::string(op_word);
          const std::string_view after =
              rest.size() >= with_dash.size() ? rest.substr(with_dash.size()) : "";
          if (rest.starts_with(with_dash) && (after.empty() || after.front() == '-')) {
            op = i;
            op_given = true;
            rest = after;
            break;
          }
        }
      }
      const bool miss = rest == "-misses" || rest == "-miss";
      const bool access = rest.empty() || rest == "-refs" || rest == "-reference" ||
                          rest == "-access" || rest == "-ops";
      // "branch" alone is no cache event's name; "node" and the like need an operation or a result too.
      if ((!miss && !access) || (!op_given && rest.empty())) continue;
      EventAttr attr;
      attr.type = kPerfTypeHwCache;
      attr.config = cache | op << 8 | uint64_t{miss ? 1U : 0U} << 16;
      return attr;
    }
  }
  return std::nullopt;
}

struct KnownEvent {
  EventAttr attr;
  std::string name;
};

std::optional<KnownEvent> GenericEvent(std::string_view name) {
  for (const GenericName& generic : kGenericNames) {
    if (name == generic.name || (!generic.alias.empty() && name == generic.alias)) {
      KnownEvent event;
      event.attr.type = generic.type;
      event.attr.config = generic.config;
      event.name = generic.name;
      return event;
    }
  }
  if (auto attr = CacheEvent(name)) return KnownEvent{*attr, NameFromAttr(*attr)};
  // "r" and hexadecimal digits.
  if (name.size() >= 2 && name.size() <= 17 && name.front() == 'r') {
    KnownEvent event;
    const auto [end, error] =
        std::from_chars(name.data() + 1, name.data() + name.size(), event.attr.config, 16);
    if (error == std::errc() && end == name.data() + name.size()) {
      event.attr.type = kPerfTypeRaw;
      event.name = name;
      return event;
    }
  }
  return std::nullopt;
}

constexpr std::string_view kModifierLetters = "ukhpPGH";

bool AreModifiers(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kModifierLetters) == std::string_view::npos;
}

Status ApplyModifiers(std::string_view modifiers, EventSpec* spec) {
  bool user = false;
  bool kernel = false;
  bool hypervisor = false;
  bool guest = false;
  bool host = false;
  unsigned precise = 0;
  for (const char letter : modifiers) {
    switch (letter) {
      case 'u':
        user = true;
        break;
      case 'k':
        kernel = true;
        break;
      case 'h':
        hypervisor = true;
        break;
      case 'G':
        guest = true;
        break;
      case 'H':
        host = true;
        break;
      case 'p':
        ++precise;
        break;
      case 'P':
        spec->precise_max = true;
        break;
      default:
        return Error{ErrorCode::kInvalidInput,
                     StrFormat("event \"{}\": unknown modifier '{}' (known: {})", spec->name,
                               letter, kModifierLetters)};
    }
  }
  if (precise > 3) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("event \"{}\": at most three 'p'", spec->name)};
  }
  if (user || kernel || hypervisor) {
    spec->modes_given = true;
    SetBit(&spec->attr, internal::kBitExcludeUser, !user);
    SetBit(&spec->attr, internal::kBitExcludeKernel, !kernel);
    SetBit(&spec->attr, internal::kBitExcludeHypervisor, !hypervisor);
  }
  if (guest || host) {
    SetBit(&spec->attr, internal::kBitExcludeGuest, !guest);
    SetBit(&spec->attr, internal::kBitExcludeHost, !host);
  }
  internal::SetPreciseIp(&spec->attr, precise);
  return OkStatus();
}

std::string TracefsRoot(const EventRoots& roots) {
  if (!roots.tracefs.empty()) return roots.tracefs;
  const std::string modern = JoinPath(roots.sysfs, "kernel/tracing");
  if (PathExists(JoinPath(modern, "events"))) return modern;
  const std::string old = JoinPath(roots.sysfs, "kernel/debug/tracing");
  return PathExists(JoinPath(old, "events")) ? old : modern;
}

bool IsPlainName(std::string_view name) {
  return !name.empty() && !name.starts_with('.') && name.find('/') == std::string_view::npos;
}

Result<EventSpec> Tracepoint(std::string_view system, std::string_view event,
                             const EventRoots& roots) {
  if (!IsPlainName(system) || !IsPlainName(event)) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("\"{}:{}\" is not the name of a tracepoint", system, event)};
  }
  const std::string root = TracefsRoot(roots);
  const std::string path = StrFormat("{}/events/{}/{}/id", root, system, event);
  auto text = ReadFile(path, 64);
  if (!text) {
    if (text.error().code == ErrorCode::kPermission) {
      return Error{
          ErrorCode::kPermission,
          StrFormat(
              "tracepoint {}:{}: {} may not be read; run as root, or give this user access with "
              "`mount -o remount,mode=755 {}`",
              system, event, path, root)};
    }
    auto systems = ListDirectory(root + "/events");
    if (!systems) {
      return Error{ErrorCode::kNotFound, StrFormat("tracepoint {}:{}: tracefs is not mounted; "
                                                   "`mount -t tracefs tracefs {}`",
                                                   system, event, root)};
    }
    auto names = ListDirectory(StrFormat("{}/events/{}", root, system));
    if (!names) {
      return Error{ErrorCode::kNotFound, StrFormat("there are no tracepoints of \"{}\" here{}",
                                                   system, internal::DidYouMean(system, *systems))};
    }
    return Error{ErrorCode::kNotFound, StrFormat("\"{}\" has no tracepoint \"{}\"{}", system, event,
                                                 internal::DidYouMean(event, *names))};
  }
  EventSpec spec;
  spec.attr.type = kPerfTypeTracepoint;
  const auto [end, error] =
      std::from_chars(text->data(), text->data() + text->size(), spec.attr.config);
  if (error != std::errc()) return Error{ErrorCode::kInvalidInput, path + ": not a number"};
  spec.name = StrFormat("{}:{}", system, event);
  return spec;
}

// "pmu/terms/modifiers".
Result<EventSpec> PmuSyntax(std::string_view text, const EventRoots& roots) {
  const size_t first = text.find('/');
  const size_t last = text.rfind('/');
  if (first == 0 || last == first) {
    return Error{ErrorCode::kInvalidInput,
                 StrFormat("\"{}\": want pmu/term=value,.../modifiers", text)};
  }
  std::string_view modifiers = text.substr(last + 1);
  if (modifiers.starts_with(':')) modifiers.remove_prefix(1);
  TRY_ASSIGN(EventSpec spec,
             internal::ParsePmuEvent(text.substr(0, first),
                                     text.substr(first + 1, last - first - 1), roots));
  TRY(ApplyModifiers(modifiers, &spec));
  if (!modifiers.empty()) {
    if (!spec.name.ends_with('/')) spec.name += ':';
    spec.name += modifiers;
  }
  return spec;
}

Error UnknownEvent(std::string_view name, const EventRoots& roots) {
  std::vector<std::string> known = GenericEventNames();
  for (const std::string& pmu : internal::PmuNames(roots)) {
    for (const std::string& event : internal::PmuEventNames(pmu, roots)) known.push_back(event);
  }
  return Error{ErrorCode::kNotFound, StrFormat("there is no event \"{}\" here{}", name,
                                               internal::DidYouMean(name, known))};
}

}  // namespace

Result<EventSpec> ParseEvent(std::string_view text, const EventRoots& roots) {
  if (text.empty()) return Error{ErrorCode::kInvalidInput, "an event without a name"};
  if (text.find('/') != std::string_view::npos) return PmuSyntax(text, roots);

  // "name", "name:modifiers", "system:name" or "system:name:modifiers".
  const size_t colon = text.find(':');
  const std::string_view head = text.substr(0, colon);
  const std::string_view tail = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  if (colon != std::string_view::npos && tail.empty()) {
    return Error{ErrorCode::kInvalidInput, StrFormat("\"{}\": nothing after ':'", text)};
  }
  EventSpec spec;
  std::string_view modifiers = tail;
  if (auto generic = GenericEvent(head)) {
    spec.attr = generic->attr;
    spec.name = std::move(generic->name);
  } else if (auto pmu = internal::CpuPmuWithEvent(head, roots)) {
    TRY_ASSIGN(spec, internal::ParsePmuEvent(*pmu, head, roots));
    spec.name = head;
  } else if (colon != std::string_view::npos) {
    const size_t second = tail.find(':');
    if (second == std::string_view::npos && AreModifiers(tail) &&
        !PathExists(StrFormat("{}/events/{}", TracefsRoot(roots), head))) {
      return UnknownEvent(head, roots);
    }
    modifiers = second == std::string_view::npos ? "" : tail.substr(second + 1);
    TRY_ASSIGN(spec, Tracepoint(head, tail.substr(0, second), roots));
  } else {
    return UnknownEvent(head, roots);
  }
  TRY(ApplyModifiers(modifiers, &spec));
  if (!modifiers.empty()) spec.name += StrFormat(":{}", modifiers);
  return spec;
}

Result<std::vector<EventSpec>> ParseEventList(std::string_view text, const EventRoots& roots) {
  std::vector<EventSpec> specs;
  size_t start = 0;
  bool inside_slashes = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '/') inside_slashes = !inside_slashes;
    if (i < text.size() && (text[i] != ',' || inside_slashes)) continue;
    if (specs.size() == kEventsMax) {
      return Error{ErrorCode::kResourceLimit, StrFormat("more than {} events", kEventsMax)};
    }
    TRY_ASSIGN(EventSpec spec, ParseEvent(text.substr(start, i - start), roots));
    specs.push_back(std::move(spec));
    start = i + 1;
  }
  return specs;
}

Result<std::string> ReadTracepointFormat(std::string_view system, std::string_view event,
                                         const EventRoots& roots) {
  constexpr uint64_t kFormatBytesMax = 1 << 20;
  return ReadFile(StrFormat("{}/events/{}/{}/format", TracefsRoot(roots), system, event),
                  kFormatBytesMax);
}

std::vector<std::string> GenericEventNames() {
  std::vector<std::string> names;
  for (const GenericName& generic : kGenericNames) {
    names.emplace_back(generic.name);
    if (!generic.alias.empty()) names.emplace_back(generic.alias);
  }
  for (uint64_t cache = 0; cache < kCaches.size(); ++cache) {
    for (uint64_t op = 0; op < kCacheOps.size(); ++op) {
      for (uint64_t miss = 0; miss < 2; ++miss) {
        EventAttr attr;
        attr.type = kPerfTypeHwCache;
        attr.config = cache | op << 8 | miss << 16;
        names.push_back(NameFromAttr(attr));
      }
    }
  }
  return names;
}

}  // namespace ptarmigan
