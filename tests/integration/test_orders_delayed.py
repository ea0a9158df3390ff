# SPDX-License-Identifier: Apache-2.0
"""100 of 100 attaches succeed while each step of the handshake and each packet takes 0 to 2 s longer."""
import collections
import unittest

from handshake_rig import LONG, Rig, Sidecar, Stepped, check_window, in_parallel
from harness import Window, main, wait_until
from packet_proxy import DelayingProxy

ATTACHES = 400 if LONG else 100
AT_ONCE = 50
LOOK_S = 0.25  # so many of them look
MOST_S = 2.0
BOUND_S = 150  # some fifty delays behind one another, fifty attaches beside each other

SHIM_STEPS = ("socket", "bind", "fchmodat", "listen", "renameat", "clone3", "prctl", "accept4", "getsockopt", "sendmsg",
              "recvmsg", "mmap")
SIDECAR_STEPS = ("socket", "connect", "getsockopt", "epoll_ctl", "memfd_create", "ftruncate", "recvmsg", "sendmsg")
# About as many as a handshake has: then the tracer lets go.
SHIM_DELAYS, SIDECAR_DELAYS = 28, 16


def tracer_options(steps, delays, seed):
    return ("-delay-ms", str(int(MOST_S * 1000)), "-delay-only", ",".join(steps), "-delays", str(delays), "-seed",
            str(seed))


def delayed_calls(steps):
    rows = [line.split() for line in steps.lines() if line[0].isdigit()]
    return [row[2] for row in rows if int(row[4]) > 0]


class DelayedTest(unittest.TestCase):
    def attach(self, seed):
        """Returns the calls that were delayed, of both sides."""
        with Rig() as rig:
            shown = rig.bench.folder / "shown"
            shown.mkdir()
            proxy = DelayingProxy(rig.bench.sockets, shown, MOST_S, seed)
            try:
                started = rig.start_sidecar(*tracer_options(SIDECAR_STEPS, SIDECAR_DELAYS, seed + 1), sockets=shown)
                workload = rig.start_workload(*tracer_options(SHIM_STEPS, SHIM_DELAYS, seed))
                stepped = Stepped(workload)
                sidecar = Sidecar(*started)

                def armed():
                    return "armed" in [process["state"] for process in sidecar.get_json("/status")["processes"]]

                wait_until(lambda: sidecar.request("/readyz")[0] == 200, "readyz to be 200", BOUND_S, LOOK_S)
                keeping = Window(sidecar, 600)  # somebody wants a profile all the while; ends with the sidecar
                keeping.thread.daemon = True
                keeping.thread.start()
                wait_until(armed, "the shim to be armed", BOUND_S, LOOK_S)
                for steps in (rig.shim_steps, rig.sidecar_steps):
                    wait_until(lambda steps=steps: steps.lines()[-1] == "done", "the delays to be used up", BOUND_S,
                               LOOK_S)
                wait_until(armed, "the shim to be armed still", BOUND_S)
                proxy.most_s = 0.0  # the handshake is over
                check_window(sidecar, stepped, 20)
                self.assertGreater(proxy.packets, 4)
                rig.check_unharmed(stepped)
                return delayed_calls(rig.shim_steps), delayed_calls(rig.sidecar_steps)
            finally:
                proxy.stop()

    def test_100_of_100(self):
        delayed = {"shim": collections.Counter(), "sidecar": collections.Counter()}

        def run(seed):
            for side, calls in zip(delayed.values(), self.attach(seed)):
                side.update(calls)

        failures = in_parallel(range(0, 2 * ATTACHES, 2), run, AT_ONCE)
        print({side: dict(calls) for side, calls in delayed.items()})
        self.assertEqual(failures, {}, f"{ATTACHES - len(failures)} of {ATTACHES} attaches succeeded")
        self.assertEqual(set(SHIM_STEPS) - set(delayed["shim"]), set())
        self.assertEqual(set(SIDECAR_STEPS) - set(delayed["sidecar"]), set())


if __name__ == "__main__":
    main()
