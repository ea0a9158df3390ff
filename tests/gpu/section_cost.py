# SPDX-License-Identifier: Apache-2.0
"""What one launch costs: bare, under a minimal CUPTI client, shim asleep, profiling, after detach; interleaved.

Processes differ by up to 10 % from one another on a shared machine, so what can be compared within one process is:
profiling and after detach against the same process asleep, the minimal client against the same process before it.
"""
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

from gpu_harness import GpuBench, ROOT, built, median, monotonic, rounds

ROUNDS = rounds(5)
PAIRS = 6 * ROUNDS
SECOND = 1_000_000_000


def minimal_client():
    out = pathlib.Path(tempfile.gettempdir()) / "pillion-gpu-minimal.so"
    if not out.exists():
        subprocess.run(["nvcc", "-std=c++17", "-O2", "-Xcompiler", "-fPIC", "-shared", "-o", out,
                        ROOT / "tests" / "gpu" / "minimal_client.cpp", "-lcupti"], check=True)
    return out


def slices(workload):
    return [(row["at_ns"], row["ns_per_launch"]) for row in map(json.loads, workload.output().splitlines())
            if "at_ns" in row]


def between(rows, begin, end):
    return median([ns for at, ns in rows if begin <= at <= end])


def short_run(program, shim):
    """Pinned to one processor, so that two processes differ by as little as they can; the shim's thread sleeps."""
    with GpuBench() as bench:
        workload = bench.workload("/usr/bin/taskset", "-c", "3", program, "1.2", shim=shim)
        workload.finish()
        return median([ns for _, ns in slices(workload)[4:]])


def minimal_round(program, client):
    """(before the client subscribed, after it)"""
    with GpuBench() as bench:
        workload = bench.workload(program, "3", shim=False, CUDA_INJECTION64_PATH=client)
        workload.finish()
        rows = slices(workload)
        first = rows[0][0]
        return between(rows, first + 0.3 * SECOND, first + 0.9 * SECOND), between(rows, first + 1.6 * SECOND,
                                                                               first + 2.9 * SECOND)


def pillion_round(program):
    """(asleep, profiling, after detach, what the shim says of itself)"""
    with GpuBench() as bench:
        workload = bench.workload(program, "8")
        time.sleep(0.8)
        asleep = monotonic()
        time.sleep(1.2)
        asleep = (asleep, monotonic())
        sidecar = bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
        sidecar.wait_ready()
        profile = sidecar.profile(2)
        time.sleep(1.0)
        detached = monotonic()
        workload.finish()
        rows = slices(workload)
        begin = profile["window"]["start_monotonic_ns"]
        end = begin + profile["window"]["duration_ns"]
        return (between(rows, *asleep), between(rows, begin + 0.2 * SECOND, end - 0.1 * SECOND),
                between(rows, detached, detached + 2 * SECOND), profile["quality"]["shim_ns_per_launch"])


def run(table):
    program = str(built("launch-cost", "launch_cost.cu", "-lcuda"))
    client = minimal_client()
    bare, asleep = [], []
    for pair in range(PAIRS):
        for shim in ((False, True) if pair % 2 == 0 else (True, False)):
            (asleep if shim else bare).append(short_run(program, shim))
    share = 100 * (median(asleep) - median(bare)) / median(bare)
    spread = 100 * statistics.stdev(bare) / median(bare)
    table.add("cost", f"asleep / bare, medians of {PAIRS} processes each",
              f"{median(asleep):.0f} / {median(bare):.0f} ns a launch: {share:+.2f} % (bare processes vary by "
              f"{spread:.1f} %)", "<= +1 %", share <= 1)
    rounds = [(minimal_round(program, client), pillion_round(program)) for _ in range(ROUNDS)]
    minimal = median([with_client - before for (before, with_client), _ in rounds])
    profiling = median([ours[1] - ours[0] for _, ours in rounds])
    after = median([100 * (ours[2] - ours[0]) / ours[0] for _, ours in rounds])
    table.add("cost", f"minimal client against its own process before, {ROUNDS} rounds", f"{minimal:+.0f} ns a launch")
    table.add("cost", f"profiling against its own process asleep, {ROUNDS} rounds", f"{profiling:+.0f} ns a launch")
    table.add("cost", "profiling beyond the minimal client", f"{profiling - minimal:+.0f} ns a launch", "<= +150 ns",
              profiling - minimal <= 150)
    table.add("cost", "after detach against the same process asleep", f"{after:+.2f} %", "<= +2 %", after <= 2)
    table.add("cost", "what the shim says of itself", f"{median([ours[3] for _, ours in rounds]):.0f} ns a launch")
