#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Does k8s/component add Pillion to a Deployment, a StatefulSet and a Job, and leave all else as it is? Merged by
kustomize.py; kubectl_test.py compares that with kubectl."""

import os
import sys
import unittest

import kustomize
import pod_spec

SOURCE = os.environ["PILLION_SOURCE"]
K8S = os.path.join(SOURCE, "k8s")
KINDS = {"Deployment", "StatefulSet", "Job"}
OWN_NAMES = {"pillion", "pillion-install", "pillion-shim", "pillion-run", "CUDA_INJECTION64_PATH", "PILLION_ALLOW_UID"}
OWN_PATHS = {"/opt/pillion", "/run/pillion"}
sys.path.insert(0, os.path.join(SOURCE, "scripts"))

import check_restricted  # noqa: E402  pylint: disable=wrong-import-position


def by_kind(documents):
    return {document["kind"]: document for document in documents}


def without_pillion(value):
    """What is left when everything of Pillion's is taken out again; lists by their keys, for their order may change."""
    if isinstance(value, dict):
        left = {key: without_pillion(entry) for key, entry in value.items() if key != "shareProcessNamespace"}
        return {key: entry for key, entry in left.items() if entry not in ({}, [])}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        own = [entry for entry in value if entry.get("name") not in OWN_NAMES and entry.get("mountPath") not in OWN_PATHS]
        return [without_pillion(entry) for entry in sorted(own, key=lambda entry: str(entry.get("name")))]
    return value


class ComponentTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.base = by_kind(kustomize.build(os.path.join(K8S, "example", "base")))
        cls.built = by_kind(kustomize.build(os.path.join(K8S, "example")))

    def test_variables_volumes_mounts_and_all_else_survive(self):
        self.assertEqual(set(self.built), KINDS)
        for kind, document in self.built.items():
            with self.subTest(kind=kind):
                self.assertNotEqual(document, self.base[kind])
                self.assertEqual(without_pillion(document), without_pillion(self.base[kind]))

    def test_what_the_example_has_that_could_be_lost(self):
        pod = self.built["Deployment"]["spec"]["template"]["spec"]
        app = next(container for container in pod["containers"] if container["name"] == "app")
        self.assertEqual([entry["name"] for entry in app["env"]],
                         ["CUDA_INJECTION64_PATH", "PILLION_ALLOW_UID", "MODEL", "LOG_LEVEL"])  # fmt: skip
        self.assertEqual([mount["mountPath"] for mount in app["volumeMounts"]], ["/opt/pillion", "/run/pillion", "/models"])
        self.assertEqual([volume["name"] for volume in pod["volumes"]], ["pillion-shim", "pillion-run", "models"])
        self.assertEqual([init["name"] for init in pod["initContainers"]], ["pillion-install", "pillion", "fetch-model"])
        other = next(container for container in pod["containers"] if container["name"] == "log-shipper")
        self.assertEqual(other, self.base["Deployment"]["spec"]["template"]["spec"]["containers"][0])

    def test_every_pod_can_be_run_and_has_the_parts_of_pod_yaml(self):
        reference = pod_spec.load(os.path.join(K8S, "pod.yaml"))["spec"]
        for kind, document in self.built.items():
            with self.subTest(kind=kind):
                pod = pod_spec.pod_of(document)["spec"]
                install, sidecar = pod["initContainers"][:2]
                self.assertEqual(install, reference["initContainers"][0])
                expected = dict(reference["initContainers"][1])
                # The uid is a variable, so that a patch can name it.
                uid = {"name": "WORKLOAD_UID", "value": "0"}
                expected["args"] = [argument.replace("-allow-uid=0", "-allow-uid=$(WORKLOAD_UID)") for argument in expected["args"]]
                expected["env"] = [uid, *expected["env"]]
                self.assertEqual(sidecar, expected)
                self.assertEqual(pod["volumes"][:2], reference["volumes"])
                self.assertTrue(pod["shareProcessNamespace"])

    def test_what_pillion_adds_passes_restricted(self):
        for kind, document in self.built.items():
            found = check_restricted.violations(check_restricted.pod_of(document))
            self.assertEqual([line for line in found if "container pillion" in line], [], kind)

    def test_two_users_pass_but_for_pillions_own_rule(self):
        pod = pod_spec.load(os.path.join(K8S, "pod-two-users.yaml"))
        self.assertEqual(sorted(check_restricted.violations(pod)), [
            "container app: has a runAsUser of its own (Pillion: one user for the pod)",
            "pod: has no runAsUser (Pillion: one user for the pod)",
        ])  # fmt: skip


class MergeTest(unittest.TestCase):
    def test_values_lists_and_deletions(self):
        base = {"a": 1, "args": ["x", "y"], "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "gone": 1}
        patch = {"args": ["z"], "env": [{"name": "C", "value": "3"}, {"name": "B", "value": "4"}], "gone": None}
        self.assertEqual(kustomize.merge(base, patch), {
            "a": 1,
            "args": ["z"],
            "env": [{"name": "C", "value": "3"}, {"name": "B", "value": "4"}, {"name": "A", "value": "1"}],
        })  # fmt: skip
        with self.assertRaises(kustomize.KustomizeError):
            kustomize.merge(base, {"$patch": "delete"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
