#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Injection between the containers of a pod: workloads that were started without the shim, in containers that hold
nothing of Pillion, and sidecars with different rights beside them. What `pillion doctor` says in a sidecar is what
`pillion inject` does there, and the shim counts every launch of what was injected."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import images
import pod_spec
from pod_runner import Pod
from podman import Podman, why_not

SOURCE, BUILD = os.environ["PILLION_SOURCE"], os.environ["PILLION_BUILD"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "integration"))

import injection  # noqa: E402  pylint: disable=wrong-import-position
from harness import ProfileTest, wait_until  # noqa: E402  pylint: disable=wrong-import-position

LAUNCHES = 1000
PROGRAM = ["/opt/app/launch_loop", "--iterations", str(LAUNCHES), "--rate", "1000"]
SECCOMP = {"seccompProfile": {"type": "RuntimeDefault"}}
NOTHING = {**SECCOMP, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
PTRACE = {**NOTHING, "capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE"]}}
ROOT, USER = {"runAsUser": 0, "runAsGroup": 0}, {"runAsUser": 1000, "runAsGroup": 1000}
SIDECARS = {
    "ptrace": {**PTRACE, **ROOT},
    "nothing": {**NOTHING, **ROOT},
    "defaults": {**SECCOMP, **ROOT},
    "user-ptrace": {**PTRACE, **USER},
    "user-nothing": {**NOTHING, **USER},
}
TARGETS = {
    "restricted": {**NOTHING, **USER},
    "as-root": {**SECCOMP, **ROOT},
    "as-user": {**SECCOMP, **USER},
    "as-user-too": {**NOTHING, **USER},
}


def sidecar(name):
    # It looks for shims in a folder that no workload has, and so leaves the field to what is run beside it.
    return {
        "name": name,
        "image": images.PILLION,
        "restartPolicy": "Always",
        "args": ["serve", "-wait-for-shim=0", "-listen=127.0.0.1:0"],
        "securityContext": SIDECARS[name],
    }


def target(name):
    return {
        "name": name,
        "image": images.WORKLOAD,
        "command": [*PROGRAM, "--start-file", "/steps/start", "--end-file", "/steps/end"],
        "volumeMounts": [{"name": name, "mountPath": "/steps"}],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
        "securityContext": TARGETS[name],
    }


def manifest():
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "inject"},
        "spec": {
            "shareProcessNamespace": True,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 2,
            "initContainers": [sidecar(name) for name in SIDECARS],
            "containers": [target(name) for name in TARGETS],
            "volumes": [{"name": name, "emptyDir": {}} for name in TARGETS],
        },
    }
    pod_spec.POD(pod, "pod")
    return pod


def yama_level():
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="utf-8") as file:
            return int(file.read())
    except FileNotFoundError:
        return 0


class Sidecar(injection.Operator):
    """Somebody who runs `pillion` in a container of the pod."""

    def __init__(self, pod, name):  # pylint: disable=super-init-not-called
        self.pod, self.name = pod, name

    def run(self, *words, timeout=60):
        return self.pod.exec(self.name, "pillion", *map(str, words), check=False, timeout=timeout)

    def record(self, log, *words):
        """`pillion record`, which writes JSON to stdout and its log to the file `log`."""
        command = ["podman", "exec", self.pod.container(self.name).instance(), "pillion", "record", *map(str, words)]
        return subprocess.Popen(
            [*command, "-format=json", "-o=-", "-duration=60s"], env=self.pod.podman.environment,
            cwd=self.pod.podman.root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip


class InjectTest(ProfileTest):
    @classmethod
    def setUpClass(cls):
        podman = Podman(os.path.join(BUILD, "e2e", "podman"))
        images.build_workload(podman, BUILD, json.dumps(PROGRAM))
        driver = os.path.realpath(os.path.join(BUILD, "simgpu", "libcuda.so.1"))
        cls.pod = Pod(manifest(), podman, driver_library=driver)
        cls.addClassCleanup(cls.pod.stop)
        cls.pod.start()

    def status(self, name):
        """What the kernel says of a container's first process."""
        pid = self.pod.podman.output("inspect", "--format", "{{.State.Pid}}", self.pod.container(name).instance())
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)

    def pid(self, name):
        """The workload's pid in the pod, once it waits to be let go with its driver loaded."""
        status = self.status(name)

        def ready():
            with open(f"/proc/{status['Pid']}/maps", encoding="utf-8") as maps:
                return "nvidia-uvm" in maps.read()

        wait_until(ready, f"{name} to have a context", 20)
        self.assertEqual(self.pod.logs(name), "")
        return int(status["NSpid"].split()[-1])

    def let(self, name, what):
        with open(os.path.join(self.pod.volume(name), what), "w", encoding="utf-8"):
            pass

    def truth(self, name):
        def line():
            return [text for text in self.pod.logs(name).splitlines() if text.startswith('{"workload"')]

        return json.loads(wait_until(line, f"{name} to have launched", 30)[0])

    def profile(self, operator, name, pid, *flags):
        """Of all that the workload launches, by a `record -pid` that ends with it."""
        with tempfile.NamedTemporaryFile("w+") as log:
            recording = operator.record(log, "-pid", pid, *flags)
            try:

                def recorded():
                    with open(log.name, encoding="utf-8") as file:
                        text = file.read()
                    self.assertIsNone(recording.poll(), text)
                    return "armed process" in text and "info recording" in text

                wait_until(recorded, f"{name} to be recorded", 20)
                self.let(name, "start")
                truth = self.truth(name)
                self.let(name, "end")
                profile = json.loads(recording.communicate(timeout=30)[0])
            finally:
                recording.kill()
                recording.wait()
        self.assertTrue(self.pod.container(name).done.wait(20))
        self.assertEqual(self.pod.container(name).exit_code, 0)
        self.assertEqual(len(self.pod.logs(name).splitlines()), 1, "the workload has said something")
        return profile, truth

    def check_injected(self, sidecar_name, name, *flags):
        """Doctor forecasts it, inject does it, and the shim sees every launch."""
        operator, pid = Sidecar(self.pod, sidecar_name), self.pid(name)
        said = injection.injected(self, operator, pid, "in memory", "listens at @pillion-", "libcupti.so.13")
        print(said, flush=True)
        profile, truth = self.profile(operator, name, pid, *flags)
        self.assertEqual(truth["launches"], LAUNCHES)
        quality = profile["quality"]
        self.assertEqual((quality["shim_launches"], quality["shim_executions"]), (LAUNCHES, LAUNCHES))
        self.assert_launches(profile, LAUNCHES)
        self.assert_all_rooted(profile)

    def check_refused(self, sidecar_name, name, *words):
        injection.refused(self, Sidecar(self.pod, sidecar_name), self.pid(name), *words)

    def rights(self, name):
        status = self.status(name)
        effective = int(status["CapEff"], 16)
        return status["Uid"].split()[0], effective, status["NoNewPrivs"], status["Seccomp"]

    def test_0_containers_have_the_rights_that_are_meant(self):
        ptrace = 1 << 19
        self.assertEqual(self.rights("ptrace"), ("0", ptrace, "1", "2"))
        self.assertEqual(self.rights("nothing"), ("0", 0, "1", "2"))
        self.assertEqual(self.rights("user-ptrace"), ("1000", ptrace, "1", "2"))
        self.assertEqual(self.rights("user-nothing"), ("1000", 0, "1", "2"))
        self.assertEqual(self.rights("restricted"), ("1000", 0, "1", "2"))
        self.assertEqual(self.rights("as-user"), ("1000", 0, "0", "2"))
        self.assertEqual(self.rights("defaults"), self.rights("as-root"))
        self.assertEqual(self.rights("defaults")[1] & ptrace, 0)
        self.assertNotEqual(self.rights("defaults")[1], 0)

    def test_1_root_without_capabilities_is_refused(self):
        for name in ("restricted", "as-root"):
            with self.subTest(target=name):
                self.check_refused("nothing", name, "without CAP_SYS_PTRACE" if name == "restricted" else "CAP_SYS_PTRACE",
                                   "securityContext.capabilities.add")  # fmt: skip
                self.assertFalse(self.pod.container(name).done.is_set())

    def test_2_root_with_the_one_capability_and_a_restricted_target(self):
        self.check_injected("ptrace", "restricted", "-allow-uid=1000")

    def test_3_root_with_the_default_capabilities_and_a_target_of_the_same_set(self):
        if yama_level() > 0:
            self.check_refused("defaults", "as-root", "Yama", "CAP_SYS_PTRACE")
        else:
            self.check_injected("defaults", "as-root")

    def test_4_a_user_with_the_one_capability_and_a_target_of_the_same_user(self):
        self.check_injected("user-ptrace", "as-user")

    def test_5_a_user_without_any_and_a_target_of_the_same_user(self):
        if yama_level() > 0:
            self.check_refused("user-nothing", "as-user-too", "Yama", "CAP_SYS_PTRACE")
        else:
            self.check_injected("user-nothing", "as-user-too")


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"SKIPPED: pods cannot be run here: {reason}")
        sys.exit(77)
    unittest.main(verbosity=2)
