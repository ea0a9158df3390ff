# SPDX-License-Identifier: Apache-2.0
"""Cases: threads, processes, interpreters, and whole launches."""
import collections
import ctypes
import os
import sys
import threading

import core
import walker
from core import PROBLEMS, STACK, case, check, create, dive, problem
from walker import PARTIAL, PYTHON, UNPLACED, Stack, seen_by_python

OTHER = Stack()


@case
def holding_the_gil():
    check("PyDLL", core.W.walk_holding)
    dive(5, lambda: check("PyDLL", core.W.walk_holding))
    list((lambda: (check("PyDLL generator", core.W.walk_holding) for _ in range(2)))())


@case
def threads():
    lock = threading.Lock()
    errors = []

    def run(number):
        stack = Stack()

        def end():
            for _ in range(200):
                _, want = core.W.walk(ctypes.byref(stack)), seen_by_python(sys._getframe())
                with lock:
                    core.W.read_records()
                    have = core.W.named(stack.frames[:stack.count])
                if have != want or stack.flags != PYTHON:
                    errors.append((number, stack.flags, have, want))
                    return
        dive(number, end)
    started = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    for error in errors:
        problem(str(error))


@case
def a_thread_without_python():
    STACK.count, STACK.flags = 7, 7
    core.W.library.walker_walk_on_foreign_thread(ctypes.byref(STACK))
    if STACK.count or STACK.flags:
        problem(f"{STACK.count} frames, flags {STACK.flags}")


@case
def a_c_thread_that_calls_python():
    done = []
    start = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)

    @start
    def main(_):
        dive(3, lambda: check("C thread"))
        done.append(1)
        return None
    libc = ctypes.CDLL(None)
    handle = ctypes.c_ulong()
    if not hasattr(libc, "pthread_create"):
        libc = ctypes.CDLL("libpthread.so.0")
    libc.pthread_create(ctypes.byref(handle), None, main, None)
    libc.pthread_join(handle, None)
    if not done:
        problem("it did not run")


@case
def a_forked_child():
    pid = os.fork()
    if pid == 0:
        core.W = walker.Walker(sys.argv[1])  # the rings of the parent are shared with it
        PROBLEMS.clear()
        check("child")
        dive(4, lambda: check("child"))
        os._exit(len(PROBLEMS))
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
        problem("the child saw something else")


@case
def places_of_a_loop():
    """Two lines of one loop have two places, the same line always the same."""
    seen = collections.defaultdict(set)
    for _ in range(5):
        seen[1].add(core.W.library.walker_place())
        seen[2].add(core.W.library.walker_place())
    if [len(s) for s in seen.values()] != [1, 1] or seen[1] == seen[2] or 0 in seen[1] | seen[2]:
        problem(str(seen))


@case
def launches_carry_frames():
    core.W.read_snapshots()
    _, want = core.W.library.walker_launch(1), seen_by_python(sys._getframe())
    core.W.read_records()
    taken = core.W.read_snapshots()
    if [h.correlation for h, _ in taken] != [1]:
        problem(f"{len(taken)} snapshots")
    for head, frames in taken:
        if head.flags & PYTHON == 0 or core.W.named(frames) != want:
            problem(f"flags {head.flags}: {core.W.named(frames)}, want {want}")
        low, high = head.stack_start, head.stack_start + head.stack_bytes
        entries = [f.entry for f in frames if f.entry > UNPLACED]
        if not all(low <= e < high for e in entries) or (sys.version_info >= (3, 10) and not entries):
            problem(f"entries {entries} are not within the copied stack {low:#x}-{high:#x}")
    keys = set()
    for _ in range(3):
        core.W.library.walker_launch(3)
        core.W.library.walker_launch(4)
    for head, _ in core.W.read_snapshots():
        keys.add((head.correlation, head.context_key))
    if len(keys) != 2 or len({k for _, k in keys}) != 2:
        problem(f"context keys of two lines: {keys}")


@case
def greenlets():
    try:
        import greenlet
    except ImportError:
        return "SKIPPED: no greenlet in this interpreter"

    def inner(other):
        check("greenlet")
        dive(3, lambda: other.switch())
        check("greenlet resumed")
    main = greenlet.getcurrent()
    g = greenlet.greenlet(inner)
    g.switch(main)
    check("main after a switch")
    dive(5, g.switch)
    check("main at the end")
    return None


@case
def sub_interpreters():
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    try:
        interpreters = __import__(name)
    except ImportError:
        return f"SKIPPED: no {name}"
    # Its own ctypes: the library is the same, and so are its tables.
    text = f"""
import sys
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
try:
    import ctypes
except ImportError:
    print_ = None
else:
    import walker
    library = ctypes.CDLL({sys.argv[1]!r})
    holding = ctypes.PyDLL({sys.argv[1]!r})
    stack = walker.Stack.from_address({ctypes.addressof(STACK)})
    other = walker.Stack.from_address({ctypes.addressof(OTHER)})
    def inside():
        library.walker_walk(ctypes.byref(stack))
        holding.walker_walk(ctypes.byref(other))
    inside()
"""
    STACK.count = STACK.flags = OTHER.count = OTHER.flags = 0
    made = create(interpreters)
    try:
        interpreters.run_string(made, text)
    finally:
        interpreters.destroy(made)
    core.W.read_records()
    have, held = core.W.named(STACK.frames[:STACK.count]), core.W.named(OTHER.frames[:OTHER.count])
    if not have and not held:
        return "SKIPPED: no ctypes in a sub-interpreter"
    if [n for n, _, _ in held] != ["inside", "<module>"] or OTHER.flags != PYTHON:
        problem(f"with the GIL: {held} {OTHER.flags}")
    if sys.version_info >= (3, 12):
        if [n for n, _, _ in have] != ["inside", "<module>"] or STACK.flags != PYTHON:
            problem(f"without: {have} {STACK.flags}")
    elif STACK.flags != PYTHON | PARTIAL or have[:1] != [("sub_interpreters", __file__, have[0][2])]:
        problem(f"without the GIL it must be marked, and show who entered: {have[:2]} {STACK.flags}")
    check("back again")
    return None
