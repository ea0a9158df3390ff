# SPDX-License-Identifier: Apache-2.0
"""Starts workloads on the double and sidecars beside them, asks over HTTP, and waits for conditions.

Everything a test starts is stopped by its Bench, by pid, also when the test fails.
"""
import contextlib
import gzip
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

from runner import main  # noqa: F401  for the tests, which take all from here

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PILLION_BUILD", ROOT / "build" / "release"))
PILLION = pathlib.Path(os.environ.get("PILLION_PROGRAM", BUILD / "pillion"))
SHIM = BUILD / "libpillion.so"
WORKLOADS = pathlib.Path(os.environ.get("PILLION_WORKLOADS", BUILD / "workloads"))
SIMGPU = BUILD / "simgpu"
REAL_GPU = "PILLION_REAL_GPU" in os.environ  # tests/gpu: nothing of the double
DOUBLE = () if REAL_GPU else (SIMGPU / "libcuda.so.1", SIMGPU / "libcupti.so.13")
for needed in (PILLION, SHIM, WORKLOADS / "launch_loop", *DOUBLE):
    if not needed.exists():  # a libcupti elsewhere on the machine would be taken instead
        sys.exit(f"{needed} has not been built")


def wait_until(condition, what, seconds=10.0, every=None):
    """Polls until condition() is truthy and returns that value; fails naming what was waited for.

    Less and less often, so that tests beside each other leave the processors to what they wait for; `every`: seconds
    between two polls, where each of them does something."""
    begin = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - begin
        if waited > seconds:
            raise AssertionError(f"waited {seconds} s for: {what}")
        time.sleep(every or min(0.1, 0.01 + waited / 10))


class Workload:
    """A program on the double. truth() waits for its end and returns its JSON line."""

    def __init__(self, process, truth_path, log_path):
        self.process, self.truth_path, self.log_path = process, truth_path, log_path

    @property
    def pid(self):
        return self.process.pid

    def finish(self, seconds=60):
        self.process.wait(seconds)
        return self.process.returncode

    def output(self):
        return pathlib.Path(self.log_path).read_text()

    def truth(self, seconds=60):
        code = self.finish(seconds)
        if code != 0:
            raise AssertionError(f"workload exited {code}: {self.output()}")
        lines = [line for line in self.output().splitlines() if line.startswith("{")]
        return json.loads(lines[-1])

    def device_truth(self):
        """What the double executed, written by it at exit."""
        return json.loads(pathlib.Path(self.truth_path).read_text())

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()


class Stepped:
    """Launches exactly as many kernels as it is told to, and has run them when launch() returns."""

    def __init__(self, workload):
        self.process, self.pid, self.launches = workload.process, workload.pid, 0
        first = self.process.stdout.readline()
        if first != b"ready\n":
            raise AssertionError(f"stepped said {first!r}")

    def launch(self, count):
        self._tell(f"{count}", count)

    def capture(self, count):
        """Captures so many launches into a graph that is thrown away: they never run."""
        self._tell(f"capture {count}", count)

    def take_timestamps(self):
        """Makes CUPTI take its stamps from another clock, as Kineto does."""
        self._tell("timestamps", 0)

    def _tell(self, words, launches):
        self.process.stdin.write(f"{words}\n".encode())
        self.process.stdin.flush()
        self.launches += launches
        answer = self.process.stdout.readline()
        if answer != f"{self.launches}\n".encode():
            raise AssertionError(f"stepped said {answer!r} instead of {self.launches}")

    def truth(self, seconds=20):
        """Lets it end."""
        self.process.stdin.close()
        line = self.process.stdout.readline()
        code = self.process.wait(seconds)
        if code != 0:
            raise AssertionError(f"stepped exited {code}: {line!r}")
        return json.loads(line)


class Window:
    """A window that is open while the test goes on. `with` it; take() waits for its end and returns the JSON."""

    def __init__(self, sidecar, seconds, **parameters):
        query = urllib.parse.urlencode({"seconds": seconds, "format": "json", **parameters})
        self.sidecar, self.path, self.seconds = sidecar, f"/profile?{query}", seconds
        self.status = self.body = self.error = None
        self.thread = threading.Thread(target=self._ask)

    def _ask(self):
        try:
            self.status, _, self.body = self.sidecar.request(self.path, timeout=self.seconds + 60)
        except (OSError, http.client.HTTPException) as error:
            self.error = error

    def __enter__(self):
        before = windows_open(self.sidecar)
        self.thread.start()
        wait_until(lambda: not self.thread.is_alive() or windows_open(self.sidecar) > before, "the window to be open",
                   20)
        if not self.thread.is_alive():
            raise AssertionError(f"the window did not open: {self.status} {self.body} {self.error}")
        return self

    def __exit__(self, *_):
        self.thread.join()

    def take(self, expect=200):
        self.thread.join()
        if self.status != expect:
            raise AssertionError(f"{self.path}: status {self.status}: {self.body!r} {self.error}")
        return json.loads(self.body)


class Sidecar:
    def __init__(self, process, log_path):
        self.process, self.log_path = process, log_path
        self.port = int(wait_until(self._port, f"the port in {log_path}", 15))

    def _port(self):
        if self.process.poll() is not None:
            raise AssertionError(f"pillion exited {self.process.returncode}: {self.log()}")
        found = re.search(r"listening on \S*?:(\d+)", self.log())
        return found and found.group(1)

    def log(self):
        return pathlib.Path(self.log_path).read_text()

    def request(self, path, method="GET", headers=None, timeout=120):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        with contextlib.closing(connection):
            connection.request(method, path, headers=headers or {})
            reply = connection.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read()

    def get_json(self, path, expect=200, timeout=120):
        status, _, body = self.request(path, timeout=timeout)
        if status != expect:
            raise AssertionError(f"{path}: status {status}: {body[:2000]!r}")
        return json.loads(body)

    def profile(self, seconds, expect=200, **parameters):
        query = urllib.parse.urlencode({"seconds": seconds, "format": "json", **parameters})
        return self.get_json(f"/profile?{query}", expect, timeout=seconds + 60)

    def pprof(self, seconds, **parameters):
        query = urllib.parse.urlencode({"seconds": seconds, **parameters})
        status, _, body = self.request(f"/profile?{query}", timeout=seconds + 60)
        if status != 200:
            raise AssertionError(f"status {status}: {body[:2000]!r}")
        gzip.decompress(body)
        return body

    def wait_ready(self, seconds=15):
        wait_until(lambda: self.request("/readyz")[0] == 200, "readyz to be 200", seconds)

    def process_state(self, pid):
        """What /status says of the process: connected, armed, ...; None when it is not attached."""
        for process in self.get_json("/status")["processes"]:
            if process["pid"] == pid:
                return process["state"]
        return None

    def wait_state(self, pid, state, seconds=10):
        wait_until(lambda: self.process_state(pid) == state, f"process {pid} to be {state}", seconds)

    def metric(self, name):
        """Sum over the labels."""
        lines = self.request("/metrics")[2].decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if re.match(rf"{name}(\{{| )", line))

    def rss_bytes(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmHWM")


class Bench:
    """One test's processes, socket directory and files."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pillion-test-"))
        self.sockets = self.folder / "sockets"
        self.sockets.mkdir()
        self.processes = []
        self.count = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self.remove_files()

    def remove_files(self):
        if not os.environ.get("PILLION_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def environment(self, shim=True, **extra):
        environment = dict(os.environ, PILLION_SOCKET_DIR=str(self.sockets))
        environment["LD_LIBRARY_PATH"] = str(SIMGPU)
        if shim:
            environment["CUDA_INJECTION64_PATH"] = str(SHIM)
        environment.update({key: str(value) for key, value in extra.items() if value is not None})
        return environment

    def start(self, command, environment, **popen):
        """stdout and stderr go to one log, unless popen says otherwise."""
        self.count += 1
        log_path = self.folder / f"{self.count}-{pathlib.Path(str(command[0])).name}.log"
        with open(log_path, "wb") as log:
            streams = {"stdout": log, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
            process = subprocess.Popen([str(word) for word in command], env=environment, **{**streams, **popen})
        self.processes.append(process)
        return process, log_path

    def program(self, name):
        return WORKLOADS / name

    def workload(self, name, *arguments, shim=True, popen=None, **environment):
        truth_path = self.folder / f"truth-{self.count}.json"
        environment = self.environment(shim, **{"SIMGPU_TRUTH": truth_path, **environment})
        program = name if "/" in str(name) else self.program(name)
        process, log_path = self.start([program, *arguments], environment, **(popen or {}))
        return Workload(process, truth_path, log_path)

    def stepped(self, *arguments, shim=True, popen=None, **environment):
        """The workload that launches when told to."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **(popen or {})}
        workload = self.workload("stepped", *arguments, shim=shim, popen=pipes, **environment)
        return Stepped(workload)

    def shim_sockets(self):
        return sorted(self.sockets.glob("pillion-*.sock"))

    def sidecar(self, *arguments, command="serve", environment=None, program=None, **popen):
        words = [program or PILLION, command, "-listen", "127.0.0.1:0", "-socket-dir", self.sockets, *arguments]
        process, log_path = self.start(words, {**os.environ, **(environment or {})}, **popen)
        return Sidecar(process, log_path)


def total(profile, field="gpu_time_ns"):
    """Sum over the profile's ranked kernels, copies and sets."""
    return sum(row[field] for row in profile["kernels"])


def windows_open(sidecar):
    for line in sidecar.request("/metrics")[2].decode().splitlines():
        if line.startswith("pillion_windows_open "):
            return float(line.split()[1])
    raise AssertionError("no pillion_windows_open in /metrics")


def functions(profile, stack):
    """The names in a stack, leaf first."""
    frames = (profile["frames"][number] for number in stack["frames"])
    return [line["function"] for frame in frames for line in frame["lines"]]


def files(profile, stack):
    """The base names of the files that a stack's frames lie in."""
    frames = (profile["frames"][number] for number in stack["frames"])
    numbers = {frame["mapping"] for frame in frames if frame.get("mapping") is not None}
    return {pathlib.Path(profile["mappings"][number]["file"]).name for number in numbers}


def launches_of(profile, name):
    """Launches under stacks in which a function of this name stands."""
    return sum(stack["launches"] for stack in profile["stacks"] if any(name in f for f in functions(profile, stack)))


class ProfileTest(unittest.TestCase):
    """Assertions against a workload's own truth."""

    def assert_nothing_lost(self, profile):
        quality = profile["quality"]
        names = ["launches_failed", "launched_before_session", "launch_record_lost", "pending", "evicted_unjoined",
                 "launches_duplicate", "failures_unmatched", "dropped_by_cupti", "dropped_other", "records_skipped",
                 "records_bad", "records_missing", "foreign_buffers", "stacks_unmatched"]
        names += [name for name in quality if name.startswith(("dropped_launches", "dropped_executions",
                                                               "invalid_stamps", "ring_resets"))]
        self.assertEqual({name: quality[name] for name in names if quality[name] != 0}, {})

    def assert_exact(self, profile, truth):
        """Every launch and execution of the truth is in the profile once, to the nanosecond."""
        simulated, quality = truth["simgpu"], profile["quality"]
        self.assert_nothing_lost(profile)
        self.assertGreater(simulated["executions"], 0)
        self.assertEqual(quality["launches"], truth["launches"])
        self.assertEqual(quality["executions"], simulated["executions"])
        self.assertEqual(quality["joined"], simulated["executions"])
        self.assertEqual(total(profile), simulated["gpu_ns"])
        self.assertEqual(sum(stack["gpu_time_ns"] for stack in profile["stacks"]), simulated["gpu_ns"])
        counted = {row["system_name"]: (row["launches"], row["gpu_time_ns"]) for row in profile["kernels"]
                   if row["system_name"] in simulated["kernels"]}
        expected = {name: (kernel["count"], kernel["ns"]) for name, kernel in simulated["kernels"].items()
                    if kernel["count"]}
        self.assertEqual(counted, expected)

    def assert_launches(self, profile, count):
        """Exactly so many launches, each with its execution."""
        self.assert_nothing_lost(profile)
        quality = profile["quality"]
        self.assertEqual((quality["launches"], quality["executions"], quality["joined"]), (count, count, count))
        self.assertEqual(sum(row["launches"] for row in profile["kernels"]), count)

    def assert_all_rooted(self, profile):
        quality = profile["quality"]
        self.assertGreater(quality["stacks"], 0)
        self.assertEqual(quality["stacks_ending_rooted"], quality["stacks"])
        odd = [stack for stack in profile["stacks"] if "stack_ending" in stack["labels"]]
        self.assertEqual(odd, [])


def whole_run(bench, name, *arguments, sidecar_flags=(), seconds=10, **environment):
    """A workload that launches nothing before the window is open, is through before it closes, and ends after it.

    Returns (profile, the workload's own truth)."""
    start, end = bench.folder / f"start-{bench.count}", bench.folder / f"end-{bench.count}"
    workload = bench.workload(name, *arguments, "--start-file", start, "--end-file", end, **environment)
    sidecar = bench.sidecar("-wait-for-shim", "20s", *sidecar_flags)
    sidecar.wait_ready()
    answer = {}

    def ask():
        answer["profile"] = sidecar.profile(seconds)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        # Both: a window opens over shims that sleep, and a real context takes some 300 ms to come.
        wait_until(lambda: windows_open(sidecar) == 1, "the window to be open")
        wait_until(lambda: sidecar.get_json("/status")["processes"][0]["state"] == "armed", "the shim to be armed")
        start.touch()
    finally:
        thread.join()
        end.touch()
    return answer["profile"], workload.truth()
