# SPDX-License-Identifier: Apache-2.0
"""`pillion record -- python train.py` and an attach to the same program see the same kernels, counts and functions."""
import json
import pathlib
import sys

from gpu_harness import BUNDLE, DOUBLE, ROOT, GpuBench, executions, harness, wait_until

STEPS = 30
WINDOW_S = 4 if DOUBLE else 12


class FixedRun:
    def __init__(self, bench):
        self.start, self.end = bench.folder / "start", bench.folder / "end"
        self.command = [sys.executable, ROOT / "tests" / "gpu" / "fixed_run.py", "training", STEPS, self.start, self.end]


def said(log_path, word):
    return word in pathlib.Path(log_path).read_text().split()


def children(pid):
    return [int(child) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()]


def armed(log_path, pids):
    text = pathlib.Path(log_path).read_text()
    return any(f"armed process {pid} " in text for pid in pids)


def recorded(bench):
    fixed, out = FixedRun(bench), bench.folder / "recorded.json"
    environment = {key: value for key, value in bench.environment(shim=False).items() if not key.startswith("PILLION_")}
    process, log = bench.start([BUNDLE / "pillion", "record", "-format", "json", "-o", out, "--", *fixed.command],
                               environment)
    wait_until(lambda: said(log, "context") or process.poll() is not None, "the program's context", 90)
    wait_until(lambda: process.poll() is not None or armed(log, children(process.pid)) and said(log, "recording"),
               "the program to be armed and the window to be open", 30)
    fixed.start.touch()
    wait_until(lambda: said(log, "done") or process.poll() is not None, "the program to be done", 90)
    fixed.end.touch()
    status = process.wait(60)
    if status != 0 or not out.exists():
        raise AssertionError(f"record ended with {status}: {pathlib.Path(log).read_text()[-800:]}")
    return json.loads(out.read_text())


def attached(bench):
    fixed = FixedRun(bench)
    process, log = bench.start(fixed.command, bench.environment())
    wait_until(lambda: said(log, "context"), "the program's context", 90)
    sidecar = bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
    sidecar.wait_ready()
    with harness.Window(sidecar, WINDOW_S) as window:
        sidecar.wait_state(process.pid, "armed", 20)
        fixed.start.touch()
    profile = window.take()
    done = said(log, "done")
    fixed.end.touch()
    status = process.wait(30)
    if status != 0 or not done:
        raise AssertionError(f"the program ended with {status}, done in the window: {done}: "
                             + pathlib.Path(log).read_text()[-800:])
    return profile


def counts(profile):
    found = {}
    for row in profile["kernels"]:
        found[row["name"]] = found.get(row["name"], 0) + row["launches"]
    return found


def functions(profile):
    return {name for stack in profile["stacks"] for name in harness.functions(profile, stack)}


def run(table):
    with GpuBench("attach-record-attached") as bench:
        theirs = attached(bench)
    with GpuBench("attach-record") as bench:
        ours = recorded(bench)
    same = counts(ours) == counts(theirs)
    differing = {name: (counts(ours).get(name, 0), counts(theirs).get(name, 0))
                 for name in counts(ours).keys() | counts(theirs).keys()
                 if counts(ours).get(name, 0) != counts(theirs).get(name, 0)}
    table.add("attach", f"record -- python, and attach: executions of {STEPS} steps", f"{executions(ours)} / "
              f"{executions(theirs)}; kernels that differ: {dict(list(differing.items())[:5])}", "equal, by name",
              same and executions(ours) > 0)
    both, either = functions(ours) & functions(theirs), functions(ours) | functions(theirs)
    share = 100.0 * len(both) / max(1, len(either))
    table.add("attach", "record and attach: functions seen in the stacks of both", f"{share:.1f} % of {len(either)}",
              ">= 90 %", share >= 90)
