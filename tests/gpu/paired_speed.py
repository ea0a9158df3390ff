# SPDX-License-Identifier: Apache-2.0
"""How fast a PyTorch program is beside others of the same kind that nobody touches. Alone, its own figure moves by more
than ten percent within a minute on a shared machine; asked in turns of a few steps, on the same processors, they move
together. Two untouched ones show how far two such figures differ without anybody's doing."""
import contextlib
import os

from gpu_harness import change, median

ROUNDS = 60
STEPS = 4  # a round and program: 240 steps each in all
PROCESSORS = 4  # that all of them share while they are asked, one at a time


@contextlib.contextmanager
def pinned(programs):
    """Every thread of the programs on the same few processors."""
    everywhere = os.sched_getaffinity(0)
    for processors in (sorted(everywhere)[-PROCESSORS:], everywhere):
        for program in programs:
            for task in os.listdir(f"/proc/{program.pid}/task"):
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(int(task), processors)
        if processors is not everywhere:
            yield


def ratios(workload, control, untouched):
    """(of `workload`, of `control`, step): medians of the rounds' ratios to `untouched`, and the median step of
    `workload` in us."""
    of, steps = {workload: [], control: []}, []
    programs = [workload, control, untouched]
    with pinned(programs):
        for _ in range(ROUNDS):
            asked = {one: one.ask(f"speed {STEPS}")["median_us"] for one in programs}
            programs.append(programs.pop(0))  # each first as often as the others
            for one, rows in of.items():
                rows.append(asked[one] / asked[untouched])
            steps.append(asked[workload])
    return median(of[workload]), median(of[control]), median(steps)


def row(table, what, before, after):
    """`before` and `after` as ratios() gives them."""
    off, noise = change(after[0], before[0]), change(after[1], before[1])
    table.add_speed("attach", f"{what}: median step before / after, against an untouched program's in turns",
                    f"{before[2]:.0f} / {after[2]:.0f} us; {before[0]:.3f} / {after[0]:.3f} of it: {off:+.2f} %; another "
                    f"untouched one: {noise:+.2f} %", "<= 2 % more than that one", off - max(0.0, noise) <= 2)
