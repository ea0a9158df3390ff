# SPDX-License-Identifier: Apache-2.0
"""A PyTorch program that works on every device, and copies between them: each device's work is found, and attach and
detach leave the program whole. On a machine with one device it says so and shows nothing."""
import collections

from attach_cycles import LoopingTorch
from attach_graphs import cycles
from attach_settings import CYCLES
from gpu_harness import GpuBench, TorchWorkload, process_row

LABEL = "PyTorch on every device"


def run(table):
    with GpuBench("attach-devices") as bench:
        workload = TorchWorkload(bench, "devices", SIMGPU_DEVICES=2).wait_ready()
        count = workload.ask("devices")["count"]
        table.add("attach", f"{LABEL}: devices", count, "> 1 to show anything", None)
        if count < 2:
            return
        sidecar = bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
        sidecar.wait_ready()
        program = LoopingTorch([workload])
        profile, idle, (seen, errors), iterations = program.under_load(
            lambda: (sidecar.profile(2), sidecar.profile(2, type="idle"), cycles(sidecar, program, CYCLES)))
        by_device = collections.Counter()
        for stack in profile["stacks"]:
            by_device[stack["labels"].get("device")] += stack["launches"]
        table.add("attach", f"{LABEL}: devices named, executions by device", f"{len(profile['devices'])}, {dict(by_device)}",
                  "all, some on each", len(profile["devices"]) == count and len(by_device) == count)
        off = [row["busy_ns"] + row["idle_ns"] - row["window_ns"] for row in idle["device_idle"]]
        table.add("attach", f"{LABEL}: busy + idle less the window, by device", off, "0 of each",
                  len(off) == count and not any(off))
        table.add("attach", f"{LABEL}: busy share by device", [round(row["busy_share"], 3) for row in idle["device_idle"]])
        table.add("attach", f"{LABEL}: alive after {CYCLES} attach/detach cycles in {iterations} iterations",
                  f"{program.alive()}, {seen} cycles saw executions; errors {errors[:3]}", "alive, all",
                  program.alive() and seen == CYCLES and not errors)
        table.add("attach", f"{LABEL}: how the last session ended", process_row(sidecar, workload.pid)["last_disarm"])
        same = workload.ask("run 20")["iterations"]
        table.add("attach", f"{LABEL}: iterations that it runs afterwards", same, "20", same == 20)
