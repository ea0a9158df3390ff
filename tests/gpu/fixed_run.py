# SPDX-License-Identifier: Apache-2.0
"""fixed_run.py MODE STEPS START END: makes a context, waits for the file START, makes the model and runs STEPS steps, says
"done", and ends when the file END is there. What the GPU did between is the same every time."""
import os
import sys
import time

if "GPU_CHECK_DOUBLE" in os.environ:
    import driver_steps as steps
else:
    import torch_steps as steps


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)


def main():
    mode, count, start, end = sys.argv[1:]
    steps.make_context()
    print("context", flush=True)
    wait_for(start)
    step = steps.make_step(mode)
    for _ in range(int(count)):
        step()
    steps.synchronize()
    print("done", flush=True)
    wait_for(end)


main()
