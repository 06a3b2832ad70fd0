#include "symbolize/debuginfod_client.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/file.h"
#include "elf/elf_file.h"
#include "tests/support/test_data.h"
#include "tests/symbolize/debuginfod_server.h"
#include "tests/symbolize/test_programs.h"

namespace ptarmigan {
namespace {

using Kind = DebuginfodClient::Kind;

DebuginfodOptions OptionsFor(const std::string& url) {
  DebuginfodOptions options;
  options.urls = {url};
  options.cache_directory = TestTemporaryDirectory();
  options.timeout = std::chrono::seconds(30);
  return options;
}

const BuildId& SomeBuildId() {
  static const BuildId id = *BuildId::FromHex("00112233445566778899aabbccddeeff00112233");
  return id;
}

TEST(DebuginfodClient, FetchesFilesByBuildIdAndRemembersWhatIsMissing) {
  if (!HaveProgram("debuginfod") || !CanBuildPrograms())
    GTEST_SKIP() << "debuginfod or g++ is not installed";
  const std::string& program = TestProgramDirectory();
  ASSERT_FALSE(program.empty());
  const auto full = ElfFile::Open(program + "/full");
  ASSERT_TRUE(full);
  const std::string hex = (*full)->build_id().ToHex();
  DebuginfodServer server(program);
  ASSERT_TRUE(server.WaitFor(hex + "/debuginfo"));

  DebuginfodClient client(OptionsFor(server.url()));
  for (const Kind kind : {Kind::kDebugInfo, Kind::kExecutable}) {
    const auto path = client.Find((*full)->build_id(), kind);
    ASSERT_TRUE(path) << path.error().message;
    const auto fetched = ElfFile::Open(*path);
    ASSERT_TRUE(fetched);
    EXPECT_EQ((*fetched)->build_id(), (*full)->build_id());
  }
  EXPECT_EQ(client.queries(), 2U);
  for (int i = 0; i < 3; ++i) {
    const auto missing = client.Find(SomeBuildId(), Kind::kDebugInfo);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ErrorCode::kNotFound) << missing.error().message;
  }
  EXPECT_EQ(client.queries(), 3U);
}

TEST(DebuginfodClient, AsksAgainWhenTheNegativeTimeIsOver) {
  DebuginfodOptions options = OptionsFor("http://127.0.0.1:1");  // nobody listens there
  options.negative_ttl = std::chrono::seconds(1);
  DebuginfodClient client(options);
  EXPECT_FALSE(client.Find(SomeBuildId(), Kind::kDebugInfo));
  EXPECT_FALSE(client.Find(SomeBuildId(), Kind::kDebugInfo));
  EXPECT_EQ(client.queries(), 1U);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_FALSE(client.Find(SomeBuildId(), Kind::kDebugInfo));
  EXPECT_EQ(client.queries(), 2U);
}

TEST(DebuginfodClient, GivesUpOnAServerThatDoesNotAnswer) {
  const SilentServer server;
  ASSERT_TRUE(server.ok());
  DebuginfodOptions options = OptionsFor(server.url());
  options.timeout = std::chrono::seconds(1);
  DebuginfodClient client(options);
  const auto start = std::chrono::steady_clock::now();
  // Each object of its own build: the second failure in a row silences the client.
  for (int i = 0; i < 20; ++i) {
    BuildId id = *BuildId::FromHex(StrFormat("{:040x}", 0xabc000 + i));
    const auto missing = client.Find(id, Kind::kDebugInfo);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ErrorCode::kUnavailable) << missing.error().message;
  }
  EXPECT_EQ(client.queries(), static_cast<uint64_t>(DebuginfodClient::kFailuresMax));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(DebuginfodClient, RefusesFilesAboveTheSizeCap) {
  if (!HaveProgram("debuginfod") || !CanBuildPrograms())
    GTEST_SKIP() << "debuginfod or g++ is not installed";
  const std::string& program = TestProgramDirectory();
  ASSERT_FALSE(program.empty());
  const auto full = ElfFile::Open(program + "/full");
  DebuginfodServer server(program);
  ASSERT_TRUE(server.WaitFor((*full)->build_id().ToHex() + "/debuginfo"));
  DebuginfodOptions options = OptionsFor(server.url());
  options.file_bytes_max = 1000;
  DebuginfodClient client(options);
  EXPECT_FALSE(client.Find((*full)->build_id(), Kind::kDebugInfo));
}

TEST(DebuginfodClient, AsksNobodyWithoutServerOrBuildId) {
  DebuginfodClient nobody(DebuginfodOptions{});
  EXPECT_FALSE(nobody.Find(SomeBuildId(), Kind::kDebugInfo));
  EXPECT_EQ(nobody.queries(), 0U);
  DebuginfodClient client(OptionsFor("http://127.0.0.1:1"));
  EXPECT_EQ(client.Find(BuildId(), Kind::kDebugInfo).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(client.queries(), 0U);
}

TEST(DebuginfodClient, LeavesThisProcessesEnvironmentAlone) {
  ::unsetenv("DEBUGINFOD_URLS");
  DebuginfodClient client(OptionsFor("http://127.0.0.1:1"));
  EXPECT_FALSE(client.Find(SomeBuildId(), Kind::kExecutable));
  EXPECT_EQ(std::getenv("DEBUGINFOD_URLS"), nullptr);
  ::setenv("DEBUGINFOD_URLS", "http://a  http://b", 1);
  EXPECT_EQ(DebuginfodUrlsFromEnvironment(), (std::vector<std::string>{"http://a", "http://b"}));
  ::unsetenv("DEBUGINFOD_URLS");
  EXPECT_TRUE(DebuginfodUrlsFromEnvironment().empty());
}

}  // namespace
}  // namespace ptarmigan
