# SPDX-License-Identifier: Apache-2.0
"""A transformer under PyTorch that does what it is told on standard input, a command a line:

  run N          N iterations, synchronised at the end
  loop           iterate until the next line comes
  torch N        N iterations under torch.profiler; answers with its kernels
  speed N        N iterations, each timed; answers with the median in microseconds
  quit

Each command is answered by one JSON line. Modes: inference, training, graph (CUDA-graph replay).
"""
import json
import select
import statistics
import sys
import time

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width=512, depth=6, heads=8, vocabulary=4096):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens)))


def make_step(mode):
    torch.manual_seed(0)
    model = Model().cuda()
    tokens = torch.randint(0, 4096, (8, 128), device="cuda")
    if mode == "training":
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        loss_of = nn.CrossEntropyLoss()

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(model(tokens).flatten(0, 1), tokens.flatten())
            loss.backward()
            optimizer.step()

        return step
    model.eval().half()

    def infer():
        with torch.inference_mode():
            model(tokens)

    if mode == "inference":
        return infer
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            infer()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.inference_mode():
        model(tokens)
    return graph.replay


def run(step, count):
    begin = time.monotonic_ns()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    return {"iterations": count, "begin_ns": begin, "end_ns": time.monotonic_ns()}


def loop(step):
    count, begin = 0, time.monotonic_ns()
    while not select.select([sys.stdin], [], [], 0)[0]:
        for _ in range(5):
            step()
        torch.cuda.synchronize()
        count += 5
    return {"iterations": count, "begin_ns": begin, "end_ns": time.monotonic_ns()}


def speed(step, count):
    times = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        step()
        torch.cuda.synchronize()
        times.append((time.perf_counter_ns() - begin) / 1000)
    return {"median_us": statistics.median(times), "iterations": count}


def under_torch_profiler(step, count):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(count):
            step()
        torch.cuda.synchronize()
    kernels = {}
    for event in profiler.profiler.kineto_results.events():
        if event.device_type() != torch.autograd.DeviceType.CUDA:
            continue
        entry = kernels.setdefault(event.name(), {"count": 0, "gpu_ns": 0})
        entry["count"] += 1
        entry["gpu_ns"] += event.duration_ns()
    return {"iterations": count, "kernels": kernels}


def main():
    step = make_step(sys.argv[1])
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    print(json.dumps({"ready": True, "torch": torch.__version__}), flush=True)
    actions = {"run": run, "speed": speed, "torch": under_torch_profiler}
    # Unbuffered, so that select() in loop() sees a waiting line.
    stdin = open(0, "rb", buffering=0, closefd=False)
    while True:
        line = stdin.readline().decode()
        words = line.split()
        if not line or words[:1] == ["quit"]:
            return
        if not words:  # an empty line ends a loop and asks for nothing
            continue
        answer = loop(step) if words[0] == "loop" else actions[words[0]](step, int(words[1]))
        print(json.dumps(answer), flush=True)


main()
