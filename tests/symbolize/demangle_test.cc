#include "symbolize/demangle.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/str_format.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

TEST(Demangle, ReadsEveryScheme) {
  // C++, Itanium ABI.
  EXPECT_EQ(Demangle("_ZN3foo3barEi"), "foo::bar(int)");
  EXPECT_EQ(Demangle("_ZNSt6vectorIiSaIiEE9push_backERKi"),
            "std::vector<int, std::allocator<int> >::push_back(int const&)");
  EXPECT_EQ(Demangle("_ZN3foo3barEi.cold"), "foo::bar(int) [clone .cold]");
  // Rust, legacy: without the hash, also behind LLVM's suffix.
  EXPECT_EQ(Demangle("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE"),
            "core::fmt::Formatter::pad");
  EXPECT_EQ(Demangle("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE.llvm.8312"),
            "core::fmt::Formatter::pad");
  const std::string implementation = "_$LT$$RF$T$u20$as$u20$core..fmt..Debug$GT$";
  EXPECT_EQ(
      Demangle(StrFormat("_ZN{}{}3fmt17h0123456789abcdefE", implementation.size(), implementation)),
      "<&T as core::fmt::Debug>::fmt");
  // Rust, v0.
  EXPECT_EQ(Demangle("_RNvNtCs1234_7mycrate3foo3bar"), "mycrate::foo::bar");
  EXPECT_EQ(Demangle("_RINvNtC3std3mem8align_ofdE"), "std::mem::align_of::<f64>");
  // D.
  EXPECT_EQ(Demangle("_D3std5stdio4File5writeMFZv"), "std.stdio.File.write()");
}

TEST(Demangle, LeavesOtherNamesAlone) {
  for (const std::string_view name :
       {"", "main", "_", "_Z", "_start", "main.main", "_Dl_relocate", "_Znonsense_", "_R", "_RNv",
        "_D3", "Z3fooi", "_ZN4core3fmt"}) {
    EXPECT_EQ(Demangle(name), name);
  }
}

// Two demanglers made by others, asked about thousands of real names: where they agree, so must we.
TEST(Demangle, EqualsBothFiltersWhereTheyAgree) {
  const std::string llvm = HaveProgram("llvm-cxxfilt-19") ? "llvm-cxxfilt-19" : "llvm-cxxfilt";
  if (!HaveProgram("c++filt") || !HaveProgram(llvm) || !HaveProgram("nm")) {
    GTEST_SKIP() << "c++filt, llvm-cxxfilt or nm is not installed";
  }
  const std::string directory = TestTemporaryDirectory();
  const std::string names_path = JoinPath(directory, "names");
  // The C++ library of this very process.
  const CommandResult listed = RunCommand(StrFormat(
      "lib=$(ldd /proc/{}/exe | sed -n 's/.*libstdc++.*=> \\([^ ]*\\).*/\\1/p'); "
      "nm -D --defined-only $lib | awk '{{print $3}}' | sed 's/@.*//' | grep '^_Z' | sort -u > {}",
      ::getpid(), names_path));
  ASSERT_EQ(listed.exit_code, 0) << listed.err;
  const auto split = [](const std::string& text) {
    std::vector<std::string> lines;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      lines.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  };
  const auto names = split(*ReadFile(names_path));
  const auto gnu = split(RunCommand(StrFormat("c++filt < {}", names_path)).out);
  const auto other = split(RunCommand(StrFormat("{} < {}", llvm, names_path)).out);
  ASSERT_GT(names.size(), 3000U);
  ASSERT_EQ(gnu.size(), names.size());
  ASSERT_EQ(other.size(), names.size());
  size_t compared = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (gnu[i] != other[i]) continue;
    ++compared;
    EXPECT_EQ(Demangle(names[i]), gnu[i]) << names[i];
  }
  EXPECT_GT(compared, 1000U);
}

TEST(Demangle, StopsAtTheOutputBound) {
  const auto start = std::chrono::steady_clock::now();
  // Each parameter is a pair of the one before: the 40th would be a million million bytes long. The substitutions are
  // S_ = A, S0_ = A<int>, and for each pair one for its name and one for itself.
  std::string name = "_Z1f1AIiE";
  const auto substitution = [](int index) {
    constexpr std::string_view kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    std::string digits;
    do {
      digits.insert(digits.begin(), kDigits[static_cast<size_t>(index % 36)]);
      index /= 36;
    } while (index != 0);
    return "S" + digits + "_";
  };
  for (int i = 0; i < 40; ++i) {
    const std::string last = substitution(2 * i);
    name += "St4pairI" + last + last + "E";
  }
  const std::string text = Demangle(name);
  EXPECT_EQ(text.size(), kDemangledBytesMax + 3) << text.substr(0, 200);
  EXPECT_TRUE(text.ends_with("..."));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(Demangle, StopsRustBackReferencesAtTheOutputBound) {
  // T0 = (u8, u8), T1 = (T0, T0), …: back references count from the byte behind "_R".
  std::string body = "INvC1a1f";
  std::string type = "ThhE";
  size_t at = body.size();
  body += type;
  const auto base62 = [](uint64_t value) {
    constexpr std::string_view kDigits =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    if (value == 0) return std::string("_");
    --value;
    std::string digits;
    do {
      digits.insert(digits.begin(), kDigits[value % 62]);
      value /= 62;
    } while (value != 0);
    return digits + "_";
  };
  for (int i = 0; i < 40; ++i) {
    const std::string reference = "B" + base62(at);
    at = body.size();
    body += "T" + reference + reference + "E";
  }
  const auto start = std::chrono::steady_clock::now();
  const std::string text = Demangle("_R" + body + "E");
  EXPECT_LE(text.size(), kDemangledBytesMax + 3);
  EXPECT_TRUE(text.ends_with("...")) << text.substr(0, 200);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(Demangle, DoesNotExpandDBackReferencesWithoutBound) {
  // Associative arrays whose key and value are both "the type before": H Qa Qb.
  std::string name = "_D1a1fFHii";
  size_t before = name.size() - 3;
  for (int i = 0; i < 60; ++i) {
    const size_t at = name.size();
    const auto reference = [&](size_t from) {
      const size_t distance = from - before;
      std::string digits(1, static_cast<char>('a' + distance % 26));
      if (distance >= 26)
        digits.insert(digits.begin(), static_cast<char>('A' + distance / 26 % 26));
      return "Q" + digits;
    };
    name += "H";
    name += reference(name.size());
    name += reference(name.size());
    before = at;
  }
  name += "Zv";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_LE(Demangle(name).size(), kDemangledBytesMax + 3);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(Demangle, TakesNamesUpToTheInputBoundOnly) {
  const auto name_of = [](size_t bytes) {
    // _Z<n><identifier>v: three digits and more for the length.
    const size_t identifier = bytes - 2 - 4 - 1;
    return StrFormat("_Z{}{}v", identifier, std::string(identifier, 'x'));
  };
  const std::string longest = name_of(kMangledBytesMax);
  ASSERT_EQ(longest.size(), kMangledBytesMax);
  EXPECT_TRUE(Demangle(longest).ends_with("x()"));
  const std::string too_long = name_of(kMangledBytesMax + 1);
  EXPECT_EQ(Demangle(too_long), too_long);
}

TEST(Demangle, SurvivesTheDeepestNestingOfTheLongestName) {
  for (const std::string_view prefix : {"P", "N1a", "I", "F", "DTcl", "LZ", "_Z", "Xad"}) {
    std::string name = "_Z1f";
    while (name.size() + prefix.size() <= kMangledBytesMax) name += prefix;
    EXPECT_LE(Demangle(name).size(), kMangledBytesMax + kDemangledBytesMax);
  }
}

}  // namespace
}  // namespace ptarmigan
