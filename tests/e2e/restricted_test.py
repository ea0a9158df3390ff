#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Each rule of the `restricted` check, broken once in the manifest that we ship: the check must say so, and nothing
else. The shipped manifest itself must pass."""

import json
import os
import sys
import unittest

SOURCE = os.environ["PILLION_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "scripts"))

import check_restricted  # noqa: E402  pylint: disable=wrong-import-position
import pod_spec  # noqa: E402  pylint: disable=wrong-import-position

SHIPPED = pod_spec.load(os.path.join(SOURCE, "k8s", "pod-restricted.yaml"))
REMOVE = object()

# (path, value, what the check must say). A number in a path is an index; REMOVE takes the field away.
POD, APP, SIDECAR = ("spec", "securityContext"), ("spec", "containers", 0), ("spec", "initContainers", 1)
APP_SECURITY = (*APP, "securityContext")
BREAKS = [
    (("spec", "hostNetwork"), True, "hostNetwork is set"),
    (("spec", "hostPID"), True, "hostPID is set"),
    (("spec", "hostIPC"), True, "hostIPC is set"),
    (("spec", "hostUsers"), False, "hostUsers"),
    ((*POD, "windowsOptions"), {"hostProcess": True}, "pod: windowsOptions.hostProcess"),
    ((*APP_SECURITY, "windowsOptions"), {"hostProcess": True}, "container app: windowsOptions.hostProcess"),
    ((*APP_SECURITY, "privileged"), True, "container app: privileged"),
    ((*APP_SECURITY, "capabilities", "drop"), ["NET_RAW"], "does not drop ALL"),
    ((*APP_SECURITY, "capabilities"), REMOVE, "does not drop ALL"),
    ((*APP_SECURITY, "capabilities", "add"), ["SYS_PTRACE"], "adds the capability SYS_PTRACE"),
    (("spec", "volumes", 0), {"name": "pillion-shim", "hostPath": {"path": "/"}}, "of kind hostPath"),
    (("spec", "volumes", 0), {"name": "pillion-shim", "nfs": {}}, "of kind nfs"),
    ((*SIDECAR, "ports"), [{"containerPort": 7070, "hostPort": 7070}], "container pillion: hostPort"),
    ((*SIDECAR, "livenessProbe"), {"httpGet": {"host": "other", "port": 1}}, "livenessProbe names a host"),
    ((*APP, "lifecycle"), {"preStop": {"tcpSocket": {"host": "other", "port": 1}}}, "lifecycle hook names a host"),
    ((*POD, "appArmorProfile"), {"type": "Unconfined"}, "appArmorProfile"),
    (
        ("metadata", "annotations"),
        {"container.apparmor.security.beta.kubernetes.io/app": "unconfined"},
        "AppArmor annotation",
    ),
    ((*POD, "seLinuxOptions"), {"type": "spc_t"}, "seLinuxOptions"),
    ((*APP_SECURITY, "seLinuxOptions"), {"user": "root"}, "seLinuxOptions"),
    ((*APP_SECURITY, "procMount"), "Unmasked", "procMount"),
    ((*POD, "seccompProfile"), {"type": "Unconfined"}, "pod: seccompProfile"),
    ((*APP_SECURITY, "seccompProfile"), {"type": "Unconfined"}, "container app: seccompProfile"),
    ((*POD, "seccompProfile"), REMOVE, "has no seccompProfile"),
    ((*POD, "sysctls"), [{"name": "kernel.msgmax", "value": "1"}], "sysctl kernel.msgmax"),
    ((*APP_SECURITY, "allowPrivilegeEscalation"), REMOVE, "allowPrivilegeEscalation"),
    ((*APP_SECURITY, "allowPrivilegeEscalation"), True, "allowPrivilegeEscalation"),
    ((*POD, "runAsNonRoot"), REMOVE, "runAsNonRoot is not true"),
    ((*APP_SECURITY, "runAsNonRoot"), False, "runAsNonRoot is"),
    ((*POD, "runAsUser"), 0, "pod: runAsUser is 0"),
    ((*POD, "runAsUser"), REMOVE, "has no runAsUser"),
    ((*APP_SECURITY, "runAsUser"), 0, "container app: "),
    ((*APP_SECURITY, "runAsUser"), 1000, "a runAsUser of its own"),
    ((*APP_SECURITY, "readOnlyRootFilesystem"), REMOVE, "readOnlyRootFilesystem"),
    ((*APP, "securityContext"), REMOVE, "container app: "),
]


def broken(path, value):
    pod = json.loads(json.dumps(SHIPPED))  # and not deepcopy: what YAML anchors share must not stay shared
    place = pod
    for step in path[:-1]:
        place = place[step]
    if value is REMOVE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return pod


class RestrictedTest(unittest.TestCase):
    def test_the_shipped_manifest_passes(self):
        self.assertEqual(check_restricted.violations(SHIPPED), [])

    def test_every_rule_can_fail(self):
        for path, value, expected in BREAKS:
            with self.subTest(field=".".join(map(str, path)), expected=expected):
                found = check_restricted.violations(broken(path, value))
                self.assertTrue(found)
                for line in found:
                    self.assertIn(expected, line)

    def test_every_container_is_checked(self):
        for kind, index in (("initContainers", 0), ("initContainers", 1), ("containers", 0)):
            found = check_restricted.violations(broken(("spec", kind, index, "securityContext", "privileged"), True))
            self.assertEqual(len(found), 1)

    def test_pods_inside_templates_are_found(self):
        pod = broken(("spec", "hostPID"), True)
        for wrapped in (
            {"kind": "Deployment", "spec": {"template": pod}},
            {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": pod}}}},
        ):
            self.assertEqual(check_restricted.violations(check_restricted.pod_of(wrapped)), ["pod: hostPID is set"])
        self.assertIsNone(check_restricted.pod_of({"kind": "ConfigMap", "data": {}}))


class SpecTest(unittest.TestCase):
    """What the pod runner's reader refuses."""

    def test_unknown_fields_are_refused_by_their_path(self):
        for path in (
            ("spec", "dnsPolicy"),
            ("spec", "containers", 0, "lifecycle"),
            ("spec", "initContainers", 1, "readinessProbe"),
            ("spec", "volumes", 0, "hostPath"),
            ("spec", "containers", 0, "securityContext", "procMount"),
        ):
            with self.subTest(path=path):
                with self.assertRaisesRegex(pod_spec.SpecError, f"{path[-1]}: field not known"):
                    pod_spec.POD(broken(path, {}), "pod")

    def test_wrong_values_are_refused(self):
        for path, value in (
            (("spec", "restartPolicy"), "Sometimes"),
            (("spec", "shareProcessNamespace"), "yes"),
            (("spec", "containers", 0, "resources"), {"limits": {"memory": "64 MB"}}),
            (("spec", "initContainers", 1, "startupProbe"), {"httpGet": {"port": 7070}}),
        ):
            with self.subTest(path=path):
                with self.assertRaises(pod_spec.SpecError):
                    pod_spec.POD(broken(path, value), "pod")


if __name__ == "__main__":
    unittest.main(verbosity=2)
