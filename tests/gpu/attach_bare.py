# SPDX-License-Identifier: Apache-2.0
"""What CUPTI alone leaves behind in a PyTorch training program: a client that subscribes, records kernels for some steps,
unsubscribes and finalizes, without Pillion; its steps before and afterwards."""
import paired_speed
from gpu_harness import GpuBench, TorchWorkload

LABEL = "PyTorch training, CUPTI alone"


def run(table):
    with GpuBench("attach-bare") as bench:
        started = [TorchWorkload(bench, "training", bench.unprepared()) for _ in range(3)]
        untouched, control, workload = (one.wait_ready() for one in started)
        before = paired_speed.ratios(workload, control, untouched)
        said = workload.ask("cupti 20")
        table.add("attach", f"{LABEL}: what its calls returned, buffers given", said, "0 each, some",
                  not any(said["results"]) and said["buffers"] > 0)
        paired_speed.row(table, f"{LABEL}, one cycle", before, paired_speed.ratios(workload, control, untouched))
