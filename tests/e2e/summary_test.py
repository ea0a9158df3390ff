#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Does the count at the end of scripts/test tell the truth, above all about skips?"""

import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.environ["PILLION_SOURCE"], "scripts", "ctest_summary.py")
EXPECTED = "gpu_.*  no-gpu  needs a GPU\n"
RUN, FAIL = '<testcase name="{}" status="run"/>', '<testcase name="{}" status="fail"><failure/></testcase>'
SKIP = '<testcase name="{}" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>'
NOT_RUN = '<testcase name="{}" status="notrun"/>'


class SummaryTest(unittest.TestCase):
    def counts(self, cases, conditions="none"):
        with tempfile.TemporaryDirectory() as folder:
            expected, report = os.path.join(folder, "expected"), os.path.join(folder, "report.xml")
            with open(expected, "w", encoding="utf-8") as file:
                file.write(EXPECTED)
            with open(report, "w", encoding="utf-8") as file:
                file.write(f"<testsuite>{''.join(cases)}</testsuite>")
            done = subprocess.run(
                [sys.executable, SCRIPT, expected, conditions, report], check=True, capture_output=True, text=True
            )
            return tuple(map(int, done.stdout.splitlines()[-1].split()))

    def test_passes_and_failures_are_counted(self):
        self.assertEqual(self.counts([RUN.format("a"), RUN.format("b"), FAIL.format("c")]), (2, 1, 0))

    def test_a_skip_is_a_failure_unless_this_machine_may_skip_it(self):
        self.assertEqual(self.counts([SKIP.format("gpu_cost")]), (0, 1, 0))
        self.assertEqual(self.counts([SKIP.format("gpu_cost")], "no-cupti,no-gpu"), (0, 0, 1))
        self.assertEqual(self.counts([SKIP.format("unit_gpu_cost")], "no-gpu"), (0, 1, 0))

    def test_a_test_whose_program_is_missing_is_a_failure(self):
        self.assertEqual(self.counts([NOT_RUN.format("a")]), (0, 1, 0))

    def test_a_report_without_tests_is_a_failure(self):
        self.assertEqual(self.counts([]), (0, 1, 0))


if __name__ == "__main__":
    unittest.main(verbosity=2)
