#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Does the pod runner keep Kubernetes' rules? Pods of shell scripts on a bare Debian; nothing of Pillion in them."""

import copy
import os
import sys
import time
import unittest

import images
import pod_spec
from pod_runner import Pod, PodFailed
from podman import Podman, why_not

SOURCE, BUILD = os.environ["PILLION_SOURCE"], os.environ["PILLION_BUILD"]
SCRATCH = {"name": "scratch", "emptyDir": {}}
MOUNT = [{"name": "scratch", "mountPath": "/scratch"}]


def container(name, script, **fields):
    return {"name": name, "image": images.BASE, "command": ["sh", "-c", script], "volumeMounts": MOUNT, **fields}


def manifest(containers, init=(), **spec):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "rules", "labels": {"app": "shell"}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "initContainers": list(init),
            "containers": list(containers),
            "volumes": [copy.deepcopy(SCRATCH)],
            **spec,
        },
    }
    pod_spec.POD(pod, "pod")
    return pod


def until(condition, timeout=20):
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class RunnerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.podman = Podman(os.path.join(BUILD, "e2e", "podman"))
        images.ensure_base(cls.podman, SOURCE, BUILD)

    def pod(self, containers, init=(), **spec):
        pod = Pod(manifest(containers, init, **spec), self.podman)
        self.addCleanup(pod.stop)
        return pod

    def read(self, pod, name):
        path = os.path.join(pod.volume("scratch"), name)
        with open(path, encoding="utf-8") as file:
            return file.read()

    def test_init_containers_run_in_order_and_a_sidecar_is_waited_for_until_it_has_started(self):
        sidecar = container(
            "sidecar",
            "trap 'echo sidecar-ended >>/scratch/log; exit 0' TERM; sleep 1; echo sidecar-started >>/scratch/log;"
            "touch /scratch/up; while :; do sleep 0.1; done",
            restartPolicy="Always",
            startupProbe={"exec": {"command": ["test", "-e", "/scratch/up"]}, "periodSeconds": 1, "failureThreshold": 9},
        )
        init = [container("first", "sleep 0.3; echo first >>/scratch/log"), sidecar, container("third", "echo third >>/scratch/log")]
        pod = self.pod([container("main", "echo main >>/scratch/log")], init)
        pod.start()
        self.assertEqual(pod.wait(), "Succeeded")
        # The sidecar outlives the main container and is ended after it.
        self.assertEqual(self.read(pod, "log").split(), ["first", "sidecar-started", "third", "main", "sidecar-ended"])

    def test_failing_init_container_fails_the_pod(self):
        pod = self.pod([container("main", "touch /scratch/main")], [container("first", "echo broken; exit 3")])
        with self.assertRaisesRegex(PodFailed, r"first: exit 3\nbroken"):
            pod.start()
        self.assertFalse(os.path.exists(os.path.join(pod.volume("scratch"), "main")))

    def test_failing_liveness_probe_restarts_the_container_with_a_fresh_root(self):
        script = "test ! -e /mark || echo old-root >>/scratch/log; touch /mark; echo start >>/scratch/log; exec sleep 60"
        probe = {"exec": {"command": ["test", "!", "-e", "/scratch/sick"]}, "periodSeconds": 1, "failureThreshold": 2}
        pod = self.pod([container("main", script, livenessProbe=probe)], restartPolicy="Always")
        pod.start()
        self.assertTrue(until(lambda: os.path.exists(os.path.join(pod.volume("scratch"), "log"))))
        with open(os.path.join(pod.volume("scratch"), "sick"), "w", encoding="utf-8"):
            pass
        self.assertTrue(until(lambda: pod.container("main").restarts >= 1))
        os.unlink(os.path.join(pod.volume("scratch"), "sick"))
        self.assertTrue(until(lambda: self.read(pod, "log").split().count("start") >= 2))
        self.assertNotIn("old-root", self.read(pod, "log"))

    def test_failing_startup_probe_keeps_the_main_containers_from_starting(self):
        probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
        sidecar = container("sidecar", "exec sleep 60", restartPolicy="Always", startupProbe=probe)
        pod = self.pod([container("main", "touch /scratch/main")], [sidecar])
        with self.assertRaisesRegex(PodFailed, "sidecar is not up in time"):
            pod.start(timeout=6)
        self.assertGreaterEqual(pod.container("sidecar").restarts, 1)
        self.assertFalse(os.path.exists(os.path.join(pod.volume("scratch"), "main")))

    def test_restart_policy_on_failure_ends_with_success(self):
        script = "echo try >>/scratch/log; test $(wc -l </scratch/log) -ge 3"
        pod = self.pod([container("main", script)], restartPolicy="OnFailure")
        pod.start()
        self.assertEqual(pod.wait(), "Succeeded")
        self.assertEqual(self.read(pod, "log").split(), ["try"] * 3)

    def test_empty_dir_is_open_to_every_uid(self):
        script = "stat -c %a /scratch >/scratch/$(id -u)"
        users = [container(f"u{uid}", script, securityContext={"runAsUser": uid}) for uid in (1000, 65532)]
        pod = self.pod(users)
        pod.start()
        self.assertEqual(pod.wait(), "Succeeded")
        self.assertEqual(self.read(pod, "1000").split(), ["777"])

    def test_fs_group_owns_the_empty_dir_and_is_a_group_of_the_process(self):
        script = "stat -c '%a %g' /scratch >/scratch/mode; id -G >/scratch/groups"
        pod = self.pod([container("main", script)], securityContext={"runAsUser": 1000, "fsGroup": 2345})
        pod.start()
        self.assertEqual(pod.wait(), "Succeeded")
        self.assertEqual(self.read(pod, "mode").split(), ["2777", "2345"])
        self.assertIn("2345", self.read(pod, "groups").split())

    def test_security_context_reaches_the_process(self):
        script = "grep -E 'CapBnd|NoNewPrivs|Seccomp:|^Uid' /proc/self/status >/scratch/status; touch /file 2>/dev/null && touch /scratch/writable"
        restricted = {
            "runAsNonRoot": True,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        pod = self.pod([container("main", script + "; true", securityContext=restricted)], securityContext={"runAsUser": 4321})
        pod.start()
        self.assertEqual(pod.wait(), "Succeeded")
        status = dict(line.split(":\t", 1) for line in self.read(pod, "status").splitlines())
        self.assertEqual(int(status["CapBnd"], 16), 0)
        self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
        self.assertEqual(status["Uid"].split()[0], "4321")
        self.assertFalse(os.path.exists(os.path.join(pod.volume("scratch"), "writable")))

    def test_run_as_non_root_refuses_root(self):
        pod = self.pod([container("main", "true", securityContext={"runAsNonRoot": True})])
        with self.assertRaisesRegex(pod_spec.SpecError, "would run as root"):
            pod.start()

    def test_environment_with_downward_api_and_expansion(self):
        env = [
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
            {"name": "BOTH", "value": "$(POD)/$(APP)/$(NONE)"},
        ]
        pod = self.pod([container("main", "echo $BOTH $0 >/scratch/env", env=env, args=["$(POD)-arg"])])
        pod.start()
        self.assertEqual(pod.wait(), "Succeeded")
        self.assertEqual(self.read(pod, "env").split(), ["rules/shell/$(NONE)", "rules-arg"])

    def test_containers_share_processes_only_when_asked(self):
        for shared in (True, False):
            with self.subTest(shared=shared):
                other = container("other", "echo >/scratch/up; exec sleep 31.5")
                script = "while ! test -e /scratch/up; do sleep 0.1; done; sleep 0.2; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' >/scratch/seen"
                pod = self.pod([other, container("main", script)], shareProcessNamespace=shared)
                pod.start()
                self.assertTrue(until(pod.container("main").done.is_set))
                self.assertEqual("sleep 31.5" in self.read(pod, "seen"), shared)
                pod.stop()

    def test_memory_limit_is_enforced(self):
        limits = {"limits": {"memory": "32Mi"}}
        pod = self.pod([container("main", "head -c 200M /dev/zero | tail -c 150M >/dev/null", resources=limits)])
        pod.start()
        self.assertEqual(pod.wait(), "Failed")

    def test_nothing_is_left_behind(self):
        pod = self.pod([container("main", "exec sleep 60")], volumes=[{"name": "scratch", "emptyDir": {"medium": "Memory"}}])
        pod.start()
        pod.stop()
        self.assertNotIn(pod.name, self.podman.output("pod", "ps", "--format", "{{.Name}}"))
        self.assertFalse(os.path.exists(pod.directory))


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"SKIPPED: pods cannot be run here: {reason}")
        sys.exit(77)
    unittest.main(verbosity=2)
