# SPDX-License-Identifier: Apache-2.0
"""What the cases share: the walker, how a case is written, how a stack is compared."""
import collections
import ctypes
import sys
import traceback

import walker
from walker import PYTHON, UNPLACED, Stack, seen_by_python

W = walker.Walker(sys.argv[1])
STACK = Stack()
CASES = collections.OrderedDict()
PROBLEMS = []
PROBES = 0


def case(function):
    CASES[function.__name__] = function
    return function


def problem(text):
    if len(PROBLEMS) < 5:
        PROBLEMS.append(text)


def same(stack, want, what, flags=PYTHON):
    """Compares a stack that was taken with what Python has seen at the same place."""
    global PROBES
    PROBES += 1
    W.read_records()
    have = W.named(stack.frames[:stack.count])
    if have != want:
        first = next((i for i, (a, b) in enumerate(zip(have, want)) if a != b), min(len(have), len(want)))
        problem(f"{what}: {len(have)} frames, want {len(want)}; at {first}: {have[first:first + 2]}, "
                f"want {want[first:first + 2]}")
    if stack.flags != flags:
        problem(f"{what}: flags {stack.flags}, want {flags}")
    check_entries(stack, what)


def check_entries(stack, what):
    """Addresses of native frames: some, and each above the one before, as the stack grows down."""
    entries = [f.entry for f in stack.frames[:stack.count] if f.entry]
    if sys.version_info[:2] <= (3, 9):
        if entries != [UNPLACED] * stack.count:
            problem(f"{what}: entries {entries}")
        return
    if sys.version_info[:2] == (3, 10) and len(entries) != stack.count:
        problem(f"{what}: {len(entries)} entries of {stack.count} frames")
    if not entries or entries != sorted(set(entries)) or entries[0] <= UNPLACED:
        problem(f"{what}: entries {entries}")


def check(what, walk=None):
    walk = walk or W.walk
    # One line, so that both see the same one; the second frame is the caller's.
    _, want = walk(ctypes.byref(STACK)), seen_by_python(sys._getframe())
    same(STACK, want, what)


def summary():
    """traceback's own walk, to know that seen_by_python() says the same."""
    return [(f.name, f.filename, f.lineno) for f in reversed(traceback.extract_stack(sys._getframe(1)))]


def dive(depth, end):
    if depth == 0:
        return end()
    return dive(depth - 1, end)


def execute(text, name, names=None):
    exec(compile(text, name, "exec"), dict(names or {}, check=check))


def create(interpreters):
    """A sub-interpreter that may load any extension."""
    if sys.version_info >= (3, 13):
        return interpreters.create("legacy")
    return interpreters.create(isolated=False)
