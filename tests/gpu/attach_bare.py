# SPDX-License-Identifier: Apache-2.0
"""What CUPTI alone leaves behind in a PyTorch training program: clients that subscribe, record kernels for some steps and
leave, one less thoroughly than the next, without Pillion; the programs' steps before and afterwards. And call by call, in
a C++ program of the runtime API (left_behind.cu)."""
import json
import statistics
import subprocess

import bare_cupti
import paired_speed
from attach_settings import CYCLES
from footprint import Footprint
from gpu_harness import DOUBLE, GpuBench, TorchWorkload, built

EACH = 3  # programs that something is done to, and as many that nothing is
CALLS_HOW = ("subscribed", "disabled", "finalized")  # that left_behind.cu knows
GROWTH_STEPS = 60
LABEL = "PyTorch training, CUPTI alone"


def calls(table):
    program = built("left-behind", "left_behind.cu", "-lcupti", "-lcuda")
    for how in ("nothing", *CALLS_HOW):
        lines = subprocess.run([program, how], check=True, capture_output=True, text=True).stdout.splitlines()
        looks = [json.loads(line) for line in lines]
        figures = []
        for name in looks[0]:
            if name == "when":
                continue
            before, after = (statistics.median(look[name] for look in looks if look["when"] == when)
                             for when in ("before", "after"))
            figures.append(f"{name} {before:.0f}/{after:.0f} ({100 * (after - before) / before:+.1f} %)")
        table.add("attach", f"ns a call before/after CUPTI, {how}", "; ".join(figures))


def training(table, how):
    with GpuBench("attach-bare") as bench:
        started = [TorchWorkload(bench, "training", bench.unprepared()) for _ in range(2 * EACH)]
        groups = paired_speed.Groups(*([one.wait_ready() for one in started[first::2]] for first in (0, 1)))
        before = groups.look()
        said = [workload.ask(f"cupti {how} 20")["results"] for workload in groups.touched]
        table.add("attach", f"{LABEL}, {how}: what its calls returned", said[0], "0 each",
                  not any(any(results) for results in said))
        groups.rows(table, f"{LABEL}, {how}", before, groups.look(), judged=how == "finalized")


def growth(table):
    """Programs that do nothing but cycles of such clients, and what they hold more after each."""
    with GpuBench("attach-bare-growth") as bench:
        workload = TorchWorkload(bench, "training", bench.unprepared()).wait_ready()
        for how in bare_cupti.HOW:
            workload.ask(f"cupti {how} {GROWTH_STEPS}")
            after_one = Footprint(workload.pid)
            for _ in range(CYCLES - 1):
                workload.ask(f"cupti {how} {GROWTH_STEPS}")
            after = Footprint(workload.pid)
            table.add("attach", f"{LABEL}, {how}: held after a cycle of {GROWTH_STEPS} steps / after {CYCLES}",
                      f"{after_one.text()} / {after.text()}: "
                      f"{(after.rss_kib - after_one.rss_kib) / 1024 / (CYCLES - 1):+.2f} MiB of RSS a cycle; "
                      f"KiB: {after.grown_mappings(after_one, 4)}")


def run(table):
    if not DOUBLE:
        calls(table)
    for how in CALLS_HOW[1:]:
        training(table, how)
