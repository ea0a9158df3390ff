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
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PILLION_BUILD", ROOT / "build" / "release"))
PILLION = BUILD / "pillion"
SHIM = BUILD / "libpillion.so"
WORKLOADS = BUILD / "workloads"
SIMGPU = BUILD / "simgpu"


def wait_until(condition, what, seconds=10.0):
    """Polls until condition() is truthy and returns that value; fails naming what was waited for."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s for: {what}")
        time.sleep(0.02)


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
        if not os.environ.get("PILLION_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def environment(self, shim=True, **extra):
        environment = dict(os.environ, PILLION_SOCKET_DIR=str(self.sockets))
        environment["LD_LIBRARY_PATH"] = str(SIMGPU)
        if shim:
            environment["CUDA_INJECTION64_PATH"] = str(SHIM)
        environment.update({key: str(value) for key, value in extra.items()})
        return environment

    def start(self, command, environment, **popen):
        self.count += 1
        log_path = self.folder / f"{self.count}-{pathlib.Path(str(command[0])).name}.log"
        with open(log_path, "wb") as log:
            process = subprocess.Popen([str(word) for word in command], env=environment, stdout=log,
                                       stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **popen)
        self.processes.append(process)
        return process, log_path

    def workload(self, name, *arguments, shim=True, popen=None, **environment):
        truth_path = self.folder / f"truth-{self.count}.json"
        environment = self.environment(shim, SIMGPU_TRUTH=truth_path, **environment)
        program = name if "/" in str(name) else WORKLOADS / name
        process, log_path = self.start([program, *arguments], environment, **(popen or {}))
        return Workload(process, truth_path, log_path)

    def sidecar(self, *arguments, command="serve", **popen):
        words = [PILLION, command, "-listen", "127.0.0.1:0", "-socket-dir", self.sockets, *arguments]
        process, log_path = self.start(words, dict(os.environ), **popen)
        return Sidecar(process, log_path)


def total(profile, field="gpu_time_ns"):
    """Sum over the profile's ranked kernels, copies and sets."""
    return sum(row[field] for row in profile["kernels"])


def windows_open(sidecar):
    for line in sidecar.request("/metrics")[2].decode().splitlines():
        if line.startswith("pillion_windows_open "):
            return float(line.split()[1])
    raise AssertionError("no pillion_windows_open in /metrics")


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
        wait_until(lambda: windows_open(sidecar) == 1, "the window to be open")
        start.touch()
    finally:
        thread.join()
        end.touch()
    return answer["profile"], workload.truth()
