# SPDX-License-Identifier: Apache-2.0
"""What the sections of scripts/gpu-check share: programs started and stopped, one table at the end."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "integration"))

BUNDLE = pathlib.Path(os.environ.get("PILLION_BUNDLE", ROOT / "build" / "release" / "bundle"))
WORKLOADS = pathlib.Path(os.environ.get("PILLION_WORKLOADS", ROOT / "build" / "release" / "workloads"))
os.environ.update(PILLION_BUILD=str(BUNDLE), PILLION_WORKLOADS=str(WORKLOADS), PILLION_REAL_GPU="1")  # the import reads it

import harness  # noqa: E402


class Table:
    """Rows of (section, what, figure, goal, verdict); printed as they come and once more at the end."""

    def __init__(self):
        self.rows = []

    def add(self, section, what, figure, goal="", good=None):
        verdict = {None: "", True: "ok", False: "MISSED"}[good]
        self.rows.append((section, what, str(figure), goal, verdict))
        print(f"[{section}] {what}: {figure} {('(goal ' + goal + ')') if goal else ''} {verdict}", flush=True)

    def print(self):
        print("\n| section | what | figure | goal | verdict |\n|---|---|---|---|---|")
        for row in self.rows:
            print("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |")

    def missed(self):
        return [row for row in self.rows if row[4] == "MISSED"]


class GpuBench(harness.Bench):
    """A harness.Bench on the real driver: nothing of the double on the library path."""

    def environment(self, shim=True, **extra):
        environment = dict(os.environ, PILLION_SOCKET_DIR=str(self.sockets))
        environment.pop("CUDA_INJECTION64_PATH", None)
        if shim:
            environment["CUDA_INJECTION64_PATH"] = str(BUNDLE / "libpillion.so")
        environment.update({key: str(value) for key, value in extra.items()})
        return environment

    def workload(self, name, *arguments, shim=True, popen=None, **environment):
        program = name if "/" in str(name) else WORKLOADS / name
        process, log_path = self.start([program, *arguments], self.environment(shim, **environment), **(popen or {}))
        return harness.Workload(process, None, log_path)


class TorchWorkload:
    """tests/gpu/torch_workload.py, a command at a time."""

    def __init__(self, bench, mode, **environment):
        self.log = open(bench.folder / f"torch-{mode}.log", "wb")
        self.process = subprocess.Popen(
            [sys.executable, ROOT / "tests" / "gpu" / "torch_workload.py", mode], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.log, env=bench.environment(**environment))
        bench.processes.append(self.process)
        self.ready = self.answer()

    def send(self, line):
        self.process.stdin.write((line + "\n").encode())
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"torch workload ended: see {self.log.name}: "
                                 + pathlib.Path(self.log.name).read_text()[-2000:])
        return json.loads(line)

    def ask(self, line):
        self.send(line)
        return self.answer()


def built(name, source, *flags):
    """Builds one of this folder's CUDA programs here and returns its path."""
    out = pathlib.Path(tempfile.gettempdir()) / f"pillion-gpu-{name}"
    if not out.exists():
        subprocess.run(["nvcc", "-std=c++17", "-O2", "-o", out, ROOT / "tests" / "gpu" / source, *flags], check=True)
    return out


def stack_endings(quality):
    """Stacks by how they ended, without the zeros."""
    prefix = "stacks_ending_"
    return {key[len(prefix):]: value for key, value in quality.items() if key.startswith(prefix) and value}


def median(values):
    return statistics.median(values)


def monotonic():
    return time.monotonic_ns()
