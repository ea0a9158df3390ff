# SPDX-License-Identifier: Apache-2.0
"""A training loop on the driver API, as a person's program looks: a loader, a model of layers, an optimizer, a metric
that is read back. Runs until SIGTERM. Kernels take what SIMGPU_KERNEL_NS says (times_ns() below)."""
import ctypes
import signal
import sys
import threading

cuda = ctypes.CDLL("libcuda.so.1")
NAMES = ["_Z6conv2dPfPKfS1_iii", "_Z9batchnormPfPKfi", "_Z4reluPfi", "_Z15sgemm_128x64_ntPfPKfS1_iii", "_Z14softmax_onlinePfPKfi",
         "_Z19cross_entropy_stagePfPKfPKi", "_Z10adamw_stepPfS_S_S_f", "_Z12augment_cropPhPKhii"]
PTX = ".version 6.4\n.target sm_50\n.address_size 64\n" + "".join(
    f".visible .entry {name}()\n{{\n  ret;\n}}\n" for name in NAMES)
BYTES = 1 << 20
running = True


def times_ns():
    return "conv2d=180000,sgemm=120000,softmax=40000,adamw=60000,augment=25000,*=9000"


def check(result):
    if result != 0:
        raise SystemExit(f"driver call failed: {result}")


class Gpu:
    def __init__(self):
        device, self.context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        check(cuda.cuInit(0))
        check(cuda.cuDeviceGet(ctypes.byref(device), 0))
        check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), device))
        check(cuda.cuCtxSetCurrent(self.context))
        check(cuda.cuModuleLoadData(ctypes.byref(module), PTX.encode()))
        self.functions = {}
        for name in NAMES:
            function = ctypes.c_void_p()
            check(cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
            self.functions[name] = function
        self.memory = ctypes.c_uint64()
        check(cuda.cuMemAlloc_v2(ctypes.byref(self.memory), ctypes.c_size_t(BYTES)))
        self.host = ctypes.create_string_buffer(BYTES)

    def stream(self):
        check(cuda.cuCtxSetCurrent(self.context))
        stream = ctypes.c_void_p()
        check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
        return stream

    def launch(self, part, stream):
        name = next(name for name in NAMES if part in name)
        check(cuda.cuLaunchKernel(self.functions[name], 1, 1, 1, 1, 1, 1, 0, stream, None, None))


class Layer:
    def __init__(self, *kernels):
        self.kernels = kernels

    def forward(self, stream):
        for kernel in self.kernels:
            gpu.launch(kernel, stream)

    def backward(self, stream):
        for kernel in reversed(self.kernels):
            gpu.launch(kernel, stream)
            gpu.launch(kernel, stream)


class Block(Layer):
    def __init__(self):
        super().__init__("conv2d", "batchnorm", "relu")


class Attention(Layer):
    def __init__(self):
        super().__init__("sgemm", "softmax", "sgemm")


class Model:
    def __init__(self):
        self.layers = [Block(), Block(), Attention(), Layer("sgemm")]

    def forward(self, stream):
        for layer in self.layers:
            layer.forward(stream)

    def backward(self, stream):
        for layer in reversed(self.layers):
            layer.backward(stream)


class Loader:
    """Prepares batches on a thread of its own."""

    def __init__(self):
        self.wanted, self.ready = threading.Semaphore(2), threading.Semaphore(0)
        threading.Thread(target=self.run, name="loader", daemon=True).start()

    def run(self):
        stream = gpu.stream()
        while running:
            self.wanted.acquire()
            self.prepare(stream)
            self.ready.release()

    def prepare(self, stream):
        sum(number * number for number in range(20_000))  # decodes
        check(cuda.cuMemcpyHtoDAsync_v2(gpu.memory, gpu.host, ctypes.c_size_t(BYTES), stream))
        gpu.launch("augment", stream)
        check(cuda.cuStreamSynchronize(stream))

    def next_batch(self):
        self.ready.acquire()
        self.wanted.release()


class Optimizer:
    def step(self, stream):
        for _ in range(4):
            gpu.launch("adamw", stream)


def read_loss(stream):
    loss = ctypes.create_string_buffer(4)
    check(cuda.cuMemcpyDtoHAsync_v2(loss, gpu.memory, ctypes.c_size_t(4), stream))
    check(cuda.cuStreamSynchronize(stream))


def train():
    stream, loader, model, optimizer = gpu.stream(), Loader(), Model(), Optimizer()
    print("training", flush=True)
    while running:
        loader.next_batch()
        model.forward(stream)
        gpu.launch("cross_entropy", stream)
        model.backward(stream)
        optimizer.step(stream)
        read_loss(stream)


def stop(*_):
    global running
    running = False


if __name__ == "__main__":
    if "--times" in sys.argv:
        print(times_ns())
    else:
        signal.signal(signal.SIGTERM, stop)
        gpu = Gpu()
        train()
