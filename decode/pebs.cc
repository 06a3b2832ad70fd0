#include "decode/pebs.h"

#include <array>
#include <functional>
#include <initializer_list>
#include <string>

namespace ptarmigan {
namespace {

// Fields of union perf_mem_data_src.
struct Field {
  unsigned shift;
  unsigned bits;
};
constexpr Field kOp = {0, 5};
constexpr Field kLevel = {5, 14};
constexpr Field kSnoop = {19, 5};
constexpr Field kLock = {24, 2};
constexpr Field kTlb = {26, 7};
constexpr Field kLevelNumber = {33, 4};
constexpr Field kRemote = {37, 1};
constexpr Field kSnoopX = {38, 2};
constexpr Field kBlocked = {40, 3};
constexpr Field kHops = {43, 3};

constexpr size_t Get(uint64_t data_src, Field field) {
  return static_cast<size_t>(data_src >> field.shift & ((uint64_t{1} << field.bits) - 1));
}

constexpr size_t kNotAvailable = 1;  // bit 0 of every kind
constexpr size_t kLevelHit = 2;
constexpr size_t kLevelMiss = 4;
constexpr unsigned kFirstLevelBit = 3;

// Texts for every value of a field with `Bits` bits; built once, never destroyed.
template <size_t Bits>
using Texts = std::array<std::string, size_t{1} << Bits>;

template <size_t Bits>
const Texts<Bits>& JoinedTexts(std::initializer_list<std::string_view> names,
                               std::string_view between) {
  auto* texts = new Texts<Bits>;
  for (size_t value = 0; value < texts->size(); ++value) {
    std::string& text = (*texts)[value];
    size_t bit = 0;
    for (const std::string_view name : names) {
      const bool set = (value >> bit++ & 1) != 0;
      if (!set || name.empty()) continue;
      if (!text.empty()) text += between;
      text += name;
    }
  }
  return *texts;
}

std::string_view OpText(size_t value) {
  static const Texts<5>& texts = JoinedTexts<5>({"", "load", "store", "prefetch", "exec"}, "+");
  return texts[value];
}
std::string_view SnoopText(size_t value) {
  static const Texts<5>& texts = JoinedTexts<5>({"NA", "None", "Hit", "Miss", "HitM"}, " or ");
  return texts[value];
}
std::string_view SnoopXText(size_t value) {
  static const Texts<2>& texts = JoinedTexts<2>({"Fwd", "Peer"}, " or ");
  return texts[value];
}
std::string_view BlockedText(size_t value) {
  static const Texts<3>& texts = JoinedTexts<3>({"NA", "data", "addr"}, " or ");
  return texts[value];
}
std::string_view LockText(size_t value) {
  constexpr std::array<std::string_view, 4> kTexts = {"", "NA", "yes", "yes"};
  return kTexts[value];
}

// The places that were asked, then " hit" or " miss".
std::string_view TlbText(size_t value) {
  static const Texts<7>& texts = [] {
    auto* result = new Texts<7>;
    const Texts<7>& places = JoinedTexts<7>({"", "", "", "L1", "L2", "Walker", "OS"}, " or ");
    for (size_t i = 0; i < result->size(); ++i) {
      std::string& text = (*result)[i];
      text = places[i];
      const auto append = [&text](std::string_view word) {
        if (!text.empty()) text += ' ';
        text += word;
      };
      if ((i & 2) != 0) append("hit");
      if ((i & 4) != 0) append("miss");
      if (text.empty() && (i & kNotAvailable) != 0) text = "NA";
    }
    delete &places;
    return std::ref(*result);
  }();
  return texts[value];
}

// Where the data was. Behind the names of kUncached and kIo there is no hit or miss.
enum Place : uint8_t {
  kUnknownPlace,
  kL0,
  kL1,
  kLfb,
  kL2,
  kL2MissBuffer,
  kL3,
  kL4,
  kMemorySideCache,
  kAnyCache,
  kRemoteCache,
  kRam,
  kRemoteRam,
  kPmem,
  kRemotePmem,
  kCxl,
  kRemoteCxl,
  kIo,
  kUncached,
  kPlaces,
};
constexpr std::array<std::string_view, kPlaces> kPlaceNames = {
    "",           "L0",        "L1",           "LFB", "L2",         "L2 MHB", "L3",          "L4",
    "MSC",        "any cache", "remote cache", "RAM", "remote RAM", "PMEM",   "remote PMEM", "CXL",
    "remote CXL", "IO",        "UNC"};

// PERF_MEM_LVLNUM_*: here and with the remote bit.
struct NumberedPlace {
  Place local;
  Place remote;
};
constexpr std::array<NumberedPlace, 16> kPlaceByNumber = {{
    {kUnknownPlace, kUnknownPlace},
    {kL1, kRemoteCache},
    {kL2, kRemoteCache},
    {kL3, kRemoteCache},
    {kL4, kRemoteCache},
    {kL2MissBuffer, kRemoteCache},
    {kMemorySideCache, kRemoteCache},
    {kL0, kRemoteCache},
    {kUncached, kUncached},
    {kCxl, kRemoteCxl},
    {kIo, kIo},
    {kAnyCache, kAnyCache},
    {kLfb, kLfb},
    {kRam, kRemoteRam},
    {kPmem, kRemotePmem},
    {kUnknownPlace, kUnknownPlace},
}};
// PERF_MEM_LVL_* from kFirstLevelBit on; several: the nearest.
constexpr std::array<Place, 11> kPlaceByBit = {
    kL1, kLfb, kL2, kL3, kRam, kRemoteRam, kRemoteRam, kRemoteCache, kRemoteCache, kIo, kUncached};

Place PlaceOf(uint64_t data_src) {
  const NumberedPlace& numbered = kPlaceByNumber[Get(data_src, kLevelNumber)];
  const Place place = Get(data_src, kRemote) != 0 ? numbered.remote : numbered.local;
  if (place != kUnknownPlace) return place;
  const size_t bits = Get(data_src, kLevel) >> kFirstLevelBit;
  for (size_t i = 0; i < kPlaceByBit.size(); ++i) {
    if ((bits >> i & 1) != 0) return kPlaceByBit[i];
  }
  return kUnknownPlace;
}

// "L1 hit", "L1 miss", "RAM" (neither told), "UNC"; empty if no place is told.
std::string_view LevelText(Place place, size_t level_bits) {
  using PlaceTexts = std::array<std::array<std::string, 4>, kPlaces>;
  static const PlaceTexts& texts = [] {
    constexpr std::array<std::string_view, 4> kEnds = {"", " hit", " miss", " hit or miss"};
    auto* result = new PlaceTexts;
    for (size_t i = 1; i < kPlaces; ++i) {
      const bool has_end = i != kIo && i != kUncached;
      for (size_t end = 0; end < kEnds.size(); ++end) {
        (*result)[i][end] = std::string(kPlaceNames[i]) + std::string(has_end ? kEnds[end] : "");
      }
    }
    return std::ref(*result);
  }();
  const size_t end =
      ((level_bits & kLevelHit) != 0 ? 1U : 0U) + ((level_bits & kLevelMiss) != 0 ? 2U : 0U);
  return texts[place][end];
}

void SetWeight(const CapturedSample& sample, const EventAttr& attr, PebsRecord* record) {
  if (!sample.has_weight) return;
  if (!attr.Samples(kSampleWeightStruct)) {
    record->weight = sample.weight;
    return;
  }
  record->weight = sample.weight & UINT32_MAX;
  record->instruction_cycles = static_cast<uint16_t>(sample.weight >> 32);
  record->retire_cycles = static_cast<uint16_t>(sample.weight >> 48);
}

}  // namespace

void DecodePebs(const CapturedSample& sample, const EventAttr& attr, PebsRecord* record) {
  *record = PebsRecord{};
  if (sample.has_data_src) {
    const uint64_t data_src = sample.data_src;
    record->data_src = data_src;
    record->op = OpText(Get(data_src, kOp));
    record->level = LevelText(PlaceOf(data_src), Get(data_src, kLevel));
    record->snoop = SnoopText(Get(data_src, kSnoop));
    record->snoopx = SnoopXText(Get(data_src, kSnoopX));
    record->lock = LockText(Get(data_src, kLock));
    record->tlb = TlbText(Get(data_src, kTlb));
    record->blocked = BlockedText(Get(data_src, kBlocked));
    record->level_bits = static_cast<uint16_t>(Get(data_src, kLevel));
    record->level_number = static_cast<uint8_t>(Get(data_src, kLevelNumber));
    record->hops = static_cast<uint8_t>(Get(data_src, kHops));
    record->remote = Get(data_src, kRemote) != 0;
  }
  SetWeight(sample, attr, record);
  if (sample.has_addr) record->data_address = sample.addr.value;
  if (attr.Samples(kSamplePhysAddr)) record->physical_address = sample.phys_addr;
  if (attr.Samples(kSampleDataPageSize)) record->data_page_bytes = sample.data_page_bytes;
  if (attr.Samples(kSampleCodePageSize)) record->code_page_bytes = sample.code_page_bytes;
  if (sample.has_cgroup) record->cgroup_id = sample.cgroup_id;
}

bool DescribesMemoryAccess(uint64_t data_src) {
  return (Get(data_src, kOp) & ~kNotAvailable) != 0 || PlaceOf(data_src) != kUnknownPlace;
}

}  // namespace ptarmigan
