#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks manifests against the `restricted` Pod Security level, which includes `baseline`.

    scripts/check_restricted.py FILE...     exit status 0: all pass

The rules are those of the Pod Security Standards (kubernetes.io, "Pod Security Standards"), for Linux pods. Two more
are Pillion's own (P5 of its principles, and how shim and sidecar trust each other): a read-only root everywhere, and
one runAsUser, said once for the whole pod.
"""

import sys

import yaml

RESTRICTED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
SAFE_SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
}  # fmt: skip
SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
SECCOMP_TYPES = {"RuntimeDefault", "Localhost"}
APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"


def containers(spec):
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(kind) or []


def context(holder):
    return holder.get("securityContext") or {}


def _check_contexts(holder, where):
    """Rules that hold for the pod's security context and for each container's alike."""
    own = context(holder)
    if (own.get("windowsOptions") or {}).get("hostProcess"):
        yield f"{where}: windowsOptions.hostProcess is set"
    selinux = own.get("seLinuxOptions") or {}
    if selinux.get("type", "") not in SELINUX_TYPES or selinux.get("user") or selinux.get("role"):
        yield f"{where}: seLinuxOptions may only have a container type"
    if (own.get("appArmorProfile") or {}).get("type", "RuntimeDefault") not in SECCOMP_TYPES:
        yield f"{where}: appArmorProfile.type is not RuntimeDefault or Localhost"
    if "seccompProfile" in own and own["seccompProfile"].get("type") not in SECCOMP_TYPES:
        yield f"{where}: seccompProfile.type is not RuntimeDefault or Localhost"
    if own.get("runAsUser") == 0:
        yield f"{where}: runAsUser is 0"
    if own.get("runAsNonRoot") is False:
        yield f"{where}: runAsNonRoot is false"


def _check_pod(pod):
    spec = pod["spec"]
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield f"pod: {field} is set"
    if spec.get("hostUsers") is False:
        yield "pod: hostUsers false changes the rules; this check does not know them"
    for volume in spec.get("volumes") or []:
        kinds = set(volume) - {"name"}
        if not kinds <= RESTRICTED_VOLUMES:
            yield f"volume {volume.get('name')}: of kind {', '.join(sorted(kinds - RESTRICTED_VOLUMES))}"
    for sysctl in context(spec).get("sysctls") or []:
        if sysctl.get("name") not in SAFE_SYSCTLS:
            yield f"pod: sysctl {sysctl.get('name')} is not a safe one"
    for key, value in (pod.get("metadata", {}).get("annotations") or {}).items():
        if key.startswith(APPARMOR_ANNOTATION) and value != "runtime/default" and not value.startswith("localhost/"):
            yield f"pod: AppArmor annotation {key} is {value}"
    yield from _check_contexts(spec, "pod")
    if "runAsUser" not in context(spec):
        yield "pod: has no runAsUser (Pillion: one user for the pod)"


def _check_container(container, spec):
    where = f"container {container.get('name')}"
    own, pod = context(container), context(spec)
    yield from _check_contexts(container, where)
    if own.get("privileged"):
        yield f"{where}: privileged is set"
    if own.get("procMount", "Default") != "Default":
        yield f"{where}: procMount is not Default"
    if own.get("allowPrivilegeEscalation") is not False:
        yield f"{where}: allowPrivilegeEscalation is not false"
    capabilities = own.get("capabilities") or {}
    if "ALL" not in (capabilities.get("drop") or []):
        yield f"{where}: does not drop ALL capabilities"
    for capability in capabilities.get("add") or []:
        if capability != "NET_BIND_SERVICE":
            yield f"{where}: adds the capability {capability}"
    if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield f"{where}: runAsNonRoot is not true, here or for the pod"
    if not (own.get("seccompProfile") or pod.get("seccompProfile")):
        yield f"{where}: has no seccompProfile, here or for the pod"
    for port in container.get("ports") or []:
        if port.get("hostPort"):
            yield f"{where}: hostPort {port['hostPort']}"
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        for action in ("httpGet", "tcpSocket"):
            if ((container.get(probe) or {}).get(action) or {}).get("host"):
                yield f"{where}: {probe} names a host"
    for hook in (container.get("lifecycle") or {}).values():
        for action in ("httpGet", "tcpSocket"):
            if (hook.get(action) or {}).get("host"):
                yield f"{where}: a lifecycle hook names a host"
    if own.get("readOnlyRootFilesystem") is not True:
        yield f"{where}: readOnlyRootFilesystem is not true (Pillion)"
    if "runAsUser" in own and own["runAsUser"] != pod.get("runAsUser"):
        yield f"{where}: has a runAsUser of its own (Pillion: one user for the pod)"


def pod_of(document):
    """The Pod in a manifest: itself, or the template of what makes pods; None for anything else."""
    kind = document.get("kind")
    if kind == "Pod":
        return document
    if kind == "CronJob":
        return document["spec"]["jobTemplate"]["spec"]["template"]
    template = (document.get("spec") or {}).get("template")
    return template if isinstance(template, dict) and "spec" in template else None


def violations(pod):
    """What in this Pod breaks a rule, one line each; empty when it passes."""
    found = list(_check_pod(pod))
    for container in containers(pod["spec"]):
        found += _check_container(container, pod["spec"])
    return found


def main(paths):
    failed = not paths
    for path in paths:
        with open(path, encoding="utf-8") as file:
            pods = [pod_of(document) for document in yaml.safe_load_all(file) if document]
        if not any(pods):
            print(f"{path}: holds no pod")
            failed = True
        for pod in filter(None, pods):
            for line in violations(pod):
                print(f"{path}: {line}")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
