#include "base/result.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace ptarmigan {
namespace {

Result<int> Half(int number) {
  if (number % 2 != 0) return Error{ErrorCode::kInvalidInput, "odd"};
  return number / 2;
}

Status CheckEven(int number, int* checks) {
  TRY(Half(number));
  ++*checks;
  return OkStatus();
}

Result<int> Quarter(int number) {
  TRY_ASSIGN(const int half, Half(number));
  TRY_ASSIGN(const int quarter, Half(half));
  return quarter;
}

TEST(Result, HoldsAValueOrAnError) {
  const Result<int> good = Half(8);
  EXPECT_TRUE(good.has_value());
  EXPECT_EQ(*good, 4);
  const Result<int> bad = Half(7);
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(bad.error().message, "odd");
}

TEST(Result, TriesReturnTheFirstErrorAndRunNothingAfterIt) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_FALSE(Quarter(6));
  EXPECT_FALSE(Quarter(5));
  int checks = 0;
  EXPECT_TRUE(CheckEven(2, &checks));
  EXPECT_FALSE(CheckEven(3, &checks));
  EXPECT_EQ(checks, 1);
}

TEST(Result, MovesValuesThatCannotBeCopied) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  static_assert(!std::is_copy_constructible_v<Result<std::unique_ptr<int>>>);
  const std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 5);
}

TEST(Result, GivesTheFallbackOnlyOnError) {
  EXPECT_EQ(Half(4).value_or(-1), 2);
  EXPECT_EQ(Half(5).value_or(-1), -1);
}

TEST(ResultDeathTest, StopsTheProgramWhenTheWrongSideIsTaken) {
  EXPECT_DEATH(static_cast<void>(*Half(3)), "has_value");
  EXPECT_DEATH(static_cast<void>(Half(2).error()), "has_value");
  EXPECT_DEATH(static_cast<void>(OkStatus().error()), "failed_");
}

TEST(Error, TakesContextInFront) {
  const Error error = Error{ErrorCode::kTruncated, "ends at byte 7", 0}.WithContext("perf.data");
  EXPECT_EQ(error.message, "perf.data: ends at byte 7");
  EXPECT_EQ(error.code, ErrorCode::kTruncated);
}

TEST(Error, ChoosesACodeThatCallersCanBranchOn) {
  EXPECT_EQ(ErrnoError("open", ENOENT).code, ErrorCode::kNotFound);
  EXPECT_EQ(ErrnoError("open", EPERM).code, ErrorCode::kPermission);
  EXPECT_EQ(ErrnoError("open", EMFILE).code, ErrorCode::kResourceLimit);
  EXPECT_EQ(ErrnoError("open", EINVAL).code, ErrorCode::kInvalidInput);
  EXPECT_EQ(ErrnoError("open", EOPNOTSUPP).code, ErrorCode::kUnsupported);
  EXPECT_EQ(ErrnoError("open", EBUSY).code, ErrorCode::kUnavailable);
  const Error error = ErrnoError("read", EIO);
  EXPECT_EQ(error.code, ErrorCode::kIo);
  EXPECT_EQ(error.errno_value, EIO);
  EXPECT_EQ(error.message, "read: Input/output error");
}

TEST(Error, NamesEveryCodeDifferently) {
  EXPECT_EQ(ErrorCodeName(ErrorCode::kInvalidInput), "invalid input");
  EXPECT_EQ(ErrorCodeName(ErrorCode::kInternal), "internal error");
  EXPECT_NE(ErrorCodeName(ErrorCode::kIo), ErrorCodeName(ErrorCode::kUnavailable));
}

}  // namespace
}  // namespace ptarmigan
