# SPDX-License-Identifier: Apache-2.0
"""How fast a PyTorch program is beside one of the same kind that nobody touches. Alone, its own figure moves by more than
ten percent within a minute on a shared machine; asked in turns, the two move together."""
from gpu_harness import change, median

ROUNDS = 8
STEPS = 25  # a round and program: 200 steps each in all


def ratio(workload, untouched):
    """Median of the rounds' ratios of the medians of STEPS steps; and the median step of `workload`, us."""
    ratios, steps = [], []
    for at in range(ROUNDS):
        first, second = (workload, untouched) if at % 2 else (untouched, workload)
        asked = {one: one.ask(f"speed {STEPS}")["median_us"] for one in (first, second)}
        ratios.append(asked[workload] / asked[untouched])
        steps.append(asked[workload])
    return median(ratios), median(steps)


def row(table, what, before, after):
    """`before` and `after` as ratio() gives them."""
    off = change(after[0], before[0])
    table.add_speed("attach", f"{what}: median step before / after, against an untouched program's in turns",
                    f"{before[1]:.0f} / {after[1]:.0f} us; {before[0]:.3f} / {after[0]:.3f} of it: {off:+.2f} %",
                    "<= +2 %", off <= 2)
