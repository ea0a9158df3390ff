# SPDX-License-Identifier: Apache-2.0
"""A client of CUPTI's in the program's own process, as small as can be: one cycle of it, or less."""
import ctypes

CONCURRENT_KERNEL = 10
KINDS = (CONCURRENT_KERNEL, 1, 2, 22, 17)  # and copies, memsets, copies between devices, CUPTI's own overhead
BUFFER_BYTES = 1 << 20
DRIVER_API, RESOURCE = 1, 3
LAUNCHES = (115, 116, 117, 307, 442, 477, 478, 480, 514, 515, 652, 653)
MODULE_PROFILED = 8

# What a client does beside subscribing. enabled: the kinds stay enabled when it leaves; modules: MODULE_PROFILED is on;
# modules off: not when it leaves; first: in the first of its steps alone.
HOW = {"subscribed": (), "disabled": ("record",), "finalized": ("record", "finalize"),
       "finalized-enabled": ("record", "enabled", "finalize"),
       "finalized-calls": ("record", "enabled", "calls", "finalize"),
       "finalized-modules": ("record", "enabled", "calls", "modules", "finalize"),
       "finalized-modules-off": ("record", "enabled", "calls", "modules", "modules off", "finalize"),
       "finalized-modules-first": ("record", "enabled", "calls", "modules", "first", "finalize"),
       "modules-disabled": ("record", "calls", "modules")}


def load():
    """The library that the process has mapped, else the one on the search path."""
    with open("/proc/self/maps") as maps:
        mapped = {line.split()[-1] for line in maps if "libcupti.so" in line}
    return ctypes.CDLL(mapped.pop() if mapped else "libcupti.so.13")


def cycle(step, how, count, synchronize):
    """`count` steps under it. {"results": what the calls returned, "buffers": how many came back}"""
    library = load()
    does = HOW[how]
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
    results = [library.cuptiSubscribe(ctypes.byref(subscriber), called, None)]
    callbacks = [(DRIVER_API, cbid) for cbid in LAUNCHES if "calls" in does]
    callbacks += [(RESOURCE, MODULE_PROFILED)] if "modules" in does else []
    results += [library.cuptiEnableCallback(1, subscriber, domain, cbid) for domain, cbid in callbacks]
    if "record" in does:
        results.append(library.cuptiActivityRegisterCallbacks(requested, completed))
        results += [library.cuptiActivityEnable(kind) for kind in KINDS]
    for at in range(count):
        step()
        if "first" in does and at == 0:
            results.append(library.cuptiEnableCallback(0, subscriber, RESOURCE, MODULE_PROFILED))
    synchronize()
    if "modules off" in does:
        results.append(library.cuptiEnableCallback(0, subscriber, RESOURCE, MODULE_PROFILED))
    if "record" in does:
        results += [library.cuptiActivityDisable(kind) for kind in KINDS if "enabled" not in does]
        results.append(library.cuptiActivityFlushAll(1))
    results.append(library.cuptiUnsubscribe(subscriber))
    if "finalize" in does:
        results.append(library.cuptiFinalize())
    cycle.kept = (buffers, requested, completed, called)  # CUPTI may have forgotten buffers, not given them back
    return {"results": results, "buffers": given}
