# SPDX-License-Identifier: Apache-2.0
"""usage: PYTHON cost.py LIBRARY: ns of a walk over some 32 frames whose code was all met before, and of a look at the
innermost place; once with Python calling Python, once with a call from C before each frame."""
import ctypes
import functools
import sys

import walker

W = walker.Walker(sys.argv[1])
STACK = walker.Stack()
TIMES = 1_000  # short rounds: the best of them was not interrupted


def measure(what):
    W.walk(ctypes.byref(STACK))
    print(f"{sys.version.split()[0]} {what}: {STACK.count} frames, walk {W.library.walker_walk_ns(TIMES):.0f} ns, "
          f"place {W.library.walker_place_ns(TIMES):.1f} ns")


def chain(through):
    call = functools.partial(measure, "calls from C" if through else "plain calls")
    for number in range(29 if through else 14):
        names = {}
        exec(compile(f"def f{number}(call):\n    return call()\n", f"/some/package/file{number}.py", "exec"), names)
        function = names[f"f{number}"]
        call = functools.partial(function, call) if through else (lambda f, c: lambda: f(c))(function, call)
    call()


chain(True)
chain(False)
