// Where a sampled load's data came from: the codes of DATA-SOURCE packets mean something else on each family of CPUs,
// so they are tables chosen by MIDR; where there is none, the event bits say at least a level. And MemSample of a
// record, for profiles.
//
// Tables and rules: tools/perf/util/arm-spe.c (Linux 7.2). Everything here is pure; strings are static.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "decode/spe_record.h"
#include "model/mem_sample.h"

namespace ptarmigan {

struct SpeSource {
  uint64_t code = 0;
  std::string_view name;   // "l1d", "peer_core", "dram", ...
  std::string_view level;  // "L1 hit", "RAM", ...
  Answer remote = Answer::kNo;
  bool modified = false;  // from a cache that had changed it
};

struct SpeSourceTable {
  std::string_view family;  // "common", "ampereone", "hip12"; empty: no table
  std::span<const SpeSource> sources;

  // Null if the table lacks the code.
  const SpeSource* Find(uint64_t code) const;
};

// By implementer and part number of MIDR_EL1. Of an unknown CPU: the empty table.
const SpeSourceTable& SpeDataSourcesOf(uint64_t midr);
const SpeSourceTable& UnknownSpeDataSources();

// MIDR from a recording's CPUID feature ("0x00000000413fd0c1"); 0 if it is none.
uint64_t MidrFromCpuid(std::string_view cpuid);

// `ds` of a record: its name by the table, "unknown" if the table has none, empty if the record is no load or has no
// DATA-SOURCE packet (which is not code 0).
std::string_view SpeDataSourceName(const SpeRecord& record, const SpeSourceTable& table);
// "L1 hit", "RAM", "L3 miss", ...: by the named data source, else by the event bits; empty if neither tells.
std::string_view SpeLevel(const SpeRecord& record, const SpeSourceTable& table);
// By the event bits alone. A load hit in the first of L1, LFB, L2, LLC that was accessed and not missed, else missed
// the farthest; of a store the farthest level that is mentioned.
std::string_view SpeLevelByEvents(const SpeRecord& record);

MemSample ToMemSample(const SpeRecord& record, const SpeOrigin& origin);

}  // namespace ptarmigan
