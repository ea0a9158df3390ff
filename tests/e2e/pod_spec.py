# SPDX-License-Identifier: Apache-2.0
"""Reads a Pod manifest and refuses every field that pod_runner.py does not act on.

A field that a runner skips in silence is a field that nobody tested, so the list below is what the runner
implements, not what Kubernetes knows. Names and meanings: Kubernetes API reference, core/v1 Pod.
"""

import re

import yaml


class SpecError(Exception):
    """The manifest asks for something that is wrong, or that the runner does not know. Names the field."""


def _fail(path, text):
    raise SpecError(f"{path}: {text}")


def _of(kind, name):
    def check(value, path):
        if type(value) is not kind:
            _fail(path, f"must be {name}, is {value!r}")

    return check


STRING = _of(str, "a string")
INTEGER = _of(int, "a whole number")
BOOLEAN = _of(bool, "true or false")


def one_of(*allowed):
    def check(value, path):
        if value not in allowed:
            _fail(path, f"{value!r} is not known to the runner: {', '.join(map(str, allowed))}")

    return check


def matching(pattern):
    def check(value, path):
        if not re.fullmatch(pattern, str(value)):
            _fail(path, f"{value!r} is not of the form {pattern}")

    return check


def list_of(item):
    def check(value, path):
        if not isinstance(value, list):
            _fail(path, "must be a list")
        for number, entry in enumerate(value):
            name = entry.get("name", number) if isinstance(entry, dict) else number
            item(entry, f"{path}[{name}]")

    return check


def string_map(value, path):
    if not isinstance(value, dict):
        _fail(path, "must be a map")
    for key, entry in value.items():
        STRING(key, path)
        STRING(entry, f"{path}.{key}")


def fields(required=(), **known):
    """A map with these fields and no others. A name with characters that Python forbids is given in `also`."""
    also = known.pop("also", {})
    known = {**known, **also}

    def check(value, path):
        if not isinstance(value, dict):
            _fail(path, "must be a map")
        for key, entry in value.items():
            if key not in known:
                _fail(f"{path}.{key}", "field not known to the runner")
            known[key](entry, f"{path}.{key}")
        for key in required:
            if key not in value:
                _fail(f"{path}.{key}", "is missing")

    return check


BYTES = matching(r"[0-9]+(Ki|Mi|Gi|k|M|G)?")
CPU = matching(r"[0-9]+m|[0-9]+(\.[0-9]+)?")
RESOURCES = fields(memory=BYTES, cpu=CPU, also={"nvidia.com/gpu": matching(r"[1-9][0-9]*")})
SECCOMP = fields(["type"], type=one_of("RuntimeDefault", "Unconfined"))
CAPABILITIES = fields(add=list_of(STRING), drop=list_of(STRING))

CONTAINER_SECURITY = fields(
    runAsUser=INTEGER,
    runAsGroup=INTEGER,
    runAsNonRoot=BOOLEAN,
    readOnlyRootFilesystem=BOOLEAN,
    allowPrivilegeEscalation=BOOLEAN,
    privileged=BOOLEAN,
    capabilities=CAPABILITIES,
    seccompProfile=SECCOMP,
)
POD_SECURITY = fields(
    runAsUser=INTEGER,
    runAsGroup=INTEGER,
    runAsNonRoot=BOOLEAN,
    fsGroup=INTEGER,
    supplementalGroups=list_of(INTEGER),
    seccompProfile=SECCOMP,
)
PROBE = fields(
    ["exec"],
    exec=fields(["command"], command=list_of(STRING)),
    initialDelaySeconds=INTEGER,
    periodSeconds=INTEGER,
    timeoutSeconds=INTEGER,
    failureThreshold=INTEGER,
)
FIELD_PATH = matching(r"metadata\.(name|namespace|uid)|metadata\.labels\['[^']+'\]|spec\.nodeName")
ENV = fields(
    ["name"],
    name=STRING,
    value=STRING,
    valueFrom=fields(["fieldRef"], fieldRef=fields(["fieldPath"], fieldPath=FIELD_PATH, apiVersion=one_of("v1"))),
)
_CONTAINER = {
    "name": matching(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"),
    "image": STRING,
    "imagePullPolicy": one_of("IfNotPresent", "Never"),
    "command": list_of(STRING),
    "args": list_of(STRING),
    "workingDir": STRING,
    "env": list_of(ENV),
    "ports": list_of(fields(["containerPort"], containerPort=INTEGER, name=STRING, protocol=one_of("TCP"))),
    "resources": fields(limits=RESOURCES, requests=RESOURCES),
    "securityContext": CONTAINER_SECURITY,
    "volumeMounts": list_of(fields(["name", "mountPath"], name=STRING, mountPath=STRING, readOnly=BOOLEAN)),
    "livenessProbe": PROBE,
    "startupProbe": PROBE,
}
CONTAINER = fields(["name", "image"], **_CONTAINER)
EPHEMERAL_CONTAINER = fields(
    ["name", "image"],
    targetContainerName=STRING,
    terminationMessagePolicy=one_of("File"),
    # Neither probes nor resources: Kubernetes refuses them.
    **{name: check for name, check in _CONTAINER.items() if name not in ("livenessProbe", "startupProbe", "resources")},
    resources=fields(),
)
INIT_CONTAINER = fields(["name", "image"], restartPolicy=one_of("Always"), **_CONTAINER)
VOLUME = fields(["name", "emptyDir"], name=STRING, emptyDir=fields(medium=one_of("", "Memory"), sizeLimit=BYTES))

POD = fields(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion=one_of("v1"),
    kind=one_of("Pod"),
    metadata=fields(["name"], name=STRING, namespace=STRING, labels=string_map, annotations=string_map),
    spec=fields(
        ["containers"],
        shareProcessNamespace=BOOLEAN,
        restartPolicy=one_of("Always", "OnFailure", "Never"),
        terminationGracePeriodSeconds=INTEGER,
        automountServiceAccountToken=one_of(False),
        securityContext=POD_SECURITY,
        initContainers=list_of(INIT_CONTAINER),
        containers=list_of(CONTAINER),
        volumes=list_of(VOLUME),
    ),
)


def _check_whole(pod):
    """What no single field shows: names that must agree, probes where Kubernetes forbids them."""
    spec = pod["spec"]
    volumes = {volume["name"] for volume in spec.get("volumes", [])}
    seen = set()
    for container in spec.get("initContainers", []) + spec["containers"]:
        name = container["name"]
        if name in seen:
            _fail(f"container {name}", "the name is there twice")
        seen.add(name)
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in volumes:
                _fail(f"container {name}", f"mounts the volume {mount['name']}, which the pod does not have")
    for container in spec.get("initContainers", []):
        if "restartPolicy" not in container and ("livenessProbe" in container or "startupProbe" in container):
            _fail(f"container {container['name']}", "an init container has probes only with restartPolicy Always")


TEMPLATE = fields(["spec"], metadata=fields(labels=string_map, annotations=string_map), spec=lambda value, path: None)
_CONTROLLER = {"apiVersion": STRING, "kind": STRING, "metadata": fields(["name"], name=STRING, namespace=STRING)}
SELECTOR = fields(["matchLabels"], matchLabels=string_map)
CONTROLLERS = {
    "Job": fields(["metadata", "spec"], **_CONTROLLER, spec=fields(["template"], template=TEMPLATE, backoffLimit=one_of(0))),
    "Deployment": fields(
        ["metadata", "spec"],
        **_CONTROLLER,
        spec=fields(["template", "selector"], template=TEMPLATE, selector=SELECTOR, replicas=one_of(1)),
    ),
    "StatefulSet": fields(
        ["metadata", "spec"],
        **_CONTROLLER,
        spec=fields(["template", "selector"], template=TEMPLATE, selector=SELECTOR, replicas=one_of(1), serviceName=STRING),
    ),
}


def pod_of(document):
    """The Pod that a manifest is, or the first one that its Job, Deployment or StatefulSet makes. Raises SpecError."""
    kind = document.get("kind")
    pod = document
    if kind in CONTROLLERS:
        CONTROLLERS[kind](document, kind)
        template = document["spec"]["template"]
        metadata = {**template.get("metadata", {}), **document["metadata"]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        if kind != "Job" and pod["spec"].get("restartPolicy", "Always") != "Always":
            _fail(kind, "its pods have restartPolicy Always")
        if kind == "Job" and pod["spec"].get("restartPolicy") not in ("Never", "OnFailure"):
            _fail(kind, "its pods have restartPolicy Never or OnFailure, and say so")
    POD(pod, "pod")
    _check_whole(pod)
    return pod


def load(path):
    """The one Pod of a manifest's file, as pod_of() gives it."""
    with open(path, encoding="utf-8") as file:
        documents = [document for document in yaml.safe_load_all(file) if document is not None]
    if len(documents) != 1:
        raise SpecError(f"{path}: holds {len(documents)} objects, the runner takes one")
    return pod_of(documents[0])


def parse_bytes(quantity):
    """Bytes of a Kubernetes quantity such as 64Mi."""
    units = {"": 1, "k": 1000, "M": 1000**2, "G": 1000**3, "Ki": 1024, "Mi": 1024**2, "Gi": 1024**3}
    number, unit = re.fullmatch(r"([0-9]+)([A-Za-z]*)", str(quantity)).groups()
    return int(number) * units[unit]


def parse_cpus(quantity):
    """CPUs of a Kubernetes quantity such as 250m, as a float."""
    text = str(quantity)
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)
