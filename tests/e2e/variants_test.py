#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The other manifests of k8s/, run as pod_test.py runs the first three, each a little shorter.

    variants_test.py NAME...      one of the classes below by its `name`; none: all
"""

import os
import signal
import sys
import time
import unittest

import debug_container
import kustomize
import pod_spec
from pod_case import RATE, SOURCE, PodCase
from podman import why_not

K8S = os.path.join(SOURCE, "k8s")


def component(kind):
    """What k8s/component makes of the example's object of this kind."""
    built = kustomize.build(os.path.join(K8S, "example"))
    return pod_spec.pod_of(next(document for document in built if document["kind"] == kind))


class Service:
    """A pod that runs on: attach, profile, rights, both containers killed, the end."""

    processes = 1
    sidecar = (65532, [])  # user, capabilities
    app_rights = (0, None)

    @classmethod
    def manifest(cls):
        return pod_spec.load(os.path.join(K8S, f"{cls.name}.yaml"))

    def test_1_the_sidecar_attaches_and_knows_its_pod(self):
        self.await_status("/readyz", 200)
        self.await_targets(self.processes)
        self.assertEqual(self.json("/status")["pod"]["name"], self.pod.metadata["name"])

    def test_2_a_profile_is_exact_and_names_the_pod(self):
        profile = self.profile(1)
        self.assert_exact(profile)
        self.assert_rooted(profile)
        self.assert_named(profile)

    def assert_named(self, profile):
        where = {"pod": self.pod.metadata["name"], "namespace": "default", "node": os.uname().nodename}
        self.assertEqual(len(profile["processes"]), self.processes)
        for holder in profile["processes"] + [stack["labels"] for stack in profile["stacks"]]:
            self.assertEqual({key: holder[key] for key in where}, where)

    def test_3_rights_and_roots(self):
        self.assert_rights("pillion", *self.sidecar)
        self.assert_rights(self.app, *self.app_rights)
        self.assert_read_only_root("pillion")

    def test_4_each_container_comes_back_alone(self):
        self.kill("pillion")
        before = self.await_targets(self.processes)
        self.assertEqual(self.pod.container(self.app).restarts, 0)
        self.kill(self.app)
        self.await_targets(self.processes, other_than=before)
        self.assertEqual(self.get("/profile?seconds=1")[0], 200)
        self.assertEqual(self.pod.container("pillion").restarts, 1)

    def test_5_memory_held_and_the_pod_ends(self):
        peak, limit = self.memory_peak("pillion")
        print(f"memory of the sidecar: {peak >> 20} of {limit >> 20} MiB at most", flush=True)
        self.assertLess(peak, 0.8 * limit)
        begin = time.monotonic()
        self.pod.stop()
        self.assertLess(time.monotonic() - begin, self.pod.spec["terminationGracePeriodSeconds"])
        self.assertEqual(self.pod.container("pillion").exit_code, 0)


class TwoUsers(Service, PodCase):
    name = "pod-two-users"
    app_rights = (10001, [])

    def test_3_the_workloads_root_is_read_only_too(self):
        self.assert_read_only_root(self.app)


class Evidence(Service, PodCase):
    name = "pod-evidence"
    sidecar = (0, ["BPF", "PERFMON", "SYS_PTRACE"])


class Component(Service, PodCase):
    name = "component"

    @classmethod
    def manifest(cls):
        return component("Deployment")

    def test_3_what_the_workload_had_is_there(self):
        said = self.pod.exec(self.app, "sh", "-c", "cat $MODEL; echo $LOG_LEVEL").stdout
        self.assertEqual(said.split(), ["weights", "info"])
        self.assertEqual(self.pod.exec("log-shipper", "sh", "-c", "echo $TARGET").stdout.strip(), "logs")


class Multi(Service, PodCase):
    """Two ranks that use both GPUs, and a third process that launches as fast as is asked of it, all in one container."""

    name = "pod-multi"
    processes = 3
    LAUNCHES = 100_000  # a second, by the third process
    RANK = (
        'rank() { while :; do echo "spin 0 $1 0 100000; set $1 0 64; sync $1 0; sleep 50"; done |'
        " /opt/app/scripted --nodes 2 --seconds 120 >/dev/null; }; rank 0 & rank 1 & "
    )
    workload = [
        "sh", "-c", f"{RANK} /opt/app/launch_loop --seconds 120 --rate {LAUNCHES} --threads 4 --streams 4 & wait",
    ]  # fmt: skip

    def test_2_a_profile_is_exact_and_names_the_pod(self):
        profile = self.profile(2)
        self.assert_named(profile)
        # A device that two processes see is one of each.
        seen = {(device["pid"], device["device"]) for device in profile["devices"]}
        self.assertEqual(len({pid for pid, _ in seen}), 3)
        self.assertEqual({device for _, device in seen}, {0, 1})
        used = {(stack["labels"]["pid"], stack["labels"]["device"]) for stack in profile["stacks"]}
        self.assertEqual({device for _, device in used}, {0, 1})
        by_kernel = sum(row["gpu_time_ns"] for row in profile["kernels"])
        self.assertEqual(sum(stack["gpu_time_ns"] for stack in profile["stacks"]), by_kernel)
        self.assertGreater(profile["quality"]["launches"], self.LAUNCHES)

    def test_2_one_process_of_them(self):
        pids = [process["pid"] for process in self.json("/status")["processes"]]
        profile = self.json(f"/profile?seconds=1&format=json&pid={pids[0]}")
        self.assertEqual([process["pid"] for process in profile["processes"]], pids[:1])


class Frozen(PodCase):
    """A sidecar that hangs: the liveness probe comes to its own time limit, and the kubelet's rules do the rest."""

    name = "frozen"

    @classmethod
    def manifest(cls):
        pod = pod_spec.load(os.path.join(K8S, "pod.yaml"))
        pod["spec"]["initContainers"][1]["livenessProbe"].update(periodSeconds=1, failureThreshold=2)
        pod["spec"]["terminationGracePeriodSeconds"] = 1  # it cannot hear SIGTERM either
        return pod

    def test_1_it_is_restarted_and_the_workload_does_not_notice(self):
        self.await_targets(1)
        self.pod.exec("pillion", "pillion", "probe", "live")
        os.kill(int(self.host_pid("pillion")), signal.SIGSTOP)
        done = self.pod.exec("pillion", "pillion", "probe", "live", check=False, timeout=5)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no answer in time", done.stderr)
        self.wait_until(lambda: self.pod.container("pillion").restarts != 0, lambda: "the sidecar to be started again")
        self.await_targets(1)
        self.assert_exact(self.profile(1))
        self.assertEqual(self.pod.container("app").restarts, 0)
        self.assertEqual(self.pod.logs("app").strip(), "")


class Work:
    """A Job: it has to complete, by the workload's end alone."""

    exit_code = 0  # of the sidecar

    def test_1_a_profile_while_it_runs_and_the_job_completes(self):
        self.await_status("/readyz", 200)
        self.assertGreater(self.profile(1)["quality"]["launches"], 0)
        self.assertEqual(self.pod.wait(timeout=40), "Succeeded")
        self.assertEqual(self.pod.container("pillion").exit_code, self.exit_code)
        self.assertEqual(self.pod.container("pillion").restarts, 0)


class ClassicJob(Work, PodCase):
    name = "job-classic"
    workload = ["/opt/app/launch_loop", "--seconds", "6", "--rate", str(RATE)]

    @classmethod
    def manifest(cls):
        return pod_spec.load(os.path.join(K8S, "job-classic.yaml"))


class ClassicJobWithoutCuda(PodCase):
    """The work fails before it ever uses CUDA: the sidecar must not keep the Job alive, nor hide the failure."""

    name = "job-without-cuda"
    workload = ["sh", "-c", "sleep 4; exit 3"]
    manifest = ClassicJob.manifest

    def test_1_the_sidecar_lives_and_is_not_ready(self):
        self.await_status("/healthz", 200)
        self.assertEqual(self.get("/readyz")[0], 503)
        codes = [self.pod.exec("pillion", "pillion", "probe", what, check=False).returncode for what in ("live", "ready")]
        self.assertEqual(codes, [0, 3])

    def test_2_the_job_ends_as_the_work_did(self):
        self.assertEqual(self.pod.wait(timeout=30), "Failed")
        self.assertEqual(self.pod.container("app").exit_code, 3)
        self.assertEqual(self.pod.container("pillion").exit_code, 0)
        self.assertIn("the workload has ended", self.pod.logs("pillion"))


class ComponentJob(Work, PodCase):
    name = "component-job"

    @classmethod
    def manifest(cls):
        return component("Job")


class Ephemeral(PodCase):
    """A pod without anything of Pillion, not even a shared PID namespace; then the container of `kubectl debug`."""

    name = "ephemeral"

    @classmethod
    def manifest(cls):
        base = kustomize.build(os.path.join(K8S, "example", "base"))
        return pod_spec.pod_of(next(document for document in base if document["kind"] == "StatefulSet"))

    def test_1_a_running_pod_is_profiled(self):
        self.assertNotIn("shareProcessNamespace", self.pod.spec)
        self.pod.add_ephemeral(debug_container.container())
        self.await_status("/readyz", 200)
        profile = self.profile(1)
        self.assert_exact(profile)
        self.assert_rooted(profile)
        self.assertEqual([process["pid"] for process in profile["processes"]], [1])
        self.assertEqual(profile["processes"][0]["pod"], self.pod.metadata["name"])

    def test_2_with_one_right_and_a_read_only_root(self):
        self.assert_rights("pillion", 0, ["SYS_PTRACE"])
        self.assert_read_only_root("pillion")

    def test_3_the_workload_outlives_it(self):
        self.podman.run("kill", "--signal", "KILL", self.pod.container("pillion").instance())
        self.assertTrue(self.pod.container("pillion").done.wait(20))
        self.assertEqual(self.pod.container("app").restarts, 0)
        self.assertFalse(self.pod.container("app").done.is_set())
        self.assertEqual(self.pod.logs("app").strip(), "")


CASES = [TwoUsers, Evidence, Component, Multi, ClassicJob, ClassicJobWithoutCuda, ComponentJob, Ephemeral, Frozen]


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"SKIPPED: pods cannot be run here: {reason}")
        sys.exit(77)
    wanted, sys.argv[1:] = sys.argv[1:], []
    unknown = set(wanted) - {case.name for case in CASES}
    if unknown:
        sys.exit(f"no manifest of this name: {', '.join(sorted(unknown))}")
    suite = [case.__name__ for case in CASES if not wanted or case.name in wanted]
    unittest.main(verbosity=2, failfast=True, defaultTest=suite)
