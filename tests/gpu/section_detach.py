# SPDX-License-Identifier: Apache-2.0
"""Graph replay goes on unharmed through many windows with a detach after each."""
import time

from gpu_harness import GpuBench, TorchWorkload

WINDOWS = 20


def run(table):
    with GpuBench() as bench:
        workload = TorchWorkload(bench, "graph")
        before = workload.ask("speed 300")["median_us"]
        sidecar = bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
        sidecar.wait_ready()
        workload.send("loop")
        executions, empty = 0, 0
        for _ in range(WINDOWS):
            profile = sidecar.profile(1)
            found = sum(row["launches"] for row in profile["kernels"])
            executions += found
            empty += found == 0
            time.sleep(0.3)  # the detach happens under full load
        states = sidecar.get_json("/status")["processes"]
        workload.send("")
        replayed = workload.answer()["iterations"]
        after = workload.ask("speed 300")["median_us"]
        table.add("detach", f"graph replays alive after {WINDOWS} windows with detach", f"{replayed} replays, "
                  f"{executions} executions seen, {empty} empty windows", "alive, none empty", empty == 0)
        table.add("detach", "how the last session ended", states[0]["last_disarm"])
        table.add("detach", "replay, median before / after", f"{before:.1f} / {after:.1f} us "
                  f"({100 * (after - before) / before:+.1f} %)", "<= +2 %", after <= 1.02 * before)
