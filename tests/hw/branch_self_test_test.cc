#include "hw/branch_self_test.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "hw/hardware_source.h"
#include "tests/hw/scripted_kernel.h"

namespace ptarmigan {
namespace {

// A kernel whose samples hold these branches (from, to), once the event is mapped.
class BranchKernel {
 public:
  explicit BranchKernel(std::vector<std::pair<uint64_t, uint64_t>> branches, size_t samples = 32) {
    kernel_.after_map = [this, branches, samples](ScriptedKernel::Event* event) {
      for (size_t i = 0; i < samples; ++i) {
        std::vector<uint64_t> words = {branches.size()};
        for (const auto& [from, to] : branches) words.insert(words.end(), {from, to, 0});
        std::vector<std::byte> record(8 + words.size() * 8);
        const uint32_t type = 9;
        const auto size = static_cast<uint16_t>(record.size());
        std::memcpy(record.data(), &type, 4);
        std::memcpy(record.data() + 6, &size, 2);
        std::memcpy(record.data() + 8, words.data(), words.size() * 8);
        kernel_.WriteRecord(event, record);
      }
    };
  }
  Status Check() {
    EventSpec spec;
    spec.attr.sample_type = kSampleBranchStack;
    spec.attr.branch_sample_type = kBranchAny;
    return CheckBranchRecords(spec, kernel_);
  }
  ScriptedKernel& kernel() { return kernel_; }

 private:
  ScriptedKernel kernel_;
};

TEST(BranchSelfTest, OneRealBranchIsEnough) {
  EXPECT_TRUE(BranchKernel({{0, 0}, {0x401000, 0x402000}}).Check().has_value());
}

TEST(BranchSelfTest, EmptyAndZeroRecordsAreNoBranchRecords) {
  for (const auto& branches : {std::vector<std::pair<uint64_t, uint64_t>>{},
                               std::vector<std::pair<uint64_t, uint64_t>>{{0, 0}, {0, 0}}}) {
    const Status status = BranchKernel(branches).Check();
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(status.error().message.find("empty"), std::string::npos);
  }
}

TEST(BranchSelfTest, NoSampleAtAllIsToldFromEmptyRecords) {
  const Status status = BranchKernel({{1, 2}}, 0).Check();
  ASSERT_FALSE(status.has_value());
  EXPECT_NE(status.error().message.find("no sample"), std::string::npos);
}

TEST(BranchSelfTest, WhatCannotBeOpenedIsLeftToWhoeverOpensItNext) {
  BranchKernel kernel({});
  kernel.kernel().on_open = [](const EventAttr&, const PerfOpenTarget&) { return EACCES; };
  EXPECT_TRUE(kernel.Check().has_value());
}

TEST(BranchSelfTest, NothingStaysOpen) {
  BranchKernel kernel({{1, 2}});
  EXPECT_TRUE(kernel.Check().has_value());
  EXPECT_TRUE(kernel.kernel().events().empty());
  EXPECT_EQ(kernel.kernel().mapped(), 0U);
}

}  // namespace
}  // namespace ptarmigan
