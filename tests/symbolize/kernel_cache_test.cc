#include "symbolize/internal/kernel_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/file.h"
#include "tests/support/byte_writer.h"
#include "tests/support/test_data.h"

namespace ptarmigan::internal {
namespace {

void WriteText(const std::string& path, std::string_view text) {
  ASSERT_TRUE(MakeDirectories(path.substr(0, path.rfind('/'))));
  auto file = OutputFile::Create(path);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(file->Write(text));
  ASSERT_TRUE(file->Commit());
}

std::string NameAt(const KernelSymbols& table, uint64_t address) {
  KernelSymbols::Symbol symbol;
  return table.Find({address}, &symbol) ? std::string(symbol.name) : "-";
}

constexpr std::string_view kKernel =
    "ffffffff81000000 T _text\nffffffff81000100 T do_thing\nffffffff81001000 T _etext\n"
    "ffffffff81002000 D some_data\nffffffff81003000 D more_data\n";
constexpr std::string_view kModule = "ffffffffc0000000 t mod_work\t[nf_tables]\n";
constexpr std::string_view kBpf =
    "ffffffffc0001800 t bpf_prog_00_count\t[bpf]\n"
    "ffffffffc0100000 t ftrace_trampoline\t[__builtin__ftrace]\n";

// A machine with a kernel, and a cache.
class KernelCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = TestTemporaryDirectory();
    proc_ = root_ + "/proc";
    sys_ = root_ + "/sys";
    directory_ = root_ + "/cache";
    kept_ = directory_ + "/kernel/0badcafe.ksym";
    WriteText(proc_ + "/sys/kernel/random/boot_id", "one\n");
    WriteModules("Live 0xffffffffc0000000");
    WriteText(sys_ + "/module/nf_tables/notes/.note.gnu.build-id", "first build");
    WriteKallsyms(std::string(kKernel) + std::string(kModule) + std::string(kBpf));
  }
  void WriteKallsyms(std::string_view text) { WriteText(proc_ + "/kallsyms", text); }
  void WriteModules(const std::string& state, int users = 1) {
    WriteText(proc_ + "/modules",
              "nf_tables 4096 " + std::to_string(users) + " nft_compat, " + state + " (E)\n");
  }
  KernelSymbols Load() const {
    auto symbols = KernelCache(directory_).OfRunningKernel(build_id_, proc_, sys_);
    EXPECT_TRUE(symbols) << symbols.error().message;
    return *std::move(symbols);
  }
  // A kept table is not whole: it lacks what comes and goes.
  bool IsKept() const { return !Load().whole(); }

  const BuildId build_id_ = *BuildId::FromHex("0badcafe");
  std::string root_, proc_, sys_, directory_, kept_;
};

TEST_F(KernelCacheTest, KeepsTheKernelAndItsModulesForItsOwnerAlone) {
  EXPECT_EQ(NameAt(Load(), 0xffffffffc0001810), "bpf_prog_00_count");
  struct stat status = {};
  ASSERT_EQ(::stat(kept_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  const KernelSymbols kept = Load();
  EXPECT_FALSE(kept.whole());
  EXPECT_EQ(NameAt(kept, 0xffffffff81000180), "do_thing");
  EXPECT_EQ(NameAt(kept, 0xffffffff81002000), "-");
  EXPECT_EQ(NameAt(kept, 0xffffffffc0000010), "mod_work");
  EXPECT_EQ(NameAt(kept, 0xffffffffc0100010), "-");
  EXPECT_EQ(kept.AddressOf("_text")->value, 0xffffffff81000000U);
  EXPECT_EQ(kept.AddressOf("_end"), std::nullopt);
  EXPECT_TRUE(kept.IsInKernelItself({0xffffffff81000fff}));
  EXPECT_FALSE(kept.IsInKernelItself({0xffffffff81001000}));
}

TEST_F(KernelCacheTest, IsNotSureWhatLiesBehindTheLastPageOfAModule) {
  Load();
  const KernelSymbols kept = Load();
  KernelSymbols::Symbol symbol;
  ASSERT_TRUE(kept.Find({0xffffffffc0000fff}, &symbol));
  EXPECT_FALSE(symbol.is_guess);
  ASSERT_TRUE(kept.Find({0xffffffffc0001000}, &symbol));
  EXPECT_EQ(symbol.name, "mod_work");
  EXPECT_TRUE(symbol.is_guess);
}

TEST_F(KernelCacheTest, IsNotUsedAfterAnythingOfTheKernelChanged) {
  Load();
  ASSERT_TRUE(IsKept());
  WriteModules("Live 0xffffffffc0000000", 7);
  EXPECT_TRUE(IsKept()) << "how often a module is used does not matter";

  WriteModules("Live 0xffffffffc0200000");
  EXPECT_FALSE(IsKept()) << "module elsewhere";
  EXPECT_TRUE(IsKept());
  WriteModules("Loading 0xffffffffc0200000");
  EXPECT_FALSE(IsKept()) << "module with its init code";
  EXPECT_TRUE(IsKept());
  WriteText(sys_ + "/module/nf_tables/notes/.note.gnu.build-id", "next build");
  EXPECT_FALSE(IsKept()) << "another build of the module";
  EXPECT_TRUE(IsKept());
  ASSERT_EQ(::unlink((proc_ + "/modules").c_str()), 0);
  EXPECT_FALSE(IsKept()) << "module gone";
  EXPECT_TRUE(IsKept());
  WriteText(proc_ + "/sys/kernel/random/boot_id", "two\n");
  EXPECT_FALSE(IsKept()) << "another boot";
  EXPECT_TRUE(IsKept());
  WriteKallsyms("ffffffff91000000 T _text\nffffffff91000100 T do_thing\n");
  EXPECT_EQ(NameAt(Load(), 0xffffffff91000180), "do_thing") << "loaded elsewhere";
}

TEST_F(KernelCacheTest, KeepsNothingOfAKernelThatHidesItsAddresses) {
  Load();
  WriteKallsyms("0000000000000000 T _text\n0000000000000000 T do_thing\n");
  const auto hidden = KernelCache(directory_).OfRunningKernel(build_id_, proc_, sys_);
  ASSERT_FALSE(hidden);
  EXPECT_EQ(hidden.error().code, ErrorCode::kPermission);

  ASSERT_EQ(::unlink(kept_.c_str()), 0);
  WriteKallsyms(kKernel);
  WriteModules("Live 0x0000000000000000");
  EXPECT_FALSE(IsKept());
  EXPECT_FALSE(PathExists(kept_));
}

TEST_F(KernelCacheTest, KeepsNothingItCannotTellFromAnother) {
  ASSERT_EQ(::unlink((proc_ + "/sys/kernel/random/boot_id").c_str()), 0);
  EXPECT_FALSE(IsKept());
  EXPECT_FALSE(IsKept());
  EXPECT_FALSE(PathExists(kept_));
  const auto nameless = KernelCache(directory_).OfRunningKernel(BuildId(), proc_, sys_);
  ASSERT_TRUE(nameless);
  EXPECT_TRUE(nameless->whole());
  const auto uncached = KernelCache("").OfRunningKernel(build_id_, proc_, sys_);
  ASSERT_TRUE(uncached);
  EXPECT_TRUE(uncached->whole());
}

TEST_F(KernelCacheTest, MakesADamagedTableAgain) {
  Load();
  const std::string good = *ReadFile(kept_);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    WriteText(kept_, bad);
    ASSERT_FALSE(IsKept()) << "byte " << i;
    ASSERT_EQ(*ReadFile(kept_), good) << "byte " << i;
  }
  for (const size_t size : {size_t{0}, size_t{95}, size_t{96}, good.size() - 1}) {
    WriteText(kept_, good.substr(0, size));
    EXPECT_FALSE(IsKept()) << size << " bytes";
  }
  WriteText(kept_, good + "x");
  EXPECT_FALSE(IsKept());
  EXPECT_TRUE(IsKept());
}

TEST_F(KernelCacheTest, DoesNotBelieveATableOfSomeoneElse) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  Load();
  ASSERT_EQ(::chown(kept_.c_str(), 12345, 12345), 0);
  EXPECT_FALSE(IsKept());
  EXPECT_TRUE(IsKept());
}

TEST_F(KernelCacheTest, KeepsCopiesWholeAndSeesThatTheyChanged) {
  const KernelCache cache(directory_);
  const std::string path = root_ + "/kallsyms-copy";
  WriteText(path, std::string(kKernel) + std::string(kModule) + std::string(kBpf));
  for (int time = 0; time < 2; ++time) {
    const auto copy = cache.OfCopy(build_id_, path);
    ASSERT_TRUE(copy) << copy.error().message;
    EXPECT_TRUE(copy->whole());
    EXPECT_EQ(NameAt(*copy, 0xffffffffc0001810), "bpf_prog_00_count");
    EXPECT_EQ(NameAt(*copy, 0xffffffffc0100010), "ftrace_trampoline");
  }
  EXPECT_TRUE(PathExists(directory_ + "/kernel/0badcafe-copy.ksym"));
  EXPECT_FALSE(PathExists(kept_));
  WriteText(path, "ffffffff81000000 T _text\nffffffff81000100 T another_thing\n");
  const auto other = cache.OfCopy(build_id_, path);
  ASSERT_TRUE(other);
  EXPECT_EQ(NameAt(*other, 0xffffffff81000110), "another_thing");
}

TEST_F(KernelCacheTest, AnswersForAKernelThatWasLoadedElsewhereFromAKeptTable) {
  Load();
  KernelSymbols kept = Load();
  ASSERT_FALSE(kept.whole());
  ASSERT_TRUE(kept.MoveTo("_text", {0xffffffffa4000000}));
  EXPECT_EQ(NameAt(kept, 0xffffffffa4000180), "do_thing");
  EXPECT_EQ(NameAt(kept, 0xffffffffc0000010), "-");
  EXPECT_TRUE(kept.whole());
}

TEST_F(KernelCacheTest, SaysOfThisMachineWhatKallsymsSays) {
  const BuildId running = RunningKernelBuildId();
  const auto state = DescribeRunningKernel(running, "/proc", "/sys");
  if (!state) GTEST_SKIP() << "this kernel cannot be told from others, or hides its addresses";
  const KernelCache cache(directory_);
  const auto now = cache.OfRunningKernel(running, "/proc", "/sys");
  ASSERT_TRUE(now);
  const auto kept = cache.OfRunningKernel(running, "/proc", "/sys");
  ASSERT_TRUE(kept);
  if (kept->whole()) GTEST_SKIP() << "modules came or went";
  const auto text = ReadFile("/proc/kallsyms", KernelSymbols::kTextBytesMax);
  ASSERT_TRUE(text);
  size_t asked = 0;
  for (size_t at = 0; at != std::string::npos && at < text->size();) {
    const uint64_t address = std::stoull(text->substr(at, 16), nullptr, 16) + 1;
    KernelSymbols::Symbol from_now, from_kept;
    if (now->Find({address}, &from_now) &&
        (from_now.module.empty() || std::ranges::count(state->modules, from_now.module) > 0)) {
      ASSERT_TRUE(kept->Find({address}, &from_kept)) << from_now.name;
      EXPECT_EQ(from_kept.name, from_now.name);
      EXPECT_EQ(from_kept.module, from_now.module);
      EXPECT_EQ(from_kept.start, from_now.start);
      ++asked;
    }
    const size_t line_end = text->find('\n', at);
    at = line_end == std::string::npos ? line_end : line_end + 1;
  }
  EXPECT_GT(asked, 1000U);
}

}  // namespace
}  // namespace ptarmigan::internal
