#include "model/loss_ledger.h"

#include <gtest/gtest.h>

namespace ptarmigan {
namespace {

TEST(LossLedger, BalancesOnlyWhenEverySampleIsAccountedFor) {
  LossLedger ledger;
  ledger.Capture(10);
  ledger.Keep(7);
  EXPECT_FALSE(ledger.Balances());
  ledger.Lose(LossStage::kKernel, LossReason::kRingFull, 3);
  EXPECT_TRUE(ledger.Balances());
  ledger.Lose(LossStage::kRead, LossReason::kTruncated, 512, LossUnit::kBytes);
  EXPECT_TRUE(ledger.Balances()) << "bytes are not samples";
}

TEST(LossLedger, SaysEveryReason) {
  LossLedger ledger;
  ledger.Lose(LossStage::kKernel, LossReason::kRingFull, 10);
  ledger.Lose(LossStage::kParse, LossReason::kTruncated, 2);
  ledger.Lose(LossStage::kParse, LossReason::kUnknownRecord, 3, LossUnit::kRecords);
  EXPECT_EQ(ledger.Sentence(),
            "12 samples lost (kernel ring_full 10, parse truncated 2); "
            "3 records skipped (parse unknown_record_type 3)");
}

TEST(LossLedger, SaturatesInsteadOfWrapping) {
  LossLedger ledger;
  ledger.Lose(LossStage::kKernel, LossReason::kRingFull, UINT64_MAX);
  ledger.Lose(LossStage::kKernel, LossReason::kRingFull, 5);
  EXPECT_EQ(ledger.Lost(), UINT64_MAX);
}

TEST(LossLedger, MergeAddsEveryEntry) {
  LossLedger a;
  a.Capture(5);
  a.Keep(5);
  LossLedger b;
  b.Capture(4);
  b.Keep(1);
  b.Lose(LossStage::kMerge, LossReason::kOutOfOrder, 3);
  a.Merge(b);
  EXPECT_EQ(a.captured(), 9U);
  EXPECT_EQ(a.Lost(LossStage::kMerge, LossReason::kOutOfOrder), 3U);
  EXPECT_TRUE(a.Balances());
}

}  // namespace
}  // namespace ptarmigan
