#!/usr/bin/env python3
"""Shows that layers.py finds each kind of offence, and nothing else."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import layers  # noqa: E402

TABLE = """
set(PTARMIGAN_ALLOW_base "")
set(PTARMIGAN_ALLOW_model base)
set(PTARMIGAN_ALLOW_decode base model)
set(PTARMIGAN_ALLOW_hw base model)
"""


class LayersTest(unittest.TestCase):
    def scan(self, files, table=TABLE):
        with tempfile.TemporaryDirectory() as root:
            files = {"cmake/Room.cmake": table, "base/file.h": "", "base/internal/secret.h": "",
                     "model/event.h": "", "hw/ring.h": "", **files}
            for name, text in files.items():
                path = os.path.join(root, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            return layers.scan(root).offences

    def test_accepts_what_the_table_allows(self):
        self.assertEqual(self.scan({
            "decode/a.cc": '#include "decode/a.h"\n#include "base/file.h"\n#include <zstd.h>\n',
            "decode/a.h": '#include "model/event.h"\n#include <vector>\n#include <linux/perf_event.h>\n',
            "tests/decode/a_test.cc": '#include "hw/ring.h"\n#include <gtest/gtest.h>\n',
            "base/a.cc": '#include "base/internal/secret.h"\n',
            "tests/base/a_test.cc": '#include "base/internal/secret.h"\n'}), [])

    def test_refuses_a_room_that_the_table_does_not_allow(self):
        offences = self.scan({"decode/a.cc": '\n#include "hw/ring.h"\n'})
        self.assertEqual(len(offences), 1)
        self.assertIn("decode/a.cc:2: room 'decode' may not include room 'hw'", offences[0])

    def test_refuses_an_include_upwards(self):
        self.assertEqual(len(self.scan({"base/a.h": '#include "model/event.h"\n'})), 1)

    def test_refuses_private_headers_of_others(self):
        offences = self.scan({"decode/a.cc": '#include "base/internal/secret.h"\n',
                              "tests/decode/a_test.cc": '#include "base/internal/secret.h"\n'})
        self.assertEqual(len(offences), 2)
        self.assertIn("private to room 'base'", offences[0])

    def test_refuses_libraries_in_public_headers_only(self):
        offences = self.scan({"decode/a.h": "#include <zstd.h>\n#include <elfutils/libdw.h>\n",
                              "decode/internal/b.h": "#include <zstd.h>\n",
                              "base/c.h": "#include <fmt/core.h>\n"})
        self.assertEqual(len(offences), 2)
        self.assertIn("third-party <zstd.h>", offences[0])

    def test_refuses_test_code_in_a_room(self):
        offences = self.scan({"decode/a.cc": '#include "tests/support/x.h"\n'})
        self.assertEqual(len(offences), 1)

    def test_refuses_headers_that_are_not_named_from_the_root(self):
        self.assertEqual(len(self.scan({"decode/a.cc": '#include "a.h"\n'})), 1)
        self.assertEqual(len(self.scan({"decode/a.cc": "#include <base/file.h>\n"})), 1)

    def test_refuses_headers_that_do_not_exist(self):
        self.assertIn("does not exist", self.scan({"decode/a.cc": '#include "base/gone.h"\n'})[0])

    def test_refuses_a_cycle_in_the_table(self):
        offences = self.scan({}, "set(PTARMIGAN_ALLOW_base model)\nset(PTARMIGAN_ALLOW_model base)\n")
        self.assertIn("cycle: base -> model -> base", offences[0])

    def test_refuses_an_unknown_room_in_the_table(self):
        with self.assertRaises(SystemExit):
            self.scan({}, "set(PTARMIGAN_ALLOW_base nowhere)\n")


if __name__ == "__main__":
    unittest.main()
