#include "pipeline/internal/pebs_rows.h"

namespace ptarmigan::internal {

std::string_view PebsRows::Header() const {
  return "idx\tevent\tcpu\tpid\ttid\ttime_ns\tip\texact\top\tlevel\tlvl_bits\tlvl_num\tremote\thops"
         "\tsnoop\tsnoopx\tlock\ttlb\tblk\tdata_src\tweight\tins_lat\tretire_lat\taddr\tphys"
         "\tdata_page\tcode_page\tcgroup\tperiod\tchain\tbinary\tfunc";
}

void PebsRows::OnCgroup(const CgroupEvent& event) {
  if (cgroups_.size() >= kCgroupsMax && !cgroups_.contains(event.id)) return;
  cgroups_[event.id] = event.path;
}

void PebsRows::AppendMemory(const CapturedSample& sample, const MemSample&) {
  const PebsRecord& record = decoder().pebs();
  AppendFlag(sample.exact_ip);
  AppendText(record.op);
  AppendText(record.level);
  AppendHex(record.level_bits);
  AppendCell("{}", record.level_number);
  AppendFlag(record.remote);
  AppendCell("{}", record.hops);
  AppendText(record.snoop);
  AppendText(record.snoopx);
  AppendText(record.lock);
  AppendText(record.tlb);
  AppendText(record.blocked);
  AppendHex(record.data_src);
  AppendNumber(record.weight);
  AppendNumber(record.instruction_cycles);
  AppendNumber(record.retire_cycles);
  AppendHex(record.data_address);
  AppendHex(record.physical_address);
  AppendNumber(record.data_page_bytes);
  AppendNumber(record.code_page_bytes);
  AppendCgroup(record);
  AppendNumber(sample.has_period ? std::optional(sample.period) : std::nullopt);
}

void PebsRows::AppendCgroup(const PebsRecord& record) {
  if (record.cgroup_id) {
    if (const auto found = cgroups_.find(*record.cgroup_id); found != cgroups_.end()) {
      Append("{}", found->second);
    } else {
      Append("{}", *record.cgroup_id);
    }
  }
  AppendEmpty();
}

}  // namespace ptarmigan::internal
