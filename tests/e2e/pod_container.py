# SPDX-License-Identifier: Apache-2.0
"""One container of a pod: how its manifest becomes a `podman run`, its probes, and its restarts."""

import re
import threading
import time

from pod_spec import SpecError, parse_bytes, parse_cpus
from podman import PodmanError

# Kubernetes waits 10 s before the first restart and doubles that up to 5 minutes; tests have no such time.
RESTART_BACKOFF_S = 0.5
DRIVER_LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.1"


class Container:
    """Thread-safe: the pod's thread starts and stops it, a thread of its own watches each instance.

    An instance is one podman container. A restart makes a new one, with a fresh root, as a kubelet does.
    """

    def __init__(self, pod, spec, kind):
        """kind: init, sidecar, main or ephemeral."""
        self.pod = pod
        self.spec = spec
        self.kind = kind
        self.name = spec["name"]
        self.restarts = -1  # of the instance now running; -1: none yet
        self.exit_code = None  # of the last instance that ended
        self.started = threading.Event()  # the startup probe passed, or there is none and the container runs
        self.done = threading.Event()  # ended, and will not be started again
        self.failure = None  # why it could not be created
        self._stopping = threading.Event()
        self._stop_lock = threading.Lock()
        self._thread = None

    # ---- From the manifest to podman ----

    def instance(self):
        return f"{self.pod.name}-{self.name}-{self.restarts}"

    def _environment(self):
        values = {}
        for entry in self.spec.get("env", []):
            if "valueFrom" in entry:
                values[entry["name"]] = self.pod.field(entry["valueFrom"]["fieldRef"]["fieldPath"])
            else:
                values[entry["name"]] = expand(entry.get("value", ""), values)
        return values

    def _user_flags(self):
        pod = self.pod.spec.get("securityContext", {})
        own = self.spec.get("securityContext", {})
        user = own.get("runAsUser", pod.get("runAsUser"))
        group = own.get("runAsGroup", pod.get("runAsGroup"))
        if own.get("runAsNonRoot", pod.get("runAsNonRoot", False)):
            effective = str(user) if user is not None else self.pod.image_user(self.spec["image"])
            if not effective.split(":")[0].isdigit():
                raise SpecError(f"{self.name}: runAsNonRoot, and the image's user '{effective}' is not a number")
            if int(effective.split(":")[0]) == 0:
                raise SpecError(f"{self.name}: runAsNonRoot, and the container would run as root")
        flags = []
        if user is not None:
            flags += ["--user", f"{user}:{group}" if group is not None else str(user)]
        elif group is not None:
            raise SpecError(f"{self.name}: runAsGroup without runAsUser")
        for extra in pod.get("supplementalGroups", []) + ([pod["fsGroup"]] if "fsGroup" in pod else []):
            flags += ["--group-add", str(extra)]
        return flags

    def _security_flags(self):
        own = self.spec.get("securityContext", {})
        flags = self._user_flags()
        if own.get("privileged"):
            flags.append("--privileged")
        for capability in own.get("capabilities", {}).get("drop", []):
            flags += ["--cap-drop", capability]
        for capability in own.get("capabilities", {}).get("add", []):
            flags += ["--cap-add", capability]
        if own.get("allowPrivilegeEscalation") is False:
            flags += ["--security-opt", "no-new-privileges"]
        if own.get("readOnlyRootFilesystem"):
            flags += ["--read-only", "--read-only-tmpfs=false"]
        # Without a profile Kubernetes filters nothing; podman's default is what RuntimeDefault means.
        seccomp = own.get("seccompProfile", self.pod.spec.get("securityContext", {}).get("seccompProfile", {}))
        if seccomp.get("type") != "RuntimeDefault":
            flags += ["--security-opt", "seccomp=unconfined"]
        return flags

    def _resource_flags(self):
        flags = []
        limits = self.spec.get("resources", {}).get("limits", {})
        if "memory" in limits:
            flags += ["--memory", str(parse_bytes(limits["memory"]))]
        if "cpu" in limits:
            flags += ["--cpus", str(parse_cpus(limits["cpu"]))]
        requested = self.spec.get("resources", {}).get("requests", {}).get("cpu")
        if requested is not None:
            flags += ["--cpu-shares", str(max(2, int(parse_cpus(requested) * 1024)))]
        if "nvidia.com/gpu" in limits:
            # A device plugin and the container toolkit mount the driver's library and the devices into the container.
            if self.pod.driver_library is None:
                raise SpecError(f"{self.name}: asks for nvidia.com/gpu, and the runner was given no driver library")
            flags += ["--volume", f"{self.pod.driver_library}:{DRIVER_LIBRARY}:ro"]
            flags += ["--env", f"SIMGPU_DEVICES={limits['nvidia.com/gpu']}"]
        return flags

    def run_arguments(self):
        """The arguments of `podman`; raises SpecError for what a kubelet would refuse to create."""
        environment = self._environment()
        flags = ["run", "--detach", "--pull=never", "--pod", self.pod.name, "--name", self.instance()]
        flags += self._security_flags() + self._resource_flags()
        if "targetContainerName" in self.spec:
            flags += ["--pid", f"container:{self.pod.container(self.spec['targetContainerName']).instance()}"]
        for key, value in environment.items():
            flags += ["--env", f"{key}={value}"]
        for mount in self.spec.get("volumeMounts", []):
            mode = "ro" if mount.get("readOnly") else "rw"
            flags += ["--volume", f"{self.pod.volume(mount['name'])}:{mount['mountPath']}:{mode}"]
        if "workingDir" in self.spec:
            flags += ["--workdir", self.spec["workingDir"]]
        command = [expand(word, environment) for word in self.spec.get("command", [])]
        arguments = [expand(word, environment) for word in self.spec.get("args", [])]
        if command:
            # A command replaces the image's entry point and its arguments.
            flags += ["--entrypoint", command[0]]
            arguments = command[1:] + arguments
        return flags + [self.spec["image"], *arguments]

    # ---- Running ----

    def start(self):
        self._thread = threading.Thread(target=self._supervise, name=self.name, daemon=True)
        self._thread.start()

    def _restarts_after(self, code):
        if self._stopping.is_set():
            return False
        if self.kind in ("sidecar", "ephemeral"):
            return self.kind == "sidecar"
        policy = self.pod.spec.get("restartPolicy", "Always")
        if policy == "Never":
            return False
        return code != 0 if self.kind == "init" or policy == "OnFailure" else True

    def _supervise(self):
        try:
            while True:
                self.restarts += 1
                self.pod.podman.run(*self.run_arguments())
                ended = threading.Event()
                prober = threading.Thread(target=self._probe, args=(self.instance(), ended), daemon=True)
                prober.start()
                self.exit_code = int(self.pod.podman.output("wait", self.instance(), timeout=None))
                ended.set()
                prober.join()
                if not self._restarts_after(self.exit_code) or self._stopping.wait(RESTART_BACKOFF_S):
                    break
        except (SpecError, PodmanError) as error:
            self.failure = str(error)
        self.done.set()

    def _passes(self, instance, probe):
        try:
            done = self.pod.podman.run(
                "exec", instance, *probe["exec"]["command"], check=False, timeout=probe.get("timeoutSeconds", 1)
            )
        except Exception:  # pylint: disable=broad-except  # a probe that hangs has failed
            return False
        return done.returncode == 0

    def _probe_until(self, instance, ended, probe, until_success):
        """True: the container ended, or (until_success) the probe passed. False: it failed too often in a row."""
        failures = 0
        if ended.wait(probe.get("initialDelaySeconds", 0)):
            return True
        while not ended.is_set():
            if self._passes(instance, probe):
                failures = 0
                if until_success:
                    return True
            else:
                failures += 1
                if failures >= probe.get("failureThreshold", 3):
                    return ended.is_set()
            ended.wait(probe.get("periodSeconds", 10))
        return True

    def _probe(self, instance, ended):
        startup = self.spec.get("startupProbe")
        liveness = self.spec.get("livenessProbe")
        healthy = startup is None or self._probe_until(instance, ended, startup, until_success=True)
        if healthy and not ended.is_set():
            self.started.set()
            healthy = liveness is None or self._probe_until(instance, ended, liveness, until_success=False)
        if not healthy:
            self.pod.log(f"{self.name}: probe failed, the container is restarted")
            self._end(instance)

    def _end(self, instance):
        grace = self.pod.spec.get("terminationGracePeriodSeconds", 30)
        self.pod.podman.run("stop", "--time", str(grace), instance, check=False, timeout=grace + 60)

    def stop(self):
        """SIGTERM, after the grace period SIGKILL. Returns when the container has ended for good."""
        self._stopping.set()
        if self._thread is None:
            return
        deadline = time.monotonic() + self.pod.spec.get("terminationGracePeriodSeconds", 30) + 60
        # One caller at a time: a kubelet sends one SIGTERM, and to a program a second one means "at once".
        with self._stop_lock:
            # Again and again: an instance that is just being created is not there to be stopped yet.
            while not self.done.is_set() and time.monotonic() < deadline:
                self._end(self.instance())
                self.done.wait(0.2)
        self._thread.join(timeout=10)


def expand(text, values):
    """$(NAME) becomes the value, $$(NAME) the text $(NAME); an unknown name is left as it is."""
    return re.sub(
        r"\$(\$)?\(([^()]+)\)",
        lambda found: found[0][1:] if found[1] else values.get(found[2], found[0]),
        text,
    )
