# SPDX-License-Identifier: Apache-2.0
"""The workload `adverse`, told line by line what to do to itself, and the sidecar beside it."""
import json
import os
import pathlib
import shutil
import subprocess

from harness import Bench, Window, wait_until
from matrix import Row


class Adverse:
    """One process of `adverse` with pipes to it. do() names an action; launch() has run the kernels when it returns."""

    def __init__(self, bench, before=(), wrapper=(), popen=None, program=None, **environment):
        self.stderr_path = bench.folder / f"stderr-{bench.count}"
        with open(self.stderr_path, "wb") as stderr:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": stderr, **(popen or {})}
            words = ["--before", ",".join(before)] if before else []
            if wrapper:
                words = [*wrapper[1:], program or bench.program("adverse"), *words]
            workload = bench.workload(shutil.which(wrapper[0]) if wrapper else program or "adverse", *words, popen=pipes,
                                      **environment)
        self.process, self.pid, self.launches = workload.process, workload.process.pid, 0
        first = self.line()
        if first != "ready":
            raise AssertionError(f"adverse said {first!r}: {self.stderr_path.read_text()}")

    def line(self):
        return self.process.stdout.readline().decode().rstrip("\n")

    def tell(self, text):
        self.process.stdin.write(f"{text}\n".encode())
        self.process.stdin.flush()

    def do(self, action, launches=0):
        """launches: how many the action makes."""
        self.tell(action)
        answer = self.line()
        if answer != "ok":
            raise AssertionError(f"{action}: {answer!r}; {self.process.poll()} {self.stderr_path.read_text()}")
        self.launches += launches

    def launch(self, count):
        self.tell(count)
        self.launches += count
        answer = self.line()
        if answer != str(self.launches):
            raise AssertionError(f"adverse said {answer!r} instead of {self.launches}, {self.process.poll()}")

    def truth(self, seconds=20):
        """Lets it end, by return from main; it has said nothing but that."""
        self.process.stdin.close()
        line = self.line()
        code = self.process.wait(seconds)
        stderr = self.stderr_path.read_text()
        if code != 0 or stderr:
            raise AssertionError(f"adverse exited {code}: {line!r} {stderr!r}")
        return json.loads(line)


class Beside:
    """A workload, a sidecar, and what a row of a matrix does with them. `with` it."""

    def __init__(self, test):
        self.test, self.bench = test, Bench()
        self.workload = self.sidecar = None
        self.shim_log_path = self.bench.folder / "shim.log"

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.bench.__exit__(*problem)

    def start(self, before=(), **options):
        """The shim's own words go to a file that shim_log() reads."""
        self.workload = Adverse(self.bench, before, **{"PILLION_LOG": self.shim_log_path, **options})

    def attach(self, *flags):
        self.sidecar = self.bench.sidecar("-wait-for-shim", "0", *flags)
        self.wait_attached()

    def wait_attached(self, seconds=20):
        wait_until(lambda: self.sidecar.process_state(self.workload.pid) is not None, "the shim to be attached",
                   seconds)

    def shim_log(self):
        return self.shim_log_path.read_text() if self.shim_log_path.exists() else ""

    def window(self, *actions, before=40, after=60, seconds=2):
        """A window with launches before and after the actions. An action may be (text, launches that it makes)."""
        launched = self.workload.launches
        with Window(self.sidecar, seconds, pid=self.workload.pid) as window:
            self.workload.launch(before)
            self.act(actions)
            self.workload.launch(after)
        self.launched = self.workload.launches - launched
        return window

    def act(self, actions):
        for action in actions:
            self.workload.do(*((action,) if isinstance(action, str) else action))

    def exact(self, *actions, rooted=True):
        """A window whose profile has every launch, with all stacks down to main; rooted=False: of the counts alone."""
        profile = self.window(*actions).take()
        self.test.assert_launches(profile, self.launched)
        if rooted:
            self.test.assert_all_rooted(profile)
        return profile

    def refused(self, status, *words):
        """A window that is refused, naming these words."""
        code, _, body = self.sidecar.request(f"/profile?seconds=1&pid={self.workload.pid}")
        self.test.assertEqual(code, status, body)
        for word in words:
            self.test.assertIn(word, body.decode())
        self.workload.launch(10)

    def end(self):
        """The program ends well, and has seen no signal and no interrupted call that is not its own."""
        self.workload.launch(10)
        truth = self.workload.truth()
        self.test.assertEqual(truth["launches"], self.workload.launches)
        self.test.assertEqual(truth["signals"], 0)
        self.test.assertTrue(truth["reused_intact"])
        return truth


def row(function, skip=""):
    def run(test):
        with Beside(test) as beside:
            function(test, beside)
    return Row(function.__name__, run, skip)


def system_call_numbers():
    """{name: number} of this machine's kernel headers."""
    header = next(path for path in (pathlib.Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
                                    pathlib.Path("/usr/include/asm/unistd_64.h")) if path.exists())
    rows = (line.split() for line in header.read_text().splitlines() if line.startswith("#define __NR_"))
    return {name.removeprefix("__NR_"): int(number) for _, name, number in rows}


def is_root():
    return os.geteuid() == 0
