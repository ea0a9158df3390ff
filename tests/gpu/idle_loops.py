# SPDX-License-Identifier: Apache-2.0
"""Loops that leave the GPU idle, each for a reason of its own: idle_loops.py sleep|loader|sync

Says {"ready": ...} after a warm-up and loops until its input ends. The line that launches first after the GPU has run out of
work is marked with LINE and the loop's name; section_idle.py looks for the marks. GPU_CHECK_DOUBLE in the environment: on
the double, without PyTorch.
"""
import json
import os
import select
import sys
import time

if "GPU_CHECK_DOUBLE" in os.environ:
    import idle_ops_double as operations
else:
    import idle_ops_torch as operations

SLEEP_S = 0.010


def running():
    return not select.select([sys.stdin], [], [], 0)[0]


def sleep_loop(ops):
    while running():
        time.sleep(SLEEP_S)
        ops.scale()  # LINE sleep


def loader_loop(ops):
    """Training on batches that take long to come: each item sleeps."""
    while running():
        for batch in ops.batches():
            inputs = ops.to_gpu(batch)  # LINE loader
            ops.train(inputs)
            if not running():
                break


def sync_loop(ops):
    """A step, and its loss asked for at once: the host waits for the GPU, and then the GPU for the host."""
    total = 0.0
    while running():
        loss = ops.heavy_step()  # LINE sync
        total += ops.item(loss)


def main():
    name = sys.argv[1]
    ops = operations.Operations(name)
    for _ in range(5):
        ops.warm_up()
    ops.synchronize()
    print(json.dumps({"ready": True, "with": operations.VERSION}), flush=True)
    {"sleep": sleep_loop, "loader": loader_loop, "sync": sync_loop}[name](ops)
    ops.synchronize()


main()
