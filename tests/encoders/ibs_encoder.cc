#include "tests/encoders/ibs_encoder.h"

#include <initializer_list>

#include "tests/support/byte_writer.h"

namespace ptarmigan {
namespace {

// Puts values into bits of a register that starts as noise.
class Register {
 public:
  explicit Register(uint64_t noise) : value_(noise) {}
  Register& Put(unsigned first_bit, unsigned bits, uint64_t value) {
    const uint64_t mask = ((uint64_t{1} << bits) - 1) << first_bit;
    value_ = (value_ & ~mask) | (value << first_bit & mask);
    return *this;
  }
  Register& Put(unsigned bit, bool value) { return Put(bit, 1, value ? 1 : 0); }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_;
};

constexpr uint64_t kNoiseStep = 0x9e3779b97f4a7c15;

bool Chance(std::mt19937_64& random, unsigned percent) { return random() % 100 < percent; }
uint16_t Small(std::mt19937_64& random) {
  return static_cast<uint16_t>(Chance(random, 3) ? 0xffff : random() % 2000);
}

}  // namespace

IbsOpFacts RandomIbsOp(std::mt19937_64& random, uint32_t caps, const IbsQuirks& quirks) {
  IbsOpFacts facts;
  facts.caps = caps;
  facts.quirks = quirks;
  facts.noise = random();
  facts.rip = random();
  facts.rip_invalid = Chance(random, 10);
  facts.load = Chance(random, 50);
  facts.store = Chance(random, 30);
  facts.branch = Chance(random, 25);
  for (bool* bit : {&facts.branch_taken, &facts.branch_mispredicted, &facts.branch_return,
                    &facts.branch_fused, &facts.microcode, &facts.remote_node, &facts.owned,
                    &facts.streaming_store, &facts.remote_socket, &facts.l1_tlb_miss,
                    &facts.l2_tlb_miss, &facts.dc_miss, &facts.l2_miss, &facts.misaligned,
                    &facts.write_combining, &facts.locked, &facts.load_resync}) {
    *bit = Chance(random, 50);
  }
  facts.uncacheable = Chance(random, 10);
  facts.no_mab = Chance(random, 25);
  facts.software_prefetch = Chance(random, 15);
  facts.linear_valid = Chance(random, 85);
  facts.physical_valid = Chance(random, 75);
  facts.completion_to_retire = Small(random);
  facts.tag_to_retire = Small(random);
  facts.source = static_cast<unsigned>(random() % 32);
  facts.page = static_cast<unsigned>(random() % 3);
  facts.width_log2_plus_1 = static_cast<unsigned>(random() % 16);
  facts.open_requests = static_cast<unsigned>(random() % 64);
  facts.dc_miss_latency = Small(random);
  facts.tlb_refill_latency = Small(random);
  facts.linear = random();
  facts.physical = Chance(random, 90) ? random() : 0;
  facts.branch_target = Chance(random, 90) ? random() : 0;
  return facts;
}

std::string EncodeIbsOp(const IbsOpFacts& facts, std::endian order) {
  uint64_t noise = facts.noise;
  const auto next = [&noise] { return Register(noise *= kNoiseStep); };
  ByteWriter raw(order);
  raw.U32(facts.caps);
  raw.U64(next().Put(17, true).Put(18, true).value());
  raw.U64(facts.rip);
  raw.U64(next()
              .Put(0, 16, facts.completion_to_retire)
              .Put(16, 16, facts.tag_to_retire)
              .Put(34, facts.branch_return)
              .Put(35, facts.branch_taken)
              .Put(36, facts.branch_mispredicted)
              .Put(37, facts.branch)
              .Put(38, facts.rip_invalid)
              .Put(39, facts.branch_fused)
              .Put(40, facts.microcode)
              .value());
  raw.U64(next()
              .Put(0, 3, facts.source & 7)
              .Put(6, 2, facts.source >> 3)
              .Put(4, facts.remote_node)
              .Put(5, facts.owned)
              .Put(8, facts.streaming_store)
              .Put(9, facts.remote_socket)
              .value());
  raw.U64(next()
              .Put(0, facts.load)
              .Put(1, facts.store)
              .Put(2, facts.l1_tlb_miss)
              .Put(3, facts.l2_tlb_miss)
              .Put(4, 2, facts.page)
              .Put(7, facts.dc_miss)
              .Put(8, facts.misaligned)
              .Put(13, facts.write_combining)
              .Put(14, facts.uncacheable)
              .Put(15, facts.locked)
              .Put(16, facts.no_mab)
              .Put(17, facts.linear_valid)
              .Put(18, facts.physical_valid)
              .Put(20, facts.l2_miss)
              .Put(21, facts.software_prefetch)
              .Put(22, 4, facts.width_log2_plus_1)
              .Put(26, 6, facts.open_requests)
              .Put(32, 16, facts.dc_miss_latency)
              .Put(48, 16, facts.tlb_refill_latency)
              .value());
  raw.U64(facts.linear).U64(facts.physical);
  if ((facts.caps >> 5 & 1) != 0) raw.U64(facts.branch_target);
  if ((facts.caps >> 10 & 1) != 0) raw.U64(next().Put(0, facts.load_resync).value());
  return raw.bytes();
}

namespace {

struct Source {
  std::string_view name;
  std::string_view level;
  bool cache;
  bool remote;
};

// By what the code says in plain words; `far` is the remote-node bit.
Source SourceOf(unsigned code, bool long_table, bool far) {
  if (code == 0) return {"", "", false, false};
  if (code == 3) return {"dram", far ? "remote RAM" : "RAM", false, far};
  if (!long_table) {
    if (code == 2) return {"local_cache", "local cache", true, false};
    if (code == 4) return {"remote_cache", "remote cache", false, true};
    if (code == 7) return {"other", "IO", false, false};
    return {"reserved", "", false, false};
  }
  if (code == 1) return {"local_l3_or_ccx", "L3 hit", true, false};
  if (code == 2) return {"near_ccx_cache", "peer cache", true, true};
  if (code == 5) return {"far_ccx_cache", "remote cache", true, true};
  if (code == 6) return {"long_latency_dimm", far ? "remote PMEM" : "PMEM", false, far};
  if (code == 7) return {"mmio", "IO", false, false};
  if (code == 8) return {"ext_mem", far ? "remote CXL" : "CXL", false, far};
  if (code == 12) return {"peer_agent_mem", "", false, false};
  return {"reserved", "", false, false};
}

void AddAccess(const IbsOpFacts& facts, IbsOpRecord* truth) {
  const bool long_table = (facts.caps >> 11 & 1) != 0;
  const bool voided =
      facts.quirks.void_l2_after_prefetch && (facts.software_prefetch || facts.no_mab);
  const unsigned code = facts.source & (long_table ? 31 : 7);
  const unsigned known = voided ? 0 : code;
  const Source source = SourceOf(known, long_table, facts.remote_node && !voided);
  const bool uncached = facts.uncacheable && known != 7;
  const bool in_l2 = !facts.l2_miss && !voided;
  if (!voided) {
    truth->data_source_code = static_cast<uint8_t>(code);
    truth->l2_miss = facts.l2_miss;
    truth->open_requests = static_cast<uint8_t>(facts.open_requests);
    if ((facts.caps >> 16 & 1) != 0) {
      truth->streaming_store = facts.streaming_store;
      truth->remote_socket = facts.remote_socket;
    }
  }
  const bool from_source = facts.load && !uncached && facts.dc_miss && !in_l2;
  if (from_source) truth->data_source = source.name;
  if (uncached) {
    truth->level = "UNC";
  } else if (!facts.dc_miss) {
    truth->level = "L1 hit";
  } else if (in_l2) {
    truth->level = "L2 hit";
  } else if (from_source && !source.level.empty()) {
    truth->level = source.level;
    truth->remote = source.remote;
  } else if (facts.no_mab) {
    truth->level = "LFB hit";
  }
  const bool state_counts = source.cache && !facts.quirks.void_cache_hit_state;
  if (facts.load && (from_source || uncached) && state_counts && !facts.owned) {
    truth->snoop = "HITM";
  }
}

void AddTranslation(const IbsOpFacts& facts, IbsOpRecord* truth) {
  const bool zen4 = (facts.caps >> 11 & 1) != 0;
  const bool sizes = (facts.caps >> 19 & 1) != 0;
  if (facts.l1_tlb_miss && (!zen4 || facts.physical_valid)) {
    truth->tlb_refill_cycles = facts.tlb_refill_latency;
  }
  if (facts.linear_valid && (!sizes || facts.physical_valid)) {
    truth->tlb = "L1 hit";
    if (facts.l1_tlb_miss) truth->tlb = facts.l2_tlb_miss ? "L2 miss" : "L2 hit";
    if (sizes || !facts.l1_tlb_miss) {
      truth->page_size = facts.page == 0 ? "4K" : facts.page == 1 ? "2M" : "1G";
    }
  }
  if (facts.linear_valid) truth->linear_address = facts.linear;
  if (facts.physical_valid && facts.physical != 0 && (!zen4 || facts.linear_valid)) {
    truth->physical_address = facts.physical;
  }
}

}  // namespace

IbsOpRecord TruthOf(const IbsOpFacts& facts) {
  IbsOpRecord truth;
  truth.caps = facts.caps;
  truth.rip = facts.rip;
  truth.rip_valid = !(facts.rip_invalid && (facts.caps >> 7 & 1) != 0);
  truth.microcode = facts.microcode;
  truth.completion_to_retire_cycles = facts.completion_to_retire;
  truth.tag_to_retire_cycles = facts.tag_to_retire;
  if (facts.branch) {
    truth.kind = IbsOpKind::kBranch;
    truth.branch_taken = facts.branch_taken;
    truth.branch_mispredicted = facts.branch_mispredicted;
    truth.branch_return = facts.branch_return;
    if ((facts.caps >> 8 & 1) != 0) truth.branch_fused = facts.branch_fused;
    if ((facts.caps >> 5 & 1) != 0 && facts.branch_target != 0) {
      truth.branch_target = facts.branch_target;
    }
  }
  if ((facts.caps >> 10 & 1) != 0) truth.load_resync = facts.load_resync;
  if (!facts.load && !facts.store) return truth;
  truth.kind = facts.load && facts.store ? IbsOpKind::kLoadStore
               : facts.load              ? IbsOpKind::kLoad
                                         : IbsOpKind::kStore;
  truth.locked = facts.locked;
  truth.dc_miss = facts.dc_miss;
  truth.software_prefetch = facts.software_prefetch;
  truth.no_mab = facts.no_mab;
  truth.misaligned = facts.misaligned;
  truth.uncacheable = facts.uncacheable;
  truth.write_combining = facts.write_combining;
  if (facts.width_log2_plus_1 != 0) {
    truth.width_bytes = static_cast<uint16_t>(1U << (facts.width_log2_plus_1 - 1));
  }
  if (facts.load && facts.dc_miss) truth.dc_miss_cycles = facts.dc_miss_latency;
  AddTranslation(facts, &truth);
  AddAccess(facts, &truth);
  return truth;
}

IbsFetchFacts RandomIbsFetch(std::mt19937_64& random, uint32_t caps, const IbsQuirks& quirks) {
  IbsFetchFacts facts;
  facts.caps = caps;
  facts.quirks = quirks;
  facts.noise = random();
  facts.linear = random();
  facts.physical = Chance(random, 90) ? random() : 0;
  for (bool* bit : {&facts.physical_valid, &facts.complete, &facts.ic_miss, &facts.l1_tlb_miss,
                    &facts.l2_tlb_miss, &facts.l2_miss, &facts.op_cache_miss, &facts.l3_miss}) {
    *bit = Chance(random, 50);
  }
  facts.page = static_cast<unsigned>(random() % 4);
  facts.latency = Small(random);
  facts.tlb_refill_latency = Small(random);
  return facts;
}

std::string EncodeIbsFetch(const IbsFetchFacts& facts, std::endian order) {
  ByteWriter raw(order);
  raw.U32(facts.caps);
  raw.U64(Register(facts.noise)
              .Put(32, 16, facts.latency)
              .Put(48, true)
              .Put(49, true)
              .Put(50, facts.complete)
              .Put(51, facts.ic_miss)
              .Put(52, facts.physical_valid)
              .Put(53, 2, facts.page)
              .Put(55, facts.l1_tlb_miss)
              .Put(56, facts.l2_tlb_miss)
              .Put(58, facts.l2_miss)
              .Put(60, facts.op_cache_miss)
              .Put(61, facts.l3_miss)
              .value());
  raw.U64(facts.linear).U64(facts.physical);
  if ((facts.caps >> 9 & 1) != 0) {
    raw.U64(Register(facts.noise * kNoiseStep).Put(0, 16, facts.tlb_refill_latency).value());
  }
  return raw.bytes();
}

IbsFetchRecord TruthOf(const IbsFetchFacts& facts) {
  IbsFetchRecord truth;
  truth.caps = facts.caps;
  truth.linear_address = facts.linear;
  truth.complete = facts.complete;
  if (facts.quirks.fetch_needs_physical && !facts.physical_valid) return truth;
  truth.latency_cycles = facts.latency;
  if (!facts.quirks.void_ic_miss) truth.ic_miss = facts.ic_miss;
  truth.l1_tlb_miss = facts.l1_tlb_miss;
  truth.l2_tlb_miss = facts.l2_tlb_miss;
  if (facts.complete) truth.l2_miss = facts.l2_miss;
  if ((facts.caps >> 11 & 1) != 0) {
    truth.op_cache_miss = facts.op_cache_miss;
    truth.l3_miss = facts.l3_miss;
  }
  if ((facts.caps >> 9 & 1) != 0) truth.tlb_refill_cycles = facts.tlb_refill_latency;
  if (facts.physical_valid) {
    if (facts.quirks.page_sizes_with_16k) {
      truth.page_size = facts.page == 0   ? "4K"
                        : facts.page == 1 ? "16K"
                        : facts.page == 2 ? "2M"
                                          : "1G";
    } else if (facts.page < 3) {
      truth.page_size = facts.page == 0 ? "4K" : facts.page == 1 ? "2M" : "1G";
    }
    if (facts.physical != 0) truth.physical_address = facts.physical;
  }
  return truth;
}

}  // namespace ptarmigan
