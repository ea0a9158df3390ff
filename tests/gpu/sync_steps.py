# SPDX-License-Identifier: Apache-2.0
"""PyTorch that waits for its GPU in four ways, each in a function of its own, and measures each wait by its own clock.

    sync_steps.py COUNT    says "ready", waits for a line on stdin, runs, prints one JSON object, ends with its input
"""
import json
import sys
import time

import torch


def item(work):
    return work.item()


def device_synchronize(work):
    torch.cuda.synchronize()


def event_synchronize(work):
    event = torch.cuda.Event()
    event.record()
    event.synchronize()


def to_cpu(work):
    return work.cpu()


WAYS = (item, device_synchronize, event_synchronize, to_cpu)


def main():
    count = int(sys.argv[1])
    matrix = torch.randn(4096, 4096, device="cuda")
    large = torch.randn(2048, 2048, device="cuda")

    def work():
        product = matrix
        for _ in range(4):
            product = product @ matrix
        return product

    def step(way):
        product = work()
        waited_for = product.sum() if way is item else large + product[:2048, :2048]
        begin = time.monotonic_ns()
        way(waited_for)
        return time.monotonic_ns() - begin

    for way in WAYS:
        step(way)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps({way.__name__: sum(step(way) for _ in range(count)) for way in WAYS}), flush=True)


if __name__ == "__main__":
    main()
