# SPDX-License-Identifier: Apache-2.0
"""How fast PyTorch programs are after something was done to them, beside others of the same kind that nobody touched.
Alone, a program's own figure moves by more than ten percent within a minute on a shared machine, and two untouched ones by
as much against each other; so there are some of each, asked in turns of a few steps, on the same processors."""
import collections
import contextlib
import os
import random
import statistics

from gpu_harness import change, median

ROUNDS = int(os.environ.get("GPU_CHECK_SPEED_ROUNDS", "50"))
STEPS = 4  # a round and program: 200 steps each in all
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


MEASURES = {"median_us": "step", "cpu_us": "processor time of a step"}


class Groups:
    """Programs that something is done to, and others. look() before and after, then row()."""

    def __init__(self, touched, untouched):
        self.touched, self.untouched = touched, untouched

    def look(self):
        """(program, measure) -> (median of the rounds' ratios to the untouched ones' mean in that round, median in us)"""
        everyone = [*self.touched, *self.untouched]
        ratios, values = collections.defaultdict(list), collections.defaultdict(list)
        with pinned(everyone):
            for _ in range(ROUNDS):
                random.shuffle(everyone)
                said = {one: one.ask(f"speed {STEPS}") for one in everyone}
                for measure in MEASURES:
                    usual = statistics.fmean(said[one][measure] for one in self.untouched)
                    for one in everyone:
                        ratios[one, measure].append(said[one][measure] / usual)
                        values[one, measure].append(said[one][measure])
        return {key: (median(ratios[key]), median(values[key])) for key in ratios}

    def rows(self, table, what, before, after, judged=True):
        for measure, name in MEASURES.items():
            changes = {one: change(after[one, measure][0], before[one, measure][0])
                       for one in (*self.touched, *self.untouched)}
            off, noise = (median([changes[one] for one in group]) for group in (self.touched, self.untouched))
            first, last = (median([look[one, measure][1] for one in self.touched]) for look in (before, after))
            listed, listed_untouched = (" ".join(f"{changes[one]:+.1f}" for one in group)
                                        for group in (self.touched, self.untouched))
            table.add_speed("attach", f"{what}: {name} before / after, against untouched programs in turns",
                            f"{first:.0f} / {last:.0f} us; {off:+.2f} % ({listed}); untouched ones {noise:+.2f} % "
                            f"({listed_untouched})", "<= 2 % more than those" if judged else "reported", off - noise <= 2 if judged else None)
