# SPDX-License-Identifier: Apache-2.0
"""usage: PYTHON frames.py LIBRARY [CASE...]: compares the shim's Python frames with the interpreter's own, case by case.

Prints one line of JSON: {"version", "state", "cases": {name: "" or what was wrong or "SKIPPED: why"}}.
"""
import atexit
import ctypes
import json
import os
import sys

import core
import walker

import cases_language  # noqa: F401
import cases_threads  # noqa: F401
import cases_bounds  # noqa: F401  the last ones: the order is that of the imports
from core import CASES, PROBLEMS, STACK


def at_exit():
    print(json.dumps({"version": sys.version.split()[0], "state": core.W.state, "probes": core.PROBES, "cases": RESULTS}), flush=True)


class Late:
    """Lives until the interpreter ends."""

    def __init__(self):
        self.walk, self.stack, self.byref, self.write = core.W.walk, STACK, ctypes.byref, os.write

    def __del__(self):
        self.stack.count = self.stack.flags = 99
        self.walk(self.byref(self.stack))
        # Says so only when it came after the beginning of the end.
        if self.stack.count == 0 and self.stack.flags == 0:
            self.write(2, b"finalizing: no frames\n")


RESULTS = {}


def main():
    wanted = sys.argv[2:]
    for name, function in CASES.items():
        if wanted and name not in wanted:
            continue
        PROBLEMS.clear()
        skipped = function()
        RESULTS[name] = "; ".join(PROBLEMS) or skipped or ""
    atexit.register(at_exit)


if core.W.state == walker.IN_FORCE:
    main()
    sys.pillion_late = Late()
else:
    print(json.dumps({"version": sys.version.split()[0], "state": core.W.state, "probes": 0, "cases": {}}))
