# SPDX-License-Identifier: Apache-2.0
"""What the sections of scripts/gpu-check share: programs started and stopped, one table at the end."""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "integration"))

DOUBLE = "GPU_CHECK_DOUBLE" in os.environ  # gpu-check -double: the sections' own logic, without a GPU
BUILD = ROOT / "build" / "release"
BUNDLE = pathlib.Path(os.environ.get("PILLION_BUNDLE", BUILD if DOUBLE else BUILD / "bundle"))
WORKLOADS = pathlib.Path(os.environ.get("PILLION_WORKLOADS", BUILD / "workloads"))
os.environ.update(PILLION_BUILD=str(BUNDLE), PILLION_WORKLOADS=str(WORKLOADS))  # the import reads it
if not DOUBLE:
    os.environ["PILLION_REAL_GPU"] = "1"
# Logs of every program that a section started stay here.
LOGS = pathlib.Path(os.environ.get("GPU_CHECK_LOGS") or pathlib.Path(os.environ.get("OUT", tempfile.gettempdir()))
                    / "gpu-check-logs")

import harness  # noqa: E402

wait_until = harness.wait_until


def rounds(usual):
    """How often a section repeats what it compares: GPU_CHECK_ROUNDS, else what is usual for it."""
    return int(os.environ.get("GPU_CHECK_ROUNDS", usual))


class Table:
    """Rows of (section, what, figure, goal, verdict); printed as they come and once more at the end."""

    def __init__(self):
        self.rows = []

    def add(self, section, what, figure, goal="", good=None):
        verdict = {None: "", True: "ok", False: "MISSED"}[good]
        figure = " ".join(str(figure).split())
        self.rows.append((section, what, figure, goal, verdict))
        print(f"[{section}] {what}: {figure} {('(goal ' + goal + ')') if goal else ''} {verdict}", flush=True)

    def add_speed(self, section, what, figure, goal, good):
        """A figure of time: on the double it says nothing, and is not judged."""
        self.add(section, what, figure, goal, None if DOUBLE else good)

    def print(self):
        print("\n| section | what | figure | goal | verdict |\n|---|---|---|---|---|")
        for row in self.rows:
            print("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |")

    def missed(self):
        return [row for row in self.rows if row[4] == "MISSED"]


class GpuBench(harness.Bench):
    """A harness.Bench on the real driver: nothing of the double on the library path. Its logs are kept."""

    def __init__(self, name=None):
        super().__init__()
        self.name = name

    def __exit__(self, *details):
        for process in self.processes:  # a torch workload ends with its input
            if process.stdin is not None and process.poll() is None:
                process.stdin.close()
        super().__exit__(*details)

    def remove_files(self):
        if self.name:
            kept = LOGS / self.name
            kept.mkdir(parents=True, exist_ok=True)
            for path in self.folder.iterdir():
                if path.is_file() and path.stat().st_size < 20_000_000:
                    shutil.copy(path, kept / path.name)
        super().remove_files()

    def environment(self, shim=True, **extra):
        environment = dict(os.environ, PILLION_SOCKET_DIR=str(self.sockets))
        environment.pop("CUDA_INJECTION64_PATH", None)
        if DOUBLE:
            environment["LD_LIBRARY_PATH"] = str(BUILD / "simgpu")
        if shim:
            environment["CUDA_INJECTION64_PATH"] = str(BUNDLE / "libpillion.so")
        environment.update({key: str(value) for key, value in extra.items()})
        return environment

    def unprepared(self):
        """The environment of a program that knows nothing of Pillion."""
        environment = self.environment(shim=False)
        return {key: value for key, value in environment.items() if not key.startswith("PILLION_")}

    def workload(self, name, *arguments, shim=True, popen=None, **environment):
        program = name if "/" in str(name) else WORKLOADS / name
        process, log_path = self.start([program, *arguments], self.environment(shim, **environment), **(popen or {}))
        return harness.Workload(process, None, log_path)


class TorchWorkload:
    """tests/gpu/torch_workload.py, a command at a time; on the double a stand-in for PyTorch (driver_steps.py).

    It is started at once; the first command waits until it is ready."""

    def __init__(self, bench, mode, environment=None, **variables):
        bench.count += 1
        self.log_path = bench.folder / f"{bench.count}-torch-{mode}.log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, ROOT / "tests" / "gpu" / "torch_workload.py", mode], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log,
                env={**(bench.environment() if environment is None else environment),
                     **{key: str(value) for key, value in variables.items()}})
        bench.processes.append(self.process)
        self.ready = None

    @property
    def pid(self):
        return self.process.pid

    def wait_ready(self):
        if self.ready is None:
            self.ready = self.answer()
        return self

    def send(self, line):
        self.wait_ready()
        self.process.stdin.write((line + "\n").encode())
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"torch workload ended with {self.process.wait(10)}: see {self.log_path.name}: "
                                 + self.log_path.read_text()[-2000:])
        return json.loads(line)

    def ask(self, line):
        self.send(line)
        return self.answer()

    def under_torch_profiler(self, iterations, meanwhile=lambda: None):
        """Its kernels; `meanwhile` runs while torch.profiler does."""
        self.ask(f"torch {iterations}")
        meanwhile()
        return self.answer()["kernels"]


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


def rooted_share(quality):
    """(percent of the stacks that are rooted, stacks)"""
    endings = stack_endings(quality)
    taken = sum(endings.values())
    return (100.0 * endings.get("rooted", 0) / taken if taken else 0.0), taken


def executions(profile):
    return sum(row["launches"] for row in profile["kernels"])


def process_row(sidecar, pid):
    """What /status says of one process; {} when it is not attached."""
    return next((row for row in sidecar.get_json("/status")["processes"] if row["pid"] == pid), {})


def median(values):
    return statistics.median(values)


def change(after, before):
    """In percent."""
    return 100.0 * (after - before) / before


def monotonic():
    return time.monotonic_ns()
