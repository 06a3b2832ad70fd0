#!/usr/bin/env python3
"""Shows that tools/tidy finds each kind of offence, and lets pass what only looks like one."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "tidy")
loader = importlib.machinery.SourceFileLoader("tidy", TOOL)
tidy = importlib.util.module_from_spec(importlib.util.spec_from_loader("tidy", loader))
loader.exec_module(tidy)

MARK = "TO" + "DO"
MACHINE = "/wor" + "k/main"


class TidyTest(unittest.TestCase):
    def check(self, files):
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                path = os.path.join(root, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            checker = tidy.Tidy(root)
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                checker.run()
            return output.getvalue().splitlines(), checker.warnings

    def errors(self, name, text):
        return self.check({name: text})[0]

    def test_refuses_type_names_that_say_nothing(self):
        for line in ("class StackManager {", "struct UnwindContext {", "enum class InfoKind {",
                     "struct [[nodiscard]] MapData : Base {", "using ThreadInfo = int;", "class Utils final {",
                     "template <typename T> struct SymbolHelper {"):
            self.assertEqual(len(self.errors("base/a.cc", line + "\n")), 1, line)

    def test_accepts_names_that_mean_something(self):
        for line in ("class PerfDataFile {", "struct DebugInfoReader {", "struct Database {", "class Informer {",
                     "class Data;", "  EventContext(int);", "friend class Contextual;"):
            self.assertEqual(self.errors("base/a.cc", line + "\n"), [], line)

    def test_refuses_unfinished_work_without_an_issue(self):
        self.assertEqual(len(self.errors("base/a.cc", f"// {MARK}: later\n")), 1)
        self.assertEqual(len(self.errors("tools/a.py", f"# {MARK} later\n")), 1)
        self.assertEqual(self.errors("base/a.cc", f"// {MARK}(#12): later\n"), [])
        self.assertEqual(self.errors("base/a.cc", '"/tmp/x.XXXXXX"\n'), [])

    def test_refuses_commented_out_code(self):
        for line in ("// return value;", "// count += 1;", "  // if (x > 1) {", "// Run(a, b);", "// }",
                     "// #include <x>"):
            self.assertEqual(len(self.errors("base/a.cc", line + "\n")), 1, line)

    def test_accepts_prose_and_indented_examples(self):
        for line in ("// Adds one; the caller owns the result.", "//   Result<Fd> fd = Open(path);",
                     "// if the ring is full (see above), waits", "// captured() == kept() + Lost().",
                     "// returns at once; never blocks"):
            self.assertEqual(self.errors("base/a.cc", line + "\n"), [], line)

    def test_refuses_paths_of_a_machine(self):
        self.assertEqual(len(self.errors("docs/a.md", f"see {MACHINE}\n")), 1)
        self.assertEqual(self.errors("docs/a.md", "see /proc/PID/ro" + "ot/tmp and framework/main\n"), [])

    def test_refuses_registry_hosts_in_lock_files(self):
        host = '      "resolved": "https://registry.example.org/x/-/x-1.0.0.tgz",\n'
        self.assertEqual(len(self.errors("web/package-lock.json", host)), 1)
        self.assertEqual(self.errors("web/package-lock.json", '"funding": {"url": "https://example.org"}\n'), [])

    def test_refuses_tests_that_are_skipped_silently_or_disabled(self):
        self.assertEqual(len(self.errors("tests/a_test.cc", "  GTEST_SKIP();\n")), 1)
        self.assertEqual(len(self.errors("tests/a_test.cc", "TEST(A, DISABLED_B) {\n")), 1)
        self.assertEqual(self.errors("tests/a_test.cc", '  GTEST_SKIP() << "no PMU";\n'), [])

    def test_wants_headers_to_be_included_once(self):
        self.assertEqual(len(self.errors("base/a.h", "int x;\n")), 1)
        self.assertEqual(self.errors("base/a.h", "#pragma once\n"), [])

    def test_refuses_large_files(self):
        self.assertEqual(len(self.errors("docs/a.txt", "x" * (tidy.FILE_BYTES_MAX + 1))), 1)
        self.assertEqual(self.errors("docs/a.txt", "x" * tidy.FILE_BYTES_MAX), [])

    def test_warns_of_long_functions_and_files_at_their_limits(self):
        def function_of(lines):
            return "void F() {\n" + "  x();\n" * (lines - 2) + "}\n"
        mirror = {"tests/base/a_test.cc": ""}
        _, warnings = self.check({"base/a.cc": function_of(tidy.FUNCTION_LINES_MAX), **mirror})
        self.assertEqual(warnings, [])
        _, warnings = self.check({"base/a.cc": function_of(tidy.FUNCTION_LINES_MAX + 1), **mirror})
        self.assertEqual(len(warnings), 1)
        _, warnings = self.check({"base/a.cc": "int x;\n" * (tidy.FILE_LINES_MAX + 1), **mirror})
        self.assertEqual(len(warnings), 1)

    def test_measures_functions_in_classes_and_behind_wrapped_signatures(self):
        lines = ["class A {", " public:", "  explicit A(int x)", "      : x_(x) {", "    y();", "  }",
                 "  void B(int x,", "         int y) const override {", "    if (x) {", "    }", "  }", "};",
                 "int C(const D& d,", "      E e) {", "}", "enum class F {", "  kG,", "};",
                 "const H k[] = {", "};", "auto I() -> int {", "}"]
        self.assertEqual(list(tidy.function_ranges(lines)), [(3, 6), (7, 11), (13, 15), (21, 22)])

    def test_a_namespace_is_not_a_long_function(self):
        text = "namespace x {\n" + "int y;\n" * 100 + "}  // namespace x\n"
        _, warnings = self.check({"base/a.cc": text, "tests/base/a_test.cc": ""})
        self.assertEqual(warnings, [])

    def test_measures_no_function_inside_the_call_of_a_macro(self):
        lines = ["INSTANTIATE_TEST_SUITE_P(Both, A, B(),", "                         [](const auto& c) {", "                           return c;",
                 "                         });", "", "TEST_P(A, Works) {", "}"]
        self.assertEqual(list(tidy.function_ranges(lines)), [(6, 7)])

    def test_warns_of_a_source_without_a_test(self):
        _, warnings = self.check({
            "base/a.cc": "", "base/internal/b.cc": "", "base/c_more.cc": "", "base/d.cc": "", "cli/e.cc": "",
            "tests/base/f_test.cc": '#include "base/d.h"\n', "tests/base/c_test.cc": ""})
        self.assertEqual(len(warnings), 1)
        self.assertIn("base/a.cc", warnings[0])


if __name__ == "__main__":
    unittest.main()
