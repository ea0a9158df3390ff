# SPDX-License-Identifier: Apache-2.0
"""Cases: what the language can do to a call chain."""
import asyncio
import contextlib
import ctypes
import functools
import gc
import sys

import core
import walker
from core import STACK, case, check, dive, execute, problem, summary
from walker import CUT, PYTHON, seen_by_python


@case
def traceback_agrees():
    mine, theirs = seen_by_python(sys._getframe()), summary()
    if [(n.rpartition(".")[2], f, l) for n, f, l in mine] != theirs:
        problem(f"{mine} is not {theirs}")


@case
def nested():
    class Outer:
        class Inner:
            def method(self):
                return self.prop

            @property
            def prop(self):
                return (lambda: [check("comprehension") for _ in range(2)])()

            @staticmethod
            def static():
                check("static")

            @classmethod
            def make(cls):
                cls.static()
        Inner().method()
        Inner.make()
        check("class body")
    check("function")
    with contextlib.suppress(KeyError):
        check("with")
    try:
        raise ValueError
    except ValueError:
        check("except")
    finally:
        check("finally")
    if True: check("same"); check("line")  # noqa: E701,E702


@case
def many_lines():
    for _ in range(3):
        check("one"); check(
            "two lines, of which the call is the first")
        check("three")


@case
def recursion():
    for depth in (1, 30, 100, 200):
        dive(depth, lambda: check(f"recursion {depth}"))


@case
def too_deep():
    def end():
        _, want = core.W.walk(ctypes.byref(STACK)), seen_by_python(sys._getframe())
        core.W.read_records()
        if STACK.count != walker.FRAMES_MAX or STACK.flags != PYTHON | CUT:
            problem(f"{STACK.count} frames, flags {STACK.flags}")
        if core.W.named(STACK.frames[:STACK.count]) != want[:walker.FRAMES_MAX]:
            problem("the leaf side is not the innermost frames")
    dive(600, end)


def counting(n):
    for i in range(n):
        check("generator")
        yield i


def delegating(n):
    yield from counting(n)
    yield from (check("generator expression") for _ in range(2))


@case
def generators():
    list(delegating(2))
    both = zip(counting(2), delegating(2))
    next(both)
    for _ in map(lambda x: check("map in for"), delegating(1)):
        pass
    first = counting(3)
    next(first)
    check("a suspended one is not on the chain")
    first.close()

    def sender():
        while True:
            got = yield
            check(f"sent {got}")
    s = sender()
    next(s)
    s.send(1)
    dive(3, lambda: s.send(2))


async def level(n):
    if n == 0:
        check("await")
        await asyncio.sleep(0)
        check("after sleep")
        return
    async with AsyncContext():
        await level(n - 1)


class AsyncContext:
    async def __aenter__(self):
        check("aenter")

    async def __aexit__(self, *_):
        check("aexit")


async def items():
    for i in range(2):
        check("async generator")
        yield i


@case
def coroutines():
    async def main():
        await level(3)
        await asyncio.gather(*(level(i) for i in range(4)))
        async for _ in items():
            check("async for")
        task = asyncio.get_running_loop().create_task(level(1))
        check("a task that has not begun")
        await task
    asyncio.run(main())


@case
def calls_back_from_c():
    sorted([2, 1], key=lambda x: check("sorted") or x)
    functools.reduce(lambda a, b: check("reduce") or a, [1, 2, 3])
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    libc = ctypes.CDLL(None)
    values = (ctypes.c_int * 3)(3, 1, 2)
    libc.qsort(values, 3, 4, compare(lambda a, b: dive(2, lambda: check("qsort")) or 0))

    class Special:
        def __init__(self):
            check("__init__")

        def __eq__(self, other):
            check("__eq__")
            return True

        def __getattr__(self, name):
            check("__getattr__")
            return 1

        def __del__(self):
            check("__del__")
    s = Special()
    s == s  # noqa: B015
    s.other
    del s
    gc.collect()
    type("Made", (), {"__init__": lambda self: check("lambda __init__")})()
    functools.partial(dive, 1, lambda: check("partial"))()


@case
def executed_code():
    execute("check('exec')", "<string>")
    execute("\n\n\nif 1:\n  def f(): check('exec f')\n  f()\n", "made up")
    eval("check('eval')")
    # A line table that goes back and far.
    execute("check('far')" + "\n" * 3000 + "check('far')\nfor _ in range(2):\n  check(\n'multi'\n)\n", "far")


@case
def names_of_all_kinds():
    for letter in ("n", "\u00e9", "\u0416\u4e2d", "\U0001d4d0", "\u00e9\u0416\U0001d4d0"):
        for file in ("a", "/caf\u00e9/x", "/\u65e5\u672c/x", "/\U0001f40d/x", "/lone/\udcff\udc80/x"):
            execute(f"def {letter}(): check('name')\n{letter}()\n", file)
    execute("def " + "n" * 900 + "(): check('long')\n" + "n" * 900 + "()", "/f" * 2000)


@case
def names_too_long():
    got = []
    execute("def " + "n" * 3000 + "(): walk()\n" + "n" * 3000 + "()", "/f" * 5000,
            {"walk": lambda: got.append(core.W.walk(ctypes.byref(STACK)))})
    core.W.read_records()
    code = core.W.codes[STACK.frames[1].code]
    if code.flags != 1 or code.qualname != "n" * 1024 or code.filename != "/f" * 2048:
        problem(f"{code.flags} {len(code.qualname)} {len(code.filename)}")


@case
def reused_addresses():
    """Code objects that die at once, so that the next one lies where they did."""
    addresses = []

    def one(line, name, deep):
        def here():
            check(f"reused {line} {name}")
        names = {"here": here, "dive": dive}
        call = "dive(6, here)" if deep else "here()"
        source = "def " + name + "():\n  x = 1\n" + "\n" * line + "  " + call + "\n  x = 2\n" + name + "()\n"
        execute(source, "reused", names)
        made = compile(source, "reused", "exec").co_consts[0]
        addresses.append(id(made))
    for round_ in range(150):
        one(round_ % 7, "f", False)
        one(round_ % 5, "g", True)
        one(3, "f" if round_ % 2 else "h", False)
    if len(set(addresses)) > len(addresses) * 9 // 10:
        problem(f"{len(set(addresses))} addresses of {len(addresses)}: nothing was reused")


@case
def same_code_again_is_one_number():
    before = core.W.counter("codes")
    for _ in range(50):
        execute("check('same contents')", "same")
    # This function's own is new, too.
    if core.W.counter("codes") - before > 2:
        problem(f"{core.W.counter('codes') - before} numbers for one text")


@case
def tracing():
    def trace(frame, event, argument):
        del frame, argument
        check("trace " + event)
        return trace

    def traced():
        a = 1
        return a
    for setter in (sys.settrace, sys.setprofile):
        setter(trace)
        try:
            traced()
        finally:
            setter(None)
