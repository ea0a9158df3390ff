# SPDX-License-Identifier: Apache-2.0
"""A client of CUPTI's in the program's own process, as small as can be: one cycle of recording kernels."""
import ctypes

CONCURRENT_KERNEL = 10
BUFFER_BYTES = 1 << 20


def load():
    """The library that the process has mapped, else the one on the search path."""
    with open("/proc/self/maps") as maps:
        mapped = {line.split()[-1] for line in maps if "libcupti.so" in line}
    return ctypes.CDLL(mapped.pop() if mapped else "libcupti.so.13")


def cycle(step, count, synchronize):
    """`count` steps under it. {"results": what the calls returned, "buffers": how many came back}"""
    library = load()
    buffers = {}
    given = 0

    @ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t))
    def requested(buffer, size, most):
        memory = ctypes.create_string_buffer(BUFFER_BYTES)
        address = ctypes.addressof(memory)
        buffers[address] = memory
        buffer[0], size[0], most[0] = address, BUFFER_BYTES, 0

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
    def completed(_context, _stream, buffer, _size, _valid):
        nonlocal given
        given += 1
        buffers.pop(buffer, None)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)
    def called(*_):
        pass

    subscriber = ctypes.c_void_p()
    results = [library.cuptiSubscribe(ctypes.byref(subscriber), called, None),
               library.cuptiActivityRegisterCallbacks(requested, completed),
               library.cuptiActivityEnable(CONCURRENT_KERNEL)]
    for _ in range(count):
        step()
    synchronize()
    results += [library.cuptiActivityFlushAll(1), library.cuptiUnsubscribe(subscriber), library.cuptiFinalize()]
    cycle.kept = (buffers, requested, completed, called)  # CUPTI may have forgotten buffers, not given them back
    return {"results": results, "buffers": given}
