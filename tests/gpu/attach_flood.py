# SPDX-License-Identifier: Apache-2.0
"""Eight threads that launch empty kernels back to back: there cuptiSubscribe may never return. Arming gives up in time,
the program runs on meanwhile, and once it calms down the next arming works."""
import json
import time

from checked_workload import Checked
from gpu_harness import DOUBLE, GpuBench, executions, monotonic, process_row

ANSWER_S = 20  # the arming's deadline of 15 s, and what it takes to say so
STALL_S = 2.0  # what no thread of the program may stand still for


def run(table):
    with GpuBench("attach-flood") as bench:
        calm = bench.folder / "calm"
        slow = {"SIMGPU_SUBSCRIBE_UNTIL": calm} if DOUBLE else {}  # as the real one waits for a quiet moment
        program = Checked(bench, "--threads", "8", "--round", "0", "--calm-file", calm, **slow)
        sidecar = bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
        sidecar.wait_ready()
        begin = monotonic()
        time.sleep(5)
        asked = monotonic()
        before = program.rate(begin, asked)
        status, _, body = sidecar.request("/profile?seconds=1&format=json", timeout=60)
        answered = monotonic()
        took = (answered - asked) * 1e-9
        text = body.decode(errors="replace")
        said = f"200, {text.count('system_name')} kernels" if status == 200 else f"{status}: {text[:300]}"
        gave_up = status == 503 and "deadline" in text
        table.add("attach", "8 threads, empty kernels: answer to /profile?seconds=1", f"after {took:.1f} s: {said}",
                  f"200, or 503 naming the deadline, in {ANSWER_S} s", took <= ANSWER_S and (status == 200 or gave_up))
        table.add("attach", "8 threads, empty kernels: state right afterwards", process_row(sidecar, program.pid))
        time.sleep(3)
        end = monotonic()
        during, after = program.rate(asked, answered), program.rate(answered, end)
        table.add("attach", "8 threads, empty kernels: launches/s before / while arming / afterwards",
                  f"{before:.0f} / {during:.0f} / {after:.0f}", "runs on", program.alive() and during > 0 and after > 0)
        # The driver lets a thread starve for seconds among seven others without us, too.
        bare, stall = program.longest_stall_s(begin, asked), program.longest_stall_s(asked, answered)
        table.add_speed("attach", "8 threads, empty kernels: longest stall of any thread before / while arming",
                        f"{bare:.1f} s of {(asked - begin) * 1e-9:.1f} s / {stall:.1f} s of {took:.1f} s",
                        f"<= {STALL_S} s, or not without us", stall <= STALL_S or bare >= 0.9 * (asked - begin) * 1e-9)
        calm.touch()
        profile, tried = calm_profile(sidecar)
        table.add("attach", "the same program, calm: next profile", tried, "200 with executions",
                  profile is not None and executions(profile) > 0)
        truth = program.stop()
        table.add("attach", "8 threads, empty kernels: the program's end", f"status 0, {truth['launches']} launches",
                  "status 0", True)


def calm_profile(sidecar):
    """The arming that hung has to come back and be undone first: asks for 20 s. (profile or None, what was said)"""
    deadline, refused = time.monotonic() + 20, 0
    while True:
        status, _, body = sidecar.request("/profile?seconds=1&format=json", timeout=60)
        if status == 200:
            profile = json.loads(body)
            return profile, f"200 after {refused} refusals, {executions(profile)} executions"
        refused += 1
        if time.monotonic() > deadline:
            return None, f"{status}: {body.decode(errors='replace')[:300]}"
        time.sleep(0.5)
