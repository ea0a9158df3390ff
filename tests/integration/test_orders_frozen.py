# SPDX-License-Identifier: Apache-2.0
"""One side is stopped behind each system call of the handshake in turn, and goes on later: the attach succeeds.

The workload is a real one with the unchanged shim, the sidecar the real program; step_tracer stops the whole process
with SIGSTOP exactly behind one call and lets go of it."""
import time
import unittest

from handshake_rig import (LONG, Freeze, Rig, Sidecar, Stepped, attach_bound_s, check_window, first_window, in_parallel)
from harness import main, wait_until

HOLD_S = 7.0 if LONG else 0.4  # 7 s: past the lease, the shim's deadline for arming and a window's patience
# Steps of a handshake differ by some from run to run (what comes together is read together).
SLACK = 12

SHIM_CALLS = {"socket", "bind", "fchmodat", "listen", "renameat", "clone3", "prctl", "poll", "accept4", "getsockopt",
              "sendmsg", "recvmsg", "mmap", "madvise"}
SIDECAR_CALLS = {"socket", "connect", "getsockopt", "epoll_ctl", "epoll_wait", "recvmsg", "memfd_create", "ftruncate",
                 "mmap", "madvise", "fcntl", "sendmsg"}


def ready(sidecar):
    wait_until(lambda: sidecar.request("/readyz")[0] == 200, "readyz to be 200", attach_bound_s())


def handshake_steps(traced):
    """How many steps it takes until a window has been answered, nobody being stopped."""
    with Rig() as rig:
        workload = rig.start_workload(*(("-seed", "1") if traced == "shim" else ()))
        stepped = Stepped(workload)
        sidecar = Sidecar(*rig.start_sidecar(*(("-seed", "1") if traced == "sidecar" else ())))
        ready(sidecar)
        steps = rig.shim_steps if traced == "shim" else rig.sidecar_steps
        if not first_window(sidecar, stepped):
            raise AssertionError("the shim was not armed though nobody was stopped")
        return count_to_maps(steps)


def count_to_maps(steps):
    """Up to the first maps that the shim sends and the sidecar gets, which follow ARMED."""
    for number, line in enumerate(steps.lines(), 1):
        name, result = line.split()[2:4]
        if name in ("sendmsg", "recvmsg") and int(result) > 1000:  # all other packets are smaller
            return number
    raise AssertionError("no maps have been sent")


class FrozenTest(unittest.TestCase):
    def check_all(self, run, traced, calls):
        count = handshake_steps(traced)
        self.assertGreater(count, 30)
        seen = []
        begin, may_miss = time.monotonic(), SLACK
        failures = in_parallel(range(1, count + 1), lambda step: seen.append(run(step)))
        if calls - set(seen):  # on a busy machine a handshake has more waits in it, and its end comes later
            failures |= in_parallel(range(count + 1, count + 1 + SLACK), lambda step: seen.append(run(step)))
            count, may_miss = count + SLACK, 2 * SLACK
        missed = [call for call in seen if call is None]
        print(f"{traced}: {len(seen) - len(missed)} of {count} steps in {time.monotonic() - begin:.0f} s")
        self.assertEqual(failures, {})
        self.assertLessEqual(len(missed), may_miss)
        self.assertEqual(calls - set(seen), set(), "calls of the handshake behind which nobody was stopped")

    def test_shim_frozen_at_each_step(self):
        def run(step):
            with Rig() as rig:
                sidecar = Sidecar(*rig.start_sidecar())
                workload = rig.start_workload("-freeze-at", str(step))
                healthy = []
                freeze = Freeze(workload.pid, rig.shim_steps, HOLD_S,
                                lambda: healthy.append(sidecar.request("/healthz")[0]))
                freeze.start()
                stepped = Stepped(workload)
                ready(sidecar)
                first_window(sidecar, stepped)
                freeze.over.set()
                freeze.join()
                freeze.check()
                if freeze.call is not None and healthy != [200]:
                    raise AssertionError(f"/healthz was {healthy} beside a stopped workload")
                check_window(sidecar, stepped, 20)
                rig.check_unharmed(stepped)
                return freeze.call

        self.check_all(run, "shim", SHIM_CALLS)

    def test_sidecar_frozen_at_each_step(self):
        def run(step):
            with Rig() as rig:
                stepped = Stepped(rig.start_workload())
                process, log_path = rig.start_sidecar("-freeze-at", str(step))

                # The workload runs on beside a sidecar that stands still.
                freeze = Freeze(process.pid, rig.sidecar_steps, HOLD_S, lambda: stepped.launch(3))
                freeze.start()
                sidecar = Sidecar(process, log_path)
                ready(sidecar)
                first_window(sidecar, None)
                freeze.over.set()
                freeze.join()
                freeze.check()
                check_window(sidecar, stepped, 20)
                rig.check_unharmed(stepped)
                return freeze.call

        self.check_all(run, "sidecar", SIDECAR_CALLS)


if __name__ == "__main__":
    main()
