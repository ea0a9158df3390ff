# SPDX-License-Identifier: Apache-2.0
"""The numbers of a profile against the double's own truth: counts and nanoseconds are equal, not close."""
import http.client
import pathlib
import re
import shutil
import subprocess
import threading
import time
import unittest

from harness import Bench, main, total, wait_until, whole_run, windows_open

ENDINGS = ("fiber", "no_cfi", "truncated_snapshot", "bad_cfa", "loop", "no_mapping", "faulted")


def executions(profile):
    return sum(row["launches"] for row in profile["kernels"])


def dropped_executions(profile):
    quality = profile["quality"]
    return quality["dropped_executions_busy"] + quality["dropped_executions_full"] + quality["dropped_by_cupti"]


class Exact(unittest.TestCase):
    def check(self, name, *arguments, seconds=5, **environment):
        with Bench() as bench:
            profile, line = whole_run(bench, name, *arguments, seconds=seconds, **environment)
        truth = line["simgpu"]
        self.assertGreater(truth["executions"], 1000)
        self.assertEqual(executions(profile) + dropped_executions(profile), truth["executions"])
        if dropped_executions(profile) == 0:
            self.assertEqual(total(profile), truth["gpu_ns"])
            self.assert_by_kind(profile, truth)
        self.assertEqual(profile["quality"]["launched_before_session"], 0)
        for ending in ENDINGS:
            self.assertEqual(profile["quality"][f"stacks_ending_{ending}"], 0, ending)
        self.assertGreater(profile["quality"]["stacks_ending_rooted"], 0)
        return profile, truth

    def assert_by_kind(self, profile, truth):
        ours = {}
        for row in profile["kernels"]:
            entry = ours.setdefault(row["system_name"] or row["name"], [0, 0, 0])
            for place, field in enumerate(("launches", "gpu_time_ns", "copied_bytes")):
                entry[place] += row[field]
        for name, kernel in truth["kernels"].items():
            self.assertEqual(ours[name][:2], [kernel["count"], kernel["ns"]], name)
        for kind, copy in truth["copies"].items():
            self.assertEqual(ours[f"[memcpy {kind}]"], [copy["count"], copy["ns"], copy["bytes"]], kind)
        if truth["sets"]["count"]:
            self.assertEqual(ours["[memset]"][:2], [truth["sets"]["count"], truth["sets"]["ns"]])

    def test_launch_loop_eight_threads_eight_streams(self):
        profile, _ = self.check("launch_loop", "--seconds", "3", "--rate", "50000", "--threads", "8", "--streams", "8")
        self.assertEqual(dropped_executions(profile), 0)

    def test_launch_loop_full_speed(self):
        self.check("launch_loop", "--seconds", "2", "--threads", "8", "--streams", "8", seconds=8)

    def test_copies_and_sets(self):
        profile, _ = self.check("copies", "--seconds", "2")
        self.assertEqual(dropped_executions(profile), 0)

    def test_graph_replay(self):
        self.check("graph_replay", "--seconds", "2")

    def test_paced_200000_a_second_drops_nothing(self):
        profile, truth = self.check("launch_loop", "--seconds", "10", "--rate", "200000", "--threads", "8", "--streams",
                                    "8", seconds=13)
        self.assertGreater(truth["launches"], 1_950_000)
        quality = profile["quality"]
        self.assertEqual({key: value for key, value in quality.items() if key.startswith("dropped_") and value}, {})

    def test_two_devices_of_which_one_is_asked_for(self):
        with Bench() as bench:
            workload = bench.workload("launch_loop", "--seconds", "4", "--rate", "5000", SIMGPU_DEVICES=2)
            sidecar = bench.sidecar("-wait-for-shim", "20s")
            sidecar.wait_ready()
            self.assertEqual(executions(sidecar.profile(1, device=1)), 0)
            self.assertGreater(executions(sidecar.profile(1, device=0)), 4000)
            workload.truth()


class Stacks(unittest.TestCase):
    def test_attach_late_all_rooted_in_main(self):
        with Bench() as bench:
            workload = bench.workload("deep_stacks", "--seconds", "30", "--rate", "20000")
            wait_until(lambda: list(bench.sockets.iterdir()), "the shim's socket")
            time.sleep(5)  # the point of the test is that five seconds of history are missed
            sidecar = bench.sidecar("-wait-for-shim", "20s", "-linger", "30s")
            sidecar.wait_ready()
            profile = sidecar.profile(2)
            modules = sidecar.get_json("/status")["modules"]
            workload.stop()
            truth = workload.truth()["simgpu"]
        quality = profile["quality"]
        taken = sum(value for key, value in quality.items() if key.startswith("stacks_ending_"))
        self.assertGreater(taken, 100)
        self.assertEqual(quality["stacks_ending_rooted"], taken)
        names = {line["function"] for frame in profile["frames"] for line in frame["lines"]}
        self.assertIn("main", names)
        # Modules that were loaded long before come over byte for byte.
        ours = sorted((module["bytes"], module["fnv1a"]) for module in modules)
        self.assertEqual(ours, sorted((module["bytes"], module["crc"]) for module in truth["modules"]))

    def test_detach_and_attach_again_mixes_nothing(self):
        with Bench() as bench:
            workload = bench.workload("launch_loop", "--seconds", "60", "--rate", "20000", "--threads", "2")
            sidecar = bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
            sidecar.wait_ready()
            for _ in range(4):
                profile = sidecar.profile(1)
                quality = profile["quality"]
                self.assertEqual(quality["joined"] + quality["launched_before_session"], quality["executions"])
                self.assertLess(quality["launched_before_session"], 2000)  # what was under way when it was armed
                self.assertAlmostEqual(executions(profile), 20000, delta=2000)
                self.assertEqual(quality["stacks_ending_rooted"], quality["stacks"])
                wait_until(lambda: sidecar.get_json("/status")["processes"][0]["state"] == "connected", "detached")
            workload.stop()
            workload.truth()


class Windows(unittest.TestCase):
    def test_three_overlapping_requests_each_get_their_own(self):
        with Bench() as bench:
            bench.workload("launch_loop", "--seconds", "60", "--rate", "20000")
            sidecar = bench.sidecar("-wait-for-shim", "20s")
            sidecar.wait_ready()
            answers = {}

            def ask(seconds):
                answers[seconds] = sidecar.profile(seconds)

            threads = [threading.Thread(target=ask, args=(seconds,)) for seconds in (4, 3, 2)]
            for count, thread in enumerate(threads, 1):
                thread.start()
                wait_until(lambda: windows_open(sidecar) >= count, f"{count} windows open")
            for thread in threads:
                thread.join()
        for seconds, profile in answers.items():
            self.assertAlmostEqual(profile["window"]["duration_ns"] / 1e9, seconds, delta=0.05)
            self.assertAlmostEqual(executions(profile), 20000 * seconds, delta=1500)

    def test_client_that_hangs_up_ends_its_window(self):
        with Bench() as bench:
            bench.workload("launch_loop", "--seconds", "60", "--rate", "1000")
            sidecar = bench.sidecar("-wait-for-shim", "20s")
            sidecar.wait_ready()
            connection = http.client.HTTPConnection("127.0.0.1", sidecar.port)
            connection.request("GET", "/profile?seconds=60")
            wait_until(lambda: windows_open(sidecar) == 1, "the window to be open")
            connection.close()
            wait_until(lambda: windows_open(sidecar) == 0, "the window to be closed", 3)

    def test_memory_at_50000_a_second(self):
        with Bench() as bench:
            workload = bench.workload("launch_loop", "--seconds", "60", "--rate", "50000", "--threads", "8")
            sidecar = bench.sidecar("-wait-for-shim", "20s")
            sidecar.wait_ready()
            profile = sidecar.profile(20)
            peak = sidecar.rss_bytes()
            workload.stop()
            workload.truth()
        self.assertGreater(executions(profile), 950_000)
        print(f"peak resident memory {peak / 1e6:.0f} MB")
        self.assertLess(peak, 200e6)


@unittest.skipUnless(shutil.which("go"), "no go tool: `go tool pprof` cannot read the profile")
class Pprof(unittest.TestCase):
    def test_go_tool_pprof_reads_the_same_numbers(self):
        with Bench() as bench:
            start = bench.folder / "start"
            workload = bench.workload("deep_stacks", "--seconds", "2", "--rate", "20000", "--start-file", start)
            sidecar = bench.sidecar("-wait-for-shim", "20s")
            sidecar.wait_ready()
            body = {}
            thread = threading.Thread(target=lambda: body.update(pprof=sidecar.pprof(4)))
            thread.start()
            wait_until(lambda: windows_open(sidecar) == 1, "the window to be open")
            start.touch()
            truth = workload.truth()["simgpu"]
            thread.join()
            path = bench.folder / "profile.pb.gz"
            path.write_bytes(body["pprof"])

            def pprof(*arguments):
                command = ["go", "tool", "pprof", *arguments, path]
                return subprocess.run(command, check=True, capture_output=True, text=True).stdout

            counts = pprof("-sample_index=launches", "-top", "-nodecount=500")
            shown = int(re.search(r"of (\d+) total", counts).group(1))
            self.assertEqual(shown, truth["executions"])
            times = pprof("-top", "-unit=ns", "-nodecount=500")
            self.assertIn("gpu_time", times)
            self.assertEqual(int(re.search(r"of (\d+)ns total", times).group(1)), truth["gpu_ns"])
            self.assertIn("axpy", times)
            raw = pprof("-raw")
            self.assertIn("gpu_time/nanoseconds", raw)
            self.assertRegex(raw, r"executions=\d+")
            traces = pprof("-traces")
            self.assertIn("main", traces)
            self.assertIn("cuLaunchKernel", traces)


if __name__ == "__main__":
    main()
