# SPDX-License-Identifier: Apache-2.0
"""Idle profiles: loops that leave the GPU idle for a known reason (idle_loops.py) are named as such, at the Python line
of the launch that ends the gap; busy and idle time add up to the window to the nanosecond.

Gaps that the window's edges cut are left out of the shares.
"""
import collections
import json
import subprocess
import sys

from gpu_harness import DOUBLE, ROOT, GpuBench
from section_python import python_frames

SOURCE = "idle_loops.py"
WINDOW_S = 2 if DOUBLE else 5
# The loop, what its gaps are, and the least share of that cause in all idle time.
LOOPS = (("sleep", "host-bound", 95), ("loader", "host-bound", 80), ("sync", "synchronising", None))
KERNEL_NS = 1_000_000  # on the double


def marked_line(name):
    """The number of the line that says LINE and the loop's name."""
    lines = (ROOT / "tests" / "gpu" / SOURCE).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# LINE {name}"))


class Loop:
    """idle_loops.py, looping until its end."""

    def __init__(self, bench, name):
        bench.count += 1
        self.log_path = bench.folder / f"{bench.count}-idle-{name}.log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, ROOT / "tests" / "gpu" / SOURCE, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=log, env=bench.environment(**({"SIMGPU_KERNEL_NS": KERNEL_NS} if DOUBLE else {})))
        bench.processes.append(self.process)
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"{SOURCE} ended: {self.log_path.read_text()[-2000:]}")
        self.ready = json.loads(line)


def own_line(profile, stack):
    """The innermost line of idle_loops.py in a stack; 0: none."""
    return next((line for _, file, line in python_frames(profile, stack) if file == SOURCE), 0)


class Shares:
    """The idle time between the edges by cause and line, in ns."""

    def __init__(self, profile):
        self.by_row, self.by_cause = collections.Counter(), collections.Counter()
        for stack in profile["stacks"]:
            if "edge" in stack["labels"]:
                continue
            cause = stack["labels"]["cause"]
            self.by_cause[cause] += stack["gpu_idle_ns"]
            self.by_row[cause, own_line(profile, stack)] += stack["gpu_idle_ns"]
        self.all = max(1, sum(self.by_cause.values()))

    def percent(self, ns, of=None):
        return 100.0 * ns / max(1, self.all if of is None else of)

    def text(self):
        return ", ".join(f"{cause} {self.percent(ns):.1f} %" for cause, ns in self.by_cause.most_common())


def rows(table, name, cause, least, profile):
    line, shares = marked_line(name), Shares(profile)
    off = [device["window_ns"] - device["busy_ns"] - device["idle_ns"] for device in profile["device_idle"]]
    off += [profile["window"]["duration_ns"] - device["window_ns"] for device in profile["device_idle"]]
    table.add("idle", f"{name}: window x devices - busy - idle, {len(profile['device_idle'])} device(s)",
              f"{off} ns", "0 each", bool(off) and not any(off))
    rows_ns = sum(stack["gpu_idle_ns"] for stack in profile["stacks"])
    idle_ns = sum(device["idle_ns"] for device in profile["device_idle"])
    table.add("idle", f"{name}: idle time in the rows / of the devices", f"{rows_ns} / {idle_ns} ns", "equal",
              rows_ns == idle_ns)
    table.add("idle", f"{name}: busy share, kernel concurrency",
              [f"{device['busy_share']:.4f}, {device['kernel_concurrency']:.2f}" for device in profile["device_idle"]])
    share = shares.percent(shares.by_cause[cause])
    goal = f"{cause} >= {least} %" if least else ""
    table.add("idle", f"{name}: idle time between the edges by cause", shares.text(), goal,
              share >= least if least else None)
    (top_cause, top_line), top_ns = (shares.by_row.most_common(1) or [(("none", 0), 0)])[0]
    table.add("idle", f"{name}: most idle time of one cause and line",
              f"{top_cause} at {SOURCE}:{top_line}, {shares.percent(top_ns):.1f} %", f"{cause} at line {line}",
              (top_cause, top_line) == (cause, line))
    at_line = shares.percent(shares.by_row[cause, line], shares.by_cause[cause])
    table.add("idle", f"{name}: of the {cause} time, at line {line}", f"{at_line:.2f} %",
              f">= {least} %" if least else "", at_line >= least if least else None)
    lost = {entry["kind"]: entry["total"] for entry in profile["quality"]["anomalies"]}
    table.add("idle", f"{name}: anomalies", lost or "none", "none that begins with idle_",
              not any(kind.startswith("idle_") for kind in lost))


def run(table):
    for name, cause, least in LOOPS:
        with GpuBench(f"idle-{name}") as bench:
            loop = Loop(bench, name)
            sidecar = bench.sidecar("-wait-for-shim", "60s", "-python=on")
            sidecar.wait_ready()
            sidecar.profile(1, type="idle")  # files are fetched, code is seen for the first time
            profile = sidecar.profile(WINDOW_S, type="idle")
            loop.process.stdin.close()
            loop.process.wait(20)
            path = bench.folder / f"idle-{name}.json"
            path.write_text(json.dumps(profile))
            rows(table, name, cause, least, profile)
