#include "hw/capabilities.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "hw/internal/attr_bits.h"
#include "tests/hw/fake_root.h"
#include "tests/hw/pmu_trees.h"
#include "tests/hw/scripted_kernel.h"

namespace ptarmigan {
namespace {

class CapabilitiesTest : public testing::Test {
 protected:
  CapabilitiesTest() {
    proc_.File("sys/kernel/osrelease", "6.12.1\n")
        .File("sys/kernel/arch", "x86_64\n")
        .File("sys/kernel/perf_event_paranoid", "2\n")
        .File("sys/kernel/perf_event_max_sample_rate", "50000\n")
        .File("sys/kernel/perf_event_mlock_kb", "516\n")
        .File("sys/kernel/perf_event_max_stack", "127\n")
        .File("sys/kernel/kptr_restrict", "1\n")
        .File("sys/kernel/nmi_watchdog", "0\n")
        .File("sys/kernel/unprivileged_bpf_disabled", "2\n")
        .File("sys/net/core/bpf_jit_enable", "1\n")
        .File("self/status", "Name:\tx\nCapEff:\t0000004000004000\n");
    Vendor("GenuineIntel");
    options_.proc_root = proc_.path();
    options_.sysfs_root = sys_.path();
    options_.kernel = &kernel_;
    kernel_.on_open = [this](const EventAttr& attr, const PerfOpenTarget&) {
      if (attr.Samples(kSampleBranchStack)) return branch_error_;
      return attr.type == kPerfTypeSoftware ? software_error_ : cycles_error_;
    };
  }
  void Vendor(std::string_view vendor) {
    proc_.File("cpuinfo",
               "processor\t: 0\nvendor_id\t: " + std::string(vendor) +
                   "\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: Some CPU\nstepping\t: 7\n");
  }
  SourceCapability Source(std::string_view name) {
    const Capabilities capabilities = ProbeCapabilities(options_);
    const SourceCapability* source = capabilities.Find(name);
    EXPECT_NE(source, nullptr) << name;
    return source != nullptr ? *source : SourceCapability{};
  }

  FakeRoot proc_;
  FakeRoot sys_;
  ScriptedKernel kernel_;
  CapabilityProbeOptions options_;
  int software_error_ = 0;
  int cycles_error_ = 0;
  int branch_error_ = 0;
};

TEST_F(CapabilitiesTest, ReadsTheKernelsSettings) {
  const Capabilities found = ProbeCapabilities(options_);
  EXPECT_EQ(found.kernel.release, "6.12.1");
  EXPECT_EQ(found.kernel.arch, "x86_64");
  EXPECT_EQ(found.kernel.cpu, "Some CPU");
  EXPECT_EQ(found.kernel.perf_event_paranoid, 2);
  EXPECT_EQ(found.kernel.max_sample_rate_hz, 50000);
  EXPECT_EQ(found.kernel.mlock_kib, 516);
  EXPECT_EQ(found.kernel.max_stack_frames, 127);
  EXPECT_EQ(found.kernel.kptr_restrict, 1);
  EXPECT_EQ(found.kernel.nmi_watchdog, 0);
  EXPECT_FALSE(found.bpf.btf);
  EXPECT_EQ(found.bpf.jit, 1);
  EXPECT_EQ(found.bpf.unprivileged_disabled, 2);
}

TEST_F(CapabilitiesTest, KnowsHeldAndMissingCapabilities) {
  const Capabilities found = ProbeCapabilities(options_);
  for (const ProcessCapability& capability : found.capabilities) {
    EXPECT_EQ(capability.held,
              capability.name == "CAP_PERFMON" || capability.name == "CAP_IPC_LOCK")
        << capability.name;
    EXPECT_FALSE(capability.cost.empty());
  }
}

TEST_F(CapabilitiesTest, ListsEverySourceOfTheContract) {
  const Capabilities found = ProbeCapabilities(options_);
  for (const std::string_view name : {"cpu-clock", "task-clock", "cycles", "lbr", "pt", "spe",
                                      "ibs", "pebs-mem", "coresight", "brbe", "off-cpu", "wall"}) {
    const SourceCapability* source = found.Find(name);
    ASSERT_NE(source, nullptr) << name;
    // An absence always says why.
    EXPECT_EQ(source->available, source->reason.empty()) << name;
  }
  EXPECT_EQ(found.Find("no-such-source"), nullptr);
}

TEST_F(CapabilitiesTest, ExplainsARefusalWithTheSysctl) {
  software_error_ = EACCES;
  const SourceCapability clock = Source("cpu-clock");
  EXPECT_FALSE(clock.available);
  EXPECT_NE(clock.reason.find("perf_event_paranoid is 2"), std::string::npos);
  EXPECT_NE(clock.remedy.find("sysctl kernel.perf_event_paranoid"), std::string::npos);
}

TEST_F(CapabilitiesTest, AMachineWithoutCountersHasTheClock) {
  cycles_error_ = ENOENT;
  EXPECT_TRUE(Source("cpu-clock").available);
  const SourceCapability cycles = Source("cycles");
  EXPECT_FALSE(cycles.available);
  EXPECT_NE(cycles.reason.find("no hardware counters"), std::string::npos);
  EXPECT_NE(cycles.remedy.find("guest a PMU"), std::string::npos);
  EXPECT_FALSE(Source("lbr").available);
}

TEST_F(CapabilitiesTest, TellsBranchRecordsFromCounters) {
  branch_error_ = EOPNOTSUPP;
  EXPECT_TRUE(Source("cycles").available);
  EXPECT_NE(Source("lbr").reason.find("branch records were refused"), std::string::npos);
  EXPECT_NE(Source("brbe").reason.find("this machine is x86_64"), std::string::npos);
  branch_error_ = 0;
  options_.implemented.insert("lbr");
  EXPECT_TRUE(Source("lbr").available);
}

TEST_F(CapabilitiesTest, SaysWhenTheMachineHasMoreThanTheProgram) {
  IceLake(&sys_);
  options_.implemented.erase("pt");
  const SourceCapability pt = Source("pt");
  EXPECT_FALSE(pt.available);
  EXPECT_NE(pt.reason.find("this machine has it"), std::string::npos);
  options_.implemented.insert("pt");
  EXPECT_TRUE(Source("pt").available);
}

TEST_F(CapabilitiesTest, APmuThatIsThereIsTried) {
  IceLake(&sys_);
  EXPECT_TRUE(Source("pt").available);
  int pt_error = EBUSY;
  kernel_.on_open = [&pt_error](const EventAttr& attr, const PerfOpenTarget&) {
    return attr.type == 8 ? pt_error : 0;
  };
  EXPECT_FALSE(Source("pt").available);
  EXPECT_NE(Source("pt").reason.find("another program"), std::string::npos);
  pt_error = EACCES;
  EXPECT_NE(Source("pt").remedy.find("perf_event_paranoid"), std::string::npos);
  pt_error = EINVAL;
  EXPECT_NE(Source("pt").reason.find("refused"), std::string::npos);
}

TEST_F(CapabilitiesTest, SaysWhatLimitsATrace) {
  IceLake(&sys_);
  EXPECT_EQ(Source("pt").reason, "");  // CAP_IPC_LOCK is held
  proc_.File("self/status", "Name:\tx\nCapEff:\t0000004000000000\n");
  EXPECT_NE(Source("pt").reason.find("516 KiB"), std::string::npos) << Source("pt").reason;
  EXPECT_TRUE(Source("pt").available);
  FakeRoot bare;
  bare.File("bus/event_source/devices/intel_pt/type", "8\n");
  options_.sysfs_root = bare.path();
  EXPECT_NE(Source("pt").reason.find("intel_pt/caps"), std::string::npos);
}

TEST_F(CapabilitiesTest, SaysWhyArmSpeMayBeMissing) {
  proc_.File("sys/kernel/arch", "aarch64\n");
  EXPECT_EQ(Source("spe").reason.find("isolation"), std::string::npos);
  sys_.File("devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n");
  EXPECT_NE(Source("spe").reason.find("page table isolation"), std::string::npos);
  EXPECT_NE(Source("spe").remedy.find("kpti=off"), std::string::npos);
  sys_.File("devices/system/cpu/vulnerabilities/meltdown", "Not affected\n")
      .File("firmware/devicetree/base/spe-pmu/compatible",
            "arm,statistical-profiling-extension-v1");
  EXPECT_NE(Source("spe").reason.find("firmware describes it"), std::string::npos);
}

TEST_F(CapabilitiesTest, SaysThatTheMachineIsVirtual) {
  EXPECT_EQ(ProbeCapabilities(options_).kernel.virtual_machine, std::nullopt);
  proc_.File("cpuinfo",
             "vendor_id\t: GenuineIntel\nmodel name\t: X\nflags\t\t: fpu hypervisor vme\n");
  EXPECT_EQ(ProbeCapabilities(options_).kernel.virtual_machine, true);
  EXPECT_NE(Source("pt").reason.find("virtual machine"), std::string::npos);
}

TEST_F(CapabilitiesTest, NamesTheVendorThatHasASource) {
  EXPECT_NE(Source("ibs").reason.find("this CPU is GenuineIntel"), std::string::npos);
  EXPECT_NE(Source("spe").reason.find("this machine is x86_64"), std::string::npos);
  EXPECT_NE(Source("pt").reason.find("lists no PMU \"intel_pt\""), std::string::npos);
  Vendor("AuthenticAMD");
  EXPECT_NE(Source("pt").reason.find("this CPU is AuthenticAMD"), std::string::npos);
  EXPECT_EQ(Source("pebs-mem").remedy, "use ibs");
}

TEST_F(CapabilitiesTest, OffCpuNeedsTypeInformationAndRights) {
  options_.implemented.insert("off-cpu");
  EXPECT_NE(Source("off-cpu").remedy.find("CONFIG_DEBUG_INFO_BTF"), std::string::npos);
  sys_.File("kernel/btf/vmlinux", "x");
  EXPECT_NE(Source("off-cpu").remedy.find("cap_bpf"),
            std::string::npos);  // CAP_PERFMON alone is not enough
  proc_.File("self/status", "Name:\tx\nCapEff:\t000000c000000000\n");
  EXPECT_TRUE(Source("off-cpu").available);
}

TEST(Capabilities, OfThisMachineAgreeWithOpeningTheClock) {
  const Capabilities found = ProbeCapabilities();
  EXPECT_FALSE(found.kernel.release.empty());
  const SourceCapability* clock = found.Find("cpu-clock");
  ASSERT_NE(clock, nullptr);
  if (!clock->available) GTEST_SKIP() << clock->reason << "; " << clock->remedy;
  EXPECT_TRUE(clock->reason.empty());
}

}  // namespace
}  // namespace ptarmigan
