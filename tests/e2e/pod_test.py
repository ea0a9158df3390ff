#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The shipped manifests, run: a workload on the simulated GPU, the sidecar beside it, and curl from where
port-forward connects.

    pod_test.py pod|pod-restricted|pod-inject      the manifest's name in k8s/
"""

import os
import sys
import time
import unittest

import pod_spec
from pod_case import RATE, SOURCE, PodCase
from podman import why_not

NAME = "pod"


class PodTest(PodCase):
    @classmethod
    def manifest(cls):
        return pod_spec.load(os.path.join(SOURCE, "k8s", f"{NAME}.yaml"))

    def test_1_the_sidecar_attaches(self):
        self.assertEqual(self.get("/healthz")[0], 200)
        self.await_status("/readyz", 200)
        pod = self.json("/status")["pod"]
        self.assertEqual(pod, {"name": self.pod.metadata["name"], "namespace": "default", "node": os.uname().nodename})
        for what in ("live", "ready"):
            self.pod.exec("pillion", "pillion", "probe", what)

    def test_2_a_profile_has_the_kernels_under_their_stacks(self):
        profile = self.profile(3)
        self.assert_exact(profile)
        self.assert_rooted(profile)

    def test_2_go_tool_pprof_reads_it(self):
        status, profile = self.get("/profile?seconds=2")
        self.assertEqual(status, 200, profile[:500])
        found = self.kernels(profile)
        self.assertAlmostEqual(sum(found.values()), 2 * RATE, delta=0.2 * RATE, msg=found)
        self.assertTrue(any(name.startswith("axpy") for name in found), found)

    def test_3_processes_keep_to_their_rights(self):
        user = self.pod.spec.get("securityContext", {}).get("runAsUser")
        inject = NAME == "pod-inject"
        self.assert_rights("pillion", user or (0 if inject else 65532), ["SYS_PTRACE"] if inject else [])
        self.assert_rights("app", user or 0, [] if NAME == "pod-restricted" else None)
        self.assert_read_only_root("pillion")

    def test_4_a_killed_sidecar_comes_back_and_the_workload_does_not_notice(self):
        self.kill("pillion")
        self.await_status("/readyz", 200)
        status, profile = self.get("/profile?seconds=1")
        self.assertEqual(status, 200, profile[:500])
        self.assertAlmostEqual(sum(self.kernels(profile).values()), RATE, delta=0.2 * RATE)
        self.assertEqual(self.pod.container("app").restarts, 0)
        self.assertFalse(self.pod.container("app").done.is_set())

    def test_5_a_killed_workload_comes_back_and_the_sidecar_finds_it(self):
        self.assertEqual(self.pod.logs("app").strip(), "")
        before = self.await_targets(1)
        self.kill("app")
        self.await_targets(1, other_than=before)
        status, profile = self.get("/profile?seconds=1")
        self.assertEqual(status, 200, profile[:500])
        self.assertAlmostEqual(sum(self.kernels(profile).values()), RATE, delta=0.2 * RATE)

    def test_6_the_workload_wrote_nothing_that_is_ours(self):
        self.assertEqual(self.pod.logs("app").strip(), "")

    def test_7_the_pod_ends_in_its_grace_period(self):
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
