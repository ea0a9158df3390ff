# SPDX-License-Identifier: Apache-2.0
"""The CPythons of a machine, for tests that run in each: found where they are usually put, and asked who they are."""
import collections
import glob
import json
import os
import re
import shutil
import subprocess

VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")

Interpreter = collections.namedtuple("Interpreter", "path version full include variant")

ASK = """
import json, sys, sysconfig
print(json.dumps([sys.implementation.name, "%d.%d" % sys.version_info[:2], sys.version.split()[0],
                  sysconfig.get_paths()["include"], sys.abiflags]))
"""


def candidates():
    """Paths of python3.N in PATH, and under the folders of those who install several."""
    homes = [os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv")) + "/versions/*/bin",
             os.path.expanduser("~/.local/share/uv/python/*/bin"), "/opt/python/*/bin"]
    folders = os.environ.get("PATH", "").split(":") + ["/usr/bin", "/usr/local/bin"]
    for version in VERSIONS:
        for folder in folders:
            path = shutil.which("python" + version, path=folder)
            # A version manager's shim runs whatever is chosen: asked under a name it may refuse.
            if path and "shims" not in folder:
                yield path
        for home in homes:
            yield from sorted(glob.glob(f"{home}/python{version}"))


def ask(path):
    try:
        done = subprocess.run([path, "-c", ASK], text=True, capture_output=True, timeout=60)
        name, version, full, include, variant = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return Interpreter(path, version, full, include, variant) if name == "cpython" else None


def wanted():
    """The minor versions that PILLION_PYTHONS (3.9,3.11) names; all without it."""
    named = os.environ.get("PILLION_PYTHONS", "").replace(",", " ").split()
    return [version for version in VERSIONS if not named or version in named]


def find():
    """One interpreter per release, sorted; and the minor versions of which there is none."""
    found = {}
    for path in candidates():
        real = os.path.realpath(path)
        if any(os.path.realpath(i.path) == real for i in found.values()):
            continue
        interpreter = ask(path)
        if interpreter and interpreter.version in wanted():
            found.setdefault((interpreter.full, interpreter.variant, interpreter.include), interpreter)
    ordered = sorted(found.values(), key=lambda i: [int(n) for n in re.findall(r"\d+", i.full)])
    return ordered, [v for v in wanted() if all(i.version != v for i in ordered)]


if __name__ == "__main__":
    # The conditions of scripts/expected_skips that hold here.
    print("".join(f",no-cpython-{version}" for version in find()[1]))
