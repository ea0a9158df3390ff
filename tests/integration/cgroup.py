# SPDX-License-Identifier: Apache-2.0
"""Memory cgroups for tests. As a program: exit status 0 where one can be made, else 1, saying why not."""
import contextlib
import os
import pathlib
import sys

from harness import wait_until


class NoCgroup(Exception):
    pass


def own_cgroups():
    """{controller: path} of cgroup v1, and "" for v2."""
    rows = (line.split(":", 2) for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines())
    return {name: path for _, names, path in rows for name in names.split(",")}


def cgroup_mounts():
    """[(mount point, v2?)] where memory can be limited."""
    found = []
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, options, *_ = line.split()
        if kind == "cgroup2":
            found.append((pathlib.Path(point), True))
        elif kind == "cgroup" and "memory" in options.split(","):
            found.append((pathlib.Path(point), False))
    return found


@contextlib.contextmanager
def memory_cgroup(limit):
    """A cgroup of its own with this limit, removed at the end. NoCgroup where none can be made."""
    problems = []
    for mount, unified in cgroup_mounts():
        own = own_cgroups().get("" if unified else "memory", "/").lstrip("/")
        for parent in dict.fromkeys([mount / own, mount]):
            group = parent / f"pillion-test-{os.getpid()}"
            try:
                group.mkdir()
            except OSError as error:
                problems.append(f"{group}: {error}")
                continue
            try:
                (group / ("memory.max" if unified else "memory.limit_in_bytes")).write_text(str(limit))
            except OSError as error:
                group.rmdir()
                problems.append(f"{group}: {error}")
                continue
            try:
                yield group
            finally:
                wait_until(lambda: not (group / "cgroup.procs").read_text(), f"{group} to be empty")
                group.rmdir()
            return
    raise NoCgroup("; ".join(problems) or "no memory controller is mounted")


def killed_for_memory(group):
    name = "memory.events" if (group / "memory.events").exists() else "memory.oom_control"
    rows = dict(line.split() for line in (group / name).read_text().splitlines())
    return int(rows.get("oom_kill", 0))


if __name__ == "__main__":
    try:
        with memory_cgroup(1 << 24):
            pass
    except NoCgroup as problem:
        sys.exit(f"no memory cgroup: {problem}")
