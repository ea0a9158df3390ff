# SPDX-License-Identifier: Apache-2.0
"""Every way to end, from main and from a thread, in every state of the shim and with a sidecar that is well, frozen or
killed at that moment: exit status, signal and core flag are those of the program alone, and it ends as quickly.

A round ends one process of each kind in one situation. 20 rounds; 200 with PILLION_LONG=1.
"""
import collections
import itertools
import os
import signal
import subprocess
import threading
import time

from harness import Bench, ProfileTest, Window, main, wait_until
from matrix import Row, run_rows
from shim_side import CallLog

WAYS = ["exit", "_exit", "quick_exit", "abort", "exit_group", "segv", "term", "int", "kill", "exec"]
KINDS = ["end return"]
KINDS += [f"{where} {way}" for where in ("end", "end_in_thread") for way in WAYS]
# These run the exit handlers, in which the shim flushes.
ORDERLY = {kind for kind in KINDS if kind.split()[1] in ("return", "exit", "quick_exit")}
ROUNDS = 200 if os.environ.get("PILLION_LONG") else 20
EXIT_WAIT_S = 0.2  # what the shim may take
NOISE_S = 3.0  # of one end: 21 processes end at once, perhaps on two busy processors
MEDIAN_NOISE_S = 0.1  # of the middle one of a situation
LAUNCHES = 30
# Small rings: so many sessions at once would not fit into the budget otherwise.
FLAGS = """-wait-for-shim 0 -linger 0s -events-rings 4 -events-ring-kib 64 -stacks-rings 2 -stacks-ring-kib 512""".split()


class Ending:
    """A process that ends in one way. wait() gives its raw wait status and how long it took."""

    def __init__(self, bench, kind, wrapper, **environment):
        self.kind = kind
        self.log = CallLog(bench.folder / f"calls-{bench.count}")
        self.stderr_path = bench.folder / f"stderr-{bench.count}"
        folder = bench.folder / f"work-{bench.count}"  # for its core
        folder.mkdir()
        with open(self.stderr_path, "wb") as stderr:
            workload = bench.workload(wrapper[0], *wrapper[1:], bench.program("adverse"), SIMGPU_CALL_LOG=self.log.path,
                                      popen={"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": stderr,
                                             "cwd": folder}, **environment)
        self.process, self.pid = workload.process, workload.pid

    def expect(self, line):
        answer = self.process.stdout.readline()
        if answer != f"{line}\n".encode():
            raise AssertionError(f"{self.kind}: said {answer!r} instead of {line!r}: {self.stderr_path.read_text()}")

    def tell(self, text):
        self.process.stdin.write(f"{text}\n".encode())
        self.process.stdin.flush()

    def _wait(self):
        _, self.status, _ = os.wait4(self.pid, 0)
        self.ended = time.monotonic()

    def begin_wait(self):
        self.waiter = threading.Thread(target=self._wait)
        self.waiter.start()

    def end(self):
        self.began = time.monotonic()
        self.tell(self.kind)

    def result(self):
        self.waiter.join(60)
        if self.waiter.is_alive():
            self.process.kill()
            self.waiter.join()
        self.process.returncode = os.waitstatus_to_exitcode(self.status)  # Popen must not wait for it again
        return self.status, self.ended - self.began


def start_all(bench, core, **environment):
    wrapper = ["/usr/bin/prlimit", f"--core={core}"]
    everybody = [Ending(bench, kind, wrapper, **environment) for kind in KINDS]
    for one in everybody:
        one.expect("ready")
    return everybody


def end_all(everybody):
    for one in everybody:
        one.begin_wait()
    for one in everybody:
        one.end()
    return {one.kind: one.result() for one in everybody}


def alone(core):
    """What the program's own end is, without a shim."""
    with Bench() as bench:
        return end_all(start_all(bench, core, shim=False))


class Round:
    """The processes of one round in one situation."""

    def __init__(self, test, state, fault, core):
        self.test, self.state, self.fault, self.core = test, state, fault, core

    def run(self):
        slow = {"SIMGPU_SUBSCRIBE_MS": 60_000} if self.state == "arming" else {}
        with Bench() as self.bench:
            self.sidecar = self.bench.sidecar(*FLAGS)
            self.everybody = start_all(self.bench, self.core, **slow)
            wait_until(lambda: len(self.sidecar.get_json("/status")["processes"]) == len(KINDS), "all to be attached", 60)
            getattr(self, self.state)()

    def end(self):
        if self.fault == "frozen":
            self.sidecar.process.send_signal(signal.SIGSTOP)
        if self.fault == "killed":
            self.sidecar.process.kill()
        results = end_all(self.everybody)
        wanted = self.test.alone[self.core]
        slowest = max(seconds for _, seconds in wanted.values())
        self.test.assertEqual({kind: status for kind, (status, _) in results.items()},
                              {kind: status for kind, (status, _) in wanted.items()})
        late = {kind: seconds for kind, (_, seconds) in results.items() if seconds > slowest + EXIT_WAIT_S + NOISE_S}
        self.test.assertEqual(late, {})
        self.test.note(self.state, self.fault, results)
        for one in self.everybody:
            self.test.assertEqual(one.stderr_path.read_text(), "", one.kind)

    def asleep(self):
        self.end()
        pids = {one.pid: one.kind for one in self.everybody}
        names = {pids[int(path.name.split("-")[2])] for path in self.bench.shim_sockets()}
        self.test.assertEqual(names & ORDERLY, set())  # who ends in order leaves no name

    def arming(self):
        asked = threading.Thread(target=self.ask)
        asked.start()
        try:
            for one in self.everybody:
                wait_until(lambda: [result for _, name, result in one.log.calls() if name.startswith("cuptiSubscribe")],
                           "the arming", 60)
            self.end()
        finally:
            self.sidecar.process.kill()  # its answer is of no interest
            asked.join()

    def ask(self):
        try:
            self.sidecar.request("/profile?seconds=1", timeout=120)
        except OSError:
            pass

    def armed(self):
        with Window(self.sidecar, 6 if self.fault == "well" else 60) as window:
            for one in self.everybody:
                one.tell(LAUNCHES)
            for one in self.everybody:
                one.expect(LAUNCHES)
            if self.fault == "well":
                wanted = LAUNCHES * len(KINDS)
                wait_until(lambda: self.sidecar.metric("pillion_executions_total") == wanted, "all executions", 30)
                for one in self.everybody:
                    one.tell(LAUNCHES)  # those may lie in CUPTI's buffers when it ends
                for one in self.everybody:
                    one.expect(2 * LAUNCHES)
            self.end()
            if self.fault != "well":
                self.sidecar.process.kill()
        if self.fault == "well":
            self.check(window.take())

    def check(self, profile):
        """Every launch is there; who ended in order has all its executions, nobody fewer than had come."""
        quality = profile["quality"]
        self.test.assertEqual(quality["launches"], 2 * LAUNCHES * len(KINDS))
        self.test.assertEqual(quality["executions"] + quality["pending"], quality["launches"])
        executions = collections.Counter()
        for stack in profile["stacks"]:
            executions[stack["labels"]["pid"]] += stack["launches"]
        for one in self.everybody:
            count = executions[one.pid] + executions[str(one.pid)]
            if one.kind in ORDERLY:
                self.test.assertEqual(count, 2 * LAUNCHES, one.kind)
            self.test.assertGreaterEqual(count, LAUNCHES, one.kind)

    def draining(self):
        """No call of the program comes, in which CUPTI could be let go of: the shims wait for one, half a second."""
        window = threading.Thread(target=self.ask)
        window.start()
        try:
            wait_until(lambda: self.states() == {"armed"}, "all to be armed", 60)
            wait_until(lambda: "armed" not in self.states(), "all to be asked to disarm", 60)
            self.end()
        finally:
            self.sidecar.process.kill()
            window.join()

    def states(self):
        return {process["state"] for process in self.sidecar.get_json("/status")["processes"]}


class ExitTest(ProfileTest):
    def setUp(self):
        self.alone = {core: alone(core) for core in ("0", "unlimited")}
        self.took = collections.defaultdict(list)

    def note(self, state, fault, results):
        self.took[state, fault] += [seconds for _, seconds in results.values()]

    def test_rounds(self):
        situations = list(itertools.product(("asleep", "arming", "armed", "draining"), ("well", "frozen", "killed")))
        rows = []
        for number, (state, fault) in zip(range(ROUNDS), itertools.cycle(situations)):
            core = "unlimited" if number < len(situations) and fault == "well" else "0"
            round_ = Round(self, state, fault, core)
            rows.append(Row(f"{state}_{fault}_{number}", lambda _, round_=round_: round_.run()))
        run_rows(self, rows, workers=2)
        for (state, fault), seconds in self.took.items():
            middle = sorted(seconds)[len(seconds) // 2]
            self.assertLess(middle, EXIT_WAIT_S + MEDIAN_NOISE_S, (state, fault))
            print(f"{state} {fault}: {len(seconds)} ends, median {middle * 1e3:.0f} ms, most {max(seconds) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
