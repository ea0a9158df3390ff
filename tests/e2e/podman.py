# SPDX-License-Identifier: Apache-2.0
"""podman, with storage and settings of its own: images and pods that a user has on the machine are neither seen nor
touched, and what is tagged here under a public name stays here."""

import os
import shutil
import subprocess

# runc and cgroupfs work with and without systemd. podman's own defaults for the limits (1,048,576 files) are refused
# where the hard limit is lower.
CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
STORAGE_CONF = """
[storage]
driver = "overlay"
graphroot = "{root}/graph"
runroot = "{root}/run"
# Else the folder stays mounted on itself, and `rm -r build` fails.
[storage.options.overlay]
skip_mount_home = "true"
"""


class PodmanError(Exception):
    """A podman command failed; carries what it wrote to stderr."""


class Podman:
    def __init__(self, root):
        """`root` is the folder for storage and settings; it is made where missing. Needs the root user."""
        self.root = os.path.abspath(root)
        os.makedirs(self.root, exist_ok=True)
        settings = os.path.join(self.root, "containers.conf")
        storage = os.path.join(self.root, "storage.conf")
        with open(settings, "w", encoding="utf-8") as file:
            file.write(CONTAINERS_CONF)
        with open(storage, "w", encoding="utf-8") as file:
            file.write(STORAGE_CONF.format(root=self.root))
        self.environment = {**os.environ, "CONTAINERS_CONF": settings, "CONTAINERS_STORAGE_CONF": storage}
        # Under a CUDA_INJECTION64_PATH or a preload of ours podman itself must not run.
        for name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "CUDA_INJECTION64_PATH"):
            self.environment.pop(name, None)

    def run(self, *arguments, check=True, timeout=120, capture=True):
        """Runs one podman command. Returns the CompletedProcess; raises PodmanError when it fails and `check`."""
        done = subprocess.run(
            ["podman", *arguments],
            env=self.environment,
            cwd=self.root,  # conmon writes a file `oom` to where it was started
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if capture else None,
            stderr=subprocess.PIPE if capture else None,
        )
        if check and done.returncode != 0:
            raise PodmanError(f"podman {' '.join(arguments)}: exit {done.returncode}: {(done.stderr or '').strip()}")
        return done

    def output(self, *arguments, **options):
        return self.run(*arguments, **options).stdout.strip()

    def has_image(self, name):
        return self.run("image", "exists", name, check=False).returncode == 0


def why_not():
    """Why containers cannot be run on this machine; None when they can."""
    if os.geteuid() != 0:
        return "needs root"
    missing = [tool for tool in ("podman", "runc", "catatonit", "nsenter") if shutil.which(tool) is None]
    # Debian keeps catatonit in /usr/bin or /usr/libexec/podman.
    if "catatonit" in missing and os.path.exists("/usr/libexec/podman/catatonit"):
        missing.remove("catatonit")
    return f"missing: {', '.join(missing)} (scripts/setup test)" if missing else None
