#include "base/log.h"

#include <gtest/gtest.h>

#include <string>

namespace ptarmigan {
namespace {

std::string Written(LogLevel level, std::string_view message) {
  ::testing::internal::CaptureStderr();
  Log(level, message);
  return ::testing::internal::GetCapturedStderr();
}

TEST(Log, WritesOneLineWithItsLevel) {
  SetLogLevel(LogLevel::kNotice);
  EXPECT_EQ(Written(LogLevel::kError, "broken"), "ptarmigan: error: broken\n");
  EXPECT_EQ(Written(LogLevel::kWarning, "odd"), "ptarmigan: warning: odd\n");
  EXPECT_EQ(Written(LogLevel::kNotice, "done"), "ptarmigan: done\n");
}

TEST(Log, DropsWhatIsAboveTheLevel) {
  SetLogLevel(LogLevel::kNotice);
  EXPECT_EQ(Written(LogLevel::kDebug, "detail"), "");
  SetLogLevel(LogLevel::kDebug);
  EXPECT_EQ(Written(LogLevel::kDebug, "detail"), "ptarmigan: debug: detail\n");
  SetLogLevel(LogLevel::kError);
  EXPECT_EQ(Written(LogLevel::kWarning, "odd"), "");
  SetLogLevel(LogLevel::kNotice);
}

TEST(Log, TakesBracesInMessagesLiterally) {
  SetLogLevel(LogLevel::kNotice);
  EXPECT_EQ(Written(LogLevel::kNotice, "a {} b"), "ptarmigan: a {} b\n");
}

}  // namespace
}  // namespace ptarmigan
