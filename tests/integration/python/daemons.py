# SPDX-License-Identifier: Apache-2.0
"""usage: PYTHON daemons.py LIBRARY: ends while daemon threads are walking."""
import ctypes
import sys
import threading

import walker

W = walker.Walker(sys.argv[1])
WALKED = threading.Barrier(5)


def walk_for_ever():
    stack = walker.Stack()
    W.walk(ctypes.byref(stack))
    WALKED.wait()
    walk, reference = W.walk, ctypes.byref(stack)
    while True:
        walk(reference)


for _ in range(4):
    threading.Thread(target=walk_for_ever, daemon=True).start()
WALKED.wait()
