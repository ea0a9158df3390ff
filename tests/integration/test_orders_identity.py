# SPDX-License-Identifier: Apache-2.0
"""Processes that are easily taken for one another, and families of processes: pid namespaces, reused pids, workers."""
import json
import os
import pathlib
import subprocess
import unittest

from handshake_rig import LONG
from harness import WORKLOADS, Bench, ProfileTest, Stepped, Window, Workload, launches_of, main, wait_until
from losses import anomalies

ROOT_ONLY = unittest.skipIf(os.geteuid() != 0, "makes PID namespaces: needs root")
# Pid 1 of a PID namespace of its own, with its own /proc.
NEW_PID_NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def children_of(pid):
    return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class IdentityTest(ProfileTest):
    def setUp(self):
        self.bench = Bench()
        self.addCleanup(self.bench.__exit__)

    def attached(self, *flags):
        sidecar = self.bench.sidecar("-wait-for-shim", "60s", *flags)
        sidecar.wait_ready(30)
        return sidecar

    def stepped_in_namespace(self):
        """(its hands, its pid out here)"""
        process, log_path = self.bench.start([*NEW_PID_NAMESPACE, WORKLOADS / "stepped"], self.bench.environment(),
                                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        stepped = Stepped(Workload(process, None, log_path))
        [pid] = children_of(process.pid)
        return stepped, pid

    @ROOT_ONLY
    def test_two_containers_both_pid_1(self):
        first, first_pid = self.stepped_in_namespace()
        second, second_pid = self.stepped_in_namespace()
        names = [path.name.split("-") for path in self.bench.shim_sockets()]
        self.assertEqual([name[2] for name in names], ["1", "1"])
        self.assertEqual(len({name[1] for name in names}), 2)
        sidecar = self.attached()
        wait_until(lambda: len(sidecar.get_json("/status")["processes"]) == 2, "both to be attached")
        with Window(sidecar, 2) as window:
            first.launch(300)
            second.launch(70)
        with Window(sidecar, 1, pid=second_pid) as alone:
            first.launch(11)
            second.launch(22)
        profile = window.take()
        self.assert_launches(profile, 370)
        self.assertEqual({process["pid"] for process in profile["processes"]}, {first_pid, second_pid})
        by_pid = {pid: sum(stack["launches"] for stack in profile["stacks"] if stack["labels"]["pid"] == pid)
                  for pid in (first_pid, second_pid)}
        self.assertEqual(by_pid, {first_pid: 300, second_pid: 70})
        self.assert_launches(alone.take(), 22)
        self.assertEqual((first.truth()["launches"], second.truth()["launches"]), (311, 92))

    @ROOT_ONLY
    def test_pid_reused(self):
        """The same pid in the same namespace, another process: told apart by its start time."""
        kill, start = self.bench.folder / "kill", self.bench.folder / "start"
        script = f"""
            {WORKLOADS}/launch_loop --seconds 0 --rate 500 & first=$!
            until [ -e {kill} ]; do sleep 0.05; done
            kill -9 $first; wait $first 2>/dev/null
            echo $((first - 1)) >/proc/sys/kernel/ns_last_pid
            {WORKLOADS}/launch_loop --iterations 600 --rate 2000 --start-file {start} & second=$!
            echo "pids $first $second"
            wait $second"""
        process, log_path = self.bench.start([*NEW_PID_NAMESPACE, "bash", "-c", script], self.bench.environment())
        wait_until(self.bench.shim_sockets, "the first one's socket")
        [old] = self.bench.shim_sockets()
        sidecar = self.attached()
        sidecar.profile(1)
        [before] = sidecar.get_json("/status")["processes"]
        kill.touch()
        wait_until(lambda: len(self.bench.shim_sockets()) == 2, "the second one's socket beside the first one's")
        [new] = set(self.bench.shim_sockets()) - {old}
        self.assertEqual(old.name.split("-")[:3], new.name.split("-")[:3])
        self.assertNotEqual(old.name.split("-")[3], new.name.split("-")[3])
        wait_until(lambda: [one["target"] for one in sidecar.get_json("/status")["processes"]] not in
                   ([], [before["target"]]), "the second one to be attached")
        with Window(sidecar, 3) as window:
            wait_until(lambda: sidecar.get_json("/status")["processes"][0]["state"] == "armed", "it to be armed")
            start.touch()
        self.assert_launches(window.take(), 600)
        self.assertEqual(process.wait(30), 0)
        [line] = [line for line in pathlib.Path(log_path).read_text().splitlines() if line.startswith("pids ")]
        self.assertEqual(line.split()[1], line.split()[2])
        wait_until(lambda: not old.exists() or sidecar.get_json("/status")["socket_directory"]["stale"] == 1,
                   "the old name to be seen as left, and removed in the end")

    def workers(self, generations, iterations, *arguments, **environment):
        command = f"exec {WORKLOADS}/launch_loop --delay 2 --iterations {iterations} --rate 1000"
        return self.bench.workload("workers", "--threads", "8", "--nodes", str(generations), "--command", command,
                                   *arguments, SIMGPU_TRUTH=None, **environment)

    def test_eight_workers_that_come_and_go(self):
        """Four of them by fork alone, four execute a CUDA program; each of these is armed before its first launch."""
        generations = 10 if LONG else 2
        start = self.bench.folder / "start"
        workload = self.workers(generations, 100, "--delay", "0.2", "--start-file", start)
        sidecar = self.attached()
        seconds = 6 * generations + 8
        with Window(sidecar, seconds) as window:
            sidecar.wait_state(workload.pid, "armed")
            start.touch()
            self.assertEqual(workload.finish(seconds + 30), 0, workload.output())
        profile = window.take()
        truths = [json.loads(line) for line in workload.output().splitlines() if line.startswith("{")]
        self.assertEqual(sorted(truth["workload"] for truth in truths),
                         ["launch_loop"] * 4 * generations + ["workers"])
        launches = sum(truth["launches"] for truth in truths)
        self.assert_launches(profile, launches)
        self.assert_all_rooted(profile)
        self.assertEqual(launches_of(profile, "launch_from_thread"), 400 * generations)
        self.assertEqual(len(profile["processes"]), 1 + 4 * generations)
        self.assertEqual(sidecar.get_json("/status")["processes"], [])

    def test_parent_killed(self):
        """Its workers go on, and are in the profile; so is what the parent did."""
        start = self.bench.folder / "start"
        workload = self.workers(1, 1_000, "--start-file", start)
        sidecar = self.attached()
        with Window(sidecar, 8) as window:
            sidecar.wait_state(workload.pid, "armed")
            start.touch()

            def workers_armed():
                states = [one["state"] for one in sidecar.get_json("/status")["processes"]
                          if one["comm"] == "launch_loop"]
                return states == ["armed"] * 4

            wait_until(workers_armed, "four workers to be armed", 10)
            workload.process.kill()
            wait_until(lambda: workload.output().count('"workload":"launch_loop"') == 4, "the workers to end", 20)
        profile = window.take()
        self.assertEqual(launches_of(profile, "launch_from_thread"), 4_000)
        self.assertEqual(len(profile["processes"]), 5)
        self.assertIn("ended_early", anomalies(profile))

    def test_fork_and_exec_again_and_again(self):
        """One process becomes four programs in turn, each a session of its own under one window."""
        end = self.bench.folder / "go"
        programs = 4
        script = " ".join(f"until [ -e {end}{number} ]; do sleep 0.05; done; "
                          f"({WORKLOADS}/launch_loop --iterations 200 --rate 1000 --delay 1.5);" for number in range(programs))
        process, log_path = self.bench.start(["bash", "-c", script], self.bench.environment(SIMGPU_TRUTH=None))
        first = self.bench.stepped()
        sidecar = self.attached()
        with Window(sidecar, 4 + 3 * programs) as window:
            sidecar.wait_state(first.pid, "armed")
            for number in range(programs):
                pathlib.Path(f"{end}{number}").touch()
                wait_until(lambda n=number: pathlib.Path(log_path).read_text().count('"launch_loop"') > n,
                           f"program {number} to end", 15)
        profile = window.take()
        self.assertEqual(process.wait(10), 0)
        self.assert_launches(profile, 200 * programs)
        self.assert_all_rooted(profile)
        first.truth()


if __name__ == "__main__":
    main(at_once=4)
