# SPDX-License-Identifier: Apache-2.0
"""What python_launches.py launches, and what it keeps of each launch."""
import ctypes
import sys
import traceback

KERNELS = 128
PTX = ".version 6.4\n.target sm_50\n.address_size 64\n" + "".join(
    f".visible .entry kernel_{number}()\n{{\n  ret;\n}}\n" for number in range(KERNELS))

cuda = ctypes.CDLL("libcuda.so.1")
launched = {}  # by kernel: its frames
marked = []
greenlets = []
skipped = {}


def check(result):
    if result != 0:
        raise SystemExit(f"driver call failed: {result}")


class Kernels:
    def __init__(self):
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        check(cuda.cuInit(0))
        check(cuda.cuDeviceGet(ctypes.byref(device), 0))
        check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        check(cuda.cuCtxSetCurrent(context))
        check(cuda.cuModuleLoadData(ctypes.byref(module), PTX.encode()))
        self.context = context
        self.functions = []
        for number in range(KERNELS):
            function = ctypes.c_void_p()
            check(cuda.cuModuleGetFunction(ctypes.byref(function), module, f"kernel_{number}".encode()))
            self.functions.append(function)

    def make_current(self):
        check(cuda.cuCtxSetCurrent(self.context))


def qualified_name(code):
    return getattr(code, "co_qualname", code.co_name)


def frames_of(frame):
    return [(qualified_name(code.f_code), code.f_code.co_filename, line) for code, line in traceback.walk_stack(frame)]


def launch():
    number = len(launched)
    function = kernels.functions[number]
    # One line, so that the frame stands at the same one in both.
    launched[f"kernel_{number}"] = frames_of(sys._getframe()); check(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None))  # noqa: E501,E702


kernels = Kernels()
