# SPDX-License-Identifier: Apache-2.0
"""Idle profiles of scripted programs on the double: time is conserved to the nanosecond, busy time and copies are those
of the double, and each cause stands at the launch that the script put behind it."""
import collections
import gzip
import os
import re
import shutil
import subprocess
import threading
import time
import unittest

from harness import Bench, Window, functions, main, wait_until
from losses import anomalies, details
from recording import Recording, workload

MS = 1_000_000
LATENCY_MS = 1  # from a launch call to the earliest start on an idle stream
CAUSES = ("host-bound", "queued", "synchronising", "copy", "unknown")


class Scripted:
    """The workload that does what a line says; run() returns when it has."""

    def __init__(self, bench, devices=1, **environment):
        self.workload = bench.workload("scripted", "--nodes", devices, SIMGPU_LAUNCH_LATENCY_NS=LATENCY_MS * MS,
                                       popen={"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}, **environment)
        self.process, self.pid = self.workload.process, self.workload.pid
        self.expect(b"ready\n")

    def expect(self, line):
        said = self.process.stdout.readline()
        if said != line:
            raise AssertionError(f"scripted said {said!r} instead of {line!r}")

    def run(self, *steps):
        self.process.stdin.write(("; ".join(steps) + "\n").encode())
        self.process.stdin.flush()
        self.expect(b"done\n")

    def end(self):
        self.process.stdin.close()
        self.process.stdout.readline()
        if self.process.wait(20) != 0:
            raise AssertionError("scripted failed")


def rows(profile, site=None, cause=None, **labels):
    """Nanoseconds of the rows whose launch was made at this site, of this cause, with these labels."""
    total = 0
    for stack in profile["stacks"]:
        wanted = {**labels, **({"cause": cause} if cause else {})}
        if any(stack["labels"].get(key) != value for key, value in wanted.items()):
            continue
        if site is None or any(site in name for name in functions(profile, stack)):
            total += stack["gpu_idle_ns"]
    return total


class IdleTest(unittest.TestCase):
    def setUp(self):
        bench = Bench()
        self.addCleanup(bench.__exit__)
        self.bench = bench

    def sidecar(self, *arguments):
        sidecar = self.bench.sidecar("-wait-for-shim", "20s", *arguments)
        sidecar.wait_ready()
        return sidecar

    def check(self, profile, devices=1):
        """busy + idle = window x devices, and the rows are the idle time, by cause."""
        self.assertEqual(profile["type"], "idle")
        self.assertEqual(len(profile["device_idle"]), devices)
        by_cause = collections.Counter()
        for device in profile["device_idle"]:
            self.assertEqual(device["busy_ns"] + device["idle_ns"], profile["window"]["duration_ns"])
            self.assertEqual(device["window_ns"], profile["window"]["duration_ns"])
            self.assertEqual(sum(device["idle_by_cause_ns"].values()), device["idle_ns"])
            by_cause.update(device["idle_by_cause_ns"])
        found = collections.Counter({cause: rows(profile, cause=cause) for cause in CAUSES})
        self.assertEqual(+found, +by_cause)
        return profile

    def assert_about(self, ns, ms, slack_ms=4):
        """The host's part of a script takes as long as it does on a busy machine: not less, and not much more."""
        self.assertGreaterEqual(ns, ms * MS)
        self.assertLessEqual(ns, (ms + slack_ms) * MS)


class Causes(IdleTest):
    def take(self, seconds, *scripts, devices=1, expect_devices=None, pause=0.1, odd=(), **environment):
        """The profile of one process that has done these scripts in the window."""
        script = Scripted(self.bench, devices, **environment)
        sidecar = self.sidecar()
        with Window(sidecar, seconds, type="idle", pid=script.pid) as window:
            sidecar.wait_state(script.pid, "armed")
            time.sleep(pause)
            for steps in scripts:
                script.run(*steps)
            profile = window.take()
        script.end()
        self.assertEqual(anomalies(profile), dict(odd))
        return self.check(profile, expect_devices or devices)

    def test_host_bound_is_at_the_launch_behind_the_sleep(self):
        profile = self.take(2, ["spin 0 0 0 2000000"], *[["sleep 30", "spin 1 0 0 2000000"]] * 20)
        device = profile["device_idle"][0]
        self.assertEqual(device["busy_ns"], 21 * 2 * MS)
        self.assertEqual(device["kernel_concurrency"], 1)
        at_site = rows(profile, "site<1>", "host-bound")
        self.assert_about(at_site, 20 * (30 - 2 - LATENCY_MS), 20 * 4)
        self.assert_about(rows(profile, "site<1>", "queued"), 20 * LATENCY_MS, 20)
        inside = sum(rows(profile, cause=cause) for cause in CAUSES) - sum(
            stack["gpu_idle_ns"] for stack in profile["stacks"] if "edge" in stack["labels"])
        self.assertGreater(at_site, 0.95 * inside)

    def test_queued_behind_another_device(self):
        profile = self.take(2, ["spin 0 0 0 50000000", "after 1 0 0 0", "spin 1 1 0 10000000", "sync 1 0"], devices=2,
                            SIMGPU_DEVICES=2)
        on = {device["users"][0]["device"]: device for device in profile["device_idle"]}
        self.assertEqual(on[0]["busy_ns"], 50 * MS)
        self.assertEqual(on[1]["busy_ns"], 10 * MS)
        # The first launch on the second device ends the gap that the window's beginning cuts.
        self.assert_about(rows(profile, "site<1>", "queued", device=1), 50, 10)

    def test_a_copy_and_nothing_else(self):
        size = 25_000_000  # 25 GB/s, and a microsecond
        profile = self.take(2, ["spin 0 0 0 2000000", "sync 0 0"],
                            *[["sleep 10", f"copy 0 1 {size}", "sync 0 1", "spin 1 0 0 2000000"]] * 10)
        device = profile["device_idle"][0]
        self.assertEqual(device["busy_ns"], 11 * 2 * MS)
        self.assertEqual(device["idle_by_cause_ns"]["copy"], 10 * (MS + 1000))
        self.assertEqual(rows(profile, "site<1>", "copy"), 10 * (MS + 1000))
        # What was waited for before the copy is charged to the copy.
        self.assertGreater(rows(profile, "copy_up", "host-bound"), 10 * (10 - 2 - LATENCY_MS) * MS)

    def test_a_copy_beside_a_kernel_is_no_gap(self):
        profile = self.take(1, ["spin 0 0 0 100000000", "copy 0 1 25000000", "sync 0 1", "sync 0 0"])
        self.assertEqual(profile["device_idle"][0]["busy_ns"], 100 * MS)
        self.assertEqual(profile["device_idle"][0]["idle_by_cause_ns"]["copy"], 0)

    def test_unknown_is_what_a_launch_that_has_not_run_leaves_open(self):
        profile = self.take(1, ["spin 0 0 0 2000000", "sleep 200", "spin 1 0 0 3000000000"],
                            odd={"launches_pending": 1})
        device = profile["device_idle"][0]
        self.assertEqual(device["busy_ns"], 2 * MS)
        end = rows(profile, cause="host-bound", edge="end")
        self.assert_about(end, 200 - 2 - LATENCY_MS, 20)
        unknown = rows(profile, cause="unknown", edge="end")
        self.assertGreater(unknown, 500 * MS)
        self.assertEqual(rows(profile, "site<1>", "unknown", edge="end"), unknown)
        self.assertEqual(profile["quality"]["pending"], 1)

    def test_a_kernel_that_outlasts_the_window_is_named(self):
        """Launched before it, or in it: nothing is known of it but its launch."""
        script = Scripted(self.bench)
        sidecar = self.sidecar()
        with Window(sidecar, 1, type="idle"):
            script.run("spin 0 0 0 2000000", "sync 0 0")
        script.run("spin 1 0 0 4000000000", "spin 0 0 0 1000000")
        with Window(sidecar, 1, type="idle") as first, Window(sidecar, 1) as gpu:
            idle, ran = first.take(), gpu.take()
        script.run("sync 0 0")
        with Window(sidecar, 1, type="idle") as last:
            after = last.take()
        script.end()
        length = self.check(idle)["window"]["duration_ns"]
        self.assertEqual(rows(idle, "site<1>", "unknown", edge="both"), length)
        self.assertIn("[launched, its GPU record had not come: it may have run]",
                      {name for stack in idle["stacks"] for name in functions(idle, stack)})
        for profile in (idle, ran):
            self.assertEqual((profile["quality"]["pending"], profile["quality"]["pending_earlier"]), (0, 2))
            self.assertEqual(anomalies(profile), {"launches_pending": 2})
        self.assertIn("unknown", details(idle, "launches_pending")[0])
        self.assertEqual(ran["kernels"], [])
        self.assertEqual(anomalies(self.check(after)), {})
        self.assertEqual(rows(after, cause="unknown"), 0)

    def test_records_behind_a_long_kernel(self):
        """The buffer does not come back: no record, and the reason is that and no other."""
        script = Scripted(self.bench)
        sidecar = self.sidecar()
        with Window(sidecar, 1):
            script.run("spin 0 0 0 2000000", "sync 0 0")
        with Window(sidecar, 1) as few, Window(sidecar, 1, type="idle") as idle:
            script.run("spin 1 0 0 3000000000", "spin 0 0 1 1000000")
            profiles = few.take(), idle.take()
        for profile in profiles:
            [why] = details(profile, "no_gpu_records")
            self.assertIn("a kernel runs that holds them back", why)
            self.assertNotIn("libcupti", why)
        script.run("sync 0 0")
        with Window(sidecar, 1) as many:  # enough for an error instead of an empty profile
            script.run("spin 1 0 0 3000000000", *["spin 0 0 1 1000"] * 100)
            error = many.take(expect=502)["error"]
        self.assertEqual(error["code"], "no_gpu_records")
        self.assertIn("a kernel runs that holds them back", error["hint"])
        self.assertNotIn("libcupti", error["hint"])
        script.run("sync 0 0")
        script.end()

    def test_edges_are_rows_of_their_own(self):
        profile = self.take(1, ["spin 0 0 0 2000000", "sleep 20", "spin 0 0 0 2000000", "sync 0 0"], pause=0.2)
        begin = rows(profile, "site<0>", edge="begin")
        end = rows(profile, edge="end")
        inside = rows(profile, "site<0>") - begin
        self.assertGreater(begin, 200 * MS)
        self.assert_about(inside, 20 - 2, 10)
        self.assertGreater(end, 300 * MS)
        self.assertEqual(begin + inside + end, profile["device_idle"][0]["idle_ns"])
        names = {name for stack in profile["stacks"] for name in functions(profile, stack)}
        self.assertLessEqual({"[gap cut by the window's beginning]", "[gap cut by the window's end]",
                              "[nothing started before the window's end]", "idle: host-bound", "idle: queued"}, names)

    def test_streams_overlap_and_a_device_that_only_has_a_context_is_idle(self):
        profile = self.take(2, ["spin 0 0 0 100000000", "spin 1 0 1 100000000", "sync 0 0", "sync 0 1",
                                "set 0 0 20000000", "sync 0 0"], devices=3, SIMGPU_DEVICES=4)
        on = {device["users"][0]["device"]: device for device in profile["device_idle"]}
        self.assertEqual(sorted(on), [0, 1, 2])
        self.assertGreater(on[0]["kernel_concurrency"], 1.5)
        self.assertLessEqual(on[0]["kernel_concurrency"], 2)
        self.assertGreater(on[0]["busy_ns"], 100 * MS)
        self.assertLess(on[0]["busy_ns"], 200 * MS)
        for device in (1, 2):
            self.assertEqual(on[device]["busy_share"], 0)
            self.assertEqual(on[device]["idle_by_cause_ns"]["host-bound"], profile["window"]["duration_ns"])
            self.assertEqual(rows(profile, device=device, edge="both"), profile["window"]["duration_ns"])

    def test_a_copy_between_devices_is_in_flight_on_both(self):
        profile = self.take(1, ["peer 0 1 0 100000000", "after 1 0 0 0", "spin 0 0 0 1000000", "spin 1 1 0 1000000",
                                "sync 0 0", "sync 1 0"], devices=2, SIMGPU_DEVICES=2)
        took = 500_000 + 1000  # 200 GB/s, and a microsecond
        for device, site in ((0, "site<0>"), (1, "site<1>")):
            self.assertEqual(rows(profile, site, "copy", device=device), took)


class Windows(IdleTest):
    def test_overlapping_windows_that_begin_and_end_in_kernels_and_gaps(self):
        script = Scripted(self.bench)
        sidecar = self.sidecar()
        with Window(sidecar, 5, type="idle") as long:
            sidecar.wait_state(script.pid, "armed")
            script.run("spin 0 0 0 700000000")
            with Window(sidecar, 1, type="idle") as from_kernel:  # and ends in the gap
                time.sleep(0.1)
                with Window(sidecar, 2, type="idle") as to_kernel, Window(sidecar, 2) as gpu:
                    script.run("sync 0 0", "sleep 1000", "spin 1 0 0 700000000", "sync 0 0")
                    profiles = {name: window.take()
                                for name, window in (("from", from_kernel), ("to", to_kernel), ("gpu", gpu))}
            profiles["long"] = long.take()
        script.end()
        for name in ("from", "to", "long"):
            self.check(profiles[name])
            self.assertEqual(anomalies(profiles[name]), {})
        busy = {name: profile["device_idle"][0]["busy_ns"] for name, profile in profiles.items() if name != "gpu"}
        self.assertEqual(busy["long"], (700 + 700) * MS)
        self.assertGreater(busy["from"], 400 * MS)
        self.assertLess(busy["from"], 700 * MS)
        self.assertGreater(busy["to"], 700 * MS)  # of both kernels
        self.assertEqual(profiles["gpu"]["type"], "gpu")
        # The second kernel began in that window and ended behind it: busy here, of a later window there.
        self.assertEqual(sum(row["gpu_time_ns"] for row in profiles["gpu"]["kernels"]), 700 * MS)
        # A second without work; its first part, as long as the thread had waited for the first kernel, is put down to that.
        late, waited = (rows(profiles["to"], "site<1>", cause) for cause in ("host-bound", "synchronising"))
        self.assertGreater(late + waited, 800 * MS)
        self.assertGreater(waited, 300 * MS)

    def test_two_processes_on_one_device(self):
        one, two = Scripted(self.bench), Scripted(self.bench)
        sidecar = self.sidecar()
        with Window(sidecar, 2, type="idle") as both, Window(sidecar, 2, type="idle", pid=one.pid) as alone:
            for script in (one, two):
                sidecar.wait_state(script.pid, "armed")
            one.run("spin 0 0 0 20000000", "sync 0 0")
            for _ in range(5):
                two.run("sleep 20", "spin 2 0 0 20000000", "sync 0 0")
                one.run("sleep 20", "spin 1 0 0 20000000", "sync 0 0")
            together, single = both.take(), alone.take()
        for script in (one, two):
            script.end()
        self.check(together)
        self.check(single)
        device = together["device_idle"][0]
        self.assertEqual({user["pid"] for user in device["users"]}, {one.pid, two.pid})
        self.assertEqual(device["busy_ns"], 11 * 20 * MS)
        self.assertEqual(single["device_idle"][0]["busy_ns"], 6 * 20 * MS)
        # Each gap is that one's whose launch ended it.
        for script, site in ((one, "site<1>"), (two, "site<2>")):
            self.assertGreaterEqual(rows(together, site, pid=script.pid), 5 * 20 * MS)
            self.assertEqual(rows(together, site), rows(together, site, pid=script.pid))
        # Alone, the other's work is a gap like any other.
        self.assertGreaterEqual(rows(single, "site<1>"), 5 * (20 + 20 + 20) * MS)

    def test_a_process_that_ends_leaves_the_rest_of_the_window_idle(self):
        script = Scripted(self.bench)
        sidecar = self.sidecar()
        with Window(sidecar, 2, type="idle") as window:
            sidecar.wait_state(script.pid, "armed")
            script.run("spin 0 0 0 20000000", "sync 0 0")
            script.end()
            profile = self.check(window.take())
        self.assertEqual(profile["device_idle"][0]["busy_ns"], 20 * MS)
        self.assertEqual(anomalies(profile), {"ended_early": 1})


class Load(IdleTest):
    def test_100000_launches_a_second(self):
        busy = self.bench.workload("launch_loop", "--seconds", "6", "--rate", "100000", "--threads", "4",
                                   "--streams", "4")
        sidecar = self.sidecar()
        sidecar.profile(1)
        before = sidecar.rss_bytes()
        profile = self.check(sidecar.profile(3, type="idle"))
        busy.stop()
        self.assertGreater(profile["quality"]["executions"], 250_000)
        self.assertEqual(anomalies(profile), {})
        self.assertLess(sidecar.rss_bytes() - before, 120 << 20)

    def test_executions_that_come_after_their_time_was_decided(self):
        """More executions than are kept, beside one that takes nearly the whole window."""
        slow = Scripted(self.bench)
        fast = self.bench.workload("launch_loop", "--seconds", "0", "--iterations", "600000", "--rate", "100000",
                                   "--threads", "2", "--streams", "2", "--start-file", self.bench.folder / "start")
        sidecar = self.sidecar()
        with Window(sidecar, 14, type="idle") as window:
            sidecar.wait_state(slow.pid, "armed")
            slow.run("spin 0 0 0 11500000000")
            (self.bench.folder / "start").touch()
            fast.finish(60)
            profile = self.check(window.take())
        self.assertEqual(anomalies(profile).get("idle_executions_late"), 1)
        self.assertEqual(profile["quality"]["idle_executions_late"], 1)
        totals = {anomaly["kind"]: anomaly["total"] for anomaly in sidecar.get_json("/status")["anomalies"]}
        self.assertEqual(totals["idle_executions_late"], 1)
        slow.process.stdin.close()


class Outputs(IdleTest):
    def during(self, sidecar, script, take):
        """What `take` gives while the script has gaps of 30 ms."""
        result = {}
        thread = threading.Thread(target=lambda: result.update(value=take()))
        thread.start()
        while thread.is_alive():
            script.run("sleep 30", "spin 1 0 0 2000000")
        thread.join()
        return result["value"]

    def test_folded_and_pprof(self):
        script, sidecar = Scripted(self.bench), self.sidecar()
        sidecar.profile(1, type="idle")
        status, _, body = self.during(sidecar, script,
                                      lambda: sidecar.request("/profile?seconds=1&type=idle&format=folded"))
        self.assertEqual(status, 200)
        lines = dict(line.rsplit(" ", 1) for line in body.decode().splitlines())
        host = [int(ns) for stack, ns in lines.items() if re.search(r"main;.*site<1>.*;cuLaunchKernel;idle: host-bound$",
                                                                    stack)]
        self.assertEqual(len(host), 1)
        self.assertGreater(host[0], 500 * MS)
        if shutil.which("go") is None:
            self.skipTest("no go: it is what reads pprof here")
        path = self.bench.folder / "idle.pb.gz"
        path.write_bytes(self.during(sidecar, script, lambda: sidecar.pprof(1, type="idle")))
        self.assertIn(b"gpu_idle", gzip.decompress(path.read_bytes()))
        top = subprocess.run(["go", "tool", "pprof", "-top", str(path)], capture_output=True, text=True, check=True)
        self.assertIn("Type: gpu_idle", top.stdout)
        self.assertRegex(top.stdout, r"idle: host-bound")
        for kind, value in (("idle", "gpu_idle"), ("sync", "sync_time")):
            url = f"http://127.0.0.1:{sidecar.port}/debug/pprof/{kind}?seconds=1"
            top = self.during(sidecar, script, lambda url=url: subprocess.run(
                ["go", "tool", "pprof", "-top", url], capture_output=True, text=True,
                env={**os.environ, "PPROF_TMPDIR": str(self.bench.folder)}))
            self.assertIn(f"Type: {value}", top.stdout, top.stderr)
        script.end()

    def test_record(self):
        recording = Recording(self.bench, "-type", "idle", "--",
                              *workload("launch_loop", "--iterations", 300, "--rate", 100))
        profile = recording.profile()
        self.check(profile)
        self.assertEqual(profile["quality"]["executions"], 300)
        self.assertGreater(profile["device_idle"][0]["idle_by_cause_ns"]["host-bound"], 2000 * MS)

    def test_types_that_are_not_there(self):
        script, sidecar = Scripted(self.bench), self.sidecar()
        for kind in ("cpu", "heap"):
            error = sidecar.get_json(f"/profile?seconds=1&type={kind}", expect=501)["error"]
            self.assertIn("idle", error["hint"])
        error = sidecar.get_json("/profile?seconds=1&type=sleep", expect=400)["error"]
        self.assertIn("idle", error["message"])
        script.end()


if __name__ == "__main__":
    main()
