# SPDX-License-Identifier: Apache-2.0
"""The images of the end-to-end tests. Public names are given to images made here, in storage of our own, so that the
Dockerfile and the manifests are used as they are shipped, on a machine that reaches no registry."""

import os
import shutil
import subprocess
import tempfile

BASE = "docker.io/library/debian:bookworm"
CUDA = "docker.io/nvidia/cuda:13.0.1-base-ubuntu22.04"
PILLION = "registry.example.com/pillion:latest"
WORKLOAD = "registry.example.com/cuda-app:latest"
CUPTI_VERSION = "13.0"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def ensure_base(podman, source, build):
    """Debian under its public name, from packages."""
    tar = os.path.join(os.path.dirname(build), "rootfs", "bookworm.tar")
    subprocess.run([os.path.join(source, "scripts", "rootfs"), "bookworm", tar], check=True, timeout=600)
    if not podman.has_image(BASE):
        podman.run("import", "--quiet", "--change", f"ENV {PATH}", "--change", 'CMD ["bash"]', tar, BASE, timeout=300)


def build_image(podman, tag, lines, files, base=BASE):
    """An image of `base`, `files` (path in the image: path here) and further Dockerfile lines."""
    with tempfile.TemporaryDirectory() as context:
        copies = []
        for number, (target, origin) in enumerate(files.items()):
            name = f"{number}-{os.path.basename(target)}"
            if os.path.isdir(origin):
                shutil.copytree(origin, os.path.join(context, name), symlinks=False)
            else:
                shutil.copy(os.path.realpath(origin), os.path.join(context, name))
            copies.append(f"COPY {name} {target}")
        with open(os.path.join(context, "Dockerfile"), "w", encoding="utf-8") as file:
            file.write("\n".join([f"FROM {base}", *copies, *lines]) + "\n")
        podman.run("build", "--quiet", "--network", "host", "--pull=never", "--tag", tag, context, timeout=300)


def ensure_cuda(podman, build):
    """A stand-in for NVIDIA's image: a Debian whose /usr/local/cuda-13.0 holds the simulated libcupti."""
    library = os.path.join(build, "simgpu", "libcupti.so.13")
    target = f"/usr/local/cuda-{CUPTI_VERSION}/lib64/libcupti.so.13"
    build_image(podman, CUDA, [], {target: library})


def build_pillion(podman, source, arguments, tag=PILLION):
    """The shipped Dockerfile, unchanged. `arguments`: its build arguments."""
    flags = [flag for name, value in arguments.items() for flag in ("--build-arg", f"{name}={value}")]
    # As this machine's own npm trusts whoever it reaches the registry through.
    certificates = os.environ.get("NODE_EXTRA_CA_CERTS")
    if certificates and "BUNDLE" not in arguments:
        inside = "/run/npm-certificates.crt"
        flags += ["--build-arg", f"NODE_EXTRA_CA_CERTS={inside}", "--volume", f"{os.path.realpath(certificates)}:{inside}:ro"]
    podman.run(
        "build", "--network", "host", "--pull=never", *flags, "--tag", tag, source, timeout=1500, capture=False
    )  # fmt: skip
    # Layers of earlier builds, which nothing refers to any more.
    podman.run("image", "prune", "--force")


def build_workload(podman, build, entrypoint):
    """Somebody's CUDA program: nothing of Pillion in it."""
    build_image(
        podman, WORKLOAD, [f"ENTRYPOINT {entrypoint}"], {"/opt/app": os.path.join(build, "workloads")}
    )  # fmt: skip


def image_bytes(podman, tag):
    return int(podman.output("image", "inspect", "--format", "{{.Size}}", tag))
