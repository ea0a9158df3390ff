#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The shipped manifests, run: a workload on the simulated GPU, the sidecar beside it, and curl from where
port-forward connects.

    pod_test.py pod|pod-restricted      the manifest's name in k8s/
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

import images
import pod_spec
from pod_runner import Pod
from podman import Podman, why_not

SOURCE, BUILD = os.environ["PILLION_SOURCE"], os.environ["PILLION_BUILD"]
NAME = "pod"
URL = "http://127.0.0.1:7070"
# As long as the test may take; it ends the workload itself.
WORKLOAD = ["/opt/app/launch_loop", "--seconds", "120", "--rate", "20000", "--threads", "4", "--streams", "4"]


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
        status, profile = self.get("/profile?seconds=3")
        self.assertEqual(status, 200, profile[:500])
        found = self.kernels(profile)
        total = sum(found.values())
        # 20,000 launches a second for 3 s; this machine may be slow, but it is not idle.
        self.assertGreater(total, 10_000, found)
        status, folded = self.get("/profile?seconds=1&format=folded")
        self.assertEqual(status, 200, folded[:500])
        lines = folded.decode().splitlines()
        rooted = [line for line in lines if re.search(r"\b(main|start_thread|clone3?|_start)\b", line)]
        self.assertGreater(len(rooted), 0, folded[:2000])

    def test_3_processes_keep_to_their_rights(self):
        context = self.pod.spec.get("securityContext", {})
        for name, user in (("pillion", context.get("runAsUser", 65532)), ("app", context.get("runAsUser", 0))):
            pid = self.podman.output("inspect", "--format", "{{.State.Pid}}", self.pod.container(name).instance())
            with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
            with self.subTest(container=name):
                self.assertEqual(status["Uid"].split()[0], str(user))
                if name == "pillion" or NAME == "pod-restricted":
                    self.assertEqual(int(status["CapEff"], 16) | int(status["CapBnd"], 16), 0)
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
        self.assertGreater(sum(self.kernels(profile).values()), 1_000)
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
