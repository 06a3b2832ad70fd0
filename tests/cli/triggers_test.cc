#include "cli/triggers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>

#include "base/file.h"

namespace ptarmigan::cli {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(ParseTrigger, KnowsEveryForm) {
  const auto function = ParseTrigger("function:/usr/bin/x:Queue::Pop>250us");
  ASSERT_TRUE(function.has_value()) << function.error().message;
  EXPECT_EQ(function->watched.kind, TriggerCondition::Kind::kFunction);
  EXPECT_EQ(function->watched.object, "/usr/bin/x");
  EXPECT_EQ(function->symbol, "Queue::Pop");
  EXPECT_EQ(function->watched.threshold, microseconds(250));
  const auto syscall = ParseTrigger("syscall:fsync>5ms");
  ASSERT_TRUE(syscall.has_value());
  EXPECT_EQ(syscall->watched.kind, TriggerCondition::Kind::kSyscall);
  EXPECT_EQ(syscall->watched.syscall, "fsync");
  EXPECT_EQ(syscall->watched.threshold, milliseconds(5));
  EXPECT_EQ(ParseTrigger("sched>1ms")->watched.kind, TriggerCondition::Kind::kSched);
  EXPECT_EQ(ParseTrigger("signal")->kind, TriggerText::Kind::kSignal);
  EXPECT_EQ(ParseTrigger("control:/run/x.sock")->path, "/run/x.sock");
}

TEST(ParseTrigger, WhatIsNotOneSaysWhatOneIs) {
  for (const std::string text :
       {"", "function", "function:x>1ms", "function::f>1ms", "function:x:>1ms", "syscall:>1ms",
        "sched", "sched>", "sched>soon", "control:", "signals", ">1ms"}) {
    const auto trigger = ParseTrigger(text);
    EXPECT_FALSE(trigger.has_value()) << text;
  }
  EXPECT_NE(ParseTrigger("nonsense>1ms").error().message.find("function:OBJECT:SYMBOL>DURATION"),
            std::string::npos);
}

extern "C" __attribute__((noinline)) int PtarmiganTriggerFunction(int x) {
  asm volatile("" ::: "memory");
  return x + 1;
}

TEST(FindFunctionOffset, FindsTheCodeInTheFile) {
  ASSERT_EQ(PtarmiganTriggerFunction(1), 2);
  const auto offset = FindFunctionOffset("/proc/self/exe", "PtarmiganTriggerFunction");
  ASSERT_TRUE(offset.has_value()) << offset.error().message;
  // The same bytes stand at both places.
  auto file = OpenFile("/proc/self/exe", O_RDONLY);
  ASSERT_TRUE(file.has_value());
  std::array<std::byte, 16> in_file = {};
  ASSERT_EQ(::pread(file->get(), in_file.data(), in_file.size(), static_cast<off_t>(*offset)), 16);
  EXPECT_EQ(
      std::memcmp(in_file.data(), reinterpret_cast<const void*>(&PtarmiganTriggerFunction), 16), 0);
}

TEST(FindFunctionOffset, ANameThatIsNotThereSaysHowToNameIt) {
  const auto offset = FindFunctionOffset("/proc/self/exe", "NoSuchFunctionAnywhere");
  ASSERT_FALSE(offset.has_value());
  EXPECT_NE(offset.error().message.find("nm"), std::string::npos);
}

}  // namespace
}  // namespace ptarmigan::cli
