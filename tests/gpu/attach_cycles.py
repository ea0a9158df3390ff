# SPDX-License-Identifier: Apache-2.0
"""PyTorch training through attach/detach cycles: what it holds and how fast it is, before and afterwards."""
import paired_speed
from attach_graphs import cycles, left_behind
from attach_settings import CYCLES, DEVICE_MIB_A_CYCLE
from footprint import Footprint
from gpu_harness import GpuBench, TorchWorkload, process_row

LABEL = "PyTorch training"


EACH = 3  # programs with the shim, and as many without


def run(table):
    with GpuBench("attach-cycles") as bench:
        started = [TorchWorkload(bench, "training", environment)
                   for _ in range(EACH) for environment in (bench.environment(), bench.unprepared())]
        groups = paired_speed.Groups(*([one.wait_ready() for one in started[first::2]] for first in (0, 1)))
        workload, control = groups.touched[0], groups.untouched[0]
        before = groups.look()
        sidecar = bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
        sidecar.wait_ready()
        free = workload.ask("memory")["free"]
        program = LoopingTorch(groups.touched)
        held = Footprint(workload.pid)
        seen, errors, first = program.under_load(lambda: cycles(sidecar, program, 1))
        held_after_one = Footprint(workload.pid)
        after_one = groups.look()
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
        left_behind(table, LABEL, held, held_after_one, held_at_last, programs=EACH)
        freed = workload.ask("memory")["free"]
        bound = DEVICE_MIB_A_CYCLE * CYCLES * EACH
        table.add("attach", f"{LABEL}: free device memory, cudaMemGetInfo, against before; {EACH} programs",
                  f"{(freed - free) / 2**20:+.1f} MiB", f">= -{bound:.0f} MiB", freed - free >= -bound * 2**20)
        table.add("attach", f"{LABEL}: how the last sessions ended",
                  [process_row(sidecar, one.pid)["last_disarm"] for one in groups.touched])
        groups.rows(table, f"{LABEL}, one cycle", before, after_one)
        groups.rows(table, f"{LABEL}, {CYCLES} cycles, {iterations} iterations", before, groups.look())


class LoopingTorch:
    """TorchWorkloads in their loops, as cycles() wants them."""

    def __init__(self, workloads):
        self.workloads = workloads
        self.pids = [one.pid for one in workloads]

    def alive(self):
        return all(one.process.poll() is None for one in self.workloads)

    def under_load(self, action):
        """What `action` returns, taken while they iterate without a pause, and how often the first of them did."""
        for one in self.workloads:
            one.send("loop")
        result = action()
        for one in self.workloads:
            one.send("")
        return (*result, [one.answer()["iterations"] for one in self.workloads][0])
