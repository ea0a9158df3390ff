# SPDX-License-Identifier: Apache-2.0
"""A transformer under PyTorch that does what it is told on standard input, a command a line:

  run N          N iterations, synchronised at the end
  loop [FILE]    iterate until the next line comes; into FILE a line per iteration: its end (monotonic ns) and how long
                 it took (ns), synchronised
  torch N        N iterations under torch.profiler; answers once when it has begun, then with its kernels
  speed N        N iterations, each timed; answers with the medians of time and processor time in microseconds
  memory         answers with the free bytes of the device
  devices        answers with how many devices there are
  cupti HOW N    N iterations under a CUPTI client of its own, which leaves as HOW says (bare_cupti.HOW)
  quit

Each command is answered by one JSON line (torch: two). Modes: inference, training, graph (CUDA-graph replay), compiled
(inference under torch.compile), launches (200 of one small kernel, from a Python loop), devices (kernels on
each device, copies between them).
GPU_CHECK_DOUBLE in the environment: on the double, without PyTorch.
"""
import json
import os
import select
import statistics
import sys
import time

import bare_cupti

if "GPU_CHECK_DOUBLE" in os.environ:
    import driver_steps as steps
else:
    import torch_steps as steps


def run(step, count):
    begin = time.monotonic_ns()
    for _ in range(count):
        step()
    steps.synchronize()
    return {"iterations": count, "begin_ns": begin, "end_ns": time.monotonic_ns()}


def loop(step, path=None):
    count, begin = 0, time.monotonic_ns()
    out = open(path, "w", buffering=1) if path else None  # somebody counts the lines
    while not select.select([sys.stdin], [], [], 0)[0]:
        if out:
            count += 1
            timed_step(step, out)
            continue
        for _ in range(5):
            step()
        steps.synchronize()
        count += 5
    if out:
        out.close()
    return {"iterations": count, "begin_ns": begin, "end_ns": time.monotonic_ns()}


def timed_step(step, out):
    begin = time.monotonic_ns()
    step()
    steps.synchronize()
    end = time.monotonic_ns()
    out.write(f"{end} {end - begin}\n")


def speed(step, count):
    times, cpu = [], []
    for _ in range(count):
        begin, cpu_begin = time.perf_counter_ns(), time.process_time_ns()
        step()
        steps.synchronize()
        times.append((time.perf_counter_ns() - begin) / 1000)
        cpu.append((time.process_time_ns() - cpu_begin) / 1000)
    return {"median_us": statistics.median(times), "cpu_us": statistics.median(cpu), "iterations": count}


def under_torch_profiler(step, count):
    profiler = steps.Profiler()
    profiler.begin()
    answer({"profiling": True})
    for _ in range(count):
        step()
    return {"iterations": count, "kernels": profiler.end()}


def answer(value):
    print(json.dumps(value), flush=True)


def main():
    step = steps.make_step(sys.argv[1])
    for _ in range(20):
        step()
    steps.synchronize()
    answer({"ready": True, "torch": steps.VERSION})
    actions = {"run": lambda count: run(step, int(count)), "speed": lambda count: speed(step, int(count)),
               "torch": lambda count: under_torch_profiler(step, int(count)), "loop": lambda *path: loop(step, *path),
               "memory": lambda: {"free": steps.free_memory()},
               "devices": lambda: {"count": steps.device_count()},
               "cupti": lambda how, count: bare_cupti.cycle(step, how, int(count), steps.synchronize)}
    # Unbuffered, so that select() in loop() sees a waiting line.
    stdin = open(0, "rb", buffering=0, closefd=False)
    while True:
        line = stdin.readline().decode()
        words = line.split()
        if not line or words[:1] == ["quit"]:
            return
        if not words:  # an empty line ends a loop and asks for nothing
            continue
        answer(actions[words[0]](*words[1:]))


main()
