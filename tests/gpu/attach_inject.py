# SPDX-License-Identifier: Apache-2.0
"""Into a PyTorch training loop that was started with nothing set: inject, profile, detach; its steps, timed by itself,
before and afterwards."""
import os
import pathlib
import subprocess
import time

import paired_speed
from gpu_harness import (BUNDLE, GpuBench, TorchWorkload, change, executions, harness, median, monotonic, process_row,
                         rooted_share, wait_until)

STEPS = 200  # compared, before and after
EACH = 3  # programs that are injected into, and as many that are not
LIBRARIES = ("libtorch", "python", "libcudart", "libpython")


class Steps:
    """What the loop has written: (end, how long it took) of each step, in ns."""

    def __init__(self, path):
        lines = [line.split() for line in pathlib.Path(path).read_text().splitlines()]
        self.rows = [(int(end), int(took)) for end, took in lines]

    def before(self, at_ns):
        return [took for end, took in self.rows if end <= at_ns][-STEPS:]

    def after(self, at_ns):
        return [took for end, took in self.rows if end - took >= at_ns][:STEPS]

    def between(self, begin_ns, end_ns):
        return [took for end, took in self.rows if begin_ns <= end <= end_ns]


def wait_steps(path, count):
    """Until the loop has written down as many steps more."""
    def written():
        return path.read_bytes().count(b"\n")

    before = written()
    wait_until(lambda: written() > before + count, f"{count} steps", 60, every=0.1)


def inject(bench, pid):
    """`pillion inject`; (worked, what it said, seconds)"""
    begin = time.monotonic()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PILLION_")}
    done = subprocess.run([BUNDLE / "pillion", "inject", "-pid", str(pid)], env=environment, capture_output=True,
                          text=True, timeout=60)
    said = done.stdout + done.stderr
    (bench.folder / "inject.log").write_text(said)
    return done.returncode == 0, f"status {done.returncode}: {said[-300:]}", time.monotonic() - begin


def share_with_libraries(profile):
    """Percent of the launches whose stack goes through PyTorch or the interpreter."""
    inside = sum(stack["launches"] for stack in profile["stacks"]
                 if any(file.startswith(LIBRARIES) for file in harness.files(profile, stack)))
    return 100.0 * inside / max(1, sum(stack["launches"] for stack in profile["stacks"]))


def profile_rows(table, profile, steps):
    window = profile["window"]
    begin = window["start_monotonic_ns"]
    inside = len(steps.between(begin, begin + window["duration_ns"]))
    count = executions(profile)
    table.add("attach", "injected: executions in the window, steps in it", f"{count}, {inside} steps: "
              f"{count / max(1, inside):.1f} a step", "> 0", count > 0 and inside > 0)
    share, taken = rooted_share(profile["quality"])
    table.add("attach", "injected: stacks rooted; launches under PyTorch or the interpreter",
              f"{share:.2f} % of {taken}; {share_with_libraries(profile):.1f} %", ">= 99 % rooted", share >= 99)


def speed_rows(table, steps, injected, detached):
    before, after = steps.before(injected[0]), steps.after(detached)
    if min(len(before), len(after)) < STEPS // 2:
        table.add("attach", "injected: steps before / after", f"{len(before)} / {len(after)}", f"{STEPS} each", False)
        return
    off = change(median(after), median(before))
    table.add("attach", f"injected: median of {len(before)} steps before / {len(after)} after the detach",
              f"{median(before) / 1000:.0f} / {median(after) / 1000:.0f} us: {off:+.2f} %", "see the pairs")
    longest = max(steps.between(*injected) or [0]) / 1e6
    table.add("attach", "injected: longest step while it was injected into / median before",
              f"{longest:.1f} / {median(before) / 1e6:.1f} ms")


def run(table):
    known = subprocess.run([BUNDLE / "pillion", "-help"], capture_output=True, text=True)
    if "inject" not in known.stdout + known.stderr:
        table.add("attach", "inject", "not in this build of pillion")
        return
    with GpuBench("attach-inject") as bench:
        started = [TorchWorkload(bench, "training", bench.unprepared()) for _ in range(2 * EACH)]
        groups = paired_speed.Groups(*([one.wait_ready() for one in started[first::2]] for first in (0, 1)))
        before = groups.look()
        watched(table, bench, groups.touched[0])
        for workload in groups.touched[1:]:
            workload.send("loop")
            inject(bench, workload.pid)
            profiled(bench, workload)
            workload.send("")
            workload.answer()
        groups.rows(table, "injected, profiled, detached", before, groups.look())
        for workload in groups.touched:
            workload.send("quit")
        statuses = [workload.process.wait(20) for workload in groups.touched]
        table.add("attach", "injected: the programs' ends", statuses, "0", not any(statuses))


def profiled(bench, workload, *flags):
    """Its profile of 3 s, and how the session ended."""
    sidecar = bench.sidecar("-pid", workload.pid, "-wait-for-shim", "20s", "-linger", "0s", *flags)
    sidecar.wait_ready(30)
    profile = sidecar.profile(3)
    wait_until(lambda: process_row(sidecar, workload.pid)["state"] == "connected", "the shim to have detached", 20)
    return profile, process_row(sidecar, workload.pid)["last_disarm"]


def watched(table, bench, workload):
    """Injected into while it writes down what each of its steps took."""
    path = bench.folder / "steps.txt"
    workload.send(f"loop {path}")
    wait_until(path.exists, "the loop to have begun", 20)
    wait_steps(path, STEPS)
    began = monotonic()
    worked, said, seconds = inject(bench, workload.pid)
    injected = (began, monotonic())
    table.add("attach", "pillion inject into a training loop with no environment set", f"{said} ({seconds:.1f} s)",
              "status 0", worked)
    profile, ended = profiled(bench, workload, *(() if worked else ("-inject",)))
    detached = monotonic()
    table.add("attach", "injected: how the session ended", ended)
    wait_steps(path, STEPS)
    workload.send("")
    workload.answer()
    steps = Steps(path)
    profile_rows(table, profile, steps)
    speed_rows(table, steps, injected, detached)
