# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check attach on the double: its parts reach their ends, a part that takes too long ends at its bound."""
import os
import subprocess
import sys
import tempfile
import unittest

from harness import BUILD, ROOT, main


class GpuCheckTest(unittest.TestCase):
    def run_section(self, *sections, **environment):
        """(exit status, rows of the table at the end, all that was said)"""
        with tempfile.TemporaryDirectory() as logs:
            words = [sys.executable, ROOT / "scripts" / "gpu-check", "-double", *sections]
            done = subprocess.run(words, env={**os.environ, "GPU_CHECK_LOGS": logs, "PILLION_BUNDLE": str(BUILD),
                                              **environment}, capture_output=True, text=True, timeout=500)
        rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
        return done.returncode, rows, done.stdout + done.stderr

    def test_attach(self):
        parts = ("graphs", "flood", "profiler", "cycles", "record", "devices", "growth")
        status, rows, said = self.run_section(*(f"attach.{part}" for part in parts), GPU_CHECK_CYCLES="2")
        self.assertEqual(status, 0, said)
        for part in parts:
            self.assertTrue(any(f"part {part}" in row[1] for row in rows), said)
        for text in ("alive after 2 attach/detach cycles", "results", "torch.profiler after our detach"):
            self.assertTrue(any(text in row[1] and row[-1].startswith("ok") for row in rows), f"{text} in: {said}")

    def test_python(self):
        status, rows, said = self.run_section("python")
        self.assertEqual(status, 0, said)
        for mode in ("inference", "training", "compiled"):
            self.assertTrue(any(f"{mode}: snapshots on threads" in row[1] and row[-1].startswith("ok") for row in rows),
                            said)
        for mode in ("launches", "training"):
            self.assertTrue(any(f"{mode}: step with Python frames" in row[1] for row in rows), said)
        self.assertFalse(any("broke" in row[1] for row in rows), said)

    def test_a_part_ends_at_its_bound(self):
        status, rows, said = self.run_section("attach.graphs", GPU_CHECK_CYCLES="1000", GPU_CHECK_ATTACH_SECONDS="12")
        self.assertEqual(status, 1, said)
        self.assertTrue(any("OutOfTime" in row[2] and "MISSED" in row[-1] for row in rows), said)

    def test_results_that_differ_are_missed(self):
        status, rows, said = self.run_section("attach.graphs", GPU_CHECK_CYCLES="1", GPU_CHECK_SPOIL="3")
        self.assertEqual(status, 1, said)
        missed = [row[1] for row in rows if "MISSED" in row[-1]]
        self.assertEqual(len(missed), 3, said)
        self.assertTrue(all(text.endswith("results") for text in missed), missed)


if __name__ == "__main__":
    main()
