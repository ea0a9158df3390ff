# SPDX-License-Identifier: Apache-2.0
"""Each thing that may go wrong between a launch and a profile is counted exactly, named, and said once.

The double makes it happen; what a window and the totals say must be what was made to happen and nothing else."""
import mmap
import os
import re
import struct
import time

from harness import ROOT, WORKLOADS, Bench, ProfileTest, Window, main, total, wait_until
from losses import anomalies, details

KERNEL_NS = 2_000
WRAP = 1 << 32


class AnomalyTest(ProfileTest):
    maxDiff = None

    def setUp(self):
        self.bench = Bench()
        self.addCleanup(self.bench.__exit__)

    def begin(self, *flags, environment=None, **knobs):
        workload = self.bench.stepped(**{"SIMGPU_KERNEL_NS": KERNEL_NS, **knobs})
        sidecar = self.bench.sidecar("-wait-for-shim", "20s", *flags, environment=environment)
        sidecar.wait_ready()
        return workload, sidecar

    def window(self, sidecar, act, seconds=2):
        with Window(sidecar, seconds) as window:
            act()
        return window.take()

    def said(self, sidecar, kind):
        """The lines of the log about one kind."""
        return re.findall(rf"anomaly {kind}, .*", sidecar.log())

    def check_totals(self, sidecar, expected):
        """/status and /metrics, since the sidecar began; the log names each kind once."""
        status = {anomaly["kind"]: anomaly["total"] for anomaly in sidecar.get_json("/status")["anomalies"]}
        self.assertEqual(status, expected)
        lines = sidecar.request("/metrics")[2].decode().splitlines()
        found = dict(re.findall(r'^pillion_anomalies_total\{kind="(\w+)"\} (\d+)', "\n".join(lines), re.M))
        self.assertEqual({kind: int(count) for kind, count in found.items() if count != "0"}, expected)
        self.assertGreater(len(found), 25)
        for kind in expected:
            wait_until(lambda kind=kind: self.said(sidecar, kind), f"{kind} in the log", 5)
            self.assertEqual(len(self.said(sidecar, kind)), 1, sidecar.log())
        self.assertEqual(len(re.findall("anomaly ", sidecar.log())), len(expected), sidecar.log())

    def check_time(self, profile, executions, with_time, each_ns=KERNEL_NS):
        """All are counted, and the time of so many is."""
        self.assertEqual(profile["quality"]["executions"], executions)
        self.assertEqual(total(profile, "launches"), executions)
        self.assertEqual(total(profile), with_time * each_ns)
        self.assertEqual(sum(stack["gpu_time_ns"] for stack in profile["stacks"]), with_time * each_ns)

    def test_none(self):
        """Nothing odd: nothing said. And the table of kinds in the README is the whole one."""
        workload, sidecar = self.begin()
        profile = self.window(sidecar, lambda: workload.launch(500))
        self.assert_launches(profile, 500)
        self.assertEqual(profile["quality"]["anomalies"], [])
        self.check_totals(sidecar, {})
        metrics = sidecar.request("/metrics")[2].decode()
        kinds = set(re.findall(r'pillion_anomalies_total\{kind="(\w+)"\}', metrics))
        table = (ROOT / "sidecar" / "README.md").read_text().split("## Anomalies")[1].split("\n## ")[0]
        rows = re.findall(r"^\| `(\w+)` \|", table, re.M)
        self.assertEqual(len(rows), len(set(rows)))
        self.assertEqual(set(rows), kinds | {"no_gpu_records", "ended_early", "refused", "window_cut_short",
                                            "settings_not_as_asked", "syncs_not_recorded", "kernels_not_recorded",
                                            "memsets_not_recorded", "copies_not_recorded", "calls_not_recorded",
                                            "launches_pending"})

    def test_zero_and_reversed_stamps(self):
        for kind, knob in (("zero", "SIMGPU_ZERO_STAMPS_EVERY"), ("reversed", "SIMGPU_REVERSED_STAMPS_EVERY")):
            with self.subTest(kind), Bench() as self.bench:
                workload, sidecar = self.begin(**{knob: 7})
                profile = self.window(sidecar, lambda: workload.launch(700))
                self.assertEqual(anomalies(profile), {f"invalid_stamps_{kind}": 100})
                self.check_time(profile, 700, 600)
                self.assertEqual(profile["quality"]["joined"], 700)
                again = self.window(sidecar, lambda: workload.launch(70))
                self.assertEqual(anomalies(again), {f"invalid_stamps_{kind}": 10})
                self.check_totals(sidecar, {f"invalid_stamps_{kind}": 110})
                sidecar.process.terminate()
                sidecar.process.wait(10)
                # The end says the total once more, since it has grown.
                self.assertEqual(len(self.said(sidecar, f"invalid_stamps_{kind}")), 2, sidecar.log())
                self.assertIn(", 110 so far", self.said(sidecar, f"invalid_stamps_{kind}")[1])

    def test_clock_of_the_stamps_steps(self):
        """Back, forward by little and by much: counted at their launch, in the window that they ran in."""
        for step_ns, kind in ((-50_000_000, "before_launch"), (3_000_000_000, "outside_session"),
                              (100_000_000_000_000, "outside_session"), (-100_000_000_000_000, "outside_session")):
            with self.subTest(step_ns=step_ns), Bench() as self.bench:
                workload, sidecar = self.begin(SIMGPU_CLOCK_STEP_NS=step_ns, SIMGPU_CLOCK_STEP_AFTER=300)
                profile = self.window(sidecar, lambda: workload.launch(500))
                # CUPTI's own overhead records are stamped, too: one or two before the step.
                good = total(profile) // KERNEL_NS
                self.assertIn(good, range(300 - 2, 300 + 1))
                self.assertEqual(anomalies(profile), {f"invalid_stamps_{kind}": 500 - good})
                self.check_time(profile, 500, good)
                self.assertEqual(profile["quality"]["joined"], 500)
                self.check_totals(sidecar, {f"invalid_stamps_{kind}": 500 - good})

    def test_another_client_takes_the_clock(self):
        workload, sidecar = self.begin()

        def act():
            workload.launch(200)
            workload.take_timestamps()
            workload.launch(300)

        profile = self.window(sidecar, act)
        found = anomalies(profile)
        self.assertIn("ended_early", found)  # the shim lets go when it sees whose clock it is
        invalid = found["invalid_stamps_outside_session"]
        self.assertIn(invalid, range(1, 301))
        self.check_time(profile, 200 + invalid, 200)
        self.assertEqual(workload.truth()["launches"], 500)

    def test_time_of_day_is_set(self):
        """In the sidecar and in the workload, forward and back, in a window and outside of one: no figure changes."""
        clock = self.bench.folder / "clock"
        preload = {"LD_PRELOAD": str(WORKLOADS / "libstepped_clock.so"), "STEPPED_CLOCK_FILE": str(clock)}
        workload, sidecar = self.begin(environment=preload, **preload)

        def set_clock(seconds):
            clock.with_suffix(".new").write_text(str(seconds * 1_000_000_000))
            os.rename(clock.with_suffix(".new"), clock)

        def act():
            workload.launch(200)
            set_clock(-86_400)
            workload.launch(300)

        before = time.time()
        profile = self.window(sidecar, act)
        self.assertEqual(anomalies(profile), {"clock_steps": 1})
        self.assertEqual(profile["quality"]["clock_steps"], 1)
        self.check_time(profile, 500, 500)
        self.assert_launches(profile, 500)
        self.assertLess(abs(profile["window"]["start_unix_ns"] / 1e9 - before), 30)  # as it was at the start
        self.assertLess(abs(profile["window"]["duration_ns"] - 2 * 10**9), 10**8)
        set_clock(86_400)
        wait_until(lambda: sidecar.metric("pillion_clock_steps_total") == 2, "the second step to be seen")
        profile = self.window(sidecar, lambda: workload.launch(300))
        self.assertEqual(anomalies(profile), {})
        self.assert_launches(profile, 300)
        self.check_totals(sidecar, {"clock_steps": 2})

    def test_ids_wrap(self):
        """At 2^32 with launches in flight on both sides, in two sessions: ids begin anew after a finalize."""
        start = WRAP - 600
        workload, sidecar = self.begin("-linger", "0s", SIMGPU_CORRELATION_START=start, SIMGPU_KERNEL_NS=20_000,
                                       SIMGPU_QUEUE_DEPTH=4096)
        for session in range(2):
            with self.subTest(session=session):
                profile = self.window(sidecar, lambda: workload.launch(1_500))
                self.assert_launches(profile, 1_500)
                self.assertEqual(anomalies(profile), {})
                self.assertEqual(total(profile), 1_500 * 20_000)
                self.assert_all_rooted(profile)

                def finalized():
                    workload.launch(1)  # CUPTI is finalized at the exit of a call
                    [process] = sidecar.get_json("/status")["processes"]
                    return process["state"] == "connected"

                wait_until(finalized, "the detach")
        self.check_totals(sidecar, {})

    def test_ids_wrap_often(self):
        """Every 4,096 launches, since other calls use up most ids."""
        workload, sidecar = self.begin(SIMGPU_CORRELATION_STEP=1 << 20)

        def act():
            for _ in range(20):
                workload.launch(500)
                done = workload.launches
                wait_until(lambda done=done: sidecar.metric("pillion_executions_total") >= done - 400, "executions", 20)

        profile = self.window(sidecar, act, 8)
        self.assert_launches(profile, 10_000)
        self.assertEqual(anomalies(profile), {})
        self.check_time(profile, 10_000, 10_000)

    def test_out_of_order(self):
        workload, sidecar = self.begin(SIMGPU_OUT_OF_ORDER=1)
        profile = self.window(sidecar, lambda: workload.launch(2_000))
        self.assert_launches(profile, 2_000)
        self.assertEqual(anomalies(profile), {})

    def test_dropped_by_cupti(self):
        workload, sidecar = self.begin(SIMGPU_DROP_EVERY=10)
        profile = self.window(sidecar, lambda: workload.launch(1_000))
        self.assertEqual(anomalies(profile), {"cupti_dropped": 100})
        self.assertEqual(profile["quality"]["pending"], 100)
        self.check_time(profile, 900, 900)
        self.check_totals(sidecar, {"cupti_dropped": 100})

    def test_foreign_buffer(self):
        workload, sidecar = self.begin(SIMGPU_FOREIGN_BUFFER=1)
        profile = self.window(sidecar, lambda: workload.launch(1_000))
        self.assert_launches({**profile, "quality": {**profile["quality"], "foreign_buffers": 0}}, 1_000)
        self.check_totals(sidecar, {"foreign_buffers": 1})  # perhaps given back before the window

    def test_evictions(self):
        """The table holds 1,048,576 launches; what is joined leaves it silently, what never runs by name."""
        table, more = 1 << 20, 5_000
        # Captured launches that nothing tells as such wait for ever.
        workload, sidecar = self.begin(SIMGPU_QUEUE_DEPTH=4096, SIMGPU_GRAPH_NODE_CREATED=0)

        batches = (*[50_000] * (table // 50_000), table % 50_000 + more)  # what the rings hold in any case
        run = 3_000 + 20 * len(batches) + 200

        def act():
            workload.launch(3_000)
            wait_until(lambda: sidecar.metric("pillion_executions_joined_total") == 3_000, "the joins", 30)
            for batch in batches:
                workload.capture(batch)
                workload.launch(20)  # a program without any record looks as if CUPTI were another's
                launched = workload.launches
                wait_until(lambda launched=launched: sidecar.metric("pillion_launches_total") >= launched, "launches", 30)
            workload.launch(200)

        profile = self.window(sidecar, act, 25)
        quality = profile["quality"]
        odd = f"{anomalies(profile)} {sidecar.log()}"
        self.assertEqual(quality["launches"], table + more + run, odd)
        self.assertEqual((quality["executions"], quality["joined"], quality["launch_record_lost"]), (run, run, 0), odd)
        # Those at the end take a place each until they have been executed.
        self.assertGreaterEqual(quality["evicted_unjoined"], more)
        self.assertLessEqual(quality["evicted_unjoined"], more + 220)
        self.assertEqual(quality["pending"] + quality["evicted_unjoined"], table + more)
        found = anomalies(profile)
        found.pop("snapshots_dropped", None)  # a busy machine
        self.assertEqual(found.pop("launches_pending"), quality["pending"])
        self.assertEqual(found, {"evicted_unjoined": quality["evicted_unjoined"]})
        self.check_time(profile, run, run)

    def events_region(self, sidecar):
        """The memory of the events rings, through the sidecar's own descriptors: (map, offset and number of rings)."""
        folder = f"/proc/{sidecar.process.pid}/fd"
        for name in os.listdir(folder):
            if "memfd:" not in os.readlink(f"{folder}/{name}"):
                continue
            with open(f"{folder}/{name}", "r+b") as file:
                region = mmap.mmap(file.fileno(), 0)
            self.addCleanup(region.close)
            magic, _, _, _, kind = struct.unpack_from("<IHHII", region, 0)
            count, _, offset = struct.unpack_from("<IIQ", region, 32)
            if magic == 0x4E4C4950 and kind == 1:
                return region, offset, count
        raise AssertionError("the sidecar holds no events rings")

    def test_records_lost_in_a_ring(self):
        """Something writes into the rings' positions while they hold records: what is lost is told from the numbers."""
        workload, sidecar = self.begin("-drain-every", "2s")

        def act():
            workload.launch(300)
            wait_until(lambda: sidecar.metric("pillion_executions_total") == 300, "the executions", 20)
            region, offset, count = self.events_region(sidecar)
            for ring in range(count):
                [head] = struct.unpack_from("<Q", region, offset + 128 * ring)
                struct.pack_into("<Q", region, offset + 128 * ring, head + (1 << 40))
            wait_until(lambda: sidecar.metric("pillion_anomalies_total") >= count, "the rings to be reset", 20)
            workload.launch(200)
            wait_until(lambda: sidecar.metric("pillion_anomalies_total") > count, "the rings to be reset again", 20)
            workload.launch(100)

        profile = self.window(sidecar, act, 15)
        quality, found = profile["quality"], anomalies(profile)
        self.assertLessEqual(set(found), {"ring_resets", "records_missing", "launch_record_lost"}, found)
        self.assertGreaterEqual(found["ring_resets"], 16 + 1)
        self.assertGreater(found["records_missing"], 0)
        self.assertEqual(quality["shim_launches"], 600)
        self.assertEqual(quality["shim_executions"], 600)
        # Every record that did not come is one that is missing: launches and their returns, executions, and the begin
        # and the end of the wait after each of the three rounds.
        launches, waits = 600 - quality["launches"], 3 - quality["syncs"]
        self.assertEqual(found["records_missing"], 2 * launches + 600 - quality["executions"] + 2 * waits)
        self.assertGreaterEqual(quality["launches"], 400)

    def test_producer_killed(self):
        """In mid-record or not: what was published is whole, and nothing is taken for missing."""
        workload = self.bench.workload("launch_loop", "--seconds", "0", "--threads", "4", "--streams", "4", "--rate", "40000")
        sidecar = self.bench.sidecar("-wait-for-shim", "20s")
        sidecar.wait_ready()
        with Window(sidecar, 3) as window:
            wait_until(lambda: sidecar.metric("pillion_executions_total") >= 10_000, "10,000 executions", 20)
            workload.process.kill()
        profile = window.take()
        found = anomalies(profile)
        self.assertEqual(found.pop("ended_early"), 1)
        self.assertIn("the process ended", details(profile, "ended_early")[0])
        found.pop("snapshots_dropped", None)  # a busy machine
        self.assertEqual(found, {})


if __name__ == "__main__":
    main(at_once=3)
