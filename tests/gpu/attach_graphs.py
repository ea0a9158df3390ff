# SPDX-License-Identifier: Apache-2.0
"""Graph replay under full load through attach/detach cycles: the program lives, computes the same, keeps its speed, and
nothing stays with it."""
import time

from attach_settings import CYCLES, DEVICE_MIB_A_CYCLE, SPOIL
from checked_workload import Checked
from footprint import Footprint
from gpu_harness import GpuBench, change, monotonic, process_row

LOADS = {"one thread replays graphs": ("--threads", "1", "--graphs", "1"),
         "one thread replays graphs, three launch kernels": ("--threads", "4", "--graphs", "1"),
         "four threads replay graphs": ("--threads", "4", "--graphs", "4")}
CONNECTED_S = 10  # a detach, at most


def undisturbed(arguments, name):
    """(checksums, operations a second) of the same program without any shim."""
    with GpuBench(name) as bench:
        program = Checked(bench, *arguments, shim=False)
        begin = monotonic()
        time.sleep(1.5)
        rate = program.rate(begin, monotonic())
        return program.stop()["checksums"], rate


def cycles(sidecar, program, count):
    """(cycles that saw executions, errors) of `count` windows with a detach after each."""
    seen, errors = 0, []
    for _ in range(count):
        if not program.alive():
            errors.append("the program died")
            break
        status, _, body = sidecar.request("/profile?seconds=1&format=folded", timeout=60)
        if status != 200:
            errors.append(f"{status}: {body.decode(errors='replace')[:200]}")
        elif body.strip():
            seen += 1
        deadline = time.monotonic() + CONNECTED_S
        while (any(process_row(sidecar, pid).get("state") != "connected" for pid in program.pids)
               and time.monotonic() < deadline):
            time.sleep(0.01)
    return seen, errors


def one(table, label, arguments):
    name = "attach-graphs-" + "-".join(arguments).replace("--", "")
    expected, bare = undisturbed(arguments, name + "-undisturbed")
    with GpuBench(name) as bench:
        program = Checked(bench, *arguments, *SPOIL)
        sidecar = bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
        sidecar.wait_ready()
        begin = monotonic()
        time.sleep(2)
        before = program.rate(begin, monotonic())
        held = Footprint(program.pid)
        seen, errors = cycles(sidecar, program, 1)
        held_after_one = Footprint(program.pid) if program.alive() else None
        armed = monotonic()
        more, more_errors = cycles(sidecar, program, CYCLES - 1)
        under_load = program.rate(armed, monotonic())
        seen, errors = seen + more, errors + more_errors
        table.add("attach", f"{label}: alive after {CYCLES} attach/detach cycles", f"{program.alive()}, {seen} cycles "
                  f"saw executions; errors {errors[:3]}", "alive, all", program.alive() and seen == CYCLES and not errors)
        if not program.alive():
            table.add("attach", f"{label}: how it died", f"status {program.workload.process.returncode}: "
                      + program.workload.output()[-600:], "lives", False)
            return
        table.add("attach", f"{label}: how the last session ended", process_row(sidecar, program.pid)["last_disarm"])
        settled = monotonic()
        time.sleep(2)
        after = program.rate(settled, monotonic())
        finalized = "finalized" in process_row(sidecar, program.pid)["last_disarm"]
        left_behind(table, label, held, held_after_one, Footprint(program.pid), finalized)
        truth = program.stop()
        rounds, wrong = sum(truth["rounds"]), sum(truth["wrong"])
        same = truth["checksums"] == expected
        table.add("attach", f"{label}: results", f"{wrong} of {rounds} rounds differ from the first; the first is "
                  f"{'that' if same else 'NOT that'} of an undisturbed run", "0, that", wrong == 0 and rounds > 0 and same)
        table.add("attach", f"{label}: operations/s undisturbed / asleep before / in the cycles / afterwards",
                  f"{bare:.0f} / {before:.0f} / {under_load:.0f} / {after:.0f}: {change(after, before):+.1f} % "
                  "against before", "reported")


def left_behind(table, label, before, after_one, after, finalized=True, programs=1):
    """Descriptors and device memory as before; threads as after the first cycle, which loads CUPTI for good. RSS is not judged:
    CUPTI's copies make the heap's high water jump, not with each cycle. A
    thread of CUPTI's bears the name of ours that was there when it was made. Where CUPTI may not be finalized it keeps
    descriptors and memory of its own, as /status says: then all is as after the first cycle. `programs` of them are on the
    device."""
    base, said = (before, "before") if finalized else (after_one, "cycle 1")
    fds, threads = after.new_descriptors(base), after.new_threads(after_one)
    table.add("attach", f"{label}: held before / after one / after {CYCLES} cycles",
              f"{before.text()} / {after_one.text()} / {after.text()}")
    table.add("attach", f"{label}: descriptors new against {said}, threads new against before / cycle 1",
              f"{fds}, {after.new_threads(before)} / {threads}", "no descriptor, no thread after cycle 1",
              not fds and not threads)
    growth = (after.rss_kib - after_one.rss_kib) / 1024
    table.add("attach", f"{label}: mappings that grew since cycle 1, KiB", after.grown_mappings(after_one))
    table.add("attach", f"{label}: RSS, cycle {CYCLES} against cycle 1", f"{growth:+.1f} MiB", "reported")
    if before.device_mib is not None:
        device = DEVICE_MIB_A_CYCLE * CYCLES * programs if finalized else 0
        table.add("attach", f"{label}: device memory against before / cycle 1",
                  f"{after.device_mib - before.device_mib:+d} / {after.device_mib - after_one.device_mib:+d} MiB",
                  f"<= {device:.0f} MiB against {said}", after.device_mib - base.device_mib <= device + 1)


def run(table):
    for label, arguments in LOADS.items():
        one(table, label, arguments)
