# SPDX-License-Identifier: Apache-2.0
"""One of the two processes dies, freezes or is refused: the workload runs on, and what is missing is said."""
import os
import signal
import threading
import time

from harness import Bench, ProfileTest, Window, main, total, wait_until, whole_run
from losses import anomalies, details
from shim_side import CallLog, shim_asleep

# SIMGPU_CUPTI_VERSION (cuptiGetVersion) of the toolkits.
CUPTI_VERSIONS = {"11.8": 18, "12.8": 26, "12.9": 28, "13.0": 130001}


class FaultTest(ProfileTest):
    def setUp(self):
        self.bench = Bench()
        self.addCleanup(self.bench.__exit__)
        self.log = CallLog(self.bench.folder / "calls")
        self.stderr = open(self.bench.folder / "stderr", "w+b")
        self.addCleanup(self.stderr.close)

    def stepped(self, **environment):
        return self.bench.stepped(SIMGPU_CALL_LOG=self.log.path, popen={"stderr": self.stderr}, **environment)

    def attached_sidecar(self, *flags):
        sidecar = self.bench.sidecar("-wait-for-shim", "20s", *flags)
        sidecar.wait_ready()
        return sidecar

    def check_unharmed(self, workload):
        """It launches, ends by itself with status 0, and has said nothing."""
        workload.launch(10)
        self.assertEqual(workload.truth()["launches"], workload.launches)
        self.stderr.seek(0)
        self.assertEqual(self.stderr.read(), b"")

    def exact_window(self, sidecar, workload, launches):
        with Window(sidecar, 1) as window:
            workload.launch(launches)
        profile = window.take()
        self.assert_launches(profile, launches)
        self.assert_all_rooted(profile)

    def wait_logged(self, workload, function, count, since_ns, seconds):
        """Waits for the count-th call of the log while the program makes calls; seconds from since_ns to it."""
        def call():
            workload.launch(1)
            calls = self.log.calls(function)
            return calls[count - 1] if len(calls) >= count else None

        return (wait_until(call, f"{function} number {count}", seconds)[0] - since_ns) * 1e-9

    def test_sidecar_killed(self):
        workload = self.stepped()
        first = self.attached_sidecar()
        with Window(first, 30):
            workload.launch(500)
            self.assertFalse(self.log.calls("cuptiUnsubscribe"))
            killed_ns = time.monotonic_ns()
            first.process.kill()
            self.assertLess(self.wait_logged(workload, "cuptiUnsubscribe", 1, killed_ns, 5), 1)
            [socket] = self.bench.shim_sockets()
            wait_until(lambda: shim_asleep(socket), "the shim to be asleep", 1)
            self.assertLess(time.monotonic_ns() - killed_ns, 1_000_000_000)
        workload.launch(100)  # while nobody looks
        second = self.bench.sidecar("-wait-for-shim", "20s")
        second.wait_ready(1)
        second.wait_state(workload.pid, "connected", 1)
        self.exact_window(second, workload, 700)
        self.check_unharmed(workload)

    def test_sidecars_killed_under_load(self):
        """Killed at any moment of a window, one after the other; graphs on two threads make finalizing deadly."""
        for name, arguments in {"launch_loop": ("--threads", "4", "--streams", "4", "--rate", "20000"),
                                "graph_replay": ("--threads", "2", "--rate", "400")}.items():
            with self.subTest(name), Bench() as bench:
                stderr_path = bench.folder / "stderr"
                with open(stderr_path, "wb") as stderr:
                    workload = bench.workload(name, "--seconds", "0", *arguments, popen={"stderr": stderr})
                wait_until(bench.shim_sockets, "the shim's socket")
                for launches in (1, 2000, 8000):
                    sidecar = bench.sidecar("-wait-for-shim", "20s")
                    sidecar.wait_ready()
                    with Window(sidecar, 30):
                        wait_until(lambda: sidecar.metric("pillion_executions_total") >= launches, "executions")
                        sidecar.process.kill()
                sidecar = bench.sidecar("-wait-for-shim", "20s")
                sidecar.wait_ready()
                profile = sidecar.profile(1)
                self.assert_all_rooted(profile)
                self.assertGreater(profile["quality"]["executions"], 1000)
                self.assertEqual(profile["quality"]["records_bad"], 0)
                workload.stop()
                self.assertGreater(workload.truth()["simgpu"]["executions"], 0)
                self.assertEqual(stderr_path.read_bytes(), b"")

    def test_workload_killed_at_full_speed(self):
        workload = self.bench.workload("launch_loop", "--seconds", "0")
        sidecar = self.attached_sidecar()
        with Window(sidecar, 2) as window:
            wait_until(lambda: sidecar.metric("pillion_executions_total") >= 30_000, "30,000 executions")
            workload.process.kill()
        profile = window.take()
        quality = profile["quality"]
        self.assertGreater(quality["executions"], 0)
        self.assertEqual((quality["records_bad"], quality["ring_resets_sidecar"], quality["records_skipped"]), (0, 0, 0))
        self.assertEqual(total(profile, "launches"), quality["executions"])
        self.assertIn("ended_early", anomalies(profile))

    def test_workload_killed(self):
        workload = self.stepped()
        sidecar = self.attached_sidecar()
        with Window(sidecar, 3) as window:
            workload.launch(500)
            wait_until(lambda: sidecar.metric("pillion_executions_total") >= 500, "the executions to have come")
            workload.process.kill()
        profile = window.take()
        quality = profile["quality"]
        self.assertEqual((quality["launches"], quality["executions"], quality["joined"]), (500, 500, 500))
        self.assert_all_rooted(profile)
        said = details(profile, "ended_early")
        self.assertEqual(len(said), 1, anomalies(profile))
        self.assertIn("the process ended", said[0])
        self.assertIsNone(sidecar.process_state(workload.pid))

    def test_ring_too_small(self):
        profile, truth = whole_run(self.bench, "launch_loop", "--iterations", "200000", "--threads", "4", "--streams",
                                   "4", seconds=4, sidecar_flags=("-events-rings", "1", "-events-ring-kib", "4"))
        quality = profile["quality"]
        lost_launches = quality["dropped_launches_busy"] + quality["dropped_launches_full"]
        lost_executions = quality["dropped_executions_busy"] + quality["dropped_executions_full"]
        self.assertGreater(lost_launches, 0)
        self.assertGreater(lost_executions, 0)
        self.assertGreater(quality["launches"], 0)
        self.assertEqual(quality["launches"] + lost_launches, truth["launches"])
        self.assertEqual(quality["executions"] + lost_executions + quality["dropped_by_cupti"],
                         truth["simgpu"]["executions"])
        self.assertEqual(sum(row["launches"] for row in profile["kernels"]), quality["executions"])
        said = anomalies(profile)
        self.assertEqual(said["launches_dropped"], lost_launches)
        self.assertEqual(said["executions_dropped"], lost_executions)

    def test_sidecar_frozen(self):
        """The lease disarms the workload; when the sidecar comes to itself it arms again and says what happened."""
        workload = self.stepped()
        sidecar = self.attached_sidecar()
        with Window(sidecar, 11) as window:
            workload.launch(300)
            wait_until(lambda: sidecar.metric("pillion_executions_total") >= 300, "the executions to have come")
            frozen_ns = time.monotonic_ns()
            os.kill(sidecar.process.pid, signal.SIGSTOP)
            unsubscribed = wait_until(lambda: self.log.calls("cuptiUnsubscribe"), "the lease to disarm", 8)[0][0]
            self.assertLess((unsubscribed - frozen_ns) * 1e-9, 6)
            self.assertGreater((unsubscribed - frozen_ns) * 1e-9, 3)
            workload.launch(50)  # nobody's
            os.kill(sidecar.process.pid, signal.SIGCONT)

            def armed_again():  # the news of the lease come first
                [process] = sidecar.get_json("/status")["processes"]
                return process["state"] == "armed" and "lease" in process["last_disarm"]

            wait_until(armed_again, "the workload to be armed again", 5)
            workload.launch(70)
        profile = window.take()
        self.assertEqual(profile["quality"]["launches"], 300 + 70)
        self.assertEqual(profile["quality"]["joined"], 300 + 70)
        self.assertEqual(total(profile, "launches"), 300 + 70)
        said = details(profile, "ended_early")
        self.assertTrue(any("lease" in text for text in said), anomalies(profile))
        self.exact_window(sidecar, workload, 200)
        self.check_unharmed(workload)

    def test_workload_frozen(self):
        """What CUPTI holds of a stopped process is not in its window, and the window says so."""
        workload = self.stepped()
        sidecar = self.attached_sidecar()
        with Window(sidecar, 2) as window:
            sidecar.wait_state(workload.pid, "armed")
            workload.launch(300)
            os.kill(workload.pid, signal.SIGSTOP)
        profile = window.take()
        os.kill(workload.pid, signal.SIGCONT)
        quality = profile["quality"]
        self.assertEqual(quality["launches"], 300)
        self.assertEqual(quality["joined"] + quality["pending"], 300)
        if quality["pending"]:
            self.assertEqual(anomalies(profile)["windows_unsettled"], 1)
        wait_until(lambda: sidecar.metric("pillion_executions_total") >= 300, "the executions to have come")
        self.exact_window(sidecar, workload, 200)
        self.check_unharmed(workload)

    def test_cupti_versions(self):
        """The same program, recorded by every layout of CUPTI's records: the same counts."""
        seen = {}
        for name, version in CUPTI_VERSIONS.items():
            with self.subTest(cupti=name), Bench() as bench:
                profile, truth = whole_run(bench, "graph_replay", "--iterations", "100", "--rate", "100", "--nodes", "20",
                                           seconds=3,
                                           SIMGPU_CUPTI_VERSION=version)
                simulated = truth["simgpu"]
                # Launches that were captured into the graph never run on their own.
                self.assertEqual(profile["quality"]["launches_captured"], 20)
                self.assert_nothing_lost(profile)
                self.assertEqual(profile["quality"]["cupti_version"], str(version))
                self.assertEqual(profile["quality"]["executions"], simulated["executions"])
                self.assertEqual(total(profile), simulated["gpu_ns"])
                seen[name] = sorted((row["name"], row["launches"], row["gpu_time_ns"], row["copied_bytes"])
                                    for row in profile["kernels"])
                self.assertEqual(sum(row[3] for row in seen[name] if "memcpy" in row[0]),
                                 sum(copy["bytes"] for copy in simulated["copies"].values()))
        self.assertEqual(len(seen), len(CUPTI_VERSIONS))
        for name, rows in seen.items():
            self.assertEqual(rows, seen["13.0"], name)

    def test_subscriber_held(self):
        held = self.bench.folder / "held"
        held.touch()
        workload = self.stepped(SIMGPU_SUBSCRIBER_HELD="torch.profiler", SIMGPU_SUBSCRIBER_HELD_WHILE=held)
        sidecar = self.attached_sidecar()
        for refusals in (1, 2):
            status, _, body = sidecar.request("/profile?seconds=2")
            self.assertEqual(status, 409, body)
            self.assertIn(b"torch.profiler", body)
            workload.launch(100)
            calls = self.log.calls()
            # Versions are asked before; nothing comes after the refusal, whatever the program calls.
            refused = [i for i, (_, name, result) in enumerate(calls)
                       if name.startswith("cuptiSubscribe") and result == "39"]
            self.assertEqual(len(refused), refusals, calls)
            self.assertEqual(refused[-1], len(calls) - 1, calls)
        self.assertEqual(sidecar.process_state(workload.pid), "connected")
        self.assertIn("torch.profiler", str(sidecar.get_json("/status")["processes"]))
        held.unlink()
        self.exact_window(sidecar, workload, 300)
        self.check_unharmed(workload)

    def test_arming_never_returns(self):
        workload = self.stepped(SIMGPU_SUBSCRIBE_MS=-1)
        sidecar = self.attached_sidecar("-arm-timeout", "2s")
        answer = {}

        def ask():
            answer["reply"] = sidecar.request("/profile?seconds=1")

        begin = time.monotonic()
        thread = threading.Thread(target=ask)
        thread.start()
        try:
            wait_until(self.log.calls, "CUPTI to be called")
            while thread.is_alive():
                workload.launch(20)
                thread.join(0.05)
        finally:
            thread.join()
        self.assertGreater(time.monotonic() - begin, 2)
        self.assertLess(time.monotonic() - begin, 5)
        status, _, body = answer["reply"]
        self.assertEqual(status, 503, body)
        self.assertIn(b"deadline", body)
        self.assertIn(b"it is in cuptiSubscribe", body)
        again = time.monotonic()
        status, _, body = sidecar.request("/profile?seconds=1")  # at once: the first has still not returned
        self.assertEqual(status, 503, body)
        self.assertLess(time.monotonic() - again, 2)
        self.check_unharmed(workload)


if __name__ == "__main__":
    main(at_once=3)
