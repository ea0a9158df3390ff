#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a Pod manifest with podman, by Kubernetes' rules.

`podman kube play` (4.3) will not do: it refuses a startup probe on an init container, runs native sidecars as
ordinary init containers, ignores fsGroup and gives an emptyDir to the first container's user. So the manifest is
read here and each container started with `podman run`, in Kubernetes' order:

    (a Job, Deployment or StatefulSet stands for the first pod that it makes)
    init containers one after another; one with restartPolicy Always (a native sidecar) is not waited for to end,
    but for its startup probe; then all main containers; when these have ended, the sidecars, last one first.

An emptyDir is mode 0777, or 2777 with fsGroup as its group. A field that is not implemented is an error
(pod_spec.py). The pod has no network but its loopback: that is what port-forward reaches.

What it is not: a kubelet. No API server, no scheduler, no service, no device plugin (a `nvidia.com/gpu` limit mounts
the driver library that the caller names), no eviction, restarts without their long pauses.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import pod_spec
from pod_container import Container
from podman import Podman, PodmanError


class PodFailed(Exception):
    """The pod did not come up; names the container and what it wrote."""


class Pod:
    def __init__(self, manifest, podman, driver_library=None):
        """`driver_library`: the libcuda.so.1 that a container with a nvidia.com/gpu limit gets."""
        self.manifest = manifest
        self.metadata = manifest["metadata"]
        self.spec = manifest["spec"]
        self.podman = podman
        self.driver_library = driver_library
        self.uid = str(uuid.uuid4())
        self.name = f"{self.metadata['name']}-{self.uid[:8]}"
        self.directory = tempfile.mkdtemp(prefix="pillion-pod-")
        self.inits = [
            Container(self, spec, "sidecar" if spec.get("restartPolicy") == "Always" else "init")
            for spec in self.spec.get("initContainers", [])
        ]
        self.mains = [Container(self, spec, "main") for spec in self.spec["containers"]]
        self.ephemerals = []
        self._mounted = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def log(self, text):
        print(f"pod {self.metadata['name']}: {text}", file=sys.stderr, flush=True)

    # ---- What containers ask for ----

    def field(self, path):
        """The downward API."""
        values = {
            "metadata.name": self.metadata["name"],
            "metadata.namespace": self.metadata.get("namespace", "default"),
            "metadata.uid": self.uid,
            "spec.nodeName": os.uname().nodename,
        }
        if path.startswith("metadata.labels['"):
            return self.metadata.get("labels", {}).get(path[len("metadata.labels['") : -2], "")
        return values[path]

    def volume(self, name):
        return os.path.join(self.directory, name)

    def image_user(self, image):
        return self.podman.output("image", "inspect", "--format", "{{.User}}", image) or "0"

    def _make_volume(self, volume):
        path = self.volume(volume["name"])
        os.mkdir(path)
        empty_dir = volume["emptyDir"] or {}
        if empty_dir.get("medium") == "Memory":
            options = "mode=0777"
            if "sizeLimit" in empty_dir:
                options += f",size={pod_spec.parse_bytes(empty_dir['sizeLimit'])}"
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=True)
            self._mounted.append(path)
        group = self.spec.get("securityContext", {}).get("fsGroup")
        if group is not None:
            os.chown(path, 0, group)
        os.chmod(path, 0o777 if group is None else 0o2777)

    # ---- Life ----

    def start(self, timeout=60):
        """Returns when all main containers run. Raises PodFailed, SpecError or PodmanError."""
        deadline = time.monotonic() + timeout
        for container in self.inits + self.mains:
            container.restarts = 0
            container.run_arguments()  # what would be refused is refused before anything runs
            container.restarts = -1
        shared = "net,uts,ipc,pid" if self.spec.get("shareProcessNamespace") else "net,uts,ipc"
        self.podman.run(
            "pod", "create", "--name", self.name, "--share", shared, "--network", "none",
            "--hostname", self.metadata["name"],
        )  # fmt: skip
        for volume in self.spec.get("volumes", []):
            self._make_volume(volume)
        for container in self.inits:
            container.start()
            self._await(container, container.started if container.kind == "sidecar" else container.done, deadline)
            if container.kind == "init" and container.exit_code != 0:
                raise PodFailed(f"init container {container.name}: exit {container.exit_code}\n{self.logs(container.name)}")
        for container in self.mains:
            container.start()
            self._await(container, container.started, deadline)
        threading.Thread(target=self._end_with_mains, daemon=True).start()

    def _await(self, container, event, deadline):
        while not event.wait(0.05):
            if container.failure:
                raise PodFailed(f"{container.name}: {container.failure}")
            if container.done.is_set() and not event.is_set():
                break  # a main container that ended before it was seen running has its own exit code to show
            if time.monotonic() > deadline:
                raise PodFailed(f"{container.name} is not up in time\n{self.logs(container.name)}")
        if container.failure:
            raise PodFailed(f"{container.name}: {container.failure}")

    def _end_with_mains(self):
        for container in self.mains:
            container.done.wait()
        self._stop_sidecars()

    def _stop_sidecars(self):
        for container in reversed(self.inits):
            if container.kind == "sidecar":
                container.stop()

    def add_ephemeral(self, spec, timeout=30):
        """A container that is added to the running pod, and not started again when it ends."""
        pod_spec.EPHEMERAL_CONTAINER(spec, "ephemeralContainers")
        container = Container(self, spec, "ephemeral")
        self.ephemerals.append(container)
        container.start()
        self._await(container, container.started, time.monotonic() + timeout)

    def container(self, name):
        return next(entry for entry in self.inits + self.mains + self.ephemerals if entry.name == name)

    def wait(self, timeout=60):
        """Waits for the pod's end; returns its phase, Succeeded or Failed. Raises TimeoutError."""
        deadline = time.monotonic() + timeout
        for container in self.mains + [entry for entry in self.inits if entry.kind == "sidecar"]:
            if not container.done.wait(max(0, deadline - time.monotonic())):
                raise TimeoutError(f"container {container.name} still runs")
        return "Succeeded" if all(container.exit_code == 0 for container in self.mains) else "Failed"

    def exec(self, name, *command, **options):
        return self.podman.run("exec", self.container(name).instance(), *command, **options)

    def logs(self, name):
        done = self.podman.run("logs", self.container(name).instance(), check=False)
        return done.stdout + done.stderr

    def in_network(self, *command, **options):
        """Runs a command of this machine in the pod's network namespace: from where port-forward connects."""
        infra = self.podman.output("pod", "inspect", "--format", "{{.InfraContainerID}}", self.name)
        pid = self.podman.output("inspect", "--format", "{{.State.Pid}}", infra)
        return subprocess.run(["nsenter", "--target", pid, "--net", *command], **options)

    def stop(self):
        """Ends everything and leaves nothing behind. May be called more than once."""
        threads = [threading.Thread(target=container.stop) for container in self.mains + self.ephemerals]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._stop_sidecars()
        for container in self.inits:
            container.stop()
        self.podman.run("pod", "rm", "--force", "--time", "0", self.name, check=False)
        for path in self._mounted:
            subprocess.run(["umount", path], check=False)
        self._mounted = []
        shutil.rmtree(self.directory, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description="Runs a Pod manifest with podman until it ends or Ctrl-C.")
    parser.add_argument("manifest")
    parser.add_argument("--storage", default="/var/tmp/pillion-podman", help="podman's storage for this runner")
    parser.add_argument("--driver-library", help="libcuda.so.1 for containers with a nvidia.com/gpu limit")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        manifest = pod_spec.load(arguments.manifest)
        with Pod(manifest, Podman(arguments.storage), arguments.driver_library) as pod:
            pod.start()
            pod.log(f"runs as {pod.name}")
            phase = pod.wait(timeout=10**7)
            pod.log(phase)
            return 0 if phase == "Succeeded" else 1
    except (pod_spec.SpecError, PodFailed, PodmanError) as error:
        print(f"pod_runner: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
