# SPDX-License-Identifier: Apache-2.0
"""Programs that are easily broken from within run on as if nothing were there, and their profiles are exact."""
import json
import os
import pathlib
import resource
import signal
import time

from harness import (WORKLOADS, Bench, ProfileTest, Window, files, functions, launches_of, main,
                     wait_until, whole_run)
from shim_side import CallLog


class UnharmedTest(ProfileTest):
    def setUp(self):
        self.bench = Bench()
        self.addCleanup(self.bench.__exit__)
        self.stderr = open(self.bench.folder / "stderr", "w+b")
        self.addCleanup(self.stderr.close)

    def check_silent(self):
        self.stderr.seek(0)
        self.assertEqual(self.stderr.read(), b"")

    def run_whole(self, name, *arguments, seconds=4, popen=None, **environment):
        profile, truth = whole_run(self.bench, name, *arguments, seconds=seconds,
                                   popen={"stderr": self.stderr, **(popen or {})}, **environment)
        self.check_silent()
        return profile, truth

    def test_file_size_limit_of_0(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

        # Its output goes to pipes: a file could not take a byte.
        read, write = os.pipe()
        output = open(read, "r")
        self.addCleanup(output.close)
        start = self.bench.folder / "start"
        workload = self.bench.workload("launch_loop", "--iterations", "4000", "--rate", "3000", "--start-file", start,
                                       SIMGPU_TRUTH=None,
                                       popen={"preexec_fn": limit, "stdout": write, "stderr": write})
        os.close(write)
        sidecar = self.bench.sidecar("-wait-for-shim", "20s")
        sidecar.wait_ready()
        with Window(sidecar, 4) as window:
            start.touch()
            self.assertEqual(workload.finish(), 0)
        lines = output.read().splitlines()
        self.assertEqual(len(lines), 1, lines)
        profile = window.take()
        self.assert_exact(profile, json.loads(lines[0]))
        self.assert_all_rooted(profile)

    def test_signalfd_main_loop_takes_sigterm(self):
        start = self.bench.folder / "start"
        workload = self.bench.workload("signalfd_loop", "--seconds", "0", "--rate", "2000", "--start-file", start,
                                       popen={"stderr": self.stderr})
        sidecar = self.bench.sidecar("-wait-for-shim", "20s")
        sidecar.wait_ready()
        with Window(sidecar, 3) as window:
            start.touch()
            wait_until(lambda: sidecar.metric("pillion_launches_total") > 500, "500 launches")
            workload.process.send_signal(signal.SIGTERM)
            truth = workload.truth()
        self.assertEqual(truth["signal"], signal.SIGTERM)
        self.check_silent()
        profile = window.take()
        self.assert_exact(profile, truth)
        self.assert_all_rooted(profile)

    def test_512_threads(self):
        profile, truth = self.run_whole("many_threads", "--threads", "512", "--streams", "4", "--iterations", "16",
                                        "--rate", "4000", seconds=6)
        self.assertEqual(truth["threads"], 512)
        self.assertEqual(truth["launches"], 512 * 16)
        self.assert_exact(profile, truth)
        self.assert_all_rooted(profile)
        self.assertEqual(len({stack["labels"]["thread"] for stack in profile["stacks"]}), 512)

    def check_foreign_stack(self, profile, truth, function, count):
        """All launches of `function` are counted, none of their stacks passes for rooted, and all others are."""
        self.assert_exact(profile, truth)
        self.assertGreater(count, 0)
        self.assertEqual(launches_of(profile, function), count)
        for stack in profile["stacks"]:
            marked = "stack_ending" in stack["labels"]
            self.assertEqual(marked, any(function in name for name in functions(profile, stack)), stack)
        self.assertEqual(profile["quality"]["stacks_ending_faulted"], 0)
        self.assertEqual(profile["quality"]["snapshots_faulted"], 0)

    def test_fiber(self):
        profile, truth = self.run_whole("fiber", "--iterations", "3000", "--rate", "2000")
        self.check_foreign_stack(profile, truth, "launch_on_fiber", truth["fiber"])
        self.assertGreater(profile["quality"]["stacks_ending_fiber"], 0)

    def test_signal_stack(self):
        profile, truth = self.run_whole("signal_stack", "--iterations", "3000", "--rate", "2000")
        self.check_foreign_stack(profile, truth, "launch_in_handler", truth["handler"])

    def test_fork(self):
        profile, truth = self.run_whole("fork_child", "--iterations", "3000", "--rate", "1500", "--delay", "0.2")
        self.assertGreater(truth["children"], 3)
        self.assert_exact(profile, truth)
        self.assert_all_rooted(profile)
        self.assertEqual({process["pid"] for process in profile["processes"]}, {truth["simgpu"]["pid"]})

    def test_exec(self):
        """Another program in the same process: a shim of its own, attached and armed under the same window."""
        second = self.bench.folder / "second"
        command = f"exec {WORKLOADS}/launch_loop --iterations 1000 --rate 2000 --start-file {second}"
        start = self.bench.folder / "start"
        workload = self.bench.workload("exec_other", "--delay", "1", "--rate", "1000", "--start-file", start,
                                       "--command", command, popen={"stderr": self.stderr})
        sidecar = self.bench.sidecar("-wait-for-shim", "20s")
        sidecar.wait_ready()
        first_target = sidecar.get_json("/status")["processes"][0]["target"]

        def second_armed():
            return [process for process in sidecar.get_json("/status")["processes"]
                    if process["state"] == "armed" and process["target"] != first_target
                    and process["comm"] == "launch_loop"]

        with Window(sidecar, 6) as window:
            start.touch()
            wait_until(second_armed, "the second program to be armed")
            second.touch()
            self.assertEqual(workload.finish(), 0)
        self.check_silent()
        before, after = [json.loads(line) for line in workload.output().splitlines()]
        profile = window.take()
        self.assertEqual(after["launches"], 1000)
        quality = profile["quality"]
        self.assertEqual(quality["launches"], before["launches"] + after["launches"])
        # What lay in CUPTI's buffers when the program called exec has gone with its memory, and is said to be missing.
        self.assertEqual(quality["executions"] + quality["pending"], quality["launches"])
        self.assertEqual(launches_of(profile, "launch_from_thread"), 1000)

    def test_library_loaded_after_the_attach(self):
        start = self.bench.folder / "start"
        workload = self.bench.workload("dlopen_late", "--iterations", "4000", "--rate", "2000", "--delay", "0.5",
                                       "--start-file", start, popen={"stderr": self.stderr})
        sidecar = self.bench.sidecar("-wait-for-shim", "20s")
        sidecar.wait_ready()
        with Window(sidecar, 4) as window:
            maps = pathlib.Path(f"/proc/{workload.pid}/maps").read_text()
            self.assertNotIn("liblate_plugin.so", maps)
            start.touch()
            truth = workload.truth()
        profile = window.take()
        self.check_silent()
        self.assertGreater(truth["late"], 500)
        self.assert_exact(profile, truth)
        self.assert_all_rooted(profile)
        self.assertEqual(launches_of(profile, "late_plugin_launch"), truth["late"])
        self.assertEqual(launches_of(profile, "inner_launch"), truth["late"])
        through = [stack for stack in profile["stacks"] if "liblate_plugin.so" in files(profile, stack)]
        self.assertEqual(sum(stack["launches"] for stack in through), truth["late"])

    def test_attach_5_s_late(self):
        workload = self.bench.workload("launch_loop", "--seconds", "0", "--rate", "4000", "--threads", "2",
                                       "--streams", "2", popen={"stderr": self.stderr})
        begin = time.monotonic()
        wait_until(self.bench.shim_sockets, "the shim's socket")
        wait_until(lambda: time.monotonic() - begin >= 5, "the workload to have run for 5 s")
        sidecar = self.bench.sidecar("-wait-for-shim", "20s")
        sidecar.wait_ready()
        profile = sidecar.profile(2)
        modules = sidecar.get_json("/status")["modules"]
        workload.stop()
        truth = workload.truth()
        self.check_silent()
        self.assert_nothing_lost(profile)
        self.assert_all_rooted(profile)
        # Not `launches`: what was launched before the window and ended in it counts, what ends after it does not.
        launches = profile["quality"]["executions"]
        self.assertEqual(profile["quality"]["joined"] + profile["quality"]["launched_before_session"], launches)
        self.assertGreater(launches, 2 * 4000 / 2)
        self.assertLess(launches, truth["launches"])
        for name in ("launch_from_thread", "Device::launch"):
            self.assertEqual(launches_of(profile, name), launches)
        self.assertEqual(profile["quality"]["modules_stored"], 1)
        self.assertEqual([(module["bytes"], module["fnv1a"]) for module in modules],
                         [(module["bytes"], module["crc"]) for module in truth["simgpu"]["modules"]])

    def test_attach_detach_attach(self):
        log = CallLog(self.bench.folder / "calls")
        workload = self.bench.stepped(SIMGPU_CALL_LOG=log.path, popen={"stderr": self.stderr})
        sidecar = self.bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
        sidecar.wait_ready()
        workload.launch(77)  # before anybody asks
        profiles = []
        for number, launches in enumerate((1000, 400, 50), 1):
            with Window(sidecar, 2) as window:
                workload.launch(launches)
            profiles.append(window.take())

            def finalized():
                workload.launch(1)  # CUPTI can only be let go of when the program makes a call
                return len(log.calls("cuptiFinalize")) == number

            wait_until(finalized, "CUPTI to be finalized")
            sidecar.wait_state(workload.pid, "connected")
            workload.launch(333)  # between the windows: nobody's
        workload.truth()
        self.check_silent()
        for profile, launches in zip(profiles, (1000, 400, 50)):
            self.assert_launches(profile, launches)
            self.assert_all_rooted(profile)
        subscribed = [name for _, name, result in log.calls() if name.startswith("cuptiSubscribe") and result == "0"]
        self.assertEqual((len(subscribed), len(log.calls("cuptiUnsubscribe"))), (3, 3))


if __name__ == "__main__":
    main()
