# SPDX-License-Identifier: Apache-2.0
"""Calls that wait for the GPU: named at the right lines, with the time that the program itself measured; queue time
behind a blocker; what a launch costs with and without its return."""
import json
import pathlib
import subprocess
import sys

from gpu_harness import GpuBench, ROOT, built, change, harness, median, rounds
from section_cost import between, slices

COUNT = 100
SPIN_NS = 1_000_000
WAYS = {"item": "cuStreamSynchronize", "device_synchronize": "cuCtxSynchronize",
        "event_synchronize": "cuEventSynchronize", "to_cpu": "cuMemcpyDtoHAsync"}  # the last into pageable memory: the copy waits
ROUNDS = rounds(6)
ALL_BUT_CALLS = "kernel,memcpy,memset,overhead,stacks,modules"


class Steps:
    """A program that does as it is told, a line at a time."""

    def __init__(self, bench, name, *command):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = bench.workload(*command, popen=pipes).process
        first = self.process.stdout.readline()
        if first != b"ready\n":
            raise AssertionError(f"{name} said {first!r}")

    def ask(self, line):
        self.process.stdin.write((line + "\n").encode())
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def rows_with(profile, wanted):
    for stack in profile["stacks"]:
        if any(wanted(line) for number in stack["frames"] for line in profile["frames"][number]["lines"]):
            yield stack


def leaf_of(profile, stack):
    return profile["frames"][stack["frames"][0]]["lines"][0]["function"]


def torch_rows(table):
    with GpuBench("sync-torch") as bench:
        steps = Steps(bench, "sync_steps.py", sys.executable, ROOT / "tests" / "gpu" / "sync_steps.py", COUNT)
        sidecar = bench.sidecar("-wait-for-shim", "60s", "-python=on")
        sidecar.wait_ready()
        sidecar.profile(1, type="sync")
        with harness.Window(sidecar, 15, type="sync") as window:
            clock = steps.ask("run")
        profile = window.take()
    lost = {name: profile["quality"][name] for name in ("syncs_lost", "dropped_syncs", "dropped_returns",
                                                        "call_durations_missing") if profile["quality"][name]}
    table.add("sync", f"{profile['quality']['syncs']} waiting calls of PyTorch; lost", lost or "none", "none", not lost)
    for way, call in WAYS.items():
        stacks = list(rows_with(profile, lambda line, way=way: line["function"] == way
                                and pathlib.Path(line.get("file", "")).name == "sync_steps.py"))
        ns = sum(stack["sync_time_ns"] for stack in stacks)
        calls = sum(stack["sync_calls"] for stack in stacks)
        by_call = {}
        for stack in stacks:
            name = leaf_of(profile, stack)
            by_call[name] = by_call.get(name, 0) + stack["sync_time_ns"]
        most = max(by_call, key=by_call.get, default="nothing")
        off = change(ns, clock[way])
        # Around the call there is Python, and the launch of what is copied.
        table.add("sync", f"{way}: time in its {calls} calls against the program's own clock",
                  f"{ns / 1e6:.1f} of {clock[way] / 1e6:.1f} ms: {off:+.2f} %", "-5 to 0 %", -5 <= off <= 0.1)
        table.add("sync", f"{way}: the call that waits", f"{most} {100 * by_call.get(most, 0) / max(1, ns):.1f} %",
                  call, most == call)
    total = sum(row["sync_time_ns"] for row in profile["kernels"])
    spent = sum(clock.values())
    table.add("sync", "all waiting calls against the program's own clock", f"{change(total, spent):+.2f} %",
              "-3 to +1 %", -3 <= change(total, spent) <= 1)


def blocker_rows(table):
    with GpuBench("sync-blocker") as bench:
        steps = Steps(bench, "waits", "waits", "--spin-ns", SPIN_NS)
        sidecar = bench.sidecar("-wait-for-shim", "60s")
        sidecar.wait_ready()
        steps.ask("blocked 20")
        with harness.Window(sidecar, 3) as window:
            steps.ask("blocked 500")
        profile = window.take()
    rows = {row["system_name"]: row for row in profile["latencies"]}
    blocker = rows.pop("_Z4spiny")
    behind = [row for row in rows.values() if row["queue"]["count"] > 1]
    count = sum(row["queue"]["count"] for row in behind)
    mean = sum(row["queue"]["sum_ns"] for row in behind) / max(1, count)
    ran = next(row for row in profile["kernels"] if row["system_name"] == "_Z4spiny")
    spin = ran["gpu_time_ns"] / ran["launches"]
    queued, call = (blocker[name]["sum_ns"] / blocker[name]["count"] for name in ("queue", "launch_call"))
    table.add("sync", f"{count} kernels behind a blocker of {SPIN_NS / 1e6:.0f} ms: mean queue time",
              f"{mean / 1e3:.1f} us, p50 {[row['queue']['p50_ns'] / 1e3 for row in behind]}", "within 1 %",
              abs(change(mean, SPIN_NS)) <= 1)
    expected = queued + spin - call
    table.add("sync", "the same against the blocker's own queue time and run, less its launch call",
              f"{change(mean, expected):+.2f} % (launch {call / 1e3:.1f} us, queued {queued / 1e3:.1f} us)",
              "within 1 %", abs(change(mean, expected)) <= 1)


def cost_round(program, kinds):
    """ns a launch while recording with these kinds, beyond the same process asleep; what the shim says of itself."""
    with GpuBench() as bench:
        workload = bench.workload(program, "6")
        sidecar = bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
        sidecar.wait_ready()
        profile = sidecar.profile(2, kinds=kinds)
        workload.finish()
        rows = slices(workload)
        begin = profile["window"]["start_monotonic_ns"]
        end = begin + profile["window"]["duration_ns"]
        asleep = between(rows, end + 1_000_000_000, end + 3_000_000_000)
        return (between(rows, begin + 200_000_000, end - 100_000_000) - asleep,
                profile["quality"]["shim_ns_per_launch"])


def cost_rows(table):
    program = str(built("launch-cost", "launch_cost.cu", "-lcuda"))
    figures = {"with": [], "without": []}
    for at in range(2 * ROUNDS):
        which = "with" if at % 4 in (0, 3) else "without"
        kinds = ALL_BUT_CALLS + (",sync,calls" if which == "with" else "")
        figures[which].append(cost_round(program, kinds))
    beyond = {which: median([row[0] for row in rows]) for which, rows in figures.items()}
    own = {which: median([row[1] for row in rows]) for which, rows in figures.items()}
    table.add_speed("sync", f"a launch with its return / without, beyond the process after the detach, {ROUNDS} rounds",
                    f"{beyond['with']:+.0f} / {beyond['without']:+.0f} ns", "<= 100 ns more",
                    beyond["with"] - beyond["without"] <= 100)
    table.add("sync", "what the shim says of itself, with / without", f"{own['with']:.0f} / {own['without']:.0f} ns a launch")


def run(table):
    torch_rows(table)
    blocker_rows(table)
    cost_rows(table)
