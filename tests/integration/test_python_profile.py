# SPDX-License-Identifier: Apache-2.0
"""Python frames in profiles of real interpreters, frame by frame against `traceback` at each launch.

Every kind of code with one interpreter of each version that is found, the rest with Debian's.
"""
import pathlib
import re
import shutil
import subprocess
import unittest

import pythons
from harness import Bench, PILLION, Window, main, wait_until, whole_run

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = HERE / "python_launches.py"
PYTHON = "/usr/bin/python3"


def one_of_each_version():
    found = {interpreter.version: interpreter.path for interpreter in pythons.find()[0] if interpreter.variant == ""}
    return sorted({*found.values(), PYTHON})


SAMPLE_ALL = ("-sample-budget", "100", "-sample-mib", "1000")
PYTHON_ON = (*SAMPLE_ALL, "-python=on")


def run(bench, python, *arguments, sidecar_flags=PYTHON_ON, **options):
    return whole_run(bench, python, PROGRAM, *arguments, sidecar_flags=sidecar_flags, seconds=6,
                     PYTHONDONTWRITEBYTECODE=1, **options)


def stacks_by_kernel(profile):
    """Kernel name -> the frames of its stacks, each leaf first."""
    found = {}
    for stack in profile["stacks"]:
        frames = [profile["frames"][number] for number in stack["frames"]]
        found.setdefault(frames[0]["lines"][0]["function"], []).append(frames[1:])
    return found


def python_frames(frames):
    return [(frame["lines"][0]["function"], frame["lines"][0].get("file", ""), frame["lines"][0].get("line", 0))
            for frame in frames if frame.get("python")]


def names(frames):
    return [line["function"] for frame in frames for line in frame["lines"]]


class PythonFrames(unittest.TestCase):
    def check_frames(self, profile, truth):
        stacks = stacks_by_kernel(profile)
        self.assertEqual(sorted(stacks), sorted(truth["launched"]))
        for kernel, expected in truth["launched"].items():
            with self.subTest(kernel=kernel, code=expected[1]):
                self.assertEqual(len(stacks[kernel]), 1)
                frames = stacks[kernel][0]
                self.assertEqual(python_frames(frames), [tuple(frame) for frame in expected])
                odd = [name for name in names(frames) if name.startswith(("_PyEval", "[")) or "python3" in name]
                self.assertEqual(odd, [])

    def test_every_kind_of_code(self):
        for python in one_of_each_version():
            with self.subTest(python=python), Bench() as bench:
                profile, truth = run(bench, python)
                self.check_frames(profile, truth)
                quality = profile["quality"]
                self.assertGreaterEqual(quality["launches"], 40)
                self.assertEqual(quality["launches"], len(truth["launched"]))
                self.assertRegex(quality["python"], rf"^{re.escape(truth['python'])}: in force")
                self.assertEqual(quality["python_snapshots"], quality["snapshots"])
                self.assertGreater(quality["python_codes"], 20)
                wrong = {name: quality[name] for name in
                         ("python_runs_unplaced", "python_native_left", "python_snapshots_partial",
                          "python_codes_refused", "python_frames_unnamed") if quality[name]}
                self.assertEqual(wrong, {})
                self.assertEqual(quality["stacks_ending_rooted"], quality["stacks"])

    def test_c_code_that_calls_back_stands_between(self):
        with Bench() as bench:
            profile, truth = run(bench, PYTHON)
        for kernel, expected in truth["launched"].items():
            if expected[1][0].endswith("through_c_code.<locals>.<lambda>") and len(expected) > 4:
                frames = stacks_by_kernel(profile)[kernel][0]
                places = [number for number, frame in enumerate(frames) if frame.get("python")]
                between = names(frames[places[1] + 1:places[2]])
                if "qsort" in " ".join(between):
                    return
        self.fail("no stack has qsort between two Python frames")

    def test_deeper_than_a_snapshot_has(self):
        with Bench() as bench:
            profile, truth = run(bench, PYTHON, "--deep", "400")
        frames = stacks_by_kernel(profile)["kernel_0"][0]
        expected = [tuple(frame) for frame in truth["launched"]["kernel_0"]]
        self.assertGreater(len(expected), 400)
        self.assertEqual(python_frames(frames), expected[:256])
        self.assertEqual(names(frames).count("[python frames missing]"), 1)

    def test_switched_off(self):
        with Bench() as bench:
            profile, _ = run(bench, PYTHON, sidecar_flags=(*SAMPLE_ALL, "-python=off"))
        self.assertEqual([frame for frame in profile["frames"] if frame.get("python")], [])
        self.assertEqual(profile["quality"]["python_snapshots"], 0)
        self.assertIn("not asked for", profile["quality"]["python"])
        self.assertTrue(any("_PyEval_EvalFrameDefault" in names([frame]) for frame in profile["frames"]))

    def test_status_says_what_is_in_force(self):
        with Bench() as bench:
            start, end = bench.folder / "start", bench.folder / "end"
            program = bench.workload(PYTHON, PROGRAM, "--start-file", start, "--end-file", end,
                                     PYTHONDONTWRITEBYTECODE=1)
            sidecar = bench.sidecar("-wait-for-shim", "20s", *PYTHON_ON)
            sidecar.wait_ready()
            with Window(sidecar, 2):
                sidecar.wait_state(program.pid, "armed")
                python = wait_until(lambda: sidecar.get_json("/status")["processes"][0]["python"],
                                    "the shim to say what it found")
                start.touch()
            totals = sidecar.get_json("/status")["totals"]["python"]
            end.touch()
            version = program.truth()["python"]
        self.assertEqual(python, {"state": "in force", "in_force": True, "version": version, "text": ""})
        self.assertGreater(totals["frames"], totals["runs"])
        self.assertEqual(totals["runs_unplaced"], 0)

    @unittest.skipUnless(shutil.which("go"), "no go")
    def test_go_pprof_lists_the_source(self):
        with Bench() as bench:
            start, end, out = bench.folder / "start", bench.folder / "end", bench.folder / "profile.pb.gz"
            start.touch()
            end.touch()
            program, log = bench.start([PILLION, "record", "-socket-dir", bench.sockets, "-o", out, *PYTHON_ON,
                                        "--", PYTHON, PROGRAM, "--start-file", start, "--end-file", end],
                                       bench.environment(PYTHONDONTWRITEBYTECODE=1))
            self.assertEqual(program.wait(60), 0, log.read_text()[-500:])
            listing = subprocess.run(["go", "tool", "pprof", "-list=two_lines_of_a_loop", "-sample_index=launches", out],
                                     capture_output=True, text=True, check=True).stdout
        lines = re.findall(r"^\s+\. +(\d+) +\d+:        launch\(\)$", listing, re.MULTILINE)
        self.assertEqual(lines, ["2", "2"], listing)


main()
