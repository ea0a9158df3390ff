# SPDX-License-Identifier: Apache-2.0
"""A Python program on the driver API: launches one kernel from each of many kinds of Python code.

Its last line is JSON: for each kernel the frames as `traceback` has them at the launch, leaf first; `marked` names the
kernels whose stack cannot be whole and has to say so; `greenlets` those whose stack begins in a greenlet; `skipped` what
this interpreter lacks. Runs on any CPython from 3.9 on; needs the standard library, and takes greenlet where it is.
"""
import argparse
import asyncio
import ctypes
import functools
import importlib.util
import json
import os
import pathlib
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "python"))

from launcher import check, cuda, frames_of, greenlets, kernels, launch, launched, marked, skipped  # noqa: E402,F401
from other_stacks import in_greenlets, in_sub_interpreters  # noqa: E402


def two_lines_of_a_loop():
    for _ in range(2):
        launch()
        launch()


def recursion(depth, end=None):
    if depth == 0:
        return end() if end else launch()
    return recursion(depth - 1, end)


def generator():
    launch()
    received = yield
    launch()
    yield received


def delegating_generator():
    yield from generator()


async def coroutine(depth):
    await asyncio.sleep(0)
    if depth:
        await coroutine(depth - 1)
    launch()


async def gathered():
    await asyncio.gather(coroutine(1), coroutine(2))


class Model:
    weight = [1, 2, 3]

    def forward(self, value):
        return [self.layer(value) for _ in range(1)]

    def layer(self, value):
        return (lambda inner:
                launch())(value)

    @property
    def prepared(self):
        launch()
        return self

    @classmethod
    def made(cls):
        launch()
        return cls()

    def __call__(self, value):
        return self.forward(
            value
        )

    def __init__(self, launches=False):
        if launches:
            launch()

    def __getattr__(self, name):
        launch()
        return name

    def __lt__(self, other):
        launch()
        return True


def decorated(function):
    @functools.wraps(function)
    def wrapper(*arguments, **named):
        return function(*arguments, **named)
    return wrapper


@decorated
@functools.lru_cache(maxsize=None)
def behind_decorators():
    launch()


def through_c_code():
    sorted([Model(), Model()])
    list(map(lambda _: launch(), range(2)))
    functools.reduce(lambda *_: launch(), range(3))
    functools.partial(launch)()
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda *_: launch() or 0)
    pair = (ctypes.c_int * 2)(2, 1)
    ctypes.CDLL(None).qsort(pair, 2, ctypes.sizeof(ctypes.c_int), callback)


def executed_code():
    exec(compile("def made():\n\n    launch()\nmade()\n", "<made up>", "exec"), {"launch": launch})
    eval("launch()")
    for number in range(3):  # code objects that die, one after the other, at addresses that are used again
        exec(compile(f"{chr(10) * number}launch()", f"made_{number}.py", "exec"), {"launch": launch})


def with_exceptions():
    try:
        try:
            raise ValueError
        except ValueError:
            launch()
            raise
        finally:
            launch()
    except ValueError:
        launch()


class Context:
    def __enter__(self):
        launch()

    def __exit__(self, *_):
        launch()


def with_trace():
    """Launches under both kinds of hook, and inside of them."""
    def hook(frame, event, _):
        if event == "call" and frame.f_code is traced.__code__:
            launch()
        return hook

    def traced():
        launch()

    for setter in (sys.settrace, sys.setprofile):
        setter(hook)
        traced()
        setter(None)


class Asynchronous:
    async def __aenter__(self):
        launch()

    async def __aexit__(self, *_):
        launch()

    async def __aiter__(self):
        for number in range(2):
            launch()
            await asyncio.sleep(0)
            yield number


async def asynchronous_code():
    async with Asynchronous() as _:
        async for _ in Asynchronous():
            launch()
    await asyncio.create_task(coroutine(0))


def while_importing():
    """A module's own code, under the import system's frames."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "imported_module.py")
        path.write_text("from __main__ import launch\n\n\nclass Body:\n    launch()\n")
        module = importlib.util.spec_from_file_location("imported_module", path)
        module.loader.exec_module(importlib.util.module_from_spec(module))


class Finalized:
    def __del__(self):
        launch()


def after_a_fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    launch()


def in_threads():
    def run():
        kernels.make_current()
        launch()

    for _ in range(2):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()


def names_of_other_alphabets():
    scope = {"launch": launch}
    exec(compile("def größe():\n    launch()\ngröße()\n", "straße.py", "exec"), scope)
    exec(compile("def 模型():\n    launch()\n模型()\n", "模型/𝒳.py", "exec"), scope)


def everything():
    two_lines_of_a_loop()
    recursion(40)
    for _ in delegating_generator():
        pass
    asyncio.run(gathered())
    model = Model(True)
    model(1)
    model.prepared.missing
    Model.made()
    behind_decorators()
    through_c_code()
    executed_code()
    with_exceptions()
    with Context():
        pass
    with_trace()
    asyncio.run(asynchronous_code())
    while_importing()
    Finalized()
    after_a_fork()
    in_threads()
    names_of_other_alphabets()
    in_greenlets()
    in_sub_interpreters()


def uneven_lines(count):
    """The same kernel from two lines of one loop, the first four times as often."""
    function, launch_kernel = kernels.functions[0], cuda.cuLaunchKernel
    for number in range(count):
        launch_kernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        if number % 4 == 0:
            launch_kernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None)


def launch_for_ever(launches):
    kernels.make_current()
    while True:
        launches.append(cuda.cuLaunchKernel(kernels.functions[0], 1, 1, 1, 1, 1, 1, 0, None, None, None))


def daemons():
    """Threads that launch until the interpreter is gone."""
    launches = []
    for _ in range(4):
        threading.Thread(target=recursion, args=(20, lambda: launch_for_ever(launches)), daemon=True).start()
    while len(launches) < 1000:
        time.sleep(0.001)


def in_the_program():
    """Called by python/embed.c, on a thread of its own, once the script has run."""
    kernels.make_current()
    recursion(3)
    check(cuda.cuCtxSynchronize())
    finish()


def wait_for(path):
    while path and not path.exists():
        time.sleep(0.01)


def finish():
    wait_for(options.end_file)
    print(json.dumps({"python": sys.version.split()[0], "launched": launched, "marked": marked,
                      "greenlets": greenlets, "skipped": skipped}), flush=True)


def main():
    if options.deep:
        sys.setrecursionlimit(options.deep + 100)
        recursion(options.deep)
    elif options.uneven:
        uneven_lines(options.uneven)
    elif options.daemons:
        daemons()
        return finish()
    else:
        everything()
    check(cuda.cuCtxSynchronize())
    if not options.embedded:
        finish()


parser = argparse.ArgumentParser()
parser.add_argument("--start-file", type=pathlib.Path)
parser.add_argument("--end-file", type=pathlib.Path)
parser.add_argument("--deep", type=int, default=0, help="only one launch, under so many frames")
parser.add_argument("--uneven", type=int, default=0, help="only a loop of so many rounds with two lines that launch")
parser.add_argument("--daemons", action="store_true", help="only daemon threads that launch while the program ends")
parser.add_argument("--embedded", action="store_true", help="in python/embed.c, which calls in_the_program() at the end")
options = parser.parse_args()
wait_for(options.start_file)
main()
