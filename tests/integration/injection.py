# SPDX-License-Identifier: Apache-2.0
"""`pillion inject` and `pillion doctor` on one process: what the one forecasts the other must do."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess

from harness import PILLION, ROOT, SHIM, wait_until

UNPRIVILEGED = ("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "--inh-caps=-all")
# Root, and everything but the one capability: dropped from the bounding set it does not come back at exec.
NO_PTRACE = ("setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace")
PTRACE_ALONE = ("setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "--inh-caps=-all,+sys_ptrace",
                "--ambient-caps=-all,+sys_ptrace")
DONE, FAILED, REFUSED, GONE = 0, 1, 4, 5
EPOLL_PROGRAM = """#include <stdio.h>
#include <sys/epoll.h>
int main(void) {
  struct epoll_event event;
  puts("ready");
  fflush(stdout);
  return epoll_wait(epoll_create1(0), &event, 1, -1) < 0 ? 3 : 4;
}
"""


class Operator:
    """Somebody at a shell with pillion, who may be another user than the test's."""

    def __init__(self, beside, wrapper=()):
        self.beside, self.wrapper = beside, wrapper
        folder = beside.bench.folder
        if wrapper and not (folder / "pillion").exists():
            # Where any user may read it.
            folder.chmod(0o755)
            for file in (PILLION, SHIM):
                shutil.copy(file, folder)
        self.pillion = folder / "pillion" if wrapper else PILLION

    def run(self, *words, timeout=60):
        command = [*self.wrapper, self.pillion, *words, "-socket-dir", self.beside.bench.sockets]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout)

    def inject(self, pid, *flags):
        return self.run("inject", "-pid", pid, *flags)

    def doctor(self, pid):
        """(exit status, {subject: row})"""
        done = self.run("doctor", "-format", "json", "-pid", pid)
        if done.stderr:
            raise AssertionError(f"doctor wrote {done.stderr!r}")
        [process] = json.loads(done.stdout)["processes"]
        for row in process["rows"]:
            if row["state"] != "ok" and not row["remedy"]:
                raise AssertionError(f"a row without a remedy: {row}")
        return done.returncode, {row["subject"]: row for row in process["rows"]}


def refused(test, operator, pid, *words, force=False, code=REFUSED, passes=False):
    """Doctor says so beforehand, in the same words; inject refuses with them; with force, it does so as well. And a
    recording that was to inject ends at once, unless what is in the way may pass by itself."""
    status, rows = operator.doctor(pid)
    verdict = rows["verdict"]
    test.assertEqual((status, verdict["state"]), (code, "missing"), rows)
    for flags in ((), ("-force",)) if force else ((),):
        done = operator.inject(pid, *flags)
        test.assertEqual((done.returncode, done.stdout), (code, ""), done)
        for word in words:
            test.assertIn(word, done.stderr)
        if not flags:
            test.assertIn(verdict["finding"].removeprefix("inject would be refused: "), done.stderr)
            test.assertIn(verdict["remedy"], done.stderr)
    if not passes:
        # Half an hour, which it does not take: run() gives it a minute.
        done = operator.run("record", "-pid", pid, "-inject", "-wait-for-shim", "30m", "-o", "-")
        test.assertEqual((done.returncode, done.stdout), (code, ""), done)
        for word in words if code == REFUSED else ():
            test.assertIn(word, done.stderr)
    return rows


def injected(test, operator, pid, *words, forecast=True):
    """Doctor forecasts it; inject does it and says how in two lines; doctor sees the shim, and a second inject does."""
    if forecast:
        status, rows = operator.doctor(pid)
        test.assertEqual((status, rows["verdict"]["finding"]), (DONE, "inject would work"), rows)
    done = operator.inject(pid, *([] if forecast else ["-force"]))
    test.assertEqual((done.returncode, done.stderr), (DONE, ""), done)
    test.assertEqual(len(done.stdout.splitlines()), 2, done.stdout)
    for word in words:
        test.assertIn(word, done.stdout)
    status, rows = operator.doctor(pid)
    test.assertEqual((status, rows["verdict"]["finding"]), (DONE, "profiles can be taken"), rows)
    again = operator.inject(pid)
    test.assertEqual(again.returncode, DONE, again)
    test.assertIn("has the shim already: nothing was done", again.stdout)
    return done.stdout


def build(beside, compiler, *flags, source=None):
    """A program that says `ready` and waits, by that compiler; None where there is none."""
    if shutil.which(compiler) is None:
        return None
    text = source or """#include <stdio.h>
#include <unistd.h>
int main(void) { puts("ready"); fflush(stdout); for (;;) pause(); }
"""
    folder = beside.bench.folder
    (folder / "target.c").write_text(text)
    subprocess.run([compiler, "-o", folder / "target", folder / "target.c", *flags], check=True)
    return folder / "target"


def start(beside, command, **popen):
    """Waits for its `ready`."""
    process, _ = beside.bench.start(command, beside.bench.environment(shim=False),
                                    **{"stdout": subprocess.PIPE, **popen})
    first = process.stdout.readline()
    if first != b"ready\n":
        raise AssertionError(f"{command}: {first!r}")
    return process


def sleeps(pid):
    """Waits until its main thread is asleep."""
    wait_until(lambda: pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S",
               f"process {pid} to sleep")
    return pid


def bullseye_root():
    """(folder, why not): the root of Debian 11 that scripts/check_shim makes and keeps."""
    loader = importlib.machinery.SourceFileLoader("check_shim", str(ROOT / "scripts" / "check_shim"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_shim", loader))
    loader.exec_module(module)
    return module.make_root()


def tid_state(pid):
    return pathlib.Path(f"/proc/{pid}/status").read_text().split("State:\t")[1][0]


def alive(process):
    return process.poll() is None and os.path.exists(f"/proc/{process.pid}")
