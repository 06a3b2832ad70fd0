#include "tests/hw/pmu_trees.h"

#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/str_format.h"

namespace ptarmigan {
namespace {

using Files = std::vector<std::pair<std::string_view, std::string_view>>;

void Pmu(FakeRoot* sys, std::string_view name, int type, const Files& files) {
  const std::string folder = StrFormat("bus/event_source/devices/{}/", name);
  sys->File(folder + "type", StrFormat("{}\n", type));
  for (const auto& [file, content] : files)
    sys->File(folder + std::string(file), std::string(content) + "\n");
}

void Software(FakeRoot* sys) {
  Pmu(sys, "software", 1, {});
  Pmu(sys, "tracepoint", 2, {});
}

const Files& PtFormats() {
  static const Files formats = {{"format/pt", "config:0"},
                                {"format/cyc", "config:1"},
                                {"format/pwr_evt", "config:4"},
                                {"format/fup_on_ptw", "config:5"},
                                {"format/mtc", "config:9"},
                                {"format/tsc", "config:10"},
                                {"format/noretcomp", "config:11"},
                                {"format/ptw", "config:12"},
                                {"format/branch", "config:13"},
                                {"format/mtc_period", "config:14-17"},
                                {"format/cyc_thresh", "config:19-22"},
                                {"format/psb_period", "config:24-27"},
                                {"max_nonturbo_ratio", "28"},
                                {"tsc_art_ratio", "176:2"},
                                {"nr_addr_filters", "2"}};
  return formats;
}

void FullPt(FakeRoot* sys, int type) {
  Pmu(sys, "intel_pt", type, PtFormats());
  Pmu(sys, "intel_pt", type,
      {{"caps/cr3_filtering", "1"},
       {"caps/psb_cyc", "1"},
       {"caps/mtc", "1"},
       {"caps/ptwrite", "1"},
       {"caps/topa_output", "1"},
       {"caps/topa_multiple_entries", "1"},
       {"caps/single_range_output", "1"},
       {"caps/num_address_ranges", "2"},
       {"caps/mtc_periods", "249"},
       {"caps/cycle_thresholds", "3f"},
       {"caps/psb_periods", "3f"}});
}

const Files& CoreFormats() {
  static const Files formats = {
      {"format/event", "config:0-7"},         {"format/umask", "config:8-15"},
      {"format/edge", "config:18"},           {"format/inv", "config:23"},
      {"format/cmask", "config:24-31"},       {"format/ldlat", "config1:0-15"},
      {"format/offcore_rsp", "config1:0-63"}, {"format/frontend", "config1:0-23"}};
  return formats;
}

void Ibs(FakeRoot* sys, bool zen4) {
  Pmu(sys, "ibs_fetch", 9, {{"format/rand_en", "config:57"}});
  Pmu(sys, "ibs_op", 10, {{"format/cnt_ctl", "config:19"}});
  if (!zen4) return;
  Pmu(sys, "ibs_fetch", 9, {{"format/l3missonly", "config:59"}, {"format/swfilt", "config2:0"}});
  Pmu(sys, "ibs_op", 10, {{"format/l3missonly", "config:16"}, {"format/swfilt", "config2:0"}});
}

void Spe(FakeRoot* sys, std::string_view name, int type, std::string_view cpus) {
  Pmu(sys, name, type,
      {{"format/ts_enable", "config:0"},
       {"format/pa_enable", "config:1"},
       {"format/pct_enable", "config:2"},
       {"format/jitter", "config:16"},
       {"format/branch_filter", "config:32"},
       {"format/load_filter", "config:33"},
       {"format/store_filter", "config:34"},
       {"format/event_filter", "config1:0-63"},
       {"format/min_latency", "config2:0-11"},
       {"caps/arch_inst", "0"},
       {"caps/ernd", "1"},
       {"caps/count_size", "12"},
       {"caps/min_interval", "1024"},
       {"cpumask", cpus}});
}

}  // namespace

void IceLake(FakeRoot* sys) {
  Software(sys);
  Pmu(sys, "cpu", 4, CoreFormats());
  Pmu(sys, "cpu", 4,
      {{"events/cpu-cycles", "event=0x3c"},
       {"events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"},
       {"events/mem-stores", "event=0xd0,umask=0x82"},
       {"caps/branches", "32"},
       {"caps/pmu_name", "icelake"}});
  FullPt(sys, 8);
}

void SapphireRapids(FakeRoot* sys) {
  IceLake(sys);
  Pmu(sys, "cpu", 4,
      {{"events/mem-loads-aux", "event=0x03,umask=0x82"},
       {"events/mem-stores", "event=0xcd,umask=0x2"},
       {"caps/pmu_name", "sapphire_rapids"}});
}

void AlderLake(FakeRoot* sys) {
  Software(sys);
  for (const auto& [name, type, cpus] :
       {std::tuple{"cpu_core", 4, "0-15"}, std::tuple{"cpu_atom", 10, "16-23"}}) {
    Pmu(sys, name, type, CoreFormats());
    Pmu(sys, name, type,
        {{"cpus", cpus},
         {"events/cpu-cycles", "event=0x3c"},
         {"events/mem-loads", name == std::string_view("cpu_core")
                                  ? "event=0xcd,umask=0x1,ldlat=3"
                                  : "event=0xd0,umask=0x5,ldlat=3"},
         {"events/mem-stores",
          name == std::string_view("cpu_core") ? "event=0xcd,umask=0x2" : "event=0xd0,umask=0x6"}});
  }
  Pmu(sys, "cpu_core", 4, {{"events/mem-loads-aux", "event=0x03,umask=0x82"}});
  FullPt(sys, 11);
}

void BroadwellPt(FakeRoot* sys) {
  Software(sys);
  Pmu(sys, "cpu", 4, CoreFormats());
  Pmu(sys, "intel_pt", 6, PtFormats());
  Pmu(sys, "intel_pt", 6,
      {{"caps/cr3_filtering", "1"},
       {"caps/psb_cyc", "0"},
       {"caps/mtc", "0"},
       {"caps/mtc_periods", "0"},
       {"caps/cycle_thresholds", "0"},
       {"caps/psb_periods", "0"}});
}

void Zen3(FakeRoot* sys) {
  Software(sys);
  Pmu(sys, "cpu", 4, {{"format/event", "config:0-7,32-35"}, {"format/umask", "config:8-15"}});
  Ibs(sys, false);
}

void Zen4(FakeRoot* sys) {
  Software(sys);
  Pmu(sys, "cpu", 4, {{"format/event", "config:0-7,32-35"}, {"format/umask", "config:8-15"}});
  Ibs(sys, true);
}

void NeoverseN1(FakeRoot* sys) {
  Software(sys);
  Pmu(sys, "armv8_pmuv3_0", 8, {{"format/event", "config:0-15"}, {"cpus", "0-79"}});
  Spe(sys, "arm_spe_0", 9, "0-79");
}

void TwoSpeUnits(FakeRoot* sys) {
  Software(sys);
  Spe(sys, "arm_spe_0", 9, "0-3");
  Spe(sys, "arm_spe_1", 10, "4-7");
}

void JunoBoard(FakeRoot* sys) {
  Software(sys);
  sys->File("devices/system/cpu/online", "0-6\n");
  Pmu(sys, "cs_etm", 8,
      {{"format/branch_broadcast", "config:8"},
       {"format/cycacc", "config:12"},
       {"format/contextid", "config:14"},
       {"format/contextid1", "config:14"},
       {"format/contextid2", "config:15"},
       {"format/timestamp", "config:28"},
       {"format/retstack", "config:29"},
       {"format/sinkid", "config2:0-31"},
       {"format/configid", "config2:32-63"}});
  for (int cpu = 0; cpu < 6; ++cpu) {
    const auto file = [sys, cpu](std::string_view name, std::string_view value) {
      sys->File(StrFormat("bus/event_source/devices/cs_etm/cpu{}/{}", cpu, name),
                std::string(value) + "\n");
    };
    file("trcidr/trcidr0", "0x28000ea1");
    file("trcidr/trcidr1", cpu < 4 ? "0x4100f420" : "0x4100fff3");
    file("trcidr/trcidr2", "0x20001088");
    file("trcidr/trcidr8", "0x0");
    file("mgmt/trcauthstatus", "0xcc");
    file("mgmt/trcdevarch", cpu < 4 ? "0x47704a13" : "0x47705a13");
  }
}

void CloudMachine(FakeRoot* sys) { Software(sys); }

}  // namespace ptarmigan
