# SPDX-License-Identifier: Apache-2.0
"""PyTorch: kernels and their times against torch.profiler's for the same iterations, stacks, answer time."""
import threading
import time

from gpu_harness import GpuBench, TorchWorkload, harness, median, rounds, stack_endings

wait_until = harness.wait_until

ROUNDS = rounds(3)
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


def ours_of(profile):
    kernels = {}
    for row in profile["kernels"]:
        entry = kernels.setdefault(row["name"], {"count": 0, "gpu_ns": 0})
        entry["count"] += row["launches"]
        entry["gpu_ns"] += row["gpu_time_ns"]
    return kernels


def compare(table, mode, rounds):
    """rounds: pairs of (ours, torch.profiler's), one right after the other."""
    counts = [(sum(row["count"] for row in ours.values()), sum(row["count"] for row in theirs.values()))
              for ours, theirs in rounds]
    table.add("torch", f"{mode}: executions, ours / torch.profiler", counts, "equal", all(a == b for a, b in counts))

    def time_of(kernels, name=None):
        return sum(row["gpu_ns"] for key, row in kernels.items() if name in (None, key))

    def off(name=None):
        return median([100.0 * (time_of(ours, name) - time_of(theirs, name)) / time_of(theirs, name)
                       for ours, theirs in rounds])

    table.add("torch", f"{mode}: total GPU time against torch.profiler", f"{off():+.2f} %", "within 0.5 %",
              abs(off()) <= 0.5)
    # Copies and sets have names of our own.
    names = [name for name, row in rounds[0][1].items()
             if row["gpu_ns"] > 0.02 * time_of(rounds[0][1]) and not name.startswith(("Memcpy", "Memset"))]
    missing = [name for name in names if name not in rounds[0][0]]
    table.add("torch", f"{mode}: kernels of theirs that we do not name", missing, "none", not missing)
    worst = max((name for name in names if name not in missing), key=lambda name: abs(off(name)))
    table.add("torch", f"{mode}: worst kernel of {len(names)} over 2 % of the time", f"{off(worst):+.2f} % {worst[:40]}",
              "within 0.5 %", abs(off(worst)) <= 0.5)


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
        rounds = []
        with GpuBench() as bench:
            workload = TorchWorkload(bench, mode, TEARDOWN_CUPTI=1)  # else torch.profiler keeps CUPTI for good
            workload.ask("run 20")
            sidecar = bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
            sidecar.wait_ready()
            for _ in range(ROUNDS):
                workload.ask("run 20")  # torch.profiler lets go of CUPTI at an API call
                profile, took, inside = profile_of(sidecar, workload, iterations)
                wait_until(lambda: detached(sidecar, workload), "the shim to have detached", 20)
                rounds.append((ours_of(profile), workload.under_torch_profiler(iterations)))
            table.add("torch", f"{mode}: the run lies inside the window", inside, "True", inside)
            table.add("torch", f"{mode}: /profile?seconds=5 answered after", f"{took:.2f} s", "<= 6 s", took <= 6)
            stacks(table, mode, profile)
            compare(table, mode, rounds)
