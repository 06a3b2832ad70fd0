#include "export/autofdo.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/export/code_lines_fake.h"

namespace ptarmigan {
namespace {

constexpr FileVaddr kOutside = ObjectBranches::kOutside;

std::string Written(const ObjectBranches& branches, CodeLines* lines) {
  std::string text;
  StringSink sink(&text);
  const auto written = WriteAutofdo(branches, lines, &sink);
  return written.has_value() ? text : "error: " + written.error().message;
}

// main (line 10) at 0x100..0x140 with `inner` (line 3) inlined at 0x110..0x120, and `callee` (line 30) at 0x200..0x220.
class Autofdo : public testing::Test {
 protected:
  void SetUp() override {
    main_ = lines_.AddFunction("main", 10);
    inner_ = lines_.AddFunction("inner", 3);
    callee_ = lines_.AddFunction("callee", 30);
    lines_.rows = {{0x100, {{main_, 11, 0}}},
                   {0x110, {{inner_, 4, 0}, {main_, 12, 4}}},
                   {0x120, {{main_, 13, 0}}},
                   {0x130, {{main_, 11, 0}}},
                   {0x140, {}},
                   {0x200, {{callee_, 31, 0}}},
                   {0x220, {}}};
    lines_.pieces = {{{0x100}, {0x140}, main_}, {{0x200}, {0x220}, callee_}};
    lines_.symbols = {{.name = "main", .start = {0x100}, .size_bytes = 0x40},
                      {.name = "callee", .start = {0x200}, .size_bytes = 0x20}};
  }

  FakeCodeLines lines_;
  uint32_t main_ = 0;
  uint32_t inner_ = 0;
  uint32_t callee_ = 0;
  ObjectBranches branches_;
};

TEST_F(Autofdo, CountsLinesByTheirMostExecutedCode) {
  branches_.blocks = {{{0x100}, {0x11e}, {0x120}, 5}, {{0x110}, {0x12e}, {0x130}, 2}};
  // main: 5 * 0x20 + 2 * 0x20; inner: 5 * 0x10 + 2 * 0x10. Line 11 has 5 at 0x100 and 0 at 0x130.
  EXPECT_EQ(Written(branches_, &lines_),
            "main:224:0\n"
            " 1: 5\n"
            " 3: 2\n"
            " 2.2: inner:112\n"
            "  1: 7\n");
}

TEST_F(Autofdo, LeavesOutFunctionsThatDidNotRun) {
  branches_.blocks = {{{0x200}, {0x210}, {0x212}, 3}};
  EXPECT_EQ(Written(branches_, &lines_), "callee:54:0\n 1: 3\n");
}

TEST_F(Autofdo, CountsEntriesAndCalls) {
  branches_.blocks = {{{0x120}, {0x12e}, {0x130}, 4}, {{0x200}, {0x21f}, {0x220}, 1}};
  branches_.edges = {{{0x12e}, {0x200}, 9, 0},   // a call: the line ran at least as often
                     {{0x112}, {0x200}, 2, 0},   // from inlined code
                     {kOutside, {0x100}, 3, 0},  // from another object
                     {{0x21f}, {0x130}, 8, 0},   // a return enters no function
                     {{0x12e}, kOutside, 5, 0}};
  EXPECT_EQ(Written(branches_, &lines_),
            "main:64:3\n"
            " 1: 0\n"
            " 3: 9 callee:9\n"
            " 2.2: inner:0\n"
            "  1: 0 callee:2\n"
            "callee:32:11\n"
            " 1: 1\n");
}

TEST_F(Autofdo, TakesOnlyTheOwnStartOfASplitFunctionAsItsEntry) {
  lines_.pieces[1].function = main_;  // main.cold
  lines_.rows[5].frames = {{main_, 20, 0}};
  lines_.symbols[1].name = "main.cold";
  branches_.blocks = {{{0x100}, {0x10e}, {0x110}, 1}};
  branches_.edges = {{{0x10e}, {0x200}, 7, 0}, {kOutside, {0x100}, 1, 0}};
  EXPECT_EQ(Written(branches_, &lines_),
            "main:16:1\n"
            " 1: 1\n"
            " 3: 0\n"
            " 10: 0\n"
            " 2.2: inner:0\n"
            "  1: 0\n");
}

TEST_F(Autofdo, ReadsTheComponentsOfDiscriminators) {
  // Base discriminator 3, duplication factor 2: 3 << 1 | 2 << 8.
  lines_.rows[2].frames[0].discriminator = 3 << 1 | 2 << 8;
  // A base discriminator of more than five bits: 0x21 in the long form.
  lines_.rows[3].frames[0].discriminator = (0x20 | 0x01 | (0x21 & 0xfe0) << 1) << 1;
  branches_.blocks = {{{0x120}, {0x13e}, {0x140}, 5}};
  const std::string text = Written(branches_, &lines_);
  EXPECT_NE(text.find(" 3.3: 10\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" 1.33: 5\n"), std::string::npos) << text;
  lines_.flow_sensitive = true;
  const std::string whole = Written(branches_, &lines_);
  EXPECT_NE(whole.find(" 3.518: 5\n"), std::string::npos) << whole;
}

TEST_F(Autofdo, StripsWhatTheLinkerAppendedToNames) {
  lines_.functions[callee_].first = "_ZL6calleev.llvm.1234";
  lines_.functions[inner_].first = "inner.__uniq.77.part.0";
  branches_.blocks = {{{0x100}, {0x11e}, {0x120}, 1}, {{0x200}, {0x21f}, {0x220}, 1}};
  const std::string text = Written(branches_, &lines_);
  EXPECT_TRUE(text.starts_with("_ZL6calleev:32:0\n")) << text;
  EXPECT_NE(text.find(" 2.2: inner.__uniq.77:16\n"), std::string::npos) << text;
}

TEST_F(Autofdo, LeavesOutInitializersThatShareTheirNames) {
  lines_.functions[callee_].first = "__cxx_global_var_init.4";
  branches_.blocks = {{{0x100}, {0x10e}, {0x110}, 1}, {{0x200}, {0x21f}, {0x220}, 1}};
  EXPECT_EQ(Written(branches_, &lines_).find("__cxx"), std::string::npos);
}

TEST_F(Autofdo, CountsOffsetsModuloSixteenBits) {
  lines_.rows[2].frames[0].line = 0;  // code of no line, as clang makes it
  branches_.blocks = {{{0x120}, {0x12e}, {0x130}, 6}};
  EXPECT_NE(Written(branches_, &lines_).find(" 65526: 6\n"), std::string::npos);
}

TEST_F(Autofdo, SaturatesInsteadOfWrapping) {
  branches_.blocks = {{{0x120}, {0x12e}, {0x130}, UINT64_MAX / 2}};
  EXPECT_NE(Written(branches_, &lines_).find("main:18446744073709551615:0\n"), std::string::npos);
}

TEST_F(Autofdo, CountsFunctionsOfTheSymbolTableWithoutDebugInformation) {
  lines_.rows.clear();
  lines_.pieces.clear();
  branches_.blocks = {{{0x120}, {0x12e}, {0x130}, 6}, {{0x300}, {0x30e}, {0x310}, 4}};
  branches_.edges = {{{0x12e}, {0x200}, 9, 0}, {{0x21f}, {0x130}, 8, 0}};
  std::string text;
  StringSink sink(&text);
  const auto summary = WriteAutofdo(branches_, &lines_, &sink);
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(text, "main:96:0\ncallee:0:9\n");
  EXPECT_TRUE(summary->by_symbols);
  EXPECT_EQ(summary->blocks_without_function, 4U);
}

TEST_F(Autofdo, SaysWhatToDoWithoutAnyNames) {
  lines_.rows.clear();
  lines_.pieces.clear();
  lines_.symbols.clear();
  branches_.path = "/bin/a";
  branches_.blocks = {{{0x120}, {0x12e}, {0x130}, 6}};
  const std::string error = Written(branches_, &lines_);
  EXPECT_TRUE(error.starts_with("error: /bin/a: neither debug information nor symbols")) << error;
}

TEST_F(Autofdo, CountsExecutionsThatDebugInformationDoesNotKnow) {
  branches_.blocks = {{{0x120}, {0x12e}, {0x130}, 6}, {{0x300}, {0x30e}, {0x310}, 4}};
  std::string text;
  StringSink sink(&text);
  const auto summary = WriteAutofdo(branches_, &lines_, &sink);
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(summary->functions, 1U);
  EXPECT_EQ(summary->blocks_without_function, 4U);
}

}  // namespace
}  // namespace ptarmigan
