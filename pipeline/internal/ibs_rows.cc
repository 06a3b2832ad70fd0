#include "pipeline/internal/ibs_rows.h"

namespace ptarmigan::internal {
namespace {

std::string_view OpName(IbsOpKind kind) {
  switch (kind) {
    case IbsOpKind::kLoad:
      return "load";
    case IbsOpKind::kStore:
      return "store";
    case IbsOpKind::kLoadStore:
      return "load+store";
    case IbsOpKind::kBranch:
      return "branch";
    case IbsOpKind::kOther:
      break;
  }
  return "other";
}

constexpr size_t kRetirementColumns = 7;  // comp_to_ret to microcode
constexpr size_t kFetchColumns = 9;       // fetch_lat to itlb_refill_lat

}  // namespace

std::string_view IbsRows::Header() const {
  return "idx\tevent\tcpu\tpid\ttid\ttime_ns\tip\trip\trip_valid\top\tcomp_to_ret\ttag_to_ret"
         "\tbr_taken\tbr_misp\tbr_ret\tbr_fuse\tmicrocode"
         "\tds_raw\tds\tlevel\tremote\tsnoop\ttlb\tlock\tl2_miss\tdc_miss\tdc_miss_lat"
         "\ttlb_refill_lat\tmem_width\tpage_size\topen_reqs\tsw_pf\tno_mab\tmisaligned\tuc\twc"
         "\tlin\tphys\tbr_target\tstrm_st\trmt_socket"
         "\tfetch_lat\tfetch_comp\tic_miss\tl1tlb_miss\tl2tlb_miss\tfetch_l2_miss\tfetch_oc_miss"
         "\tfetch_l3_miss\titlb_refill_lat\tdata_src\tweight\tins_lat\tchain\tbinary\tfunc";
}

void IbsRows::AppendMemory(const CapturedSample& sample, const MemSample& memory) {
  switch (memory.source) {
    case MemSample::Source::kIbsFetch:
      AppendFetch(decoder().ibs_fetch());
      break;
    case MemSample::Source::kPebs:
      AppendDescribed(decoder().pebs());
      break;
    case MemSample::Source::kIbsOp:
    case MemSample::Source::kSpe:
      AppendOp(decoder().ibs_op());
      break;
  }
  AppendKernelsWords(sample);
}

void IbsRows::AppendOp(const IbsOpRecord& record) {
  AppendHex(record.rip);
  AppendFlag(record.rip_valid);
  AppendText(OpName(record.kind));
  AppendCell("{}", record.completion_to_retire_cycles);
  AppendCell("{}", record.tag_to_retire_cycles);
  AppendFlag(record.branch_taken);
  AppendFlag(record.branch_mispredicted);
  AppendFlag(record.branch_return);
  AppendFlag(record.branch_fused);
  AppendFlag(record.microcode);
  AppendAccess(record);
  AppendEmpty(kFetchColumns);
}

void IbsRows::AppendFetch(const IbsFetchRecord& record) {
  AppendHex(record.linear_address);
  AppendFlag(true);
  AppendText("fetch");
  AppendEmpty(kRetirementColumns);
  IbsOpRecord access;
  access.page_size = record.page_size;
  access.linear_address = record.linear_address;
  access.physical_address = record.physical_address;
  AppendAccess(access);
  AppendNumber(record.latency_cycles);
  AppendFlag(record.complete);
  AppendFlag(record.ic_miss);
  AppendFlag(record.l1_tlb_miss);
  AppendFlag(record.l2_tlb_miss);
  AppendFlag(record.l2_miss);
  AppendFlag(record.op_cache_miss);
  AppendFlag(record.l3_miss);
  AppendNumber(record.tlb_refill_cycles);
}

// Recorded without registers: what the kernel made of them.
void IbsRows::AppendDescribed(const PebsRecord& record) {
  AppendHex(std::nullopt);
  AppendFlag(std::nullopt);
  AppendText(record.op);
  AppendEmpty(kRetirementColumns);
  IbsOpRecord access;
  access.level = record.level;
  access.remote = record.remote;
  access.snoop = record.snoop;
  access.tlb = record.tlb;
  access.linear_address = record.data_address;
  access.physical_address = record.physical_address;
  AppendAccess(access);
  AppendEmpty(kFetchColumns);
}

// ds_raw to rmt_socket.
void IbsRows::AppendAccess(const IbsOpRecord& record) {
  AppendNumber(record.data_source_code);
  AppendText(record.data_source);
  AppendText(record.level);
  AppendText(record.remote ? "1" : "");
  AppendText(record.snoop);
  AppendText(record.tlb);
  AppendFlag(record.locked);
  AppendFlag(record.l2_miss);
  AppendFlag(record.dc_miss);
  AppendNumber(record.dc_miss_cycles);
  AppendNumber(record.tlb_refill_cycles);
  AppendNumber(record.width_bytes);
  AppendText(record.page_size);
  AppendNumber(record.open_requests);
  AppendFlag(record.software_prefetch);
  AppendFlag(record.no_mab);
  AppendFlag(record.misaligned);
  AppendFlag(record.uncacheable);
  AppendFlag(record.write_combining);
  AppendHex(record.linear_address);
  AppendHex(record.physical_address);
  AppendHex(record.branch_target);
  AppendFlag(record.streaming_store);
  AppendFlag(record.remote_socket);
}

void IbsRows::AppendKernelsWords(const CapturedSample& sample) {
  AppendHex(sample.has_data_src ? std::optional(sample.data_src) : std::nullopt);
  PebsRecord words;
  DecodePebs(sample, AttrOf(sample), &words);
  AppendNumber(words.weight);
  AppendNumber(words.instruction_cycles);
}

}  // namespace ptarmigan::internal
