# SPDX-License-Identifier: Apache-2.0
"""idle_ops_torch.py's stand-in on the double: the driver API by ctypes. SIMGPU_KERNEL_NS says how long a kernel takes."""
import ctypes
import time

import driver_steps
from driver_steps import VERSION  # noqa: F401

ITEM_S = 0.005
BATCH = 4
BYTES = 1 << 16


class Operations:
    def __init__(self, name):
        driver_steps.make_context()
        self.host = ctypes.create_string_buffer(BYTES)
        self.memory = ctypes.c_void_p()
        driver_steps.call("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(BYTES))

    def warm_up(self):
        self.scale()

    @staticmethod
    def scale():
        driver_steps.devices[0].launch(1)

    @staticmethod
    def batches():
        for number in range(16):
            time.sleep(ITEM_S * BATCH)
            yield number

    def to_gpu(self, batch):
        driver_steps.call("cuMemcpyHtoDAsync_v2", self.memory, self.host, ctypes.c_size_t(BYTES), None)
        return batch

    @staticmethod
    def train(inputs):
        driver_steps.devices[0].launch(10)

    @staticmethod
    def heavy_step():
        driver_steps.devices[0].launch(1)
        return 1.0

    @staticmethod
    def item(loss):
        driver_steps.synchronize()
        return loss

    @staticmethod
    def synchronize():
        driver_steps.synchronize()
