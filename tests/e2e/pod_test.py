#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The shipped manifests, run: a workload on the simulated GPU, the sidecar beside it, and curl from where
port-forward connects.

    pod_test.py pod|pod-restricted|pod-inject      the manifest's name in k8s/
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

import jsonschema

import images
import pod_spec
from pod_runner import Pod
from podman import Podman, why_not

SOURCE, BUILD = os.environ["PILLION_SOURCE"], os.environ["PILLION_BUILD"]
NAME = "pod"
URL = "http://127.0.0.1:7070"
RATE = 20_000
CAP_SYS_PTRACE = 1 << 19
# As long as the test may take; it ends the workload itself.
WORKLOAD = ["/opt/app/launch_loop", "--seconds", "120", "--rate", str(RATE), "--threads", "4", "--streams", "4"]
SCHEMA = os.path.join(SOURCE, "sidecar", "export", "profile.schema.json")


class PodTest(unittest.TestCase):
    """One pod for all tests: they run in the order of their names, and the last one ends it."""

    @classmethod
    def setUpClass(cls):
        cls.podman = Podman(os.path.join(BUILD, "e2e", "podman"))
        images.build_workload(cls.podman, BUILD, json.dumps(WORKLOAD))
        manifest = pod_spec.load(os.path.join(SOURCE, "k8s", f"{NAME}.yaml"))
        driver = os.path.realpath(os.path.join(BUILD, "simgpu", "libcuda.so.1"))
        cls.pod = Pod(manifest, cls.podman, driver_library=driver)
        cls.addClassCleanup(cls.pod.stop)
        cls.pod.start()

    def get(self, path, timeout=30):
        """Status and body of a request from within the pod's network, as port-forward makes it."""
        with tempfile.NamedTemporaryFile() as body:
            command = ["curl", "-sS", "--max-time", str(timeout), "-o", body.name, "-w", "%{http_code}", URL + path]
            done = self.pod.in_network(*command, capture_output=True, text=True)
            return int(done.stdout or 0), body.read()

    def await_status(self, path, status, timeout=30):
        deadline = time.monotonic() + timeout
        while True:
            seen, body = self.get(path)
            if seen == status:
                return body
            if time.monotonic() > deadline:
                self.fail(f"{path}: {seen} {body[:500]!r}\n{self.everything()}")
            time.sleep(0.1)

    def everything(self):
        return "\n".join(f"---- {name}\n{self.pod.logs(name)[-2000:]}" for name in ("pillion", "app"))

    def kernels(self, profile):
        """Launches per kernel, as `go tool pprof` reads them."""
        with tempfile.NamedTemporaryFile(suffix=".pb.gz") as file:
            file.write(profile)
            file.flush()
            command = ["go", "tool", "pprof", "-top", "-nodecount=100", "-sample_index=launches", file.name]
            text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
        rows = re.findall(r"^\s*(\d+)\s+[\d.]+%\s+[\d.]+%\s+\d+\s+[\d.]+%\s+(.*)$", text, re.MULTILINE)
        return {name: int(flat) for flat, name in rows if int(flat) > 0}

    def test_1_the_sidecar_attaches(self):
        self.assertEqual(self.get("/healthz")[0], 200)
        self.await_status("/readyz", 200)
        for what in ("live", "ready"):
            self.pod.exec("pillion", "pillion", "probe", what)

    def test_2_a_profile_has_the_kernels_under_their_stacks(self):
        status, body = self.get("/profile?seconds=3&format=json")
        self.assertEqual(status, 200, body[:500])
        profile = json.loads(body)
        with open(SCHEMA, encoding="utf-8") as file:
            jsonschema.validate(profile, json.load(file))
        self.assert_exact(profile)
        self.assert_rooted(profile)

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

    def test_2_go_tool_pprof_reads_it(self):
        status, profile = self.get("/profile?seconds=2")
        self.assertEqual(status, 200, profile[:500])
        found = self.kernels(profile)
        self.assertAlmostEqual(sum(found.values()), 2 * RATE, delta=0.2 * RATE, msg=found)
        self.assertTrue(any(name.startswith("axpy") for name in found), found)

    def test_3_processes_keep_to_their_rights(self):
        context = self.pod.spec.get("securityContext", {})
        sidecar = 0 if NAME == "pod-inject" else 65532
        for name, user in (("pillion", context.get("runAsUser", sidecar)), ("app", context.get("runAsUser", 0))):
            pid = self.podman.output("inspect", "--format", "{{.State.Pid}}", self.pod.container(name).instance())
            with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
            with self.subTest(container=name):
                self.assertEqual(status["Uid"].split()[0], str(user))
                if name == "pillion" or NAME == "pod-restricted":
                    capabilities = CAP_SYS_PTRACE if NAME == "pod-inject" else 0
                    self.assertEqual(int(status["CapEff"], 16) | int(status["CapBnd"], 16), capabilities)
                    self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))

    def test_4_a_killed_sidecar_comes_back_and_the_workload_does_not_notice(self):
        before = self.pod.container("pillion").restarts
        self.podman.run("kill", "--signal", "KILL", self.pod.container("pillion").instance())
        deadline = time.monotonic() + 20
        while self.pod.container("pillion").restarts == before:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        self.await_status("/readyz", 200)
        status, profile = self.get("/profile?seconds=1")
        self.assertEqual(status, 200, profile[:500])
        self.assertAlmostEqual(sum(self.kernels(profile).values()), RATE, delta=0.2 * RATE)
        self.assertEqual(self.pod.container("app").restarts, 0)
        self.assertFalse(self.pod.container("app").done.is_set())

    def test_5_the_workload_wrote_nothing_that_is_ours(self):
        self.assertEqual(self.pod.logs("app").strip(), "")

    def test_6_the_pod_ends_in_its_grace_period(self):
        start = time.monotonic()
        self.pod.stop()
        self.assertLess(time.monotonic() - start, self.pod.spec["terminationGracePeriodSeconds"] + 10)
        self.assertEqual(self.pod.container("pillion").exit_code, 0)


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"SKIPPED: pods cannot be run here: {reason}")
        sys.exit(77)
    NAME = sys.argv.pop(1)
    unittest.main(verbosity=2, failfast=True)
