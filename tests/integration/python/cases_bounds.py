# SPDX-License-Identifier: Apache-2.0
"""Cases: wrong tables, full rings, full tables. The last two begin sessions of their own."""
import collections
import ctypes
import sys

import core
import walker
from core import STACK, case, create, execute, problem
from walker import PYTHON


def spoiled(walk, index, by, probes):
    """What these probes give when one offset is wrong."""
    core.W.library.walker_spoil(index, by)
    codes, core.W.codes, core.W.errors = core.W.codes, {}, "replace"
    try:
        return [probe(walk) for probe in probes]
    finally:
        core.W.codes, core.W.errors = codes, "strict"


def take(walk):
    STACK.count = STACK.flags = 0
    walk(ctypes.byref(STACK))
    core.W.read_records()
    # Not decoded: the interpreter's decoder trusts a line table.
    codes = [(c.qualname, c.filename, c.first_line, c.table) if c else None
             for c in (core.W.codes.get(f.code) for f in STACK.frames[:STACK.count])]
    return STACK.flags, codes, [(f.offset, f.entry) for f in STACK.frames[:STACK.count]]


class Built:
    def __init__(self, walk):
        self.taken = take(walk)


def probe_names(walk):
    got = []
    execute("def n\u0416(): got.append(take(walk))\ndef nested(): n\u0416()\nlist(map(lambda x: nested(), [1]))",
            "/\u0416/x", {"got": got, "take": take, "walk": walk})
    return got


def probe_generator(walk):
    return list(take(walk) for _ in range(2))


def probe_init(walk):
    for _ in range(20):
        built = Built(walk)
    return built.taken


def probe_reuse(walk):
    got = []
    for number in range(40):
        execute("x = 1\n" + "\n" * (number % 4) + "got.append(take(walk))", "r", {"got": got, "take": take, "walk": walk})
    return got


def wrong(offset):
    """What to add."""
    return (8, -8) if offset >= 8 else (8,)


@case
def a_wrong_offset_is_seen():
    """Each offset wrong by 8, up or down: something else comes out than with the right one, and nothing breaks."""
    probes = (probe_names, probe_generator, probe_init, probe_reuse)
    version = sys.version_info[0] << 8 | sys.version_info[1]
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    interpreters = __import__(name)
    walk = core.W.library.walker_walk_spoiled
    reference = spoiled(walk, 0, 0, probes)
    blind = []
    index = 0
    while core.W.library.walker_offset_name(index):
        field, value = core.W.library.walker_offset_name(index).decode(), core.W.library.walker_offset(version, index)
        if value != 0xFFFF and not any(spoiled(walk, index, by, probes) != reference for by in wrong(value)):
            blind.append((index, field, value))
        index += 1
    if blind:
        # With a second interpreter, where those of _PyRuntime matter.
        other = create(interpreters)
        walk = core.W.holding.walker_walk_spoiled
        reference = spoiled(walk, 0, 0, probes)
        blind = [f for i, f, value in blind
                 if all(spoiled(walk, i, by, probes) == reference for by in wrong(value))]
        interpreters.destroy(other)
    if blind:
        problem("not seen: " + ", ".join(blind))


@case
def nothing_was_lost():
    if core.W.counter("refused") or core.W.counter("partial") > 1:
        problem(f"refused {core.W.counter('refused')}, partial {core.W.counter('partial')}")


@case
def codes_come_again_when_the_ring_was_full():
    core.W.library.walker_end()
    core.W.walk(ctypes.byref(STACK))
    if STACK.count or STACK.flags:
        problem("frames without a session")
    core.W = walker.Walker(sys.argv[1], 4096)
    wanted = set()
    for number in range(100):
        got = []
        execute(f"def full_{number}():\n  walk()\nfull_{number}()", "full",
                {"walk": lambda: got.append(core.W.walk(ctypes.byref(STACK)))})
        wanted.add((STACK.frames[1].code, f"full_{number}"))
    rounds = 0
    while rounds < 1000 and not all(number in core.W.codes for number, _ in wanted):
        core.W.read_records()
        core.W.library.walker_retry()
        rounds += 1
    if rounds < 2 or any(core.W.codes[number].qualname != name for number, name in wanted):
        problem(f"{len(core.W.codes)} codes after {rounds} rounds")


@case
def more_codes_than_fit():
    numbers = collections.Counter()
    for number in range(8300):
        exec(compile("walk(ref)", f"file {number}", "exec"), {"walk": core.W.walk, "ref": ctypes.byref(STACK)})
        numbers[STACK.frames[0].code] += 1
        if STACK.flags != PYTHON or STACK.frames[1].code == 0:
            problem(f"flags {STACK.flags}, the caller's code {STACK.frames[1].code}")
    refused = numbers.pop(0, 0)
    if refused < 108 or refused != core.W.counter("refused") or max(numbers.values()) > 1:
        problem(f"{refused} refused, {core.W.counter('refused')} counted, {len(numbers)} numbers")
