# SPDX-License-Identifier: Apache-2.0
"""What can be set at attach: sent to the shim, shown as it is really in force, and two requests that want different."""
import gzip

from harness import Bench, ProfileTest, Window, main
from recording import Recording, by_kernel, workload


class SettingsTest(ProfileTest):
    """What can be set at attach is sent, and shown as it was really in force."""

    FLAGS = ("-kinds", "kernel,memcpy,stacks", "-sample-budget", "2.5", "-sample-mib", "32", "-stack-bytes", "65536",
             "-events-rings", "4", "-events-ring-kib", "256", "-stacks-rings", "2", "-stacks-ring-kib", "512",
             "-lease", "8s", "-finalize", "never")
    IN_FORCE = {"kinds": "kernel,memcpy,stacks", "sample_budget_percent": 2.5, "sample_mib_per_s": 32,
                "stack_bytes": 65536, "events_rings": 4, "events_ring_bytes": 256 << 10, "stacks_rings": 2,
                "stacks_ring_bytes": 512 << 10, "lease_ms": 8000, "finalize": "never"}

    @staticmethod
    def settings(profile):
        [one] = profile["settings"]
        return {key: value for key, value in one.items() if key not in ("pid", "target")}

    def test_every_setting_comes_back_from_the_shim(self):
        with Bench() as bench:
            profile = Recording(bench, *self.FLAGS, "--", *workload("copies", "--iterations", 5)).profile()
            self.assertEqual(self.settings(profile), self.IN_FORCE)
            self.assertEqual([a for a in profile["quality"]["anomalies"] if a["kind"] == "settings_not_as_asked"], [])
            self.assertNotIn("[memset]", by_kernel(profile))  # a kind that was left out
            self.assertIn("[memcpy HtoD]", by_kernel(profile))
            self.assertEqual(profile["quality"]["pending"], 0)

    def test_kinds_without_kernels(self):
        """What is left of the callbacks is no sign of another client."""
        with Bench() as bench:
            profile = Recording(bench, "-kinds", "memcpy,memset", "--", *workload("copies", "--iterations", 200)).profile()
            self.assertGreater(profile["quality"]["executions"], 0)
            self.assertNotIn("another CUPTI client", str(profile["quality"]))
            self.assertTrue(all(name.startswith(("[memcpy", "[memset")) for name in by_kernel(profile)), by_kernel(profile))

    def test_a_value_that_the_shim_changes_is_shown_as_the_shim_has_it(self):
        with Bench() as bench:
            recording = Recording(bench, "-stack-bytes", "1030", "--", *workload("launch_loop", "--iterations", 30))
            profile = recording.profile()
            self.assertEqual(self.settings(profile)["stack_bytes"], 4096)
            [anomaly] = [a for a in profile["quality"]["anomalies"] if a["kind"] == "settings_not_as_asked"]
            self.assertEqual(anomaly["detail"], "stack-bytes is 4096, not 1030")
            self.assertIn("stack-bytes is 4096, not 1030", recording.log())

    def test_pprof_and_status_say_it_too(self):
        with Bench() as bench:
            stepped = bench.stepped()
            sidecar = bench.sidecar(*self.FLAGS)
            sidecar.wait_ready()
            [process] = sidecar.get_json("/status")["processes"]
            self.assertIsNone(process["settings"])
            stepped.launch(1)
            text = gzip.decompress(sidecar.pprof(1))
            self.assertIn(b"sample-budget=2.5 sample-mib=32 stack-bytes=65536", text)
            self.assertIn(b"lease=8000ms finalize=never", text)
            [process] = sidecar.get_json("/status")["processes"]
            self.assertEqual((process["state"], process["settings"]["kinds"], process["settings"]["lease"]),
                             ("armed", "kernel,memcpy,stacks", "8000ms"))
            stepped.truth()


class TwoRequestsTest(ProfileTest):
    """Windows with different settings over one process."""

    def test_two_that_are_open_at_once(self):
        with Bench() as bench:
            stepped = bench.stepped()
            stepped.launch(1)
            sidecar = bench.sidecar()
            sidecar.wait_ready()
            with Window(sidecar, 6) as first:
                sidecar.wait_state(stepped.pid, "armed")
                error = sidecar.profile(1, expect=409, **{"stack-bytes": 8192})["error"]
                self.assertEqual(error["code"], "settings_in_force")
                self.assertIn(f"process {stepped.pid}", error["message"])
                self.assertIn("stack-bytes is 196608, not 8192", error["message"])
                same = sidecar.profile(1, **{"stack-bytes": 196608})  # a wish that is fulfilled
                self.assertEqual(same["settings"][0]["stack_bytes"], 196608)
                stepped.launch(50)
            self.assert_launches(first.take(), 50)
            stepped.truth()

    def test_a_request_without_wishes_takes_what_is_in_force(self):
        with Bench() as bench:
            stepped = bench.stepped()
            stepped.launch(1)
            sidecar = bench.sidecar()
            sidecar.wait_ready()
            with Window(sidecar, 6, kinds="kernel") as first:
                sidecar.wait_state(stepped.pid, "armed")
                other = sidecar.profile(1)
                self.assertEqual(other["settings"][0]["kinds"], "kernel")
            self.assertEqual(first.take()["settings"][0]["kinds"], "kernel")
            # Nobody's window is open: the next one gets what it wants, although the shim is still armed.
            self.assertEqual(sidecar.process_state(stepped.pid), "armed")
            plain = sidecar.profile(1)
            self.assertEqual(plain["settings"][0]["kinds"], "kernel,memcpy,memset,overhead,stacks,modules,sync,calls")
            self.assertEqual(sidecar.profile(1, **{"sample-budget": "0.5"})["settings"][0]["sample_budget_percent"], 0.5)
            stepped.truth()


if __name__ == "__main__":
    main(at_once=2)
