# SPDX-License-Identifier: Apache-2.0
"""PyTorch training through attach/detach cycles: what it holds and how fast it is, before and afterwards."""
import paired_speed
from attach_graphs import cycles, left_behind
from attach_settings import CYCLES, DEVICE_MIB_A_CYCLE
from footprint import Footprint
from gpu_harness import GpuBench, TorchWorkload, process_row

LABEL = "PyTorch training"


def run(table):
    with GpuBench("attach-cycles") as bench:
        started = [*(TorchWorkload(bench, "training", bench.unprepared()) for _ in range(2)), TorchWorkload(bench, "training")]
        untouched, control, workload = (one.wait_ready() for one in started)
        before = paired_speed.ratios(workload, control, untouched)
        sidecar = bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
        sidecar.wait_ready()
        free = workload.ask("memory")["free"]
        program = LoopingTorch(workload)
        held = Footprint(workload.pid)
        seen, errors, first = program.under_load(lambda: cycles(sidecar, program, 1))
        held_after_one = Footprint(workload.pid)
        after_one = paired_speed.ratios(workload, control, untouched)
        more, more_errors, iterations = program.under_load(lambda: cycles(sidecar, program, CYCLES - 1))
        held_at_last = Footprint(workload.pid)
        seen, errors, iterations = seen + more, errors + more_errors, first + iterations
        table.add("attach", f"{LABEL}: alive after {CYCLES} attach/detach cycles", f"{program.alive()}, {seen} cycles saw "
                  f"executions; errors {errors[:3]}", "alive, all", program.alive() and seen == CYCLES and not errors)
        # What as many iterations do to a program that nobody touches.
        idle = Footprint(control.pid)
        control.ask(f"run {iterations}")
        grown = (Footprint(control.pid).rss_kib - idle.rss_kib) / 1024
        table.add("attach", f"{LABEL}: RSS of an untouched program after as many iterations", f"{grown:+.1f} MiB")
        left_behind(table, LABEL, held, held_after_one, held_at_last)
        freed = workload.ask("memory")["free"]
        table.add("attach", f"{LABEL}: free device memory, cudaMemGetInfo, against before",
                  f"{(freed - free) / 2**20:+.1f} MiB", f">= -{DEVICE_MIB_A_CYCLE} MiB a cycle",
                  freed - free >= -DEVICE_MIB_A_CYCLE * CYCLES * 2**20)
        table.add("attach", f"{LABEL}: how the last session ended", process_row(sidecar, workload.pid)["last_disarm"])
        paired_speed.row(table, f"{LABEL}, one cycle", before, after_one)
        paired_speed.row(table, f"{LABEL}, {CYCLES} cycles, {iterations} iterations", before,
                         paired_speed.ratios(workload, control, untouched))


class LoopingTorch:
    """A TorchWorkload in its loop, as cycles() wants it."""

    def __init__(self, workload):
        self.workload, self.process, self.pid = workload, workload.process, workload.pid

    def alive(self):
        return self.process.poll() is None

    def under_load(self, action):
        """What `action` returns, taken while it iterates without a pause, and how often it did."""
        self.workload.send("loop")
        result = action()
        self.workload.send("")
        return *result, self.workload.answer()["iterations"]
