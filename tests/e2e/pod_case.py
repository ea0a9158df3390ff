# SPDX-License-Identifier: Apache-2.0
"""A pod under test: requests from where port-forward connects, and what is said of profiles and processes."""

import json
import os
import re
import subprocess
import tempfile
import time
import unittest

import jsonschema

import images
from pod_runner import Pod
from podman import Podman

SOURCE, BUILD = os.environ["PILLION_SOURCE"], os.environ["PILLION_BUILD"]
URL = "http://127.0.0.1:7070"
RATE = 20_000
# As long as a test may take; the pod's end is the workload's, too.
WORKLOAD = ["/opt/app/launch_loop", "--seconds", "120", "--rate", str(RATE), "--threads", "4", "--streams", "4"]
SCHEMA = os.path.join(SOURCE, "sidecar", "export", "profile.schema.json")
CAPABILITIES = {"SYS_PTRACE": 19, "PERFMON": 38, "BPF": 39}


class PodCase(unittest.TestCase):
    """One pod for all tests of a class, which run in the order of their names. manifest(), a class method of each, gives
    the pod as pod_spec has it."""

    workload = WORKLOAD
    app = "app"  # the container that uses CUDA

    @classmethod
    def setUpClass(cls):
        cls.podman = Podman(os.path.join(BUILD, "e2e", "podman"))
        images.build_workload(cls.podman, BUILD, json.dumps(cls.workload))
        driver = os.path.realpath(os.path.join(BUILD, "simgpu", "libcuda.so.1"))
        cls.pod = Pod(cls.manifest(), cls.podman, driver_library=driver)
        cls.addClassCleanup(cls.pod.stop)
        cls.pod.start()

    def get(self, path, timeout=30):
        """Status and body of a request from within the pod's network, as port-forward makes it."""
        with tempfile.NamedTemporaryFile() as body:
            command = ["curl", "-sS", "--max-time", str(timeout), "-o", body.name, "-w", "%{http_code}", URL + path]
            done = self.pod.in_network(*command, capture_output=True, text=True)
            return int(done.stdout or 0), body.read()

    def await_status(self, path, status, timeout=30):
        def answered():
            nonlocal seen
            seen = self.get(path)
            return seen[0] == status

        seen = None
        self.wait_until(answered, lambda: f"{path}: {status}, not {seen[0]} {seen[1][:500]!r}", timeout)
        return seen[1]

    def wait_until(self, condition, what, timeout=30):
        """Polls until condition() is true; fails with what() was waited for, and with the logs."""
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                self.fail(f"waited {timeout} s for {what()}\n{self.everything()}")
            time.sleep(0.05)

    def everything(self):
        return "\n".join(f"---- {name}\n{self.pod.logs(name)[-2000:]}" for name in ("pillion", self.app))

    def kernels(self, profile):
        """Launches per kernel, as `go tool pprof` reads them."""
        with tempfile.NamedTemporaryFile(suffix=".pb.gz") as file:
            file.write(profile)
            file.flush()
            command = ["go", "tool", "pprof", "-top", "-nodecount=100", "-sample_index=launches", file.name]
            text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
        rows = re.findall(r"^\s*(\d+)\s+[\d.]+%\s+[\d.]+%\s+\d+\s+[\d.]+%\s+(.*)$", text, re.MULTILINE)
        return {name: int(flat) for flat, name in rows if int(flat) > 0}

    def json(self, path):
        status, body = self.get(path)
        self.assertEqual(status, 200, body[:500])
        return json.loads(body)

    def profile(self, seconds):
        profile = self.json(f"/profile?seconds={seconds}&format=json")
        with open(SCHEMA, encoding="utf-8") as file:
            jsonschema.validate(profile, json.load(file))
        return profile

    def assert_exact(self, profile):
        """As many launches as the workload makes in the window, each executed and joined, none lost."""
        quality = profile["quality"]
        paced = RATE * profile["window"]["duration_ns"] / 1e9
        # The workload catches up after a pause; the window's two edges may each fall into one.
        self.assertAlmostEqual(sum(row["launches"] for row in profile["kernels"]), paced, delta=0.1 * paced)
        self.assertEqual(quality["joined"] + quality["launched_before_session"], quality["executions"])
        dropped = {name: count for name, count in quality.items() if re.match("dropped_(launches|executions|by_cupti)", name)}
        self.assertEqual({name: count for name, count in dropped.items() if count}, {})
        self.assertGreater(len(dropped), 4)
        by_kernel = sum(row["gpu_time_ns"] for row in profile["kernels"])
        self.assertGreater(by_kernel, 0)
        self.assertEqual(sum(stack["gpu_time_ns"] for stack in profile["stacks"]), by_kernel)

    def assert_rooted(self, profile):
        quality = profile["quality"]
        endings = {name: count for name, count in quality.items() if name.startswith("stacks_ending_") and count}
        self.assertEqual(list(endings), ["stacks_ending_rooted"])
        rooted = 0
        for stack in profile["stacks"]:
            names = {line["function"] for index in stack["frames"] for line in profile["frames"][index]["lines"]}
            # What was under way when the shim was armed has no stack.
            if "[launched before the session]" not in names:
                self.assertIn("cuLaunchKernel", names)
                self.assertTrue(any("launch_from_thread" in name for name in names), names)
                # _start of the program, or clone3 of the image's libc, which is stripped: told by its file.
                root = profile["frames"][stack["frames"][-1]]
                file = os.path.basename(profile["mappings"][root["mapping"]]["file"])
                self.assertTrue(file == "libc.so.6" or root["lines"][-1]["function"] == "_start", (file, names))
                rooted += stack["launches"]
        self.assertGreaterEqual(rooted, quality["joined"])

    def host_pid(self, name):
        """Of a container's first process, on this machine."""
        return self.podman.output("inspect", "--format", "{{.State.Pid}}", self.pod.container(name).instance())

    def process_status(self, name):
        with open(f"/proc/{self.host_pid(name)}/status", encoding="utf-8") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)

    def assert_rights(self, name, user, capabilities=None):
        """Who a container's process is; with `capabilities` (names), that it has these and is otherwise shut in."""
        status = self.process_status(name)
        self.assertEqual(status["Uid"].split()[0], str(user))
        if capabilities is not None:
            mask = sum(1 << CAPABILITIES[capability] for capability in capabilities)
            self.assertEqual(int(status["CapEff"], 16) | int(status["CapBnd"], 16), mask)
            self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))

    def assert_read_only_root(self, name):
        with open(f"/proc/{self.host_pid(name)}/mounts", encoding="utf-8") as file:
            options = next(line.split()[3] for line in file if line.split()[1] == "/")
        self.assertIn("ro", options.split(","))

    def memory_peak(self, name):
        """The most bytes that a container's cgroup has had, and its limit."""
        with open(f"/proc/{self.host_pid(name)}/cgroup", encoding="utf-8") as file:
            rows = [line.rstrip("\n").split(":", 2) for line in file]
        for _, controllers, path in rows:
            if controllers == "memory":
                folder = "/sys/fs/cgroup/memory" + path
                return self._number(folder, "memory.max_usage_in_bytes"), self._number(folder, "memory.limit_in_bytes")
        folder = "/sys/fs/cgroup" + rows[0][2]
        return self._number(folder, "memory.peak"), self._number(folder, "memory.max")

    @staticmethod
    def _number(folder, name):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return int(file.read())

    def kill(self, name):
        """SIGKILL to a container's first process; returns when the next instance of it has been started."""
        before = self.pod.container(name).restarts
        self.podman.run("kill", "--signal", "KILL", self.pod.container(name).instance())
        self.wait_until(lambda: self.pod.container(name).restarts != before,
                        lambda: f"{name} to be started again", 20)

    def await_targets(self, count, other_than=()):
        """Waits until so many processes are attached, none of them one of these; returns their numbers."""
        def attached():
            nonlocal targets
            status, body = self.get("/status")  # nobody answers while the sidecar starts
            processes = json.loads(body)["processes"] if status == 200 else []
            targets = {process["target"] for process in processes}
            return len(targets) == count and not targets & set(other_than)

        targets = set()
        self.wait_until(attached, lambda: f"{count} processes to be attached, not {targets}")
        return targets
