#include "tests/encoders/pebs_encoder.h"

#include <array>
#include <string>
#include <string_view>

namespace ptarmigan {
namespace {

bool Chance(std::mt19937_64& random, unsigned percent) { return random() % 100 < percent; }

struct Choice {
  uint64_t bits;
  std::string_view text;
};
template <size_t N>
const Choice& Pick(std::mt19937_64& random, const std::array<Choice, N>& choices) {
  return choices[random() % N];
}

constexpr std::array<Choice, 6> kOps = {{{0x01, ""},
                                         {0x02, "load"},
                                         {0x04, "store"},
                                         {0x06, "load+store"},
                                         {0x08, "prefetch"},
                                         {0x10, "exec"}}};
constexpr std::array<Choice, 6> kSnoops = {
    {{0, ""}, {0x01, "NA"}, {0x02, "None"}, {0x04, "Hit"}, {0x08, "Miss"}, {0x14, "Hit or HitM"}}};
constexpr std::array<Choice, 3> kLocks = {{{0, ""}, {1, "NA"}, {2, "yes"}}};
constexpr std::array<Choice, 8> kTlbs = {{{0, ""},
                                          {0x01, "NA"},
                                          {0x0a, "L1 hit"},
                                          {0x14, "L2 miss"},
                                          {0x1a, "L1 or L2 hit"},
                                          {0x22, "Walker hit"},
                                          {0x44, "OS miss"},
                                          {0x04, "miss"}}};
constexpr std::array<Choice, 3> kSnoopXs = {{{0, ""}, {1, "Fwd"}, {2, "Peer"}}};
constexpr std::array<Choice, 5> kBlocks = {
    {{0, ""}, {1, "NA"}, {2, "data"}, {4, "addr"}, {6, "data or addr"}}};

// What PERF_MEM_LVLNUM_*, the remote bit and PERF_MEM_LVL_* say together.
struct PlaceChoice {
  uint64_t number;
  uint64_t remote;
  uint64_t old_bits;  // without hit and miss
  std::string_view name;
  bool has_end = true;
};
constexpr std::array<PlaceChoice, 28> kPlaces = {{
    {1, 0, 0x8, "L1"},
    {2, 0, 0x20, "L2"},
    {2, 1, 0, "remote cache"},
    {3, 0, 0x40, "L3"},
    {3, 1, 0x400, "remote cache"},
    {4, 0, 0, "L4"},
    {5, 0, 0, "L2 MHB"},
    {6, 0, 0, "MSC"},
    {7, 0, 0, "L0"},
    {8, 0, 0x2000, "UNC", false},
    {9, 0, 0, "CXL"},
    {9, 1, 0, "remote CXL"},
    {10, 0, 0x1000, "IO", false},
    {11, 1, 0x800, "any cache"},
    {12, 0, 0x10, "LFB"},
    {13, 0, 0x80, "RAM"},
    {13, 1, 0x200, "remote RAM"},
    {14, 0, 0, "PMEM"},
    {14, 1, 0, "remote PMEM"},
    // The old way alone, and with "not available" as the new one.
    {0, 0, 0x8, "L1"},
    {0, 0, 0x10, "LFB"},
    {0, 0, 0x40, "L3"},
    {0, 0, 0x100, "remote RAM"},
    {0, 0, 0x800, "remote cache"},
    {15, 0, 0x2000, "UNC", false},
    {15, 0, 0x80, "RAM"},
    {0, 0, 0, "", false},
    {15, 0, 0, "", false},
}};
// Static storage for the levels' texts.
std::string_view LevelText(std::string_view name, uint64_t end) {
  constexpr std::array<std::string_view, 18> kNames = {
      "L0",           "L1",          "L2",        "L3",  "L4",  "L2 MHB",
      "MSC",          "LFB",         "any cache", "RAM", "CXL", "remote RAM",
      "remote cache", "remote PMEM", "PMEM",      "IO",  "UNC", "remote CXL"};
  static const auto& texts = *new std::array<std::array<std::string, 4>, kNames.size()>([&kNames] {
    std::array<std::array<std::string, 4>, kNames.size()> built;
    for (size_t i = 0; i < kNames.size(); ++i) {
      const std::string base(kNames[i]);
      built[i] = {base, base + " hit", base + " miss", base + " hit or miss"};
    }
    return built;
  }());
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return texts[i][end];
  }
  return "";
}

void ChooseDataSource(std::mt19937_64& random, PebsFacts* facts) {
  PebsRecord& truth = facts->truth;
  const Choice& op = Pick(random, kOps);
  const PlaceChoice& place = kPlaces[random() % kPlaces.size()];
  const uint64_t end = random() % 4;
  const Choice& snoop = Pick(random, kSnoops);
  const Choice& lock = Pick(random, kLocks);
  const Choice& tlb = Pick(random, kTlbs);
  const Choice& snoopx = Pick(random, kSnoopXs);
  const Choice& block = Pick(random, kBlocks);
  const uint64_t hops = random() % 5;
  const uint64_t old_bits = place.old_bits | (end & 1) << 1 | (end & 2) << 1;
  const uint64_t data_src = op.bits | old_bits << 5 | snoop.bits << 19 | lock.bits << 24 |
                            tlb.bits << 26 | place.number << 33 | place.remote << 37 |
                            snoopx.bits << 38 | block.bits << 40 | hops << 43;
  facts->sample.has_data_src = true;
  facts->sample.data_src = data_src;
  truth.data_src = data_src;
  truth.op = op.text;
  truth.level = LevelText(place.name, place.has_end ? end : 0);
  truth.level_bits = static_cast<uint16_t>(old_bits);
  truth.level_number = static_cast<uint8_t>(place.number);
  truth.remote = place.remote != 0;
  truth.snoop = snoop.text;
  truth.lock = lock.text;
  truth.tlb = tlb.text;
  truth.snoopx = snoopx.text;
  truth.blocked = block.text;
  truth.hops = static_cast<uint8_t>(hops);
}

}  // namespace

PebsFacts RandomPebs(std::mt19937_64& random) {
  PebsFacts facts;
  CapturedSample& sample = facts.sample;
  PebsRecord& truth = facts.truth;
  uint64_t& type = facts.attr.sample_type;
  if (Chance(random, 95)) {
    type |= kSampleDataSrc;
    ChooseDataSource(random, &facts);
  }
  if (Chance(random, 70)) {
    sample.has_weight = true;
    sample.weight = random();
    if (Chance(random, 50)) {
      type |= kSampleWeight;
      truth.weight = sample.weight;
    } else {
      type |= kSampleWeightStruct;
      truth.weight = sample.weight % (uint64_t{1} << 32);
      truth.instruction_cycles = static_cast<uint16_t>(sample.weight / (uint64_t{1} << 32));
      truth.retire_cycles = static_cast<uint16_t>(sample.weight / (uint64_t{1} << 48));
    }
  }
  if (Chance(random, 70)) {
    type |= kSampleAddr;
    sample.has_addr = true;
    sample.addr = {Chance(random, 90) ? random() : 0};
    truth.data_address = sample.addr.value;
  }
  if (Chance(random, 50)) {
    type |= kSamplePhysAddr;
    sample.phys_addr = Chance(random, 80) ? random() : 0;
    truth.physical_address = sample.phys_addr;
  }
  if (Chance(random, 50)) {
    type |= kSampleDataPageSize;
    sample.data_page_bytes = uint64_t{4096} << (random() % 3 * 9);
    truth.data_page_bytes = sample.data_page_bytes;
  }
  if (Chance(random, 50)) {
    type |= kSampleCodePageSize;
    sample.code_page_bytes = uint64_t{4096} << (random() % 3 * 9);
    truth.code_page_bytes = sample.code_page_bytes;
  }
  if (Chance(random, 30)) {
    type |= kSampleCgroup;
    sample.has_cgroup = true;
    sample.cgroup_id = random();
    truth.cgroup_id = sample.cgroup_id;
  }
  return facts;
}

}  // namespace ptarmigan
