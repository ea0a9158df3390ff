# SPDX-License-Identifier: Apache-2.0
"""A workload and a sidecar, one of them stopped or delayed at chosen system calls of the handshake by step_tracer."""
import concurrent.futures
import os
import pathlib
import signal
import subprocess
import threading
import time

from harness import BUILD, PILLION, SIMGPU, WORKLOADS, Bench, Sidecar, Stepped, Window, Workload, wait_until

TRACER = BUILD / "tests" / "step_tracer"
# 2 MiB of shared memory a session instead of 48: many of them run beside each other.
SMALL_RINGS = ("-events-rings", "2", "-events-ring-kib", "256", "-stacks-rings", "2", "-stacks-ring-kib", "512")
LONG = bool(os.environ.get("PILLION_LONG"))


def in_parallel(rows, run, workers=16):
    """run(row) for each row, several at once; the failures, by row."""
    failures = {}
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        pending = {pool.submit(run, row): row for row in rows}
        for done in concurrent.futures.as_completed(pending):
            if done.exception() is not None:
                failures[pending[done]] = f"{type(done.exception()).__name__}: {done.exception()}"
    return failures


def process_stopped(pid):
    text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    return text.rpartition(")")[2].split()[0] == "T"


class Steps:
    """What a tracer has reported."""

    def __init__(self, path):
        self.path = path

    def lines(self):
        return self.path.read_text().splitlines() if self.path.exists() else []

    def names(self):
        """Of the steps so far, in order."""
        return [line.split()[2] for line in self.lines() if line[0].isdigit()]

    def frozen_at(self):
        """The call behind which the process was stopped, None while it was not."""
        lines = self.lines()
        return lines[-2].split()[2] if lines[-1:] == ["frozen"] else None


class Freeze(threading.Thread):
    """Waits until the process stands still behind its step, holds it for a while, and lets it go on."""

    def __init__(self, pid, steps, hold_s, meanwhile=lambda: None):
        super().__init__(daemon=True)
        self.pid, self.steps, self.hold_s, self.meanwhile = pid, steps, hold_s, meanwhile
        self.over, self.call, self.error, self.released_ns = threading.Event(), None, None, None

    def run(self):
        try:
            while not self.over.is_set() and self.steps.frozen_at() is None:
                time.sleep(0.02)
            if self.over.is_set():
                return
            self.call = self.steps.frozen_at()
            wait_until(lambda: process_stopped(self.pid), "the process to stand still", 10)
            until = time.monotonic() + self.hold_s
            self.meanwhile()
            wait_until(lambda: time.monotonic() >= until, "the end of the freeze", self.hold_s + 5)
            if not process_stopped(self.pid):
                raise AssertionError("the process did not stay stopped")
        except Exception as error:  # told by check()
            self.error = error
        finally:
            self.released_ns = time.monotonic_ns()
            try:
                os.kill(self.pid, signal.SIGCONT)
            except ProcessLookupError:
                pass

    def check(self):
        if self.error is not None:
            raise self.error


class Rig:
    """One bench with a stepped workload and a sidecar; the tracer's options say which of them is traced, and how."""

    def __init__(self):
        self.bench = Bench()
        self.shim_steps = Steps(self.bench.folder / "shim-steps")
        self.sidecar_steps = Steps(self.bench.folder / "sidecar-steps")
        self.stderr = open(self.bench.folder / "stderr", "w+b")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.bench.__exit__(*exception)
        self.stderr.close()

    def start_workload(self, *tracer_options, **environment):
        """The process; its first answer has still to be read: Stepped(workload)."""
        command = [WORKLOADS / "stepped"]
        if tracer_options:
            command = [TRACER, "-report", self.shim_steps.path, *tracer_options, "--", *command]
        process, log_path = self.bench.start(command, self.bench.environment(**environment), stdin=subprocess.PIPE,
                                             stdout=subprocess.PIPE, stderr=self.stderr)
        return Workload(process, None, log_path)

    def start_sidecar(self, *tracer_options, flags=(), sockets=None):
        """(process, log): the sidecar's port has still to be waited for: Sidecar(*it)."""
        command = [PILLION, "serve", "-listen", "127.0.0.1:0", "-socket-dir", sockets or self.bench.sockets,
                   "-wait-for-shim", "120s", "-arm-timeout", "5s", *SMALL_RINGS, *flags]
        if tracer_options:
            command = [TRACER, "-report", self.sidecar_steps.path, *tracer_options, "--", *command]
        return self.bench.start(command, dict(os.environ))

    def check_unharmed(self, stepped):
        """It launches, ends by itself with status 0, and has said nothing."""
        stepped.launch(5)
        if stepped.truth(60)["launches"] != stepped.launches:
            raise AssertionError("the workload counted other launches than it was told to make")
        self.stderr.seek(0)
        said = self.stderr.read()
        if said:
            raise AssertionError(f"the workload said {said!r}")


def check_window(sidecar, stepped, launches):
    """A window with exactly these launches, each with its execution and a whole stack."""
    with Window(sidecar, 1) as window:
        stepped.launch(launches)
    quality = window.take()["quality"]
    counted = tuple(quality[name] for name in ("launches", "executions", "joined"))
    if counted != (launches,) * 3:
        raise AssertionError(f"{counted} instead of {launches} launches, executions, joined")
    if quality["stacks"] == 0 or quality["stacks_ending_rooted"] != quality["stacks"]:
        raise AssertionError(f"{quality['stacks_ending_rooted']} of {quality['stacks']} stacks are whole; "
                             f"{({k: v for k, v in quality.items() if v and ('snap' in k or 'stacks' in k or 'keys' in k)})}")


def first_window(sidecar, stepped, launches=5):
    """Asks while one side may stand still: a profile, or a refusal that says why. True for a profile."""
    window = Window(sidecar, 1)
    window.thread.start()
    if stepped is not None:
        stepped.launch(launches)
    window.thread.join()
    if window.error is not None:
        raise AssertionError(f"no answer: {window.error}")
    if window.status == 200:
        return True
    if window.status >= 500 and b'"message":"' in window.body:
        return False
    raise AssertionError(f"{window.status} {window.body!r}")


def attach_bound_s():
    """Within so long after the last hold an attach succeeds, on a machine that runs several of them."""
    return 30


__all__ = ["LONG", "SIMGPU", "Freeze", "Rig", "Sidecar", "Stepped", "Steps", "attach_bound_s", "check_window",
           "first_window", "in_parallel", "process_stopped"]
