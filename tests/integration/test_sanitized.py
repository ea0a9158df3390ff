# SPDX-License-Identifier: Apache-2.0
"""Shim, workloads and doubles built with a sanitizer, which ends the program at the first thing it finds; the sidecar is
the ordinary one. PILLION_SANITIZED names that build's folder."""
import os
import pathlib
import sys

SANITIZED = pathlib.Path(os.environ.get("PILLION_SANITIZED", "."))
if not (SANITIZED / "libpillion.so").exists():
    sys.exit("PILLION_SANITIZED names no build folder with a libpillion.so")

import harness  # noqa: E402

harness.SHIM = SANITIZED / "libpillion.so"
harness.WORKLOADS = SANITIZED / "workloads"
harness.SIMGPU = SANITIZED / "simgpu"

from adverse import Beside, row  # noqa: E402
from harness import Bench, ProfileTest, main, whole_run  # noqa: E402
from matrix import Row, run_rows  # noqa: E402

# Exit status 99 and a report on stderr, which every row wants empty.
OPTIONS = {name: "exitcode=99:abort_on_error=0:detect_leaks=0" for name in ("ASAN_OPTIONS", "TSAN_OPTIONS")}


def attach_and_detach_under_load(test):
    """Four threads launch while a sidecar arms, records, detaches and arms again."""
    with Bench() as bench:
        stderr_path = bench.folder / "stderr"
        with open(stderr_path, "wb") as stderr:
            workload = bench.workload("launch_loop", "--seconds", "0", "--rate", "4000", "--threads", "4", "--streams",
                                      "4", popen={"stderr": stderr}, **OPTIONS)
        sidecar = bench.sidecar("-wait-for-shim", "20s", "-linger", "0s")
        sidecar.wait_ready(60)
        for _ in range(3):
            profile = sidecar.profile(1)
            test.assertGreater(profile["quality"]["executions"], 100)
            test.assertEqual(profile["quality"]["records_bad"], 0)
            sidecar.wait_state(workload.pid, "connected", 30)
        workload.stop()
        code = workload.finish()
        test.assertEqual((code, stderr_path.read_text()), (0, ""))


def every_launch_once(test):
    with Bench() as bench:
        profile, truth = whole_run(bench, "launch_loop", "--iterations", "3000", "--rate", "2000", "--threads", "3",
                                   "--streams", "3", seconds=5, **OPTIONS)
        test.assert_exact(profile, truth)


def adverse_row(name, *actions):
    def run(test, beside):
        beside.start(**OPTIONS)
        beside.attach("-linger", "0s")
        profile = beside.window(*actions, seconds=4).take()
        test.assert_launches(profile, beside.launched)
        beside.window(seconds=2).take()
        beside.end()
    run.__name__ = name
    return row(run)


def ends(kind, status):
    """Ends while it is armed."""
    def run(test):
        with Beside(test) as beside:
            beside.start(**OPTIONS)
            beside.attach()
            with harness.Window(beside.sidecar, 2, pid=beside.workload.pid):
                beside.workload.launch(50)
                beside.workload.tell(kind)
                test.assertEqual(beside.workload.process.wait(30), status, beside.workload.stderr_path.read_text())
            test.assertEqual(beside.workload.stderr_path.read_text(), "")
    return Row(kind.replace(" ", "_"), run)


def sidecar_killed(test, beside):
    beside.start(**OPTIONS)
    beside.attach()
    with harness.Window(beside.sidecar, 30, pid=beside.workload.pid):
        beside.workload.launch(50)
        beside.sidecar.process.kill()
    beside.workload.launch(50)
    beside.attach()
    profile = beside.window().take()
    test.assert_launches(profile, 100)
    beside.end()


ROWS = [
    Row("every_launch_once", every_launch_once),
    Row("attach_and_detach_under_load", attach_and_detach_under_load),
    adverse_row("detached_threads_that_end", ("detached_threads 20", 80)),
    adverse_row("children", "fork_exit 3", "vfork_exec"),
    row(sidecar_killed),
    ends("end return", 0),
    ends("end exit", 23),
    ends("end_in_thread exit", 23),
    ends("end quick_exit", 23),
    ends("end _exit", 23),
]


class SanitizedTest(ProfileTest):
    def test_rows(self):
        run_rows(self, ROWS, workers=3)


if __name__ == "__main__":
    main()
