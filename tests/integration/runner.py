# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of a file, several beside each other where it says so: most of a test is waiting."""
import concurrent.futures
import sys
import threading
import time
import unittest


class Beside:
    """Runs tests several at a time, each on a thread of its own, and shows each one's outcome and time as it ends."""

    def __init__(self, at_once):
        self.at_once, self.lock = at_once, threading.Lock()

    def run(self, suite):
        cases = list(self._cases(suite))
        for case in cases:
            if type(case).setUpClass.__func__ is not unittest.TestCase.setUpClass.__func__:
                raise AssertionError(f"{type(case).__name__} has things in common that its tests cannot share at once")
        with concurrent.futures.ThreadPoolExecutor(self.at_once) as pool:
            results = list(pool.map(self._run_one, cases))
        whole = unittest.TestResult()
        for result in results:
            for name in ("failures", "errors", "skipped", "expectedFailures", "unexpectedSuccesses"):
                getattr(whole, name).extend(getattr(result, name))
            whole.testsRun += result.testsRun
        for case, text in whole.failures + whole.errors:
            print(f"{'=' * 70}\nFAILED: {case}\n{text}", file=sys.stderr)
        verdict = "OK" if whole.wasSuccessful() else "FAILED"
        print(f"ran {whole.testsRun} tests, {self.at_once} at a time: {verdict}", file=sys.stderr)
        return whole

    def _cases(self, suite):
        for part in suite:
            if isinstance(part, unittest.TestSuite):
                yield from self._cases(part)
            else:
                yield part

    def _run_one(self, case):
        result, begin = unittest.TestResult(), time.monotonic()
        case.run(result)
        said = "ok" if result.wasSuccessful() else "FAILED"
        said = "skipped" if result.skipped else said
        with self.lock:
            print(f"{case} ... {said}, {time.monotonic() - begin:.1f} s", file=sys.stderr, flush=True)
        return result


def main(at_once=1):
    """Runs the tests of the calling file. Exit status 77, which ctest shows as skipped, when one could not run.

    at_once: so many beside each other, where they mostly wait and measure no times that others could make longer."""
    runner = Beside(at_once) if at_once > 1 else None
    result = unittest.main(exit=False, verbosity=2, testRunner=runner).result
    for test, reason in result.skipped:
        print(f"SKIPPED {test}: {reason}")
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
