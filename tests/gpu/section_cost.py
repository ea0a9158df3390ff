# SPDX-License-Identifier: Apache-2.0
"""What one launch costs: bare, under a minimal CUPTI client, shim asleep, profiling, after detach; interleaved."""
import json
import os
import pathlib
import subprocess
import tempfile
import time

from gpu_harness import GpuBench, ROOT, built, median, monotonic

ROUNDS = int(os.environ.get("GPU_CHECK_ROUNDS", "5"))


def minimal_client():
    out = pathlib.Path(tempfile.gettempdir()) / "pillion-gpu-minimal.so"
    if not out.exists():
        subprocess.run(["nvcc", "-std=c++17", "-O2", "-Xcompiler", "-fPIC", "-shared", "-o", out,
                        ROOT / "tests" / "gpu" / "minimal_client.cpp", "-lcupti"], check=True)
    return out


def slices(workload):
    rows = [json.loads(line) for line in workload.output().splitlines() if line.startswith('{"at_ns"')]
    return [(row["at_ns"], row["ns_per_launch"]) for row in rows]


def between(rows, begin, end):
    return [ns for at, ns in rows if begin <= at <= end]


def run(table):
    program = str(built("launch-cost", "launch_cost.cu", "-lcuda"))
    client = minimal_client()
    samples = {"bare": [], "minimal": [], "asleep": [], "profiling": [], "after detach": []}
    shim_ns = []
    for _ in range(ROUNDS):
        with GpuBench() as bench:
            workload = bench.workload(program, "2.5", shim=False)
            workload.finish()
            samples["bare"] += [ns for _, ns in slices(workload)[8:]]
        with GpuBench() as bench:
            workload = bench.workload(program, "2.5", shim=False, CUDA_INJECTION64_PATH=client)
            workload.finish()
            samples["minimal"] += [ns for _, ns in slices(workload)[8:]]
        with GpuBench() as bench:
            workload = bench.workload(program, "9")
            time.sleep(0.8)
            begin = monotonic()
            time.sleep(1.7)
            asleep = (begin, monotonic())
            sidecar = bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
            sidecar.wait_ready()
            profile = sidecar.profile(2)
            ended = monotonic()
            time.sleep(1.0)
            detached = (monotonic(), monotonic() + int(2e9))
            workload.finish()
            rows = slices(workload)
            window = profile["window"]
            samples["asleep"] += between(rows, *asleep)
            samples["profiling"] += between(rows, window["start_monotonic_ns"] + 200000000,
                                            window["start_monotonic_ns"] + window["duration_ns"] - 100000000)
            samples["after detach"] += between(rows, *detached)
            shim_ns.append(profile["quality"].get("shim_ns_per_launch", 0))
            del ended
    figures = {name: median(values) if values else float("nan") for name, values in samples.items()}
    bare = figures["bare"]
    for name, figure in figures.items():
        table.add("cost", f"{name}: ns per launch, median of {len(samples[name])} slices",
                  f"{figure:.0f} ({100 * (figure - bare) / bare:+.1f} %)")
    asleep = 100 * (figures["asleep"] - bare) / bare
    after = 100 * (figures["after detach"] - bare) / bare
    extra = figures["profiling"] - figures["minimal"]
    table.add("cost", "asleep against bare", f"{asleep:+.2f} %", "<= +1 %", asleep <= 1)
    table.add("cost", "after detach against bare", f"{after:+.2f} %", "<= +2 %", after <= 2)
    table.add("cost", "profiling against the minimal client", f"{extra:+.0f} ns a launch", "<= +150 ns", extra <= 150)
    table.add("cost", "what the shim says of itself", f"{median(shim_ns):.0f} ns a launch")
