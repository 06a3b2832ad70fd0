#include "hw/internal/perf_open.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "hw/internal/attr_bits.h"
#include "tests/hw/fake_root.h"

namespace ptarmigan::internal {
namespace {

class ExplainTest : public testing::Test {
 protected:
  ExplainTest() {
    proc_.File("sys/kernel/perf_event_paranoid", "3\n")
        .File("sys/kernel/perf_event_mlock_kb", "516\n");
  }
  std::string Explain(const EventAttr& attr, const PerfOpenTarget& target, int error) {
    return ExplainOpenError("x", attr, target, error, proc_.path()).message;
  }
  FakeRoot proc_;
  EventAttr attr_;
};

TEST_F(ExplainTest, ARefusalNamesTheSysctlItsValueAndTheRemedyForTheTarget) {
  EXPECT_NE(Explain(attr_, {-1, 0, false}, EACCES).find("kernel.perf_event_paranoid is 3"),
            std::string::npos);
  EXPECT_NE(Explain(attr_, {-1, 0, false}, EACCES).find("perf_event_paranoid=0"),
            std::string::npos);
  EXPECT_NE(Explain(attr_, {0, -1, false}, EPERM).find("\":u\""), std::string::npos);
  EXPECT_NE(Explain(attr_, {77, -1, false}, EACCES).find("process 77"), std::string::npos);
  SetBit(&attr_, kBitExcludeKernel);
  EXPECT_NE(Explain(attr_, {0, -1, false}, EPERM).find("seccomp"), std::string::npos);
  EXPECT_EQ(ExplainOpenError("x", attr_, {}, EPERM, proc_.path()).code, ErrorCode::kPermission);
}

TEST_F(ExplainTest, AMissingPmuIsToldFromAMissingSoftwareEvent) {
  attr_.type = kPerfTypeHardware;
  EXPECT_NE(Explain(attr_, {}, ENOENT).find("cpu-clock"), std::string::npos);
  attr_.type = kPerfTypeSoftware;
  EXPECT_EQ(Explain(attr_, {}, ENOENT).find("cpu-clock"), std::string::npos);
}

TEST_F(ExplainTest, EveryOtherErrorHasASentenceToo) {
  for (const int error : {EOPNOTSUPP, EINVAL, ESRCH, EBUSY, EMFILE, ENOSYS, E2BIG}) {
    EXPECT_GT(Explain(attr_, {}, error).size(), 10U) << error;
  }
  SetPreciseIp(&attr_, 3);
  EXPECT_NE(Explain(attr_, {}, EOPNOTSUPP).find("precision"), std::string::npos);
}

TEST_F(ExplainTest, ALockedMemoryLimitNamesAllThreeWaysOut) {
  const Error error = ExplainMapError(4 << 20, EPERM, proc_.path());
  EXPECT_EQ(error.code, ErrorCode::kResourceLimit);
  for (const std::string_view part :
       {"4096 KiB", "perf_event_mlock_kb is 516", "--ring", "CAP_IPC_LOCK"}) {
    EXPECT_NE(error.message.find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace ptarmigan::internal
