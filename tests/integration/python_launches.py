# SPDX-License-Identifier: Apache-2.0
"""A Python program on the driver API: launches one kernel from each of many kinds of Python code.

Its last line is JSON: for each kernel the frames as `traceback` has them at the launch, leaf first. Runs on any CPython
from 3.9 on; needs nothing but the standard library.
"""
import argparse
import asyncio
import ctypes
import functools
import json
import pathlib
import sys
import threading
import time
import traceback

KERNELS = 64
PTX = ".version 6.4\n.target sm_50\n.address_size 64\n" + "".join(
    f".visible .entry kernel_{number}()\n{{\n  ret;\n}}\n" for number in range(KERNELS))

cuda = ctypes.CDLL("libcuda.so.1")
launched = {}  # by kernel: its frames


def check(result):
    if result != 0:
        raise SystemExit(f"driver call failed: {result}")


class Kernels:
    def __init__(self):
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        check(cuda.cuInit(0))
        check(cuda.cuDeviceGet(ctypes.byref(device), 0))
        check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        check(cuda.cuCtxSetCurrent(context))
        check(cuda.cuModuleLoadData(ctypes.byref(module), PTX.encode()))
        self.context = context
        self.functions = []
        for number in range(KERNELS):
            function = ctypes.c_void_p()
            check(cuda.cuModuleGetFunction(ctypes.byref(function), module, f"kernel_{number}".encode()))
            self.functions.append(function)

    def make_current(self):
        check(cuda.cuCtxSetCurrent(self.context))


def qualified_name(code):
    return getattr(code, "co_qualname", code.co_name)


def frames_of(frame):
    return [(qualified_name(code.f_code), code.f_code.co_filename, line) for code, line in traceback.walk_stack(frame)]


def launch():
    number = len(launched)
    function = kernels.functions[number]
    # One line, so that the frame stands at the same one in both.
    launched[f"kernel_{number}"] = frames_of(sys._getframe()); check(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None))  # noqa: E501,E702


def two_lines_of_a_loop():
    for _ in range(2):
        launch()
        launch()


def recursion(depth):
    if depth == 0:
        return launch()
    return recursion(depth - 1)


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
    sys.settrace(lambda *_: None)
    launch()
    sys.settrace(None)


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
    in_threads()
    names_of_other_alphabets()


def wait_for(path):
    while path and not path.exists():
        time.sleep(0.01)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--start-file", type=pathlib.Path)
    parser.add_argument("--end-file", type=pathlib.Path)
    parser.add_argument("--deep", type=int, default=0, help="only one launch, under so many frames")
    options = parser.parse_args()
    wait_for(options.start_file)
    if options.deep:
        sys.setrecursionlimit(options.deep + 100)
        recursion(options.deep)
    else:
        everything()
    check(cuda.cuCtxSynchronize())
    wait_for(options.end_file)
    print(json.dumps({"python": sys.version.split()[0], "launched": launched}))


kernels = Kernels()
main()
