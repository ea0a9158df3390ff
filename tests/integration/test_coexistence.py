# SPDX-License-Identifier: Apache-2.0
"""Other users of CUPTI in the same process, and other sidecars beside it: each gets what is its, or is told why not."""
import subprocess
import time

from harness import Bench, ProfileTest, Stepped, Window, main, wait_until
from losses import details
from shim_side import CallLog

MULTIPLE_SUBSCRIBERS = 39


class Client(Stepped):
    """The workload cupti_client: launches, and uses CUPTI itself, when told to."""

    def tell(self, command):
        """(CUPTI's result, records received, buffers of somebody else that came back)"""
        self.process.stdin.write(f"{command}\n".encode())
        self.process.stdin.flush()
        words = self.process.stdout.readline().decode().split()
        if words[:1] != [command]:
            raise AssertionError(f"cupti_client said {words} to {command}")
        return int(words[1]), int(words[3]), int(words[5])


class CoexistenceTest(ProfileTest):
    def setUp(self):
        self.bench = Bench()
        self.addCleanup(self.bench.__exit__)
        self.log = CallLog(self.bench.folder / "calls")
        self.stderr = open(self.bench.folder / "stderr", "w+b")
        self.addCleanup(self.stderr.close)

    def client(self, **environment):
        popen = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.stderr}
        return Client(self.bench.workload("cupti_client", SIMGPU_CALL_LOG=self.log.path, popen=popen, **environment))

    def sidecar(self):
        sidecar = self.bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
        sidecar.wait_ready()
        return sidecar

    def check_unharmed(self, client):
        client.launch(10)
        self.assertEqual(client.truth()["launches"], client.launches)
        self.stderr.seek(0)
        self.assertEqual(self.stderr.read(), b"")

    def exact_window(self, sidecar, client, launches):
        with Window(sidecar, 1) as window:
            client.launch(launches)
        self.assert_launches(window.take(), launches)

    def check_held(self, sidecar):
        status, _, body = sidecar.request("/profile?seconds=1")
        self.assertEqual(status, 409, body)
        for words in (b"CUPTI for Kineto", b"keeps it for good", b"TEARDOWN_CUPTI=1"):
            self.assertIn(words, body)

    def wait_asleep(self, sidecar, client):
        """Lets the program make the call that CUPTI is finalized in."""
        def connected():
            client.launch(1)
            return sidecar.process_state(client.pid) == "connected"

        wait_until(connected, "the shim to be asleep")

    def test_profiler_before_keeps_the_subscriber_for_good(self):
        client = self.client()
        self.assertEqual(client.tell("profile-start")[0], 0)
        client.launch(50)
        sidecar = self.sidecar()
        self.check_held(sidecar)
        self.assertEqual(client.tell("profile-stop"), (0, 50, 0))
        client.launch(50)
        self.check_held(sidecar)
        self.assertEqual(len(self.log.calls("cuptiActivityRegisterCallbacks")), 1)  # the profiler's own
        self.check_unharmed(client)

    def test_profiler_before_with_teardown(self):
        client = self.client(TEARDOWN_CUPTI="1")
        client.tell("profile-start")
        client.launch(50)
        sidecar = self.sidecar()
        self.check_held(sidecar)
        self.assertEqual(client.tell("profile-stop"), (0, 50, 0))
        client.launch(1)  # the API call that it lets go in
        self.exact_window(sidecar, client, 300)
        self.check_unharmed(client)

    def test_profiler_after_and_while_asleep(self):
        client = self.client(TEARDOWN_CUPTI="1")
        sidecar = self.sidecar()
        for _ in range(2):
            self.exact_window(sidecar, client, 200)
            self.wait_asleep(sidecar, client)
            self.assertEqual(client.tell("profile-start")[0], 0)
            client.launch(120)
            self.assertEqual(client.tell("profile-stop"), (0, 120, 0))
            client.launch(1)
        self.check_unharmed(client)

    def test_profiler_during_a_window_is_refused_by_cupti(self):
        """The exception that the documentation names: it gets no CUDA events, and our profile stays exact."""
        client = self.client()
        sidecar = self.sidecar()
        with Window(sidecar, 2) as window:
            client.launch(200)
            self.assertEqual(client.tell("profile-start")[0], MULTIPLE_SUBSCRIBERS)
            client.launch(200)
        self.assert_launches(window.take(), 400)
        self.check_unharmed(client)

    def clobber(self, command, words, bound_s, launches=200, **environment):
        """Another client does `command` while a window is open: noticed in time, said in /status and the profile."""
        client = self.client(**environment)
        sidecar = self.sidecar()
        with Window(sidecar, bound_s + 2) as window:
            client.launch(300)
            wait_until(lambda: sidecar.metric("pillion_executions_total") >= 300, "the executions to have come")
            self.assertEqual(client.tell(command)[0], 0)
            begun = time.monotonic()

            def noticed():
                client.launch(launches)
                return [process for process in sidecar.get_json("/status")["processes"]
                        if process["state"] == "connected" and "clobbered" in process["last_disarm"]]

            [process] = wait_until(noticed, "the shim to notice", bound_s, every=0.02)
            print(f"{command}: noticed after {time.monotonic() - begun:.2f} s", flush=True)
            client.launch(100)  # nobody's
        self.assertIn(words, process["last_disarm"])
        profile = window.take()
        said = details(profile, "ended_early")
        self.assertTrue(any(words in text for text in said), said)
        self.assertGreaterEqual(profile["quality"]["executions"], 300)
        finalized = self.log.calls("cuptiFinalize")
        self.assertEqual(len(finalized), 1 if command == "finalize" else 0)
        return client, sidecar, process["last_disarm"]

    def test_buffers_stolen(self):
        client, sidecar, said = self.clobber("steal", "registered its buffer callbacks", 5)
        self.assertIn("belongs to another client", said)
        self.assertEqual(self.log.calls("cuptiActivityDisable"), [])  # the kinds are the thief's by now
        client.launch(200)
        result, records, _ = client.tell("stop")
        self.assertEqual(result, 0)
        self.assertGreater(records, 0)
        self.exact_window(sidecar, client, 200)
        self.check_unharmed(client)

    def test_buffers_stolen_on_an_older_cupti(self):
        """Without buffers of each thread's own there is no other sign than very many launches without a record."""
        client, _, _ = self.clobber("steal", "has taken our registration", 12, launches=1000, SIMGPU_CUPTI_VERSION=28)
        self.check_unharmed(client)

    def test_kinds_disabled(self):
        client, sidecar, _ = self.clobber("disable", "disabled our activity kinds", 12, launches=1000)
        self.exact_window(sidecar, client, 200)
        self.check_unharmed(client)

    def test_cupti_finalized(self):
        client, sidecar, _ = self.clobber("finalize", "finalized CUPTI", 5)
        self.exact_window(sidecar, client, 200)
        self.check_unharmed(client)

    def test_clock_replaced(self):
        client, _, _ = self.clobber("clock", "registered its own clock", 5)
        self.check_unharmed(client)

    def test_a_long_kernel_is_no_sign(self):
        """Launches that wait behind kernels of a second bring no record: the registration is ours all the same."""
        start = self.bench.folder / "start"
        workload = self.bench.workload("launch_loop", "--iterations", "6", "--spin-ns", "1000000000", "--start-file", start,
                                       popen={"stderr": self.stderr})
        sidecar = self.sidecar()
        with Window(sidecar, 9) as window:
            start.touch()
            self.assertEqual(workload.finish(), 0)
        profile = window.take()
        self.assertEqual(profile["quality"]["executions"], 6)
        self.assertFalse([text for text in details(profile, "ended_early") if "another CUPTI client" in text])

    def test_second_sidecar(self):
        client = self.client()
        first = self.sidecar()
        second = self.bench.sidecar("-wait-for-shim", "0")
        wait_until(lambda: any(f"pid {first.process.pid}" in text
                               for text in second.get_json("/status")["not_attached"]),
                   "the second sidecar to say who holds the shim")
        status, _, body = second.request("/profile?seconds=1")
        self.assertEqual(status, 503, body)
        self.exact_window(first, client, 200)
        first.process.terminate()
        first.process.wait(10)
        second.wait_ready()
        self.exact_window(second, client, 300)
        self.check_unharmed(client)


if __name__ == "__main__":
    main(at_once=4)
