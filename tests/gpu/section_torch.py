# SPDX-License-Identifier: Apache-2.0
"""PyTorch: kernels and their times against torch.profiler's for the same iterations, stacks, answer time."""
import threading
import time

from gpu_harness import GpuBench, harness, TorchWorkload, stack_endings

wait_until = harness.wait_until

ITERATIONS = {"inference": 300, "training": 100, "graph": 300}


def profile_of(sidecar, workload, iterations, seconds=5):
    """A window around `run N`; returns (profile, seconds the answer took)."""
    box = {}

    def ask():
        begin = time.monotonic()
        box["profile"] = sidecar.profile(seconds)
        box["took"] = time.monotonic() - begin

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(1.5)  # the window is open well before; the run must lie inside it
    box["run"] = workload.ask(f"run {iterations}")
    thread.join()
    window = box["profile"]["window"]
    begin = window["start_monotonic_ns"]
    inside = begin <= box["run"]["begin_ns"] and box["run"]["end_ns"] <= begin + window["duration_ns"]
    return box["profile"], box["took"], inside


def compare(table, mode, profile, reference, iterations):
    ours = {}
    for row in profile["kernels"]:
        entry = ours.setdefault(row["name"], [0, 0])
        entry[0] += row["launches"]
        entry[1] += row["gpu_time_ns"]
    count = sum(entry[0] for entry in ours.values())
    time_ns = sum(entry[1] for entry in ours.values())
    their_count = sum(row["count"] for row in reference["kernels"].values())
    their_time = sum(row["gpu_ns"] for row in reference["kernels"].values())
    table.add("torch", f"{mode}: executions, ours / torch.profiler", f"{count} / {their_count}", "equal",
              count == their_count)
    difference = 100.0 * (time_ns - their_time) / their_time
    table.add("torch", f"{mode}: total GPU time against torch.profiler", f"{difference:+.2f} %", "within 0.5 %",
              abs(difference) <= 0.5)
    missing = [name for name in reference["kernels"] if name not in ours and not name.startswith("Mem")]
    worst_name, worst = "", 0.0
    for name, row in reference["kernels"].items():
        if name in ours and row["gpu_ns"] > 0.02 * their_time:
            off = 100.0 * (ours[name][1] - row["gpu_ns"]) / row["gpu_ns"]
            if abs(off) > abs(worst):
                worst_name, worst = name, off
    table.add("torch", f"{mode}: kernels of theirs that we do not name", len(missing), "0", not missing)
    table.add("torch", f"{mode}: worst kernel over 2 % of the time", f"{worst:+.2f} % {worst_name[:40]}", "within 0.5 %",
              abs(worst) <= 0.5)


def stacks(table, mode, profile):
    quality = profile["quality"]
    endings = stack_endings(quality)
    taken = sum(endings.values())
    share = 100.0 * endings.get("rooted", 0) / taken if taken else 0.0
    table.add("torch", f"{mode}: snapshots rooted", f"{share:.2f} % of {taken} ({endings})", ">= 99 %", share >= 99)


def detached(sidecar, workload):
    """The last window is over and CUPTI let go of; a few iterations give it an API call to do that in."""
    workload.ask("run 2")
    return sidecar.get_json("/status")["processes"][0]["state"] == "connected"


def run(table):
    for mode, iterations in ITERATIONS.items():
        with GpuBench() as bench:
            workload = TorchWorkload(bench, mode)
            workload.ask("run 20")
            sidecar = bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
            sidecar.wait_ready()
            profile, took, inside = profile_of(sidecar, workload, iterations)
            table.add("torch", f"{mode}: the run lies inside the window", inside, "True", inside)
            table.add("torch", f"{mode}: /profile?seconds=5 answered after", f"{took:.2f} s", "<= 6 s", took <= 6)
            stacks(table, mode, profile)
            wait_until(lambda: detached(sidecar, workload), "the shim to have detached", 20)
            reference = workload.ask(f"torch {iterations}")
            compare(table, mode, profile, reference, iterations)
