# SPDX-License-Identifier: Apache-2.0
"""Launches of python_launches.py from stacks that are not the thread's main one: greenlets, other interpreters."""
import ctypes
import functools
import os
import sys

from launcher import cuda, frames_of, greenlets, kernels, launch, launched, marked, skipped


def in_greenlets():
    """Each has a chain of its own; of those that wait nothing is on it, though their C stacks lie in memory."""
    try:
        import greenlet
    except ImportError:
        skipped["greenlets"] = "no greenlet for this interpreter"
        return
    before = len(launched)

    def launch_here():
        if greenlet.getcurrent() is not main:
            greenlets.append(f"kernel_{len(launched)}")
        launch()

    def worker(depth):
        launch_here()
        if depth:
            worker(depth - 1)
        main.switch()
        launch_here()
        main.switch()
        list(map(lambda _: launch_here(), (1, 2)))

    def through_c(which, depth):
        """Switches from under frames of C code, so deep that they lie where none were when the greenlet began."""
        return functools.reduce(lambda *_: through_c(which, depth - 1) if depth else which.switch(), (1, 2))

    main = greenlet.getcurrent()
    first, second, third = (greenlet.greenlet(worker) for _ in range(3))
    first.switch(2)
    second.switch(0)
    launch_here()
    through_c(first, 3)  # its stack is put back below frames that were not there when it began
    functools.reduce(lambda *_: third.switch(1), (1, 2))
    for which in (first, second, third, first, second, third):
        through_c(which, 12)
        which.switch()
        launch_here()
    if len(launched) - before < 12:
        raise AssertionError("the greenlets launched nothing")


IN_ANOTHER_INTERPRETER = """
import ctypes, os, sys
cuda = ctypes.CDLL("libcuda.so.1")
def frames_of(frame):
    found = []
    while frame is not None:
        code = frame.f_code
        found.append("\\t".join((getattr(code, "co_qualname", code.co_name), code.co_filename, str(frame.f_lineno))))
        frame = frame.f_back
    return "\\n".join(found).encode()
def inside():
    text = frames_of(sys._getframe()); result = cuda.cuLaunchKernel(ctypes.c_void_p(FUNCTION), 1, 1, 1, 1, 1, 1, 0, None, None, None)
    os.write(PIPE, text + b"\\n\\n")
    if result != 0:
        raise RuntimeError(result)
list(map(lambda _: inside(), (1,)))
"""


def in_another_interpreter(**config):
    """One launch in a sub-interpreter, which may have a GIL of its own. The thread has a state in each interpreter, and
    only one is found: from 3.12 on the inner one, before it the outer one. The frames of the other are marked."""
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    interpreters = __import__(name)
    number = len(launched)
    reading, writing = os.pipe()
    text = f"FUNCTION, PIPE = {kernels.functions[number].value}, {writing}\n" + IN_ANOTHER_INTERPRETER
    made = interpreters.create("legacy" if not config.get("isolated") else "isolated") if sys.version_info >= (3, 13) \
        else interpreters.create(**config)
    own = frames_of(sys._getframe()); failed = interpreters.run_string(made, text)  # noqa: E702
    interpreters.destroy(made)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read().decode()
    if not said:
        skipped[f"sub-interpreter, {config or 'legacy'}"] = f"no ctypes there: {failed}"
        return
    marked.append(f"kernel_{number}")
    if sys.version_info < (3, 12):
        launched[f"kernel_{number}"] = own
        return
    rows = [row.split("\t") for row in said.strip().split("\n")]
    launched[f"kernel_{number}"] = [(name, file, int(line)) for name, file, line in rows]


def in_sub_interpreters():
    for config in ({"isolated": False}, {"isolated": True}):
        try:
            in_another_interpreter(**config)
        except Exception as error:
            skipped[f"sub-interpreter, {config}"] = f"{type(error).__name__}: {error}"[:200]
