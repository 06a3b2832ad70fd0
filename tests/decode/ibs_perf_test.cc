// The raw registers as `perf report -D` prints them equal what we decode, for recordings that our writer made of random
// samples.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/str_format.h"
#include "decode/ibs.h"
#include "decode/perf_data_writer.h"
#include "decode/record_types.h"
#include "tests/encoders/ibs_encoder.h"
#include "tests/encoders/sample_encoder.h"
#include "tests/support/perf_bytes.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

constexpr size_t kSamples = 400;
constexpr uint32_t kPmuType = 11;
constexpr uint64_t kSampleType = kSampleIdentifier | kSampleIp | kSampleTid | kSampleTime |
                                 kSampleCpu | kSamplePeriod | kSampleRaw;
constexpr uint64_t kSampleId = 77;
// Up to Zen 3: what perf 6.1 prints without asking for capabilities of the PMU.
constexpr uint32_t kCaps = 0x3ff;
constexpr uint32_t kZen4Caps = 0xbff;

RecordingDescription Description(std::string pmu, std::string cpuid) {
  RecordingDescription description;
  description.arch = Arch::kX86_64;
  description.arch_name = "x86_64";
  description.cpuid = std::move(cpuid);
  description.perf_version = "ptarmigan";
  description.pmu_names = {{kPmuType, pmu}};
  EventDescription event;
  event.name = pmu + "//";
  event.attr.type = kPmuType;
  event.attr.sample_period = 100'000;
  event.attr.sample_type = kSampleType;
  event.attr.flags = uint64_t{1} << 18;
  event.ids = {kSampleId};
  description.events = {event};
  return description;
}

std::string SampleOf(std::string_view raw, uint64_t index) {
  CapturedSample sample;
  sample.identity = {.pid = 7,
                     .tid = 7,
                     .time_ns = 1000 + index,
                     .id = kSampleId,
                     .stream_id = 0,
                     .cpu = 0,
                     .has_time = true};
  sample.ip = {0x401000};
  sample.period = 100'000;
  sample.raw = AsBytes(raw);
  return EncodeSample(sample, kSampleType);
}

// A field of one sample's text: the word behind `name`.
std::optional<std::string> Word(std::string_view text, std::string_view name) {
  size_t at = 0;
  while ((at = text.find(name, at)) != std::string_view::npos) {
    const size_t end = at + name.size();
    const bool whole = (at == 0 || text[at - 1] == ' ' || text[at - 1] == '\n') &&
                       end < text.size() && (text[end] == ' ' || text[end] == '\t');
    if (whole) {
      std::string_view rest = text.substr(end);
      rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
      return std::string(rest.substr(0, rest.find_first_of(" \n=")));
    }
    at = end;
  }
  return std::nullopt;
}
template <typename T>
std::optional<std::string> Text(const std::optional<T>& value) {
  if (!value) return std::nullopt;
  return StrFormat("{}", static_cast<unsigned>(*value));
}
std::optional<std::string> Hex16(const std::optional<uint64_t>& value) {
  if (!value) return std::nullopt;
  return StrFormat("{:016x}", *value);
}

// perf's texts, sample by sample.
std::vector<std::string> DumpByPerf(const std::string& path, std::string_view first_word) {
  const CommandResult dump =
      RunCommand("perf report -D -i " + path + " 2>/dev/null | grep -E '^(ibs_|Ibs|ic_ibs)'");
  std::vector<std::string> samples;
  std::string_view rest = dump.out;
  while (!rest.empty()) {
    const size_t next = rest.find('\n' + std::string(first_word), 1);
    const size_t size = next == std::string_view::npos ? rest.size() : next + 1;
    samples.emplace_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  return samples;
}

void WriteRecording(const std::string& path, const RecordingDescription& description,
                    const std::vector<std::string>& raws) {
  auto writer = PerfDataWriter::Create(path, description);
  ASSERT_TRUE(writer.has_value()) << writer.error().message;
  for (size_t i = 0; i < raws.size(); ++i) {
    const std::string record = SampleOf(raws[i], i);
    (*writer)->OnRecord(RawRecord{AsBytes(record), 0});
  }
  (*writer)->OnRoundEnd();
  ASSERT_TRUE((*writer)->Finish(description).has_value());
}

// perf learns of Zen 4's registers from the feature PMU_CAPS, which our writer has no use for.
void WriteZen4Recording(const std::string& path, const RecordingDescription& description,
                        const std::vector<std::string>& raws) {
  PerfFileBuilder file;
  file.AddAttr(
      {.type = kPmuType, .sample_type = kSampleType, .size_bytes = 128, .ids = {kSampleId}});
  for (size_t i = 0; i < raws.size(); ++i) file.AddBytes(SampleOf(raws[i], i));
  const std::string& pmu = description.pmu_names.at(kPmuType);
  file.AddFeature(kFeatureCpuid, HeaderString(description.cpuid));
  file.AddFeature(kFeaturePmuMappings,
                  file.Writer().U32(1).U32(kPmuType).Text(HeaderString(pmu)).bytes());
  file.AddFeature(kFeaturePmuCaps, file.Writer()
                                       .U32(1)
                                       .U32(1)
                                       .Text(HeaderString("zen4_ibs_extensions"))
                                       .Text(HeaderString("1"))
                                       .Text(HeaderString("ibs_op"))
                                       .bytes());
  std::ofstream(path, std::ios::binary) << file.File();
}

void ExpectSameOp(std::string_view text, const IbsOpRecord& record) {
  const auto same = [text](std::string_view name, const std::optional<std::string>& ours) {
    EXPECT_EQ(Word(text, name), ours) << name << " in\n" << text;
  };
  const bool memory = record.dc_miss.has_value();
  same("CompToRetCtr", StrFormat("{}", record.completion_to_retire_cycles));
  same("TagToRetCtr", StrFormat("{}", record.tag_to_retire_cycles));
  same("Microcode", StrFormat("{:d}", record.microcode));
  same("RipInvalid", StrFormat("{:d}", !record.rip_valid));
  same("IbsOpRip:", record.rip_valid ? Hex16(record.rip) : std::nullopt);
  same("OpReturn", Text(record.branch_return));
  same("OpBrnTaken", Text(record.branch_taken));
  same("OpBrnMisp", Text(record.branch_mispredicted));
  if (record.branch_fused) same("BrnFuse", Text(record.branch_fused));
  same("IbsBrTarget:", Hex16(record.branch_target));
  same("LdOp", record.kind == IbsOpKind::kLoad || record.kind == IbsOpKind::kLoadStore ? "1" : "0");
  same("StOp",
       record.kind == IbsOpKind::kStore || record.kind == IbsOpKind::kLoadStore ? "1" : "0");
  if (!memory) return;
  // perf leaves code 0 and codes behind the table out.
  const bool named = record.data_source_code.value_or(0) != 0 && record.data_source_code < 13;
  same("DataSrc", named ? Text(record.data_source_code) : std::nullopt);
  same("DcMiss", Text(record.dc_miss));
  same("L2Miss", Text(record.l2_miss));
  same("DcMisAcc", Text(record.misaligned));
  same("DcWcMemAcc", Text(record.write_combining));
  same("DcUcMemAcc", Text(record.uncacheable));
  same("DcLockedOp", Text(record.locked));
  same("DcMissNoMabAlloc", Text(record.no_mab));
  same("SwPf", Text(record.software_prefetch));
  same("OpMemWidth", Text(record.width_bytes));
  same("OpDcMissOpenMemReqs", Text(record.open_requests));
  if (record.dc_miss_cycles) same("DcMissLat", Text(record.dc_miss_cycles));
  if (record.tlb_refill_cycles) same("TlbRefillLat", Text(record.tlb_refill_cycles));
  same("IbsDCLinAd:", Hex16(record.linear_address));
  if (record.physical_address) same("IbsDCPhysAd:", Hex16(record.physical_address));
  if (!record.tlb.empty()) {
    same("DcL1TlbMiss", record.tlb == "L1 hit" ? "0" : "1");
    if (record.tlb != "L1 hit") same("DcL2TlbMiss", record.tlb == "L2 miss" ? "1" : "0");
  }
  if (record.page_size == "2M") same("DcL1TlbHit2M", "1");
  if (record.page_size == "1G") same("DcL1TlbHit1G", "1");
}

void ExpectSameFetch(std::string_view text, const IbsFetchRecord& record) {
  const auto same = [text](std::string_view name, const std::optional<std::string>& ours) {
    EXPECT_EQ(Word(text, name), ours) << name << " in\n" << text;
  };
  same("Lat", Text(record.latency_cycles));
  same("Comp", StrFormat("{:d}", record.complete));
  same("IcMiss", Text(record.ic_miss));
  same("L1TlbMiss", Text(record.l1_tlb_miss));
  same("L2TlbMiss", Text(record.l2_tlb_miss));
  same("L2Miss", Text(record.l2_miss));
  same("FetchOcMiss", Text(record.op_cache_miss));
  same("FetchL3Miss", Text(record.l3_miss));
  same("IbsItlbRefillLat", Text(record.tlb_refill_cycles));
  same("IbsFetchLinAd:", Hex16(record.linear_address));
  if (record.physical_address) same("IbsFetchPhysAd:", Hex16(record.physical_address));
  if (!record.page_size.empty()) same("L1TlbPgSz", std::string(record.page_size) + "B");
}

struct Machine {
  const char* name;
  const char* cpuid;
  uint32_t caps;
  bool needs_pmu_caps;
};
constexpr Machine kMachines[] = {{"Zen2", "AuthenticAMD,23,49,0", kCaps, false},
                                 {"Zen3", "AuthenticAMD,25,1,1", kCaps, false},
                                 {"Zen4", "AuthenticAMD,25,17,1", kZen4Caps, true}};

class IbsAsPerfPrints : public testing::TestWithParam<Machine> {
 protected:
  void SetUp() override {
    if (!HaveProgram("perf")) GTEST_SKIP() << "perf is not installed";
  }
  // Records one sample per raw text, and returns perf's texts of them.
  std::vector<std::string> DumpOf(const std::string& pmu, const std::vector<std::string>& raws) {
    const std::string path = TestTemporaryDirectory() + "/ibs.perf.data";
    const RecordingDescription description = Description(pmu, GetParam().cpuid);
    if (GetParam().needs_pmu_caps) {
      WriteZen4Recording(path, description, raws);
    } else {
      WriteRecording(path, description, raws);
    }
    return DumpByPerf(path, pmu + "_ctl:");
  }
};

TEST_P(IbsAsPerfPrints, Ops) {
  std::mt19937_64 random(1);
  const IbsQuirks quirks = IbsQuirksOf(AmdModelOf(GetParam().cpuid));
  std::vector<std::string> raws;
  for (size_t i = 0; i < kSamples; ++i) {
    raws.push_back(EncodeIbsOp(RandomIbsOp(random, GetParam().caps, quirks)));
  }
  const std::vector<std::string> texts = DumpOf("ibs_op", raws);
  ASSERT_EQ(texts.size(), kSamples);
  for (size_t i = 0; i < kSamples && !HasFailure(); ++i) {
    IbsOpRecord record;
    ASSERT_EQ(DecodeIbsOp(AsBytes(raws[i]), std::endian::little, quirks, &record),
              IbsDecodeResult::kOk);
    ExpectSameOp(texts[i], record);
  }
}

TEST_P(IbsAsPerfPrints, Fetches) {
  std::mt19937_64 random(2);
  const IbsQuirks quirks = IbsQuirksOf(AmdModelOf(GetParam().cpuid));
  std::vector<std::string> raws;
  for (size_t i = 0; i < kSamples; ++i) {
    raws.push_back(EncodeIbsFetch(RandomIbsFetch(random, GetParam().caps, quirks)));
  }
  const std::vector<std::string> texts = DumpOf("ibs_fetch", raws);
  ASSERT_EQ(texts.size(), kSamples);
  for (size_t i = 0; i < kSamples && !HasFailure(); ++i) {
    IbsFetchRecord record;
    ASSERT_EQ(DecodeIbsFetch(AsBytes(raws[i]), std::endian::little, quirks, &record),
              IbsDecodeResult::kOk);
    ExpectSameFetch(texts[i], record);
  }
}

INSTANTIATE_TEST_SUITE_P(All, IbsAsPerfPrints, testing::ValuesIn(kMachines),
                         [](const testing::TestParamInfo<Machine>& tested) {
                           return tested.param.name;
                         });

}  // namespace
}  // namespace ptarmigan
