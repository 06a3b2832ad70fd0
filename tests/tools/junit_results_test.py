#!/usr/bin/env python3
"""Shows that tools/junit-results counts what ctest reports, and never turns a failure into nothing."""

import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "junit-results")
loader = importlib.machinery.SourceFileLoader("junit_results", TOOL)
junit_results = importlib.util.module_from_spec(importlib.util.spec_from_loader("junit_results", loader))
loader.exec_module(junit_results)

# As CMake 3.25 writes it.
PASSED = '<testcase name="a" classname="a" time="0.1" status="run"><system-out>ok</system-out></testcase>'
FAILED = ('<testcase name="b" classname="b" time="0.1" status="fail"><failure message="Failed"/>'
          "<system-out>x</system-out></testcase>")
SKIPPED = ('<testcase name="c" classname="c" time="0.1" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
           "<system-out>[ RUN      ] C.D\n/src/c_test.cc:7: Skipped\nno PMU on this host\n\n[  SKIPPED ] C.D</system-out>"
           "</testcase>")


class JunitResultsTest(unittest.TestCase):
    def results(self, content, exit_code=0):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "report.xml")
            if content is not None:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(content)
            return junit_results.results("dev", exit_code, path)

    def suite(self, *cases):
        return "<testsuite>" + "".join(cases) + "</testsuite>"

    def test_tells_passed_failed_and_skipped_apart(self):
        self.assertEqual(self.results(self.suite(PASSED, FAILED, SKIPPED), 8),
                         [("dev", "passed", "a", ""), ("dev", "failed", "b", "Failed"),
                          ("dev", "skipped", "c", "no PMU on this host")])

    def test_says_when_a_skipped_test_gave_no_reason(self):
        self.assertEqual(self.results(self.suite(SKIPPED.replace("Skipped\nno PMU on this host", "gone")))[0][3],
                         "no reason given")

    def test_takes_the_reason_that_nodes_test_runner_gives(self):
        output = "ok 1 - draws\nok 2 - zooms # SKIP chromium is not there; install it\n  ---\n  duration_ms: 0.1"
        case = SKIPPED.replace("/src/c_test.cc:7: Skipped\nno PMU on this host\n", output)
        self.assertEqual(self.results(self.suite(case))[0][3], "chromium is not there; install it")
        case = SKIPPED.replace("/src/c_test.cc:7: Skipped\nno PMU on this host\n", "TAP version 13\n1..0 # SKIP no QEMU")
        self.assertEqual(self.results(self.suite(case))[0][3], "no QEMU")

    def test_names_a_parameterised_test_once(self):
        case = PASSED.replace('name="a"', 'name="Small/A.B/x_y  # GetParam() = 16-byte object &lt;A0-C9&gt;"')
        self.assertEqual(self.results(self.suite(case)), [("dev", "passed", "Small/A.B/x_y", "")])

    def test_a_missing_broken_or_empty_report_is_a_failure(self):
        for content in (None, "", "<testsuite>", self.suite()):
            self.assertEqual([line[1] for line in self.results(content)], ["failed"], content)

    def test_an_exit_code_that_the_report_does_not_explain_is_a_failure(self):
        self.assertEqual([line[1] for line in self.results(self.suite(PASSED), 8)], ["passed", "failed"])


if __name__ == "__main__":
    unittest.main()
