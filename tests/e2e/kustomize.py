# SPDX-License-Identifier: Apache-2.0
"""What k8s/component needs of kustomize, so that its result can be run where there is no kubectl.

Resources, components, and strategic-merge patches by `target.kind`; any other field is an error. Lists of the pod merge
by their key (Kubernetes API reference: patchMergeKey), entries of the patch first, as kustomize 5 has it; other
lists are replaced. kustomize_test.py compares the result with kubectl's, where there is one.
"""

import copy
import os
import re

import yaml

MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
}
KNOWN = {
    "Kustomization": {"apiVersion", "kind", "resources", "components", "patches"},
    "Component": {"apiVersion", "kind", "patches"},
}


class KustomizeError(Exception):
    """The folder asks for something that this does not do."""


def merge(base, patch):
    """The strategic merge of two values; neither is changed."""
    if not isinstance(base, dict) or not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = copy.deepcopy(base)
    for key, value in patch.items():
        if key.startswith("$"):
            raise KustomizeError(f"the directive {key}")
        if value is None:
            result.pop(key, None)
        elif key in MERGE_KEYS and isinstance(result.get(key), list):
            result[key] = merge_list(result[key], value, MERGE_KEYS[key])
        else:
            result[key] = merge(result[key], value) if key in result else copy.deepcopy(value)
    return result


def merge_list(base, patch, key):
    by_key = {entry[key]: entry for entry in base}
    merged = [merge(by_key[entry[key]], entry) if entry[key] in by_key else copy.deepcopy(entry) for entry in patch]
    named = {entry[key] for entry in patch}
    return merged + [copy.deepcopy(entry) for entry in base if entry[key] not in named]


def _read(folder, kind):
    with open(os.path.join(folder, "kustomization.yaml"), encoding="utf-8") as file:
        kustomization = yaml.safe_load(file)
    if kustomization["kind"] != kind:
        raise KustomizeError(f"{folder}: is a {kustomization['kind']} and no {kind}")
    unknown = set(kustomization) - KNOWN[kind]
    if unknown:
        raise KustomizeError(f"{folder}: {', '.join(sorted(unknown))}")
    return kustomization


def _patched(resources, folder, kustomization):
    for entry in kustomization.get("patches", []):
        if set(entry) - {"path", "patch", "target"} or set(entry["target"]) != {"kind"}:
            raise KustomizeError(f"{folder}: a patch that is not one of all kinds of an expression: {entry}")
        text = entry.get("patch")
        if text is None:
            with open(os.path.join(folder, entry["path"]), encoding="utf-8") as file:
                text = file.read()
        patch = yaml.safe_load(text)
        # With a target, whose these are.
        for own in ("apiVersion", "kind", "metadata"):
            patch.pop(own, None)
        kinds = entry["target"]["kind"]
        resources = [
            merge(resource, patch) if re.fullmatch(kinds, resource["kind"]) else resource for resource in resources
        ]
    return resources


def build(folder):
    """The objects of a kustomization, as `kubectl kustomize` prints them."""
    kustomization = _read(folder, "Kustomization")
    resources = []
    for name in kustomization.get("resources", []):
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            resources += build(path)
        else:
            with open(path, encoding="utf-8") as file:
                resources += [document for document in yaml.safe_load_all(file) if document is not None]
    for name in kustomization.get("components", []):
        path = os.path.join(folder, name)
        resources = _patched(resources, path, _read(path, "Component"))
    return _patched(resources, folder, kustomization)
