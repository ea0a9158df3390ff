#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Queue and launch time, and the calls that wait for the GPU, compared with what the double and the program know."""
import json
import signal
import subprocess
import threading
import unittest

from harness import Bench, ProfileTest, Window, functions, wait_until, windows_open
from recording import Recording, workload

SPIN_NS = 1_000_000
NAMES = {"stream": "cuStreamSynchronize", "thread_stream": "cuStreamSynchronize", "context": "cuCtxSynchronize",
         "this_context": "cuCtxSynchronize", "event": "cuEventSynchronize", "to_host": "cuMemcpyDtoH",
         "to_device": "cuMemcpyHtoD"}


class Waits:
    """The workload `waits`, which waits for the GPU in the ways it is told to."""

    def __init__(self, bench, spin_ns=SPIN_NS, **environment):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.workload = bench.workload("waits", "--spin-ns", spin_ns, popen=pipes, **environment)
        self.process, self.pid = self.workload.process, self.workload.pid
        first = self.process.stdout.readline()
        if first != b"ready\n":
            raise AssertionError(f"waits said {first!r}")

    def tell(self, command, count=1):
        """Returns the nanoseconds that the calls took by the program's own clock."""
        self.process.stdin.write(f"{command} {count}\n".encode())
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer.strip().isdigit():
            raise AssertionError(f"waits said {answer!r}")
        return int(answer)

    def truth(self):
        self.process.stdin.close()
        line = self.process.stdout.readline()
        if self.process.wait(20) != 0:
            raise AssertionError(f"waits exited {self.process.returncode}: {line!r}")
        return json.loads(line)


def started(bench, *arguments, **options):
    waits = Waits(bench, **options)
    sidecar = bench.sidecar("-wait-for-shim", "20s", *arguments)
    sidecar.wait_ready()
    return waits, sidecar


def below(profile, name):
    """Time and calls of the stacks in which a function of this name stands."""
    rows = [stack for stack in profile["stacks"] if any(name in function for function in functions(profile, stack))]
    return sum(row["sync_time_ns"] for row in rows), sum(row["sync_calls"] for row in rows)


def lost(profile):
    quality = profile["quality"]
    names = ("syncs_lost", "dropped_syncs", "dropped_returns", "call_durations_missing", "sync_cells_merged",
             "latency_rows_merged", "launch_record_lost", "launches_duplicate", "evicted_unjoined")
    return {name: quality[name] for name in names if quality[name]}


class Sync(ProfileTest):
    def test_every_kind_of_wait_stands_under_its_function_with_its_time(self):
        count = 40
        with Bench() as bench:
            waits, sidecar = started(bench)
            with Window(sidecar, 6, type="sync") as window, Window(sidecar, 6) as gpu:
                clock = {way: waits.tell(way, count) for way in NAMES}
            profile, launches = window.take(), gpu.take()
            truth = waits.truth()["simgpu"]
        self.assertEqual(lost(profile), {})
        for way, call in NAMES.items():
            with self.subTest(way=way):
                ns, calls = below(profile, f"wait_{way}(")
                self.assertEqual(calls, count)
                leaves = {functions(profile, stack)[0] for stack in profile["stacks"]
                          if any(f"wait_{way}(" in function for function in functions(profile, stack))}
                self.assertEqual(leaves, {call})
                # From within the call to around it: the callbacks lie between.
                self.assertLess(ns, clock[way] + 1)
                self.assertGreater(ns, 0.97 * clock[way])
        waited = sum(row["ns"] for row in truth["waits"].values())
        total = sum(row["sync_time_ns"] for row in profile["kernels"])
        self.assertEqual(total, sum(stack["sync_time_ns"] for stack in profile["stacks"]))
        self.assertGreaterEqual(total, waited)
        self.assertLess(total, 1.05 * waited)
        self.assertEqual(sum(row["sync_calls"] for row in profile["kernels"]), profile["quality"]["syncs"])
        self.assertEqual(launches["quality"]["launches"], launches["quality"]["joined"])

    def test_a_kernel_behind_a_blocker_of_1_ms(self):
        count = 200
        with Bench() as bench:
            waits, sidecar = started(bench)
            with Window(sidecar, 3) as window:
                waits.tell("blocked", count)
            profile = window.take()
            waits.truth()
        self.assertEqual(lost(profile), {})
        rows = {row["system_name"]: row for row in profile["latencies"]}
        behind = [row for name, row in rows.items() if name != "_Z4spiny"]
        blocker = rows["_Z4spiny"]
        self.assertEqual(sum(row["queue"]["count"] for row in behind), count)
        mean = sum(row["queue"]["sum_ns"] for row in behind) / count
        # It waits for the blocker's start and its 1 ms, less what lies between the two calls.
        call = blocker["launch_call"]["sum_ns"] / count
        self.assertAlmostEqual(mean / SPIN_NS, 1, delta=0.01 + call / SPIN_NS)
        for row in behind:
            for percent in ("p50_ns", "p90_ns"):
                self.assertAlmostEqual(row["queue"][percent] / SPIN_NS, 1, delta=0.05)
            self.assertEqual(sum(bucket["count"] for bucket in row["queue"]["histogram"]), row["queue"]["count"])
        for row in profile["latencies"]:
            self.assertEqual(row["launch_call"]["count"], row["queue"]["count"])
            self.assertGreater(row["launch_call"]["min_ns"], 0)
            self.assertLessEqual(row["launch_call"]["p50_ns"], row["launch_call"]["max_ns"])
        total = sum(row["queue"]["sum_ns"] for row in profile["latencies"])
        self.assertEqual(total, sum(row["queue_time_ns"] for row in profile["kernels"]))
        calls = sum(row["launch_call"]["sum_ns"] for row in profile["latencies"])
        self.assertEqual(calls, sum(stack["launch_time_ns"] for stack in profile["stacks"]))

    def test_windows_cut_a_call_at_their_edges(self):
        with Bench() as bench:
            waits, sidecar = started(bench)
            waits.tell("stream", 1)
            with Window(sidecar, 1, type="sync") as first:
                waits.tell("begin", 4000)
            cut = first.take()
            inside = sidecar.profile(1, type="sync")
            with Window(sidecar, 4, type="sync") as last:
                waits.tell("end")
            rest = last.take()
            waits.truth()
        for profile, open_calls in ((cut, 1), (inside, 1), (rest, 0)):
            self.assertEqual(profile["quality"]["syncs_open"], open_calls, profile["quality"])
            self.assertEqual(profile["quality"]["syncs"] - profile["quality"]["syncs_open"], 1 - open_calls)
        self.assertEqual(sum(row["sync_time_ns"] for row in inside["kernels"]), inside["window"]["duration_ns"])
        self.assertLess(sum(row["sync_time_ns"] for row in cut["kernels"]), cut["window"]["duration_ns"])
        self.assertGreater(sum(row["sync_time_ns"] for row in cut["kernels"]), 0.5e9)
        self.assertIn("yes", {stack["labels"].get("open") for stack in inside["stacks"]})
        spent = sum(row["sync_time_ns"] for profile in (cut, inside, rest) for row in profile["kernels"])
        self.assertLess(spent, 4.01e9)

    def test_killed_within_a_call(self):
        with Bench() as bench:
            waits, sidecar = started(bench)
            with Window(sidecar, 3, type="sync") as window:
                waits.tell("begin", 60_000)
                wait_until(lambda: sidecar.metric("pillion_launches_total") > 0, "the launch")
                waits.process.send_signal(signal.SIGKILL)
                waits.process.wait()
            profile = window.take()
        ns = sum(row["sync_time_ns"] for row in profile["kernels"])
        self.assertGreater(ns, 0)
        self.assertLess(ns, profile["window"]["duration_ns"])  # it ended with the process
        self.assertEqual(profile["quality"]["syncs"], 1)

    def test_launches_that_fail_and_a_handler_that_launches(self):
        with Bench() as bench:
            waits, sidecar = started(bench, spin_ns=4 * SPIN_NS)
            with Window(sidecar, 3, type="sync") as window, Window(sidecar, 3) as gpu:
                waits.tell("failed", 10)
                clock = waits.tell("signal", 20)
            profile, launches = window.take(), gpu.take()
            waits.truth()
        self.assertEqual(lost(profile), {})
        ns, calls = below(profile, "wait_stream(")
        self.assertEqual(calls, 20)
        self.assertLess(ns, clock + 1)
        self.assertGreater(ns, 0.95 * clock)
        self.assertEqual(launches["quality"]["launches_failed"], 10)
        self.assertEqual(launches["quality"]["launches"], 10 + 40)
        self.assertEqual(launches["quality"]["joined"], 40)
        self.assertEqual(sum(row["launch_call"]["count"] for row in launches["latencies"]), 40)

    def test_a_flood_of_calls_leaves_launches_complete(self):
        count = 300_000
        with Bench() as bench:
            waits, sidecar = started(bench)
            waits.tell("flood", 1000)
            with Window(sidecar, 8, type="sync") as window, Window(sidecar, 8) as gpu:
                clock = waits.tell("flood", count)
            profile, launches = window.take(), gpu.take()
            waits.truth()
        print(f"{count / clock * 1e9:.0f} synchronisation calls a second")
        self.assertEqual(lost(profile), {})
        self.assertEqual(profile["quality"]["syncs"], count)
        self.assertLess(sum(row["sync_time_ns"] for row in profile["kernels"]), clock)
        self.assert_launches(launches, count // 16)
        stacks = [stack for stack in launches["stacks"] if "kernel" not in stack["labels"].get("attribution", "")]
        self.assertTrue(all(any("flood" in function for function in functions(launches, stack)) for stack in stacks))

    def test_an_idle_profile_knows_that_the_thread_had_waited(self):
        count = 300
        with Bench() as bench:
            waits, sidecar = started(bench)
            with Window(sidecar, 4, type="idle") as window:
                for way in ("stream", "event", "to_host"):
                    waits.tell(way, count)
            profile = window.take()
            waits.truth()
        by_cause = {}
        for stack in profile["stacks"]:
            if "edge" not in stack["labels"]:
                cause = stack["labels"]["cause"]
                by_cause[cause] = by_cause.get(cause, 0) + stack["gpu_idle_ns"]
        # What lies between a wait's end and the next start, but for the path from the call to the GPU.
        late = by_cause.get("synchronising", 0) + by_cause.get("host-bound", 0)
        self.assertGreater(by_cause.get("synchronising", 0), 0.8 * late, by_cause)
        sites = {function for stack in profile["stacks"] if stack["labels"].get("cause") == "synchronising"
                 for function in functions(profile, stack)}
        self.assertTrue(any("run_way" in site for site in sites), sites)

    def test_an_empty_folded_profile_says_why(self):
        with Bench() as bench:
            waits, sidecar = started(bench)
            for kind, words in (("sync", "no thread was in a call that waits"), ("gpu", "no kernel, copy or memset")):
                status, headers, body = sidecar.request(f"/profile?seconds=1&type={kind}&format=folded")
                self.assertEqual((status, body), (200, b""))
                self.assertIn(words, headers["Pillion-Empty"])
            waits.truth()
            recording = Recording(bench, "-kinds", "memset", "--", *workload("launch_loop", "--iterations", 5),
                                  name="empty.folded", form="folded")
            recording.finish()
            self.assertIn("the profile is empty: nothing of the kinds that are recorded (memset) ended", recording.log())

    def test_formats_and_kinds(self):
        with Bench() as bench:
            waits, sidecar = started(bench)
            with Window(sidecar, 2, type="sync") as window:
                waits.tell("stream", 5)
            window.take()
            answers = {}

            def ask(query):
                answers[query] = sidecar.request(f"/profile?seconds=2&{query}")

            threads = [threading.Thread(target=ask, args=(query,))
                       for query in ("type=sync&format=folded", "type=sync", "format=folded")]
            for number, thread in enumerate(threads, 1):
                thread.start()
                wait_until(lambda: windows_open(sidecar) >= number, "the windows to be open")
            waits.tell("event", 5)
            for thread in threads:
                thread.join()
            self.assertEqual(sidecar.request("/profile?seconds=1&type=sync&device=0")[0], 400)
            wait_until(lambda: windows_open(sidecar) == 0, "no window")
            for query in ("type=sync&kinds=kernel,memcpy", "type=idle&kinds=memcpy,memset"):
                self.assertEqual(sidecar.request(f"/profile?seconds=1&{query}")[0], 400, query)
            # The second and the third take what the first has put in force.
            with Window(sidecar, 2, kinds="kernel,memcpy,memset,stacks") as without, \
                    Window(sidecar, 2, type="sync") as none, Window(sidecar, 2, type="idle") as idle:
                waits.tell("stream", 5)
            plain = without.take()
            for profile in (none.take(), idle.take()):
                [said] = [one for one in profile["quality"]["anomalies"] if one["kind"].endswith("_not_recorded")]
                self.assertEqual(said["kind"], "syncs_not_recorded")
                self.assertIn(f"process {waits.pid}, kinds kernel,memcpy,memset,stacks", said["detail"])
            self.assertIn("calls_not_recorded", [one["kind"] for one in plain["quality"]["anomalies"]])
            self.assertTrue(all("launch_time_ns" not in row for row in plain["kernels"] + plain["stacks"]))
            waits.truth()
        status, _, folded = answers["type=sync&format=folded"]
        self.assertEqual(status, 200)
        line = next(line for line in folded.decode().splitlines() if "wait_event(" in line)
        self.assertTrue(line.rpartition(" ")[0].endswith(";cuEventSynchronize"), line)
        self.assertNotIn("Synchronize", answers["format=folded"][2].decode())
        self.assertEqual(answers["type=sync"][0], 200)
        self.assertEqual(plain["quality"]["syncs"], 0)
        self.assertEqual(sum(row["launch_call"]["count"] for row in plain["latencies"]), 0)
        self.assertGreater(sum(row["queue"]["count"] for row in plain["latencies"]), 0)


if __name__ == "__main__":
    unittest.main()
