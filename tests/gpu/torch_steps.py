# SPDX-License-Identifier: Apache-2.0
"""A transformer under PyTorch: what one step does, and torch.profiler over some. driver_steps.py has the same names."""
import torch
from torch import nn

VERSION = torch.__version__


class Model(nn.Module):
    def __init__(self, width=512, depth=6, heads=8, vocabulary=4096):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens)))


def make_context():
    torch.cuda.synchronize()  # without a copy, which a recorder sees and who attaches later does not


def make_step(mode):
    if mode == "launches":
        value = torch.zeros(16, device="cuda")

        def launch():
            for _ in range(200):
                value.add_(1)

        return launch
    if mode == "devices":
        return make_step_on_devices()
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
    if mode == "compiled":
        model.compile()
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


def make_step_on_devices():
    values = [torch.full((256, 256), 1e-3, device=f"cuda:{at}") for at in range(device_count())]
    received = [torch.empty_like(value) for value in values]

    def step():
        for at, value in enumerate(values):
            for _ in range(20):
                received[at] = value @ value
            received[at].copy_(values[at - 1])

    return step


def device_count():
    return torch.cuda.device_count()


def synchronize():
    for at in range(device_count()):
        torch.cuda.synchronize(at)


def free_memory():
    """Bytes of the device that nobody has."""
    return torch.cuda.mem_get_info()[0]


class Profiler:
    """torch.profiler's view of the GPU from begin() to end()."""

    def begin(self):
        from torch.profiler import ProfilerActivity, profile

        self.profile = profile(activities=[ProfilerActivity.CUDA])
        self.profile.__enter__()

    def end(self):
        """name -> {count, gpu_ns}"""
        torch.cuda.synchronize()
        self.profile.__exit__(None, None, None)
        kernels = {}
        for event in self.profile.profiler.kineto_results.events():
            if event.device_type() != torch.autograd.DeviceType.CUDA:
                continue
            entry = kernels.setdefault(event.name(), {"count": 0, "gpu_ns": 0})
            entry["count"] += 1
            entry["gpu_ns"] += event.duration_ns()
        return kernels
