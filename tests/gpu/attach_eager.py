# SPDX-License-Identifier: Apache-2.0
"""A module that was loaded, launched from and unloaded before anybody attached: with PILLION_EAGER=1 it is handed over."""
from gpu_harness import GpuBench, executions, process_row, wait_until


def stored(eager):
    """(modules handed over, executions, the program's truth) of a profile taken after the unload."""
    with GpuBench(f"attach-eager-{eager}") as bench:
        workload = bench.workload("unloaded", "--seconds", "0", "--rate", "5000", "--delay", "1", PILLION_EAGER=eager)
        wait_until(lambda: "unloaded" in workload.output().split(), "the module to be unloaded", 60)
        sidecar = bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
        sidecar.wait_ready()
        profile = sidecar.profile(2)
        wait_until(lambda: process_row(sidecar, workload.pid)["state"] == "connected", "the shim to have detached", 20)
        ended = process_row(sidecar, workload.pid)["last_disarm"]
        workload.stop()
        return profile["quality"]["modules_stored"], executions(profile), ended, workload.truth()


def run(table):
    without, seen_without, _, _ = stored(0)
    modules, seen, ended, truth = stored(1)
    table.add("attach", "a module unloaded before the attach: modules handed over, PILLION_EAGER 0 / 1",
              f"{without} / {modules}", "one more", modules == without + 1)
    table.add("attach", "executions in the window, PILLION_EAGER 0 / 1", f"{seen_without} / {seen}", "> 0",
              seen > 0 and seen_without > 0)
    table.add("attach", "PILLION_EAGER=1: how the session ended; the program's launches", f"{ended}; {truth['launches']}")
