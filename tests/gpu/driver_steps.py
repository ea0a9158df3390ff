# SPDX-License-Identifier: Apache-2.0
"""torch_steps.py's stand-in on the double (gpu-check -double): the driver API by ctypes, and a profiler that takes CUPTI's
subscriber, loses everything where another has it, and keeps it for good unless TEARDOWN_CUPTI=1, as torch.profiler does."""
import ctypes
import os

VERSION = "none: the driver API by ctypes"
KERNEL = b"_Z4axpyifPKfPf"
PTX = b""".version 6.4
.target sm_75
.address_size 64
.visible .entry %s(.param .u32 p_n, .param .f32 p_a, .param .u64 p_x, .param .u64 p_y)
{
  ret;
}
""" % KERNEL
LAUNCHES = {"inference": 20, "training": 60, "graph": 20, "compiled": 20, "launches": 200}

cuda = ctypes.CDLL("libcuda.so.1")
devices = []


def check(result, what):
    if result != 0:
        raise RuntimeError(f"{what} returned {result}")


def call(name, *arguments):
    check(getattr(cuda, name)(*arguments), name)


class Device:
    """A context on a device, and a kernel in it."""

    def __init__(self, number):
        self.context, module, self.function, self.memory = (ctypes.c_void_p() for _ in range(4))
        call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), number)
        self.make_current()
        call("cuModuleLoadData", ctypes.byref(module), PTX)
        call("cuModuleGetFunction", ctypes.byref(self.function), module, KERNEL)
        call("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(1 << 16))
        self.kept = (ctypes.c_int(4096), ctypes.c_float(1.5), self.memory, self.memory)
        self.parameters = (ctypes.c_void_p * 4)(*(ctypes.cast(ctypes.byref(value), ctypes.c_void_p)
                                                  for value in self.kept))

    def make_current(self):
        call("cuCtxSetCurrent", self.context)

    def launch(self, count, stream=None):
        for _ in range(count):
            call("cuLaunchKernel", self.function, 16, 1, 1, 256, 1, 1, 0, stream, self.parameters, None)


def device_count():
    count = ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(count))
    return count.value


def make_context():
    if not devices:
        call("cuInit", 0)
        devices.append(Device(0))


def make_step(mode):
    make_context()
    if mode == "devices":
        return make_step_on_devices()
    count, device = LAUNCHES[mode], devices[0]
    if mode != "graph":
        return lambda: device.launch(count)
    stream, graph, replayed = (ctypes.c_void_p() for _ in range(3))
    call("cuStreamCreate", ctypes.byref(stream), 1)
    call("cuStreamBeginCapture_v2", stream, 1)
    device.launch(count, stream)
    call("cuStreamEndCapture", stream, ctypes.byref(graph))
    call("cuGraphInstantiateWithFlags", ctypes.byref(replayed), graph, ctypes.c_ulonglong(0))
    return lambda: call("cuGraphLaunch", replayed, stream)


def make_step_on_devices():
    devices.extend(Device(number) for number in range(1, device_count()))

    def step():
        for device in devices:
            device.make_current()
            device.launch(20)
            call("cuStreamSynchronize", None)  # at full speed records are lost, devices' names among them

    return step


def synchronize():
    for device in devices:
        device.make_current()
        call("cuCtxSynchronize")


def free_memory():
    return 0  # the double has no end of memory


class Profiler:
    cupti = None
    subscriber = ctypes.c_void_p()
    CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)
    callback = CALLBACK(lambda *_: None)
    ours = False

    def begin(self):
        Profiler.cupti = Profiler.cupti or ctypes.CDLL("libcupti.so.13")
        if not Profiler.ours:
            result = self.cupti.cuptiSubscribe(ctypes.byref(Profiler.subscriber), Profiler.callback, None)
            Profiler.ours = result == 0
        self.blind = not Profiler.ours
        self.before = launches()

    def end(self):
        synchronize()
        made = launches() - self.before
        if Profiler.ours and os.environ.get("TEARDOWN_CUPTI") == "1":
            check(self.cupti.cuptiUnsubscribe(Profiler.subscriber), "cuptiUnsubscribe")
            Profiler.ours = False
        return {} if self.blind else {KERNEL.decode(): {"count": made, "gpu_ns": 2000 * made}}


def launches():
    """Executions so far, by the double's own account."""
    import json

    size = cuda.simgpu_truth_json(None, ctypes.c_size_t(0)) + 4096
    text = ctypes.create_string_buffer(size)
    cuda.simgpu_truth_json(text, ctypes.c_size_t(size))
    return json.loads(text.value)["executions"]
