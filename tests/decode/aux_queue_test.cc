#include "decode/internal/aux_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace ptarmigan::internal {
namespace {

class AuxQueueTest : public testing::Test {
 protected:
  void Add(uint64_t offset, std::string_view bytes, bool borrow = true) {
    queue_.AddBytes(offset, AsBytes(bytes), borrow, /*continues=*/false);
  }
  // Fragments that can be had now, with the bytes that are there.
  std::string Take(bool finishing = false) {
    std::string text;
    AuxQueue::Fragment fragment;
    while (queue_.Take(finishing, &fragment)) {
      text += std::to_string(fragment.offset) + ":";
      text += AsText(fragment.bytes);
      text += ' ';
    }
    return text;
  }

  AuxQueue::Budget budget_{.copied_bytes_max = 1024, .waiting_max = 16};
  AuxQueue::Counts counts_;
  AuxQueue queue_{&budget_, &counts_};
};

TEST_F(AuxQueueTest, PairsBytesAndFragmentsHoweverTheyAreCut) {
  Add(0, "abcdef");
  queue_.AddFragment(0, 4);
  EXPECT_EQ(Take(), "0:abcd ");
  queue_.AddFragment(4, 6);
  EXPECT_EQ(Take(), "");
  Add(6, "ghij", /*borrow=*/false);
  EXPECT_EQ(Take(), "4:efghij ");
  queue_.DropRest();
  EXPECT_EQ(counts_.uncovered_bytes + counts_.missing_bytes + counts_.filling_bytes, 0U);
}

TEST_F(AuxQueueTest, FillingThatTheNextChunkStandsOnIsNoPartOfTheStream) {
  Add(0, std::string_view("abc\0\0\0\0\0", 8));
  Add(3, "defgh");
  queue_.AddFragment(0, 8);
  EXPECT_EQ(Take(), "0:abcdefgh ");
  EXPECT_EQ(counts_.filling_bytes, 5U);
}

// A chunk of nothing but filling, then bytes behind a gap: skipping what no fragment covers must get past both.
TEST_F(AuxQueueTest, AChunkOfNothingButFillingIsForgotten) {
  for (const bool borrow : {true, false}) {
    AuxQueue queue(&budget_, &counts_);
    const std::string zeros(4, '\0');
    queue.AddBytes(100, AsBytes(zeros), borrow, false);
    queue.AddBytes(100, AsBytes(std::string_view("xyz")), borrow, false);
    queue.AddFragment(101, 2);
    AuxQueue::Fragment fragment;
    ASSERT_TRUE(queue.Take(false, &fragment));
    EXPECT_EQ(AsText(fragment.bytes), "yz");
    EXPECT_FALSE(queue.Take(true, &fragment));
    queue.DropRest();
  }
  EXPECT_EQ(counts_.filling_bytes, 8U);
  EXPECT_EQ(counts_.uncovered_bytes, 2U);
  EXPECT_EQ(budget_.copied_bytes, 0U);
  EXPECT_EQ(budget_.waiting, 0U);
}

}  // namespace
}  // namespace ptarmigan::internal
