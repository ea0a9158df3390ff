# SPDX-License-Identifier: Apache-2.0
"""Attach to programs in the middle of their work, detach, and look at what is left: every part within a bound of its own.

GPU_CHECK_ATTACH_SECONDS (400) bounds the whole; GPU_CHECK_CYCLES (20) is the number of attach/detach cycles.
"""
import time

import attach_bare
import attach_cycles
import attach_devices
import attach_eager
import attach_flood
import attach_graphs
import attach_inject
import attach_profiler
import attach_record
from attach_settings import SECONDS
from bounded import GRACE_S, run_bounded
from gpu_harness import LOGS

# Part: what it runs, and its share of the whole. What one part leaves of its share goes to those after it.
PARTS = {"graphs": (attach_graphs.run, 130), "flood": (attach_flood.run, 45), "profiler": (attach_profiler.run, 60),
         "cycles": (attach_cycles.run, 150), "inject": (attach_inject.run, 110), "record": (attach_record.run, 50),
         "eager": (attach_eager.run, 20), "devices": (attach_devices.run, 50), "growth": (attach_bare.growth, 40), "bare": (attach_bare.run, 150)}


def run_part(table, name, seconds=SECONDS):
    took = run_bounded(table, "attach", PARTS[name][0], seconds)
    table.add("attach", f"part {name}", f"took {took:.0f} s")


def run(table):
    print(f"logs: {LOGS}", flush=True)
    left, begin = dict(PARTS), time.monotonic()
    while left:
        name = next(iter(left))
        open_shares = sum(share for _, share in left.values())
        time_left = SECONDS - GRACE_S - (time.monotonic() - begin)
        run_part(table, name, max(1.0, time_left * left.pop(name)[1] / open_shares))
